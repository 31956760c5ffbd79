"""X1, X2, X5: jobs out to a file and in again, bad lines put aside."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from ptykit import on_terminal
from shopkit import Shop, name


def lines(text: str) -> list[str]:
    return text.splitlines()


def test_out_to_a_private_file_and_into_another_store(shop: Shop) -> None:
    done = shop.run("export", "-o", "jobs.jsonl", "--json")
    assert "\texport\tjobs as redrive\t" in shop.run("log").stdout
    assert json.loads(done.stdout)["data"] == {"exported": 7, "file": "jobs.jsonl"}
    assert stat.S_IMODE(Path("jobs.jsonl").stat().st_mode) == 0o600
    assert shop.run("import", "jobs.jsonl", "--store", "jsonl:b.jsonl", "--dry-run").exit_code == 0
    assert not Path("b.jsonl").exists()
    into = shop.run("import", "jobs.jsonl", "--store", "jsonl:b.jsonl", "--json")
    assert into.exit_code == 0, into.output
    assert json.loads(into.stdout)["data"] == {
        "dry_run": False,
        "added": 7,
        "known": 0,
        "folded": 0,
        "left": 0,
        "ignored": 0,
        "filtered": 0,
        "differs": 0,
        "bad": 0,
        "ended": 0,
        "unserved": [],
        "states": {"pending": 2, "completed": 1, "dead": 4},
        "quarantine": None,
    }
    assert stat.S_IMODE(Path("b.jsonl").stat().st_mode) == 0o600
    back = shop.run("export", "--store", "jsonl:b.jsonl").stdout
    assert lines(back) == lines(Path("jobs.jsonl").read_text())
    act = json.loads(shop.run("log", "--store", "jsonl:b.jsonl", "--json").stdout)["data"][-1]
    assert (act["verb"], act["target"], act["done"]) == ("import", "jobs.jsonl", 7)


def test_a_selection_goes_out_and_nothing_is_exit_3(shop: Shop) -> None:
    out = shop.run("export", "G1", "--state", "dead").stdout
    assert [json.loads(line)["job"]["id"] for line in lines(out)] == [name(2), name(1)]
    [one] = lines(shop.run("export", name(3)).stdout)
    assert json.loads(one)["payload"]["password"] == "hunter22"
    assert len(json.loads(one)["history"]) == 3
    assert shop.run("export", "--lane", "nowhere", "-o", "x").exit_code == 3


def test_a_file_that_is_there_stays_unless_forced(shop: Shop) -> None:
    Path("there").write_text("mine")
    refused = shop.run("export", "-o", "there")
    assert (refused.exit_code, Path("there").read_text()) == (4, "mine")
    assert shop.run("export", "-o", "there", "--force").exit_code == 0
    assert len(lines(Path("there").read_text())) == 7
    assert stat.S_IMODE(Path("there").stat().st_mode) == 0o600


def test_an_export_that_fails_leaves_no_part_of_a_file(shop: Shop) -> None:
    assert shop.run("export", "01ZZ", "-o", "out").exit_code == 3
    assert [one for one in shop.names() if one.startswith("out")] == []


def test_secrets_do_not_go_to_a_terminal(shop: Shop) -> None:
    shown = on_terminal("export")
    assert shown.code == 2
    assert "hunter22" not in shown.text


def test_bad_lines_go_to_a_private_file_with_number_place_and_reason(shop: Shop) -> None:
    good = shop.run("export", name(1)).stdout
    Path("f").write_bytes(b"\xff\xfe\n" + good.encode() + b'{"id":7}\n\n')
    assert shop.run("init", "--store", "b.db").exit_code == 0
    done = shop.run("import", "f", "--store", "b.db")
    assert done.exit_code == 6
    assert "added\t1\n" in done.stdout
    assert "bad lines\t2\n" in done.stdout
    rows = [json.loads(line) for line in lines(Path("f.bad").read_text())]
    assert [(row["line"], row["offset"]) for row in rows] == [(1, 0), (3, 3 + len(good.encode()))]
    assert rows[1]["text"] == '{"id":7}'
    assert rows[0]["text"].encode("utf-8", "surrogateescape") == b"\xff\xfe"
    assert "is not a job" in rows[1]["reason"]
    assert stat.S_IMODE(Path("f.bad").stat().st_mode) == 0o600


def test_a_dry_run_counts_by_state_and_writes_nothing(shop: Shop) -> None:
    text = shop.run("export").stdout + "nonsense\n"
    assert shop.run("init", "--store", "b.db").exit_code == 0
    before = set(shop.names())
    done = shop.run("import", "-", "--dry-run", "--store", "b.db", "--json", stdin=text)
    data = json.loads(done.stdout)["data"]
    assert (done.exit_code, data["added"], data["bad"], data["quarantine"]) == (6, 7, 1, None)
    assert data["states"] == {"pending": 2, "completed": 1, "dead": 4}
    assert set(shop.names()) - {"b.db-shm", "b.db-wal"} == before
    assert shop.run("list", "--ids", "--store", "b.db").stdout == ""


def test_in_again_changes_nothing_and_is_no_deed(shop: Shop) -> None:
    Path("f").write_text(shop.run("export").stdout)
    done = shop.run("import", "f")
    assert done.exit_code == 0
    assert "exist already\t7\n" in done.stdout
    assert shop.run("log", "--json").stdout == shop.run("log", "--json").stdout
    (act,) = json.loads(shop.run("log", "--json").stdout)["data"]
    assert (act["verb"], act["done"]) == ("export", 7), "it showed payloads whole"


@pytest.mark.parametrize("file", ["not-there", "."])
def test_a_file_that_cannot_be_read_is_named(shop: Shop, file: str) -> None:
    done = shop.run("import", file)
    assert done.exit_code == 1
    assert file in done.stderr


def test_a_terminal_sees_a_bar(shop: Shop) -> None:
    shown = on_terminal("export", "-o", "out", env={"CI": ""})
    assert shown.code == 0
    assert "100%" in shown.text
    assert "next: redrive import out" in shown.text
    again = on_terminal("import", "out", env={"CI": ""})
    assert "100%" in again.text


def test_a_large_file_takes_little_memory(shop: Shop) -> None:
    """Lines are read and stored some at a time: a file ten times as long needs no more memory."""
    [line] = lines(shop.run("export", name(5)).stdout)
    assert shop.run("init", "--store", "b.db").exit_code == 0
    peaks: list[int] = []
    for number in (2_000, 20_000):
        with Path("f").open("w") as file:
            file.writelines(
                line.replace(name(5), f"ID{number:08d}{one:08d}") + "\n" for one in range(number)
            )
        peaks.append(_peak("import", "f", "--store", "b.db"))
    assert peaks[1] < peaks[0] + 30_000


def _peak(*words: str) -> int:
    """Run a command in a process of its own; gives its largest memory in KiB."""
    import subprocess  # noqa: PLC0415

    program = (
        "import resource, sys; from redrive.cli import main\n"
        "try: main()\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=True
    )
    return int(done.stderr.split()[-1])


def test_an_import_that_is_broken_off_is_recorded_as_far_as_it_came(shop: Shop) -> None:
    with shop.app() as app:
        text = [line.encode() for line in app.desk.transfer.export_lines(app.desk.jobs.each())]
        many = [text[0].replace(name(7).encode(), b"MANY%06d" % one) for one in range(1_200)]
        told = app.desk.transfer.import_lines(many, source="f")
        next(told)
        told.close()
        act = app.desk.log.actions()[0]
        assert (act.verb, act.target, act.done) == ("import", "f", 500)
        assert len(list(app.desk.jobs.each(handler="mail.send"))) == 503


def test_hostile_text_in_a_bad_line_drives_nothing(shop: Shop) -> None:
    """F106."""
    good = json.loads(shop.run("export", name(1)).stdout)
    for value in ("\x1b[2J", "a\x9b31m", "\u202egnp"):
        good["job"]["handler"] = value
        Path("f").write_text(json.dumps(good) + "\n")
        shown = on_terminal("import", "f", env={"NO_COLOR": "1"})
        assert shown.code == 6
        assert value not in shown.raw.decode()
    kept = "".join(path.read_text() for path in Path().glob("f.bad*"))
    assert kept.count("\n") == 3
    assert not {"\x1b", "\x9b", "\u202e"} & {*kept}
