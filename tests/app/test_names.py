"""Names of handlers and lanes in any script: which are refused, and where the others must work."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from consolekit import Visitor
from redrive import Policy, Redrive
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.contrib.event_stream import ResilientEventStream
from redrive.errors import UsageError
from redrive.logs import JsonFormatter
from redrive.metrics import text as metrics
from redrive.registry import check_lane, check_name, fitted_name
from stores.contract.kinds import KINDS, Kind, Place
from tablekit import each_row
from webkit import Web

GOOD = (
    *("mail.send", "注文.作成", "заказ", "größe_2", "a/b", "com.example/x#y", "100%", "x?a=b&c"),
    *("<x>", "=x", "[a]", "a$b", "back\\slash", "🚚", ".hidden", "x-", "x" * 64),
)
BAD: tuple[Any, ...] = (
    *("", "-x", ".", "..", "a b", "a\u3000b", "a\tb", "x\n", "nul\0", "\u202ertl", "\ud800"),
    *("'; DROP", '"x"', "a,b", "a*", "a|b", "a(", "b)", "x" * 65, None, 7, b"x"),
)


def test_a_name_is_printable_and_has_nothing_that_selectors_need() -> None:
    for name in GOOD:
        assert check_name(name) == check_lane(name) == fitted_name(name) == name
        assert check_lane(f"provider:{name}")
    for name in BAD:
        with pytest.raises(UsageError, match="a name must be 1 to 64 printable"):
            check_name(name)
        if name != "x" * 65:
            with pytest.raises(UsageError, match="a lane must be 1 to 128 printable"):
                check_lane(name)
        if isinstance(name, str):
            assert check_name(fitted_name(name))
    with pytest.raises(UsageError):
        check_name("a:b")
    assert fitted_name("注文 作成: 7件") == "注文_作成__7件"


@each_row("kind", KINDS)
def test_every_store_finds_jobs_by_such_names(kind: Kind, tmp_path: Path) -> None:
    place = Place(kind, tmp_path)
    store = place.open()
    app = Redrive(store, clock=place.clock)
    for name in GOOD:
        app.handler(name, lane=name[:60] + "=列")(lambda: None).submit()
    app.handler("注文.取消")(lambda: None).submit()
    for name in GOOD:
        quoted = name.replace("\\", "\\\\")
        for words in (f"handler:{name}", f'handler:"{quoted}"', f"lane:{name[:60]}=列"):
            (job,) = app.desk.jobs.find(words).jobs
            assert job.handler == name
    found = app.desk.jobs.find("handler:注文.*").jobs
    assert {job.handler for job in found} == {"注文.作成", "注文.取消"}
    assert app.desk.jobs.find("lane:注文.作成=列 -handler:注文.取消").jobs
    for name in GOOD:
        app.desk.lanes.pause(name[:60] + "=列")
    assert app.run_due().succeeded == 1
    for pause in app.desk.lanes.pauses():
        app.desk.lanes.resume(pause.lane)
    assert app.run_due().succeeded == len(GOOD)
    place.remove()


def test_a_japanese_handler_from_submit_to_the_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)
    app = Redrive("jsonl:queue.jsonl", policy=Policy(attempts=1))

    @app.handler("注文.作成", lane="注文/急ぎ")
    def create(**order: object) -> None:
        raise ConnectionError("拒否されました")

    job = create.submit(番号=7)
    app.submit("通知.送信", {"宛先": "山田"})
    assert app.run_due().died == 1
    file = Path("queue.jsonl").read_text("utf-8")
    for words in ("注文.作成", "注文/急ぎ", "番号", "拒否されました", "山田"):
        assert words in file
    assert "\\u" not in file
    (died,) = [one for one in caplog.records if "dead_letter" in one.getMessage()]
    assert '"handler": "注文.作成"' in JsonFormatter().format(died)
    scraped = metrics(app.desk)
    assert 'lane="注文/急ぎ"' in scraped

    def run(*words: str) -> str:
        done = CliRunner().invoke(root, ["--store", "jsonl:queue.jsonl", *words], obj=Cli())
        assert done.exit_code in {0, 1}, done.output
        return done.output

    assert "注文.作成" in run("list", "handler:注文.*", "--plain")
    assert json.loads(run("list", "lane:注文/急ぎ", "--json"))["data"][0]["id"] == job.id
    assert "注文.作成" in run("show", job.id)
    assert "通知" in run("status")
    run("pause", "注文/急ぎ", "--reason", "棚卸し")
    run("resume", "注文/急ぎ")
    assert "注文.作成" in run("retry", "handler:注文.作成", "--dry-run")
    run("retry", job.id, "--yes")
    assert app.get(job.id).state == "pending"

    web, lane = Web(app), quote("注文/急ぎ", safe="")
    web.post("/api/v1/pauses", {"lane": "注文/急ぎ", "reason": "棚卸し"})
    web.post(f"/api/v1/pauses/{lane}/resume")
    found = web.get(f"/api/v1/jobs?q={quote('handler:注文.作成')}")
    assert [one["id"] for one in found["jobs"]] == [job.id]
    visitor = Visitor(app)
    assert "注文.作成" in visitor.page(f"/jobs/{job.id}").text
    system = visitor.ask("GET", "/system").text
    assert quote("lane:注文/急ぎ", safe="") in system
    assert job.id in visitor.page(f"/jobs?q={quote('lane:注文/急ぎ')}").html
    visitor.send("/pauses", lane="注文/急ぎ", reason="棚卸し", back="/system")
    undo = f"/pauses/{lane}/resume"
    assert undo in visitor.ask("GET", "/system").text
    visitor.send(undo, back="/system")
    assert app.desk.lanes.pauses() == []


def test_an_event_type_is_its_handler(tmp_path: Path) -> None:
    stream = ResilientEventStream(tmp_path / "stream.jsonl", tmp_path / "dead.jsonl", 0)

    def fails() -> None:
        raise ValueError("不正な値")

    for kind in ("注文.作成", "在庫 更新: 失敗"):
        stream.emit_with_retry(kind, "店", fails)
    dead = stream.app.desk.jobs.find("state:dead").jobs
    assert {job.handler for job in dead} == {"注文.作成", "在庫_更新__失敗"}
    assert {entry["event_type"] for entry in stream.get_dead_letter_queue()} == {
        "注文.作成",
        "在庫 更新: 失敗",
    }
    assert '"注文.作成"' in (tmp_path / "dead.jsonl").read_text("utf-8")
