"""What a message says: the program's own words, where it comes from, and nothing secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alertkit import Kept, Slack, die, tick
from kit import make_failure
from redrive import Group, Job, Redrive
from redrive.alerts import Alerts, webhook
from redrive.alerts.messages import LONGEST
from redrive.errors import UsageError
from redrive.testing import ManualClock
from tablekit import each_row


def told(text: Any, *, error: str = "refused", **payload: object) -> list[Any]:
    """The messages about one dead job."""
    kept = Kept()
    with Redrive("memory:", alerts=Alerts(kept, text=text)) as app:
        die(app, PermissionError(13, error), **payload)
        tick(app)
    return kept.messages


def test_a_function_words_the_message_of_a_group(caplog: pytest.LogCaptureFixture) -> None:
    def session(group: Group | None, job: Job) -> str:
        assert group is not None
        return f"{group.name}: {json.loads(job.payload)['sessionId']} of {group.jobs}"

    (message,) = told(session, sessionId="s-1")
    assert message.title == "[NEW] G1: G1: s-1 of 1"
    assert message.text.startswith(message.title)
    assert "Cause: PermissionError" in message.text
    assert message.body is None
    assert caplog.text.count("failed for job") == 0


def test_a_function_may_make_the_whole_body_of_a_webhook(slack: Slack) -> None:
    """Of it people see `message`; a channel may have a function of its own."""

    def body(group: Group | None, job: Job) -> dict[str, object]:
        data = json.loads(job.payload)
        return {"type": "sync_failure", "message": f"{group and group.name} failed", "data": data}

    kept = Kept()
    to = webhook(url_env="SLACK_URL", allow=slack.allow)
    own = webhook(url_env="SLACK_URL", allow=slack.allow, name="own", text=lambda *_: "own words")
    with Redrive("memory:", alerts=Alerts(kept, to, own, text=body)) as app:
        die(app, KeyError("x"), n=7)
        tick(app)
    assert kept.messages[0].title == "[NEW] G1: G1 failed"
    first, second = slack.bodies
    assert first == {"type": "sync_failure", "message": "G1 failed", "data": {"n": 7}}
    assert second["text"].startswith("[NEW] G1: own words\n")


@each_row(
    "text",
    [
        lambda *_: None,
        lambda *_: 1 / 0,
        lambda _, job: json.loads(job.payload)["missing"],
        lambda *_: {"at": object()},
        lambda *_: 5,
    ],
)
def test_without_words_of_its_own_it_has_the_usual_ones(text: Callable[..., Any]) -> None:
    (message,) = told(text)
    assert message.title.startswith("[NEW] G1: PermissionError: ")
    assert message.title.endswith(" (1 job)")
    assert message.body is None


def test_secrets_and_endless_texts_stay_out() -> None:
    """Also if a function repeats the whole payload."""
    seen: list[str] = []

    def whole(_: Group | None, job: Job) -> str:
        seen.append(job.payload)
        return job.payload

    (message,) = told(whole, error="token=hunter22secret " + "x" * 5000, password="hunter22")
    assert "hunter22" not in f"{seen} {message}"
    assert len(message.text) <= LONGEST
    with pytest.raises(UsageError):
        Alerts(Kept(), text="{attempts} times")  # type: ignore[arg-type]


def test_an_error_is_told_without_the_secrets_of_its_payload() -> None:
    """Errors are stored masked by us, but not by everybody whose jobs are imported."""
    from kit import make_job  # noqa: PLC0415
    from redrive import Reason, State  # noqa: PLC0415

    kept = Kept()
    with Redrive("memory:", alerts=Alerts(kept)) as app:
        now, failure = app.store.now(), make_failure(message="hunter-22 was refused")
        times = {"created": now, "updated": now, "finished": now, "died_at": now}
        fate = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "failure": failure}
        app.store.add([make_job(payload='{"password":"hunter-22"}', **times, **fate)])
        tick(app)
    assert "Newest: ••• was refused" in kept.messages[0].text


def test_a_message_says_where_it_comes_from_and_since_when(tmp_path: Path) -> None:
    """Service, store, link, commands to paste, counts and times of the group, and new keys, masked."""
    kept, clock = Kept(), ManualClock()
    alerts = Alerts(kept, service="shop", base_url="https://ops.example.org/redrive/")
    with Redrive(tmp_path / "jobs of us.db", clock=clock, alerts=alerts) as app:
        for number in range(13):
            if number == 1:
                tick(app)
            clock.advance(6)
            key = "password=hunter22" if number == 12 else f"order-{number}"
            with app.capture("shop.pay", {}, reraise=False, key=key):
                raise KeyError("vat_id")
        tick(app)
        url = app.store.url
    first, message = kept.messages
    assert "Keys of new jobs: order-0" in first.text
    for part in (
        f"Service: shop; store: {url}",
        "Link: https://ops.example.org/redrive/groups/G1",
        f"Look: redrive group G1 --store '{url}'",
        f"After the fix: redrive retry G1 --canary 3 --wait --store '{url}'",
        "13 jobs dead, 13 in the last 10 minutes (+12 since 2025-06-15 15:06 UTC)",
        "; 13 died of it in all.",
        "Since 2025-06-15 15:06 UTC",
        f"Keys of new jobs: password=•••, {', '.join(f'order-{n}' for n in range(11, 2, -1))}",
    ):
        assert part in message.text, part


def test_long_names_and_keys_cut_off_neither_the_commands_nor_the_link() -> None:
    kept = Kept()
    with Redrive("memory:", alerts=Alerts(kept, base_url="https://ops.example.org")) as app:
        for number in range(20):
            name, key = f"{number:02}{'n' * 62}", f"{number:02}{'k' * 198}"
            with app.capture(name, {}, reraise=False, key=key):
                raise ConnectionRefusedError("e" * 2000)
        tick(app)
    (message,) = kept.messages
    assert "After the fix: redrive retry G1 --canary 3 --wait" in message.text
    assert "Link: https://ops.example.org/groups/G1" in message.text
