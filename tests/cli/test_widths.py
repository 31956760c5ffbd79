"""Every view at every width: whole lines, no towers, an ellipsis where a text is shortened."""

from __future__ import annotations

import io
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from kit import make_failure
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.cli.output import (
    Block,
    Facts,
    Line,
    Panel,
    Table,
    View,
    fields,
    terminal,
    text,
)
from redrive.cli.views import GROUPS
from shopkit import Shop, dead_letter, name
from tablekit import each_row

WIDTHS = (40, 80, 100, 120, 140, 200)
LONG = make_failure(
    "rate_limit",
    cause="rate limit",
    type="openai.RateLimitError",
    message="Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-4o on tokens per "
    "min (TPM): Limit 30000, Used 29871, Requested 1043. Please try again in 1.8s.'}}",
    title="openai.RateLimitError: Rate limit reached for gpt-4o on tokens per min by 呼び出し回数",
    traceback="Traceback (most recent call last):\n" + '  File "' + "x" * 250 + '"\n',
)
HANDLER = "billing.invoices.send_monthly_statement_to_customer"
COMMANDS = [
    "status",
    "dlq",
    "failed",
    "list",
    f"show {name(1)}",
    f"show {name(11)}",
    "groups",
    "group G1",
    "group G4",
    "run",
    "run R1",
    "metrics",
    "log",
    "explain SYNC",
    "explain 503",
    "help",
    "retry G4 --dry-run",
    f"resolve {name(2)} {name(7)} --dry-run",
    "purge state:dead --dry-run",
    "pause mail.send --for 2h",
    f"edit {name(1)} --payload new.json --dry-run",
    "verify",
    "doctor",
    "alerts list",
    "init",
    "import in.jsonl --dry-run",
]


class Recorder(Cli):
    """Keeps the views of a command instead of printing them."""

    views: list[View]

    def show(self, view: View, *, then: str = "") -> None:
        del then
        self.views.append(view)


@pytest.fixture
def big(shop: Shop) -> Shop:
    """A store whose texts are longer than any terminal is wide."""
    shop.add(*(dead_letter(n, LONG, handler=HANDLER) for n in range(11, 14)))
    Path("new.json").write_text('{"to":"bob"}')
    assert shop.run("export", "-o", "in.jsonl").exit_code == 0
    with Path("in.jsonl").open("a") as file:
        file.write('{"job": 1}\n')
    with shop.app() as app:
        reason = "the provider is down since noon, see ticket 4711 for what they say about it"
        app.desk.lanes.pause("pay.charge", reason=reason)
        app.desk.groups.mark(app.desk.groups.get("G2"), note="ask the bank for a new key")
        app.desk.runs.start("G1", name="API-395", reason=reason)
        app.desk.resolve(name(4), reason=reason)
    return shop


def views_of(shop: Shop, line: str) -> list[View]:
    cli = Recorder(shop.clock)
    cli.views = []
    CliRunner().invoke(root, shlex.split(line), obj=cli)
    assert cli.views, line
    return cli.views


def drawn(view: View, width: int, monkeypatch: pytest.MonkeyPatch, encoding: str = "utf-8") -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    terminal.render(view, file)
    file.flush()
    return raw.getvalue().decode(encoding)


def is_shown(text: str, lines: list[str]) -> bool:
    """Return True if a text is there whole, wrapped at spaces, or shortened with an ellipsis."""
    text = "".join(text.split())
    if text in "".join("".join(line.split()) for line in lines):
        return True
    shortened = ["".join(part.split()) for line in lines for part in line.split("…")[:-1]]
    return any(text[:6] in part for part in shortened)


@each_row("line", COMMANDS)
def test_a_view_fits_every_width_and_keeps_its_texts(
    big: Shop, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for view in views_of(big, line):
        for width in WIDTHS:
            lines = drawn(view, width, monkeypatch).splitlines()
            assert max(cell_len(text) for text in lines) <= width, (width, lines)
            for part in view.parts:
                _check(part, lines, width)
        # A curve once printed as \\u2581 where a terminal knows only ASCII.
        assert not re.search(r"\\(u2[0-6]|xb)", drawn(view, 100, monkeypatch, encoding="ascii"))
        _check_plain(view)


def _check_plain(view: View) -> None:
    """Plain text and JSON come from the same declaration, have every text whole, and need no rich."""
    shown = text.plain(view)
    assert text.document(view).isascii()
    for part in view.parts:
        for row in part.rows if isinstance(part, Table) else ():
            values = [field.value(row) for field in part.fields]
            assert all(value in shown for value in values if isinstance(value, str))


def _check(part: object, lines: list[str], width: int) -> None:
    match part:
        case Line(text) | Panel(text):
            assert is_shown(text, [line.strip("│") for line in lines])
        case Facts():
            for field, value in part.pairs():
                assert any(field.title in line for line in lines), field
                if field.kind == "text" and value:
                    assert is_shown(f"{value:,}" if isinstance(value, int) else str(value), lines)
        case Table(fields, rows):
            shown = [f for f in fields if not f.plain_only and (not f.minor or width >= 200)]
            for row in rows:
                for field in shown:
                    value = field.value(row)
                    if value and field.kind in {"text", "main", "prose", "id", "word"}:
                        assert is_shown(str(value), lines), (width, field, value)
        case Block(_, text):
            assert all(is_shown(line, lines) for line in text.splitlines())
        case _:
            pytest.fail(f"unknown part {part!r}")


@each_row("line", ["groups", "dlq", "list", "run", "log", f"show {name(11)}"])
@each_row("width", WIDTHS)
def test_no_row_becomes_a_tower(
    big: Shop, monkeypatch: pytest.MonkeyPatch, line: str, width: int
) -> None:
    """Two groups once took 26 lines at 120 columns."""
    (view,) = views_of(big, line)
    for part in view.parts:
        if isinstance(part, Table):
            alone = View(None, [part._replace(title="")], now=view.now)
            lines = len(drawn(alone, width, monkeypatch).splitlines())
            most = 5 if width < 80 else 3 if width < 100 else 2
            assert lines <= most * (len(part.rows) + 1) + 1, (width, lines)


@each_row("width", WIDTHS)
def test_the_cause_of_a_group_is_always_there(
    big: Shop, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    for line in ("groups", "status"):
        text = drawn(views_of(big, line)[-1], width, monkeypatch)
        assert "openai.RateLimitError: Rate" in text
        assert "SomeError: refused" in text


@each_row("line", ["status", "groups", "dlq", f"show {name(11)}"])
@each_row("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_no_escape_where_colours_are_not_wanted(
    big: Shop, monkeypatch: pytest.MonkeyPatch, line: str, env: dict[str, str]
) -> None:
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    assert all("\x1b" not in drawn(view, 80, monkeypatch) for view in views_of(big, line))


@each_row("kind, scale", [(Facts, "max 1,200/2h"), (Table, "max 1,200")])
def test_a_curve_has_a_scale(monkeypatch: pytest.MonkeyPatch, kind: type, scale: str) -> None:
    trend = {"curve": {"span_seconds": 7200, "numbers": [0, 3, 1200]}}
    part = kind(fields("curve:trend"), trend if kind is Facts else [trend])
    assert f"▁▂█ {scale}\n" in drawn(View(None, [part]), 80, monkeypatch)


@each_row("width", [80, 100, 120, 140, 200])
def test_causes_that_begin_alike_can_be_told_apart(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """At 140 columns both once read "ConnectionError: api.stripe.example:…"."""
    at, trend = "2026-07-30T08:00:00+00:00", {"span_seconds": 7200, "numbers": [1] * 12}
    more = {"jobs": 465, "category": "transient", "handlers": ["billing.charge"], "status": "open"}
    more |= {"first_seen": at, "last_seen": at, "deaths_last_hour": 9, "deaths_last_day": trend}
    causes = [f"ConnectionError: api.stripe.example:443 {end}" for end in ("timed out", "refused")]
    rows = [
        {
            "group": f"G{number}",
            "title": f"{cause} for 7 (us) @ charge:52",
            "note": "a note",
            **more,
        }
        for number, cause in enumerate(causes, start=1)
    ]
    text = drawn(View(None, [Table(GROUPS, rows)], now=1785398400.0), width, monkeypatch)
    assert all(cause[:42] in text for cause in causes), text
