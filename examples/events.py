"""Emit events whose actions may fail: some recover, some cannot, and one is driven again.

    $ python examples/events.py [DIRECTORY]

Without a directory everything happens in a temporary one. With one, look at what is left there:
`jq . DIRECTORY/event_stream.jsonl`, `redrive dlq --store jsonl:DIRECTORY/dead_letter_queue.jsonl`.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import redrive
from redrive import GiveUp, LinearBackoffStrategy
from redrive.stream import ResilientEventStream

partner_is_up = False


def flaky() -> None:
    """Fail twice, then work."""
    if redrive.current().attempt < 3:
        raise ConnectionError("the broker closed the connection")


def hopeless(data: dict[str, object]) -> None:
    raise GiveUp(f"no customer {data['customer']} any more")


def notify(order: int) -> None:
    """Tell the partner about an order; as a registered handler it can be run again later."""
    if not partner_is_up:
        raise ConnectionError("the partner is down")
    print(f"  the partner was told about order {order}")


def show(title: str, lines: list[str]) -> None:
    print(f"{title}: {', '.join(lines) or 'none'}")


def tell(folder: Path) -> bool:
    stream = ResilientEventStream(
        folder / "event_stream.jsonl",
        folder / "dead_letter_queue.jsonl",
        max_retries=2,
        retry_strategy=LinearBackoffStrategy(0.05, 0.05, jitter_factor=0),
    )
    send = stream.app.handler("partner.notify")(notify)
    with stream:
        stream.emit_with_retry("index.refreshed", "search", flaky, {"rows": 120})
        stream.emit_with_retry("mail.sent", "newsletter", hopeless, {"customer": 17})
        stream.emit_with_retry("order.placed", "shop", send, {"order": 4711}, tags=["vip"])
        show("dead letters", [line["event_type"] for line in stream.get_dead_letter_queue()])
        show("worth a retry", [line["event_type"] for line in stream.get_retry_candidates()])
        return drive_again(stream)


def drive_again(stream: ResilientEventStream) -> bool:
    global partner_is_up  # noqa: PLW0603 - the outside world of this little story
    partner_is_up = True
    for line in stream.get_retry_candidates():
        stream.app.retry(line["job_id"], reason="the partner is up again")
    done = stream.app.run_due()
    show("dead letters", [line["event_type"] for line in stream.get_dead_letter_queue()])
    print(f"metrics: {dict(stream.get_metrics())}")
    return done.succeeded == 1 and len(stream.get_dead_letter_queue()) == 1


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.ERROR)
    with ExitStack() as stack:
        folder = arguments[0] if arguments else stack.enter_context(tempfile.TemporaryDirectory())
        return 0 if tell(Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
