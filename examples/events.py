"""Emit events whose actions may fail: some recover, some cannot, and one is driven again.

    $ python examples/events.py [DIRECTORY]

Without a directory everything happens in a temporary one. With one, look at what is left there:
`jq . DIRECTORY/event_stream.jsonl`, `redrive dlq --store jsonl:DIRECTORY/dead_letter_queue.jsonl`.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import redrive
from redrive import GiveUp
from redrive.contrib.event_stream import ResilientEventStream
from redrive.strategies import LinearBackoffStrategy

partner = {"is_up": False}


def flaky() -> None:
    """Fail twice, then work."""
    if redrive.current().attempt < 3:
        raise ConnectionError("the broker closed the connection")


def hopeless() -> None:
    raise GiveUp("no customer 17 any more")


def notify(order: int) -> None:
    """Tell the partner about an order; as a registered handler it can be run again later."""
    if not partner["is_up"]:
        raise ConnectionError("the partner is down")
    print(f"  the partner was told about order {order}")


def tell(folder: Path) -> bool:
    with ResilientEventStream(
        folder / "event_stream.jsonl",
        folder / "dead_letter_queue.jsonl",
        max_retries=2,
        retry_strategy=LinearBackoffStrategy(0.05, 0.05, jitter_factor=0),
    ) as stream:
        send = stream.app.handler("partner.notify")(notify)
        stream.emit_with_retry("index.refreshed", "search", flaky, {"rows": 120})
        stream.emit_with_retry("mail.sent", "newsletter", hopeless, {"customer": 17})
        stream.emit_with_retry("order.placed", "shop", send, {"order": 4711}, tags=["vip"])
        print("dead letters:", [line["event_type"] for line in stream.get_dead_letter_queue()])

        partner["is_up"] = True
        for line in stream.get_retry_candidates():
            print("worth a retry:", line["event_type"])
            stream.app.desk.retry(line["event_id"], reason="the partner is up again")
        stream.app.run_due()
        left = [line["event_type"] for line in stream.get_dead_letter_queue()]
        print("dead letters:", left)
        print("metrics:", stream.get_metrics())
        return left == ["mail.sent"]


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.ERROR)
    if arguments:
        return 0 if tell(Path(arguments[0])) else 1
    with tempfile.TemporaryDirectory() as folder:
        return 0 if tell(Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
