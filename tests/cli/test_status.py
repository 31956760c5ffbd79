"""`redrive status --watch`, `--exit-code`; workers in trouble; `redrive metrics --prometheus`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ptykit import on_terminal
from redrive.errors import StoreBusy
from shopkit import Shop, dead_letter


def sleeping(monkeypatch: pytest.MonkeyPatch, *looks: Callable[[], object]) -> None:
    """Do one of these instead of each sleep, then press Ctrl-C."""
    left = iter(looks)

    def sleep(_: float) -> None:
        if (look := next(left, None)) is None:
            raise KeyboardInterrupt
        look()

    monkeypatch.setattr("redrive.cli.status.sleep", sleep)


def test_exit_code_is_2_on_an_incident(empty: Shop) -> None:
    assert empty.run("status", "--exit-code").exit_code == 5
    assert empty.run("init").exit_code == 0
    assert empty.run("status", "--exit-code").exit_code == 0
    empty.add(*(dead_letter(n, updated=empty.clock.now()) for n in range(9)))
    degraded = empty.run("status", "--exit-code")
    assert (degraded.exit_code, "DEGRADED" in degraded.stdout) == (0, True)
    empty.add(dead_letter(9, updated=empty.clock.now()))
    assert (empty.run("status", "--exit-code").exit_code, empty.run("status").exit_code) == (2, 0)


def test_watch_in_a_pipe_prints_each_look(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeping(monkeypatch, lambda: shop.run("resolve", "G1", "--yes"))
    done = shop.run("status", "--watch", "--jsonl")
    assert done.exit_code == 0
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert [document["dead_letter_queue"] for document in documents] == [4, 2]


def test_watch_goes_on_when_the_store_does_not_answer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_: object) -> object:
        raise StoreBusy("the store is busy")

    sleeping(
        monkeypatch,
        lambda: monkeypatch.setattr("redrive.cli.status.status_of", busy),
        lambda: monkeypatch.undo() or sleeping(monkeypatch),
    )
    said = shop.run("status", "--watch").stdout
    assert "\nno answer: the store is busy\nINCIDENT" in said


def test_watch_on_a_terminal_draws_a_screen_and_ctrl_c_ends_it(shop: Shop) -> None:
    shown = on_terminal("status", "--watch", typed=b"\x03", when=b" " * 130)
    assert shown.code == 0
    assert shown.raw.startswith(b"\x1b[?1049h")
    assert b"\x1b[?1049l" in shown.raw
    assert b"Dead letter queue" in shown.raw


def test_a_blocked_event_loop_is_named_with_the_job(empty: Shop) -> None:
    assert empty.run("init").exit_code == 0
    sign = {"host": "w1", "pid": 7, "lanes": ["pay"]}
    by = {"job": "J1", "handler": "pay", "since": empty.clock.now() - 5}
    with empty.app() as app:
        app.store.note("worker:a", json.dumps({**sign, "blocked": by}), expires_in=60)
    said = empty.run("status").stdout
    assert "worker w1:7: job J1 (pay) has blocked the event loop for 5s" in said
    assert "healthy" not in said


def test_a_silent_worker_is_shown(empty: Shop) -> None:
    """A worker sends a heartbeat every ten seconds; a pass leaves none."""
    signs = {"worker:old": (30, 12), "worker:new": (30, 29), "worker:pass": (90_000, 80_000)}
    with empty.app() as app:
        for note, (lasts, left) in signs.items():
            value = json.dumps({"pid": 7, "host": "h", "lanes": [], "lasts": lasts})
            app.store.note(note, value, expires_in=left)
    assert "worker 7 on h sent no heartbeat for 18s" in empty.run("status").stdout
    workers = json.loads(empty.run("status", "--json").stdout)["data"]["workers"]
    assert sorted(one["silent_seconds"] for one in workers) == [1, 18]


def test_prometheus_output_replaces_a_file(shop: Shop) -> None:
    place = Path("metrics.prom")
    place.write_text("old")
    done = shop.run("metrics", "--prometheus", "--output", "metrics.prom")
    assert (done.exit_code, done.stdout) == (0, "")
    assert str(place.absolute()) in done.stderr
    assert place.read_text() == shop.run("metrics", "--prometheus").stdout
    assert [path.name for path in Path().glob("metrics*")] == ["metrics.prom"]
    assert shop.run("metrics", "--prometheus", "--output", "no/such/place.prom").exit_code != 0
    assert shop.run("metrics", "--output", "a.prom").exit_code == 2
