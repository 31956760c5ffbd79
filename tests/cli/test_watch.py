"""`redrive watch`: a screen that is drawn again, keys, lines in a pipe."""

from __future__ import annotations

import json

import pytest

from ptykit import on_terminal
from redrive.cli.watch import _State, line_of, view_of
from redrive.desk.desk import Desk
from redrive.desk.live import Live, live_of
from redrive.errors import StoreBusy, StoreLost
from shopkit import Shop, dead_letter

LAST = b"/ filter\x1b[K"
"""How a frame ends."""


def test_a_pipe_gets_a_line_for_each_look(shop: Shop) -> None:
    done = shop.run("watch", "--every", "1ms", "--times", "3")
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert all("INCIDENT" in line and "dead 4" in line for line in lines), lines
    assert all("deaths " in line and "/min" in line and "0 workers" in line for line in lines)


def test_json_is_one_document_for_each_look(shop: Shop) -> None:
    done = shop.run("status", "--watch", "--json", "--times", "1")
    assert done.exit_code == 2, "status --watch has no --times"
    done = shop.run("watch", "--every", "1ms", "--times", "2", "--json")
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert [document["states"]["dead"] for document in documents] == [4, 4]
    assert [row["what"] for row in documents[0]["minutes"]] == ["deaths", "attempts", "completed"]


def test_a_terminal_gets_a_screen_and_q_quits(shop: Shop) -> None:
    shown = on_terminal("watch", typed=b"q", when=LAST)
    assert shown.code == 0
    assert shown.raw.startswith(b"\x1b[?1049h\x1b[?25l")
    assert shown.raw.endswith(b"\x1b[?25h\x1b[?1049l")
    assert "Per minute" in shown.text
    assert "mail" in shown.text


@pytest.mark.parametrize("command", [("watch",), ("status", "--watch")])
def test_ctrl_c_gives_the_screen_back(shop: Shop, command: tuple[str, ...]) -> None:
    shown = on_terminal(*command, typed=b"\x03", when=LAST)
    assert b"\x1b[?25h\x1b[?1049l" in shown.raw
    assert "Traceback" not in shown.text


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": ""}])
def test_a_dumb_terminal_gets_lines(shop: Shop, env: dict[str, str]) -> None:
    shown = on_terminal("watch", "--times", "1", env=env)
    assert b"\x1b" not in shown.raw
    assert "dead 4" in shown.text


def test_without_rich_a_terminal_gets_lines(shop: Shop) -> None:
    shown = on_terminal("watch", "--times", "1", rich=False)
    assert b"\x1b" not in shown.raw
    assert "dead 4" in shown.text


def test_a_store_that_stops_answering_ends_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([StoreBusy("no answer"), StoreLost("no answer")])

    def fail(desk: Desk) -> Live:
        if (error := next(looks, None)) is not None:
            raise error
        return live_of(desk)

    state = _State("")
    with shop.app() as app:
        state.look(app.desk)
        monkeypatch.setattr("redrive.cli.watch.live_of", fail)
        before = state.data
        state.look(app.desk)
        assert (state.problem, state.data) == ("no answer", before)
        with pytest.raises(StoreLost):
            _State("").look(app.desk)
        state.look(app.desk)
    assert state.problem == ""


def test_keys_pause_filter_and_quit() -> None:
    state = _State("")
    assert state.press("p")
    assert state.paused
    for key in "/mai\x7fil\r":
        state.press(key)
    assert (state.text, state.typed, state.quits) == ("mail", None, False)
    state.press("/")
    state.press("q")
    assert (state.typed, state.quits) == ("q", False)
    state.press("\x1b")
    assert (state.text, state.typed) == ("mail", None)
    state.press("\x1b")
    state.press("q")
    assert (state.text, state.quits) == ("", True)


def test_a_filter_leaves_rows_with_the_text(shop: Shop) -> None:
    with shop.app() as app:
        data = live_of(app.desk).document()
    lanes = {row["lane"] for row in data["lanes"]}
    assert len(lanes) > 1
    (one,) = [part for part in view_of(data, "MAIL").parts if getattr(part, "title", "") == "Lanes"]
    assert {row["lane"] for row in one.rows} == {lane for lane in lanes if "mail" in lane}
    assert line_of(data).count("\n") == 0


def test_a_filter_by_handler_leaves_its_groups(empty: Shop) -> None:
    now = empty.clock.now()
    handlers = ("mail.send", "mail.send", "sms.send")
    empty.add(*(dead_letter(n, handler=one, updated=now) for n, one in enumerate(handlers)))
    done = empty.run("watch", "--times", "1", "--json", "--filter", "sms.send")
    (group,) = json.loads(done.stdout)["groups"]
    assert (group["jobs"], group["handlers"]) == (3, ["mail.send", "sms.send"])
    done = empty.run("watch", "--times", "1", "--json", "--filter", "fax.send")
    assert json.loads(done.stdout)["groups"] == []


def test_a_filter_holds_in_a_pipe_too(shop: Shop) -> None:
    words = ("watch", "--times", "1", "--filter", "no such text")
    data = json.loads(shop.run("--json", *words).stdout)
    assert [data[name] for name in ("groups", "runs", "lanes", "workers")] == [[], [], [], []]
    assert data["error"] is None
    assert "0 workers" in shop.run(*words).stdout


def test_lanes_have_depth_lag_and_who_serves_them(empty: Shop) -> None:
    with empty.app() as app:
        app.handler("mail.send")(lambda: None).submit()
        app.handler("pdf.print")(lambda: None).submit()
        app.desk.lanes.pause("pdf.print", reason="printer")
        empty.clock.advance(90)
        rows = live_of(app.desk).lanes()
    assert [(row["lane"], row["state"], row["pending"], row["lag_seconds"]) for row in rows] == [
        ("mail.send", "unserved", 1, 90),
        ("pdf.print", "paused", 1, 90),
    ]
