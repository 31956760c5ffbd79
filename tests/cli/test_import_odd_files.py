"""Issue 21: files and tables of odd shapes are read, or refused in words that help."""

from __future__ import annotations

import codecs
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.desk.transfer.formats.quarantine import Quarantine
from redrive.desk.transfer.mapping import FieldMapping
from redrive.errors import UsageError
from redrive.stores import open_store
from redrive.testing import ManualClock
from shopkit import Shop

CSV = '番号,状態,本文\r\n1,失敗,改\n行\r\n2,完了,"a,b"\r\n'.replace("改\n行", '"改\n行"')
RULES = (
    *("--map", "key=番号", "--map", "state=状態:失敗=dead,完了=completed"),
    *("--map", "payload.text=本文", "--handler", "a"),
)
IDS = ("--map", "key=id", "--map", "payload=*", "--set", "state=dead", "--handler", "a")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.delenv("REDRIVE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, clock=ManualClock(1_700_086_400.0))


def said(shop: Shop, *words: str) -> tuple[int, dict[str, Any]]:
    done = shop.run("import", *words, "--force", "--json")
    document = json.loads(done.stdout)
    return done.exit_code, document.get("data") or document


def guess(shop: Shop, *words: str) -> dict[str, Any]:
    done = shop.run("import", *words, "--guess", "--json")
    assert done.exit_code == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)["data"]
    return data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (CSV.encode("utf-16"), ()),
        (codecs.BOM_UTF16_BE + CSV.encode("utf-16-be"), ()),
        (CSV.encode("utf-16-le"), ("--encoding", "utf-16-le")),
        (CSV.encode("cp932"), ("--encoding", "cp932")),
        (b"sep=,\r\n" + CSV.encode(), ()),
        (CSV.replace("\r\n", "\n").encode("utf-8-sig"), ()),
    ],
)
def test_a_csv_file_as_spreadsheets_save_it_is_read(
    place: Shop, data: bytes, words: tuple[str, ...]
) -> None:
    Path("f.csv").write_bytes(data)
    code, result = said(place, "f.csv", *RULES, *words)
    assert (code, result["states"]) == (0, {"completed": 1, "dead": 1})
    assert "改\\n行" in place.run("export", "--state", "dead").stdout


@pytest.mark.parametrize("encoding", ["utf-16", "cp932"])
def test_json_in_another_encoding_is_read(place: Shop, encoding: str) -> None:
    rows = [{"番号": n, "状態": "失敗", "本文": "雪"} for n in range(2)]
    Path("f.json").write_text(json.dumps(rows, ensure_ascii=False), encoding)
    words = () if encoding == "utf-16" else ("--encoding", encoding)
    assert said(place, "f.json", *RULES, *words)[1]["added"] == 2


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (CSV.encode("utf-16-le"), "--encoding utf-16-le"),
        (b"sep=,\r\n" + CSV.encode("cp932"), "--encoding cp932"),
        (b"id,st\r1,failed\r", "line ends"),
        (b'id,"s"t\n1,failed\n', "is not CSV"),
        (b"id,st,id\n1,failed,2\n", "'id' twice"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused_with_what_helps(
    place: Shop, data: bytes, what: str
) -> None:
    Path("f.csv").write_bytes(data)
    for words in (("--guess",), IDS):
        refused = place.run("import", "f.csv", *words)
        assert (refused.exit_code, what in refused.stderr) == (2, True), refused.output


@pytest.mark.parametrize(
    ("encoding", "damage"), [("utf-16", b"\x00\xd8"), ("uhc", b"\xff\xff"), ("cp932", b"\x81\x20")]
)
def test_a_row_with_damaged_text_is_bad(place: Shop, encoding: str, damage: bytes) -> None:
    text, part = "id,note\r\n1,XY\r\n2,ok\r\n", "XY" if encoding != "utf-16" else "X"
    whole = text.encode(encoding)
    found = part.encode(encoding.replace("utf-16", "utf-16-le"))
    Path("f.csv").write_bytes(whole.replace(found, damage))
    code, result = said(place, "f.csv", *IDS, "--encoding", encoding)
    assert (code, result["bad"], result["added"]) == (6, 1, 1), result


def test_a_column_without_a_name_is_named_by_its_place(place: Shop) -> None:
    """Data frames are saved with an index that has no name."""
    Path("f.csv").write_text(",id,st\n0,7,failed\n1,8,failed\n")
    assert said(place, "f.csv", *IDS)[1]["added"] == 2
    assert '"column_1":"0"' in place.run("export", "--state", "dead").stdout


def test_a_column_of_times_may_have_its_own_format_iso_and_numbers(place: Shop) -> None:
    times = ["2023/11/15 07:13", "2023-11-14T22:13:00Z", "1699999980000", "1699999980"]
    Path("f.csv").write_text("id,at\n" + "".join(f"{n},{at}\n" for n, at in enumerate(times)))
    words = (*IDS, "--map", "created=at:%Y/%m/%d %H:%M@Asia/Tokyo")
    assert said(place, "f.csv", *words)[1]["added"] == 4
    exported = place.run("export", "--state", "dead").stdout.splitlines()
    assert {json.loads(line)["job"]["created"] for line in exported} == {1_699_999_980}
    mixed = "id,ts,when\n" + "".join(f"{n},{times[n % 2]},{times[0]}\n" for n in range(9))
    Path("g.csv").write_text(mixed)
    data = guess(place, "g.csv", "--handler", "a", "--assume-tz", "Asia/Tokyo")
    assert "created=ts:%Y/%m/%d %H:%M" in data["map"]
    assert {row["created"] for row in data["rows"]} == {"2023-11-14T22:13:00Z"}


def test_a_time_in_the_future_is_a_bad_row_unless_it_is_when_to_run(place: Shop) -> None:
    rows = [{"id": n, "at": f"20{n}-01-01T00:00:00Z"} for n in (20, 99)]
    Path("f.json").write_text(json.dumps(rows))
    code, data = said(place, "f.json", *IDS, "--map", "created=at")
    assert (code, data["added"], data["bad"]) == (6, 1, 1)
    assert "created is in the future: 2099-01-01T00:00:00Z" in Path("f.json.bad").read_text()
    assert said(place, "f.json", *IDS, "--map", "due=at", "--name", "b")[1]["added"] == 2


def test_a_guess_looks_as_deep_as_a_path_can_map(place: Shop) -> None:
    rows = [
        {"job": {"meta": {"id": f"j{n}", "status": "failed", "retry": {"count": n}},
                 "data": {"payload": {"to": "ada", "n": n}}},
         "times": {"created": {"at": "2023-01-01T00:00:00Z"}},
         "raw": json.dumps({"error": {"message": "boom"}})}
        for n in range(3)
    ]  # fmt: skip
    Path("f.json").write_text(json.dumps({"v": 1, "result": {"jobs": rows}}))
    refused = place.run("import", "f.json", "--guess")
    assert (refused.exit_code, "--records result.jobs" in refused.stderr) == (2, True)
    data = guess(place, "f.json", "--records", "result.jobs", "--handler", "a")
    assert data["map"] == [
        "key=job.meta.id", "state=job.meta.status:failed=dead",
        "attempts=job.meta.retry.count", "error=raw.error.message",
        "created=times.created.at", "payload=job.data.payload",
    ]  # fmt: skip
    assert said(place, *shlex.split(data["command"])[2:])[1]["added"] == 3


def test_a_guess_shows_rows_without_a_zone_in_local_time_and_says_so(place: Shop) -> None:
    Path("送信.csv").write_text("id,err,st,ts\n1,boom,wait,2023-01-01 00:00:00\n2,,,2023-01-01\n")
    data = guess(place, "送信.csv")
    assert "error=err" in data["map"]
    assert "state=st:wait=pending,=dead" in data["map"]
    assert any("--assume-tz" in note for note in data["notes"])
    assert any("no value" in note for note in data["notes"])
    assert [row["state"] for row in data["rows"]] == ["pending", "dead"]
    assert "--assume-tz local" in data["command"]
    assert data["set"] == ["handler=import"]
    assert data["rows"][0]["key"].endswith(":1")
    assert said(place, *shlex.split(data["command"])[2:])[1]["added"] == 2


def test_a_row_without_a_state_says_how_to_map_it(place: Shop) -> None:
    Path("f.csv").write_text("id,st\n1,\n")
    words = ("--map", "key=id", "--map", "payload=*", "--handler", "a")
    _, data = said(place, "f.csv", *words, "--map", "state=st:failed=dead")
    assert data["bad"] == 1
    assert "st has no value; add =STATE" in Path("f.csv.bad").read_text()
    assert said(place, "f.csv", *words, "--map", "state=st:failed=dead,=dead")[1]["added"] == 1


def test_a_dry_run_needs_no_store(place: Shop) -> None:
    Path("f.csv").write_text("id\n1\n")
    done = place.run("import", "f.csv", *IDS, "--dry-run", "--json")
    assert (done.exit_code, json.loads(done.stdout)["data"]["added"]) == (0, 1), done.stderr
    assert not Path("redrive.db").exists()


@pytest.mark.parametrize("url", ["sqlite:///old.db", "sqlite:"])
def test_a_database_is_named_by_the_rules_of_a_store(place: Shop, url: str) -> None:
    with pytest.raises(UsageError) as store:
        open_store(url)
    done = place.run("import", "--table", "email_queue", "--from", url, *IDS)
    assert (done.exit_code, str(store.value) in done.stderr) == (2, True), done.output


def test_a_row_becomes_a_job_once_where_a_known_handler_runs_all_that_wait(
    place: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look for pending rows without a handler, no jobs are made."""
    made: list[object] = []
    job = FieldMapping.job
    monkeypatch.setattr(FieldMapping, "job", lambda *words: made.append(1) or job(*words))
    Path("redrive.toml").write_text('[endpoints.a]\nurl = "https://example.org/a"\n')
    Path("f.csv").write_text("id,h\n" + "".join(f"{n},a\n" for n in range(700)))
    rules = ("--map", "key=id", "--map", "payload=*", "--map", "handler=h", "--set")
    done = place.run("import", "f.csv", *rules, "state=pending")
    assert (done.exit_code, len(made)) == (0, 700), done.stderr
    with Path("f.csv").open("a") as file:
        file.write("701,b\n")
    refused = place.run("import", "f.csv", *rules, "state=pending")
    assert (refused.exit_code, "1 for b" in refused.stderr) == (4, True)


WRITER = """
import os, sys
from pathlib import Path
from redrive.desk.transfer.formats.quarantine import Quarantine

with Quarantine(Path("f.bad")) as rest:
    for number in range(3):
        rest.put(number, 0, "why", b"raw %d" % number)
    rest.file.flush()
    os.write(1, b"written")
    sys.stdin.read()
"""


def _writer(code: str = WRITER) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", code]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def test_the_next_import_takes_over_the_quarantine_of_a_killed_one(place: Shop) -> None:
    with _writer() as killed:
        assert killed.stdout is not None
        assert killed.stdout.read(7) == b"written"
        with pytest.raises(UsageError, match="another process"), Quarantine(Path("f.bad")) as rest:
            rest.put(9, 0, "why", b"raw 9")
        killed.send_signal(signal.SIGKILL)
    with Path("f.bad.part").open("ab") as torn:
        torn.write(b'{"line": 7, "off')
    with Quarantine(Path("f.bad")) as rest:
        for number in (2, 3):
            rest.put(number, 0, "why", b"raw %d" % number)
    texts = [json.loads(line)["text"] for line in Path("f.bad").read_text().splitlines()]
    assert texts == ["raw 0", "raw 1", "raw 2", "raw 3"]
    assert [name for name in place.names() if "part" in name] == []


def test_what_a_killed_import_put_aside_is_kept_when_the_next_has_nothing_bad(place: Shop) -> None:
    with _writer() as killed:
        assert killed.stdout is not None
        assert killed.stdout.read(7) == b"written"
        killed.send_signal(signal.SIGKILL)
    with Quarantine(Path("f.bad")):
        pass
    assert len(Path("f.bad").read_text().splitlines()) == 3
    assert not Path("f.bad.part").exists()


def test_a_part_that_others_may_read_is_never_written_to(place: Shop) -> None:
    Path("f.bad.part").touch(mode=0o666)
    Path("f.bad.part").chmod(0o666)
    with pytest.raises(UsageError, match="remove it"), Quarantine(Path("f.bad")) as rest:
        rest.put(1, 0, "why", b"secret")
    assert Path("f.bad.part").read_bytes() == b""


def test_an_export_replaces_the_part_of_a_killed_one(place: Shop) -> None:
    assert place.run("init").exit_code == 0
    with Redrive("redrive.db", clock=ManualClock(1_700_000_000.0)) as app:

        @app.handler("a")
        def work(n: int) -> None: ...

        work.submit(n=1)
    part = os.open("out.jsonl.part", os.O_CREAT | os.O_WRONLY, 0o600)
    os.write(part, b"half a line of a killed export that is longer than what is written now" * 99)
    os.close(part)
    assert place.run("export", "-o", "out.jsonl").exit_code == 0
    assert [
        json.loads(line)["job"]["handler"] for line in Path("out.jsonl").read_text().splitlines()
    ] == ["a"]


def test_the_quarantine_is_written_so_that_people_can_read_it(place: Shop) -> None:
    Path("f.csv").write_text("id,状態\n1,謎\x9b\u202e\n")
    said(place, "f.csv", "--map", "key=id", "--map", "payload=*", "--handler", "a",
         "--map", "state=状態:失敗=dead")  # fmt: skip
    text = Path("f.csv.bad").read_text()
    assert "謎" in text
    assert not {"\x9b", "\u202e"} & {*text}
    assert json.loads(json.loads(text)["text"])["状態"] == "謎\x9b\u202e"


def test_a_quarantine_file_is_utf8_whatever_the_mapping_names(place: Shop) -> None:
    Path("f.csv").write_bytes(CSV.replace("失敗", "謎").encode("cp932"))
    assert said(place, "f.csv", *RULES, "--encoding", "cp932")[1]["bad"] == 1
    mended = Path("f.csv.bad").read_text("utf-8").replace("謎", "失敗")
    for mark in ("utf-8-sig", "utf-8"):  # some editors add a mark
        Path("f.csv.bad").write_text(mended, mark)
        done = said(place, "f.csv.bad", *RULES, "--encoding", "cp932", "--dry-run")
        assert done[1]["added"] == 1, done
    assert said(place, "f.csv.bad", *RULES, "--encoding", "cp932")[1]["added"] == 1
    assert "改\\n行" in place.run("export", "--state", "dead").stdout


@pytest.mark.parametrize("name", ["undefined", "idna", "none-such"])
def test_an_encoding_that_reads_no_file_is_refused(place: Shop, name: str) -> None:
    Path("f.csv").write_text("id\n1\n")
    refused = place.run("import", "f.csv", *IDS, "--encoding", name)
    assert (refused.exit_code, f"'{name}' is not" in refused.stderr) == (2, True), refused.output


def test_a_quarantine_never_replaces_another(place: Shop) -> None:
    names = [
        place.run("import", "-", "--json", stdin=text).stdout
        for text in ("a\n", "b\n", "b\n", "a\n")
    ]
    assert [json.loads(out)["data"]["quarantine"] for out in names] == [
        "import.bad", "import.bad-1", "import.bad-1", "import.bad",
    ]  # fmt: skip
    assert ['"text": "a"' in Path("import.bad").read_text(),
            '"text": "b"' in Path("import.bad-1").read_text()] == [True, True]  # fmt: skip


def test_a_corrected_quarantine_survives_the_next_import(place: Shop) -> None:
    Path("d.csv").write_text("id,st\n1,lost\n")
    words = ("--map", "key=id", "--map", "payload=*", "--handler", "a", "--map", "state=st")
    assert said(place, "d.csv", *words)[1]["quarantine"] == "d.csv.bad"
    corrected = Path("d.csv.bad").read_text().replace("lost", "dead")
    Path("d.csv.bad").write_text(corrected)
    assert said(place, "d.csv", *words)[1]["quarantine"] == "d.csv.bad-1"
    assert Path("d.csv.bad").read_text() == corrected
    Path("d.csv.bad-1").write_text(corrected)
    assert said(place, "d.csv.bad", *words)[1]["added"] == 1
    assert said(place, "d.csv.bad-1", *words)[1]["known"] == 1, "the same key"


def test_a_quarantine_that_holds_what_was_put_aside_before_replaces_it(place: Shop) -> None:
    """An interrupted import leaves the first records; the next import has them and more."""
    for last in (2, 3):
        with Quarantine(Path("f.bad")) as rest:
            for number in range(last):
                rest.put(number, 0, "why", b"raw")
    assert [name for name in place.names() if "bad" in name] == ["f.bad"]
    assert len(Path("f.bad").read_text().splitlines()) == 3


def test_the_bad_records_of_a_pipe_go_to_the_working_directory(place: Shop) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"id,n\n1,1\n2,2,2\n")
    os.close(writer)
    code, data = said(place, f"/dev/fd/{reader}", *IDS)
    os.close(reader)
    assert (code, data["added"], data["quarantine"]) == (6, 1, "import.bad")


@pytest.mark.parametrize(
    ("quarantine", "what"),
    [
        ("f.csv", "overwrite the source"),
        ("f.csv.part", "overwrite the source"),
        ("redrive.db", "overwrite the store"),
        ("none/f.bad", "No such file"),
        ("f.csv/f.bad", "Not a directory"),
        ("/proc/self/fd/f.bad", "cannot be written"),
        ("fifo", "not a regular file"),
        ("link", "not a regular file"),
        ("/dev/null", "not a regular file"),
        (".", "not a regular file"),
    ],
)
def test_a_quarantine_that_cannot_be_is_refused_before_anything_is_stored(
    place: Shop, quarantine: str, what: str
) -> None:
    source = "f.csv.part.part" if quarantine == "f.csv.part" else "f.csv"
    Path("f.csv").touch()
    Path(source).write_text("id\n1\n")
    os.mkfifo("fifo")
    Path("link").symlink_to("f.bad")
    before = place.names()
    refused = place.run("import", source, *IDS, "--quarantine", quarantine)
    assert (refused.exit_code, what in refused.stderr) == (2, True), refused.output
    assert "--quarantine" in refused.stderr
    assert place.names() == before
    assert Path(source).read_text() == "id\n1\n"
