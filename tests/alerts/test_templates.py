"""R-SYNC 3, C4: texts from templates, with listed fields only, and nothing secret in any of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alertkit import Kept, die, tick
from redrive import Redrive
from redrive.alerts import Alerts
from redrive.alerts.messages import LONGEST, Wording
from redrive.errors import UsageError
from redrive.testing import ManualClock

HANDLER = "bigquery.sync"
TEMPLATE = "BigQuery同期が{attempts}回失敗しました: session={payload.sessionId}"


@pytest.fixture
def kept() -> Kept:
    return Kept()


def app_with(kept: Kept, **wording: object) -> Redrive:
    alerts = Alerts(kept, **wording)  # type: ignore[arg-type]
    return Redrive("memory:", clock=ManualClock(), alerts=alerts)


@pytest.fixture
def sync(kept: Kept) -> Iterator[Redrive]:
    with app_with(
        kept,
        templates={HANDLER: TEMPLATE},
        types={HANDLER: "bigquery_sync_failure"},
        fields=["sessionId"],
    ) as app:
        yield app


def test_a_template_is_filled_from_the_newest_dead_job(sync: Redrive, kept: Kept) -> None:
    clock = sync.submitter.settings.clock
    assert isinstance(clock, ManualClock)
    for session in ("S-1", "S-2"):
        clock.advance(1)
        die(sync, KeyError("table"), HANDLER, sessionId=session, userId="U-1")
    tick(sync)
    [message] = kept.messages
    assert message.type == "bigquery_sync_failure"
    assert message.title == "[NEW] G1: BigQuery同期が1回失敗しました: session=S-2"
    assert message.text.splitlines()[0] == "BigQuery同期が1回失敗しました: session=S-2"
    assert "Type: bigquery_sync_failure" in message.text
    assert "U-1" not in message.text, "only listed fields are shown"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("{payload.userId} {attempts} {0.__class__}", "{payload.userId} {attempts} {0.__class__}"),
        ("a\r\nLook: curl evil.example", "a\\r\\nLook: curl evil.example"),
        ("\x1b[2J", "\\x1b[2J"),
        (["a"], ""),
        ({"b": 1}, ""),
        (None, ""),
        (7.5, "7.5"),
        ("sk-ant-0123456789abcdef", "•••"),
    ],
)
def test_what_a_field_holds_is_only_text(
    sync: Redrive, kept: Kept, value: object, shown: str
) -> None:
    """No format language, no second round, no line of its own, no key of a service."""
    die(sync, KeyError("table"), HANDLER, sessionId=value, userId="U-1")
    tick(sync)
    head = f"BigQuery同期が1回失敗しました: session={shown}"
    assert kept.messages[0].text.split("\n")[0] == head.strip(" ")


def test_a_field_with_a_secret_name_stays_hidden_even_if_it_is_listed(kept: Kept) -> None:
    with app_with(kept, templates={"a": "{payload.password}"}, fields=["password"]) as app:
        die(app, KeyError("x"), "a", password="hunter22", note="hunter22")
        tick(app)
    assert "hunter22" not in repr(kept.messages)
    assert kept.messages[0].text.startswith("•••")


def test_fields_may_be_deep(kept: Kept) -> None:
    template = "{payload.order.id} {payload.order.none} {handler} {group} {count} {category}"
    with app_with(kept, templates={"a": template}, fields=["order.id", "order.none"]) as app:
        die(app, KeyError("x"), "a", order={"id": 42})
        tick(app)
    assert kept.messages[0].text.startswith("42  a G1 1 unknown\n")


@pytest.mark.parametrize(
    "template", ["{payload.sessionId}", "{payload}", "{attempt}", "{job.payload}"]
)
def test_a_template_that_names_what_may_not_be_shown_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="is not allowed"):
        Wording(templates={HANDLER: template}, fields=["userId"])


def test_a_template_under_a_name_whose_dots_were_not_quoted_is_explained() -> None:
    with pytest.raises(UsageError, match="a name with dots needs quotes"):
        Wording(templates={"bigquery": {"sync": "x"}})  # type: ignore[dict-item]


def test_a_type_is_a_plain_name() -> None:
    with pytest.raises(UsageError, match="a name must be"):
        Wording(types={HANDLER: "x\r\nBcc: all@example.org"})


def test_what_is_secret_or_endless_in_an_error_does_not_get_into_a_message(kept: Kept) -> None:
    with app_with(kept) as app:
        die(
            app, ValueError("token=hunter22secret " + "x" * 1_000_000), "a", password="pass1234word"
        )
        tick(app)
    [message] = kept.messages
    assert "hunter22secret" not in repr(message)
    assert len(message.text) <= LONGEST
    assert len(message.title) <= 200
    assert len(repr(message)) < 5000
