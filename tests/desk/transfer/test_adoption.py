"""R-HOOKS 1, R-EVENTS 3: a file of the original program at the store's path is taken in once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from exchangekit import article, event, file_of, hook, jobs, lines, out
from redrive import Redrive, State
from redrive.contrib.event_stream import ResilientEventStream
from redrive.errors import StoreForeign


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir() if not one.name.endswith(".lock")}


def test_hooks_are_taken_in_once_and_the_file_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "dlq" / "hooks.jsonl"
    place.parent.mkdir()
    data = lines(hook(1), hook(2, state="exhausted")) + b'{"torn'
    place.write_bytes(data)
    for _ in range(2):
        with Redrive(f"jsonl:{place}", actor="ada") as app:
            assert sorted(job.state for job in app.desk.jobs.each()) == [State.DEAD, State.PENDING]
            [action] = app.desk.log.actions()
            assert (action.verb, action.actor, action.done, action.skipped) == (
                "import",
                "ada",
                2,
                1,
            )
    kept = place.with_name("hooks.jsonl.legacy")
    assert kept.read_bytes() == data
    assert names(place.parent) == {place.name, kept.name, f"{kept.name}.bad"}
    [bad] = map(json.loads, Path(f"{kept}.bad").read_text().splitlines())
    assert (bad["line"], bad["text"]) == (3, '{"torn')


def test_what_was_due_runs_at_once(tmp_path: Path) -> None:
    place = tmp_path / "hooks.jsonl"
    place.write_bytes(lines(hook(1)))
    sent: list[object] = []
    with Redrive(f"jsonl:{place}") as app:

        @app.handler("hook.post")
        def post(hook: dict[str, str], endpoint: str) -> None:
            sent.append((hook["text"], endpoint))

        assert app.run_due().succeeded == 1
    assert sent == [("trend 1", "https://api.example/hooks")]


def test_dead_letters_of_a_stream_are_taken_in_and_read_as_its_own(tmp_path: Path) -> None:
    place = tmp_path / "dead_letter_queue.jsonl"
    place.write_bytes(lines(event(1), event(2)))
    with ResilientEventStream(tmp_path / "s.jsonl", place) as stream:
        found = stream.get_dead_letter_queue()
        assert {one["event_id"] for one in found} == {event(n)["event_id"] for n in (1, 2)}
        assert {one["event_type"] for one in found} == {"order.placed"}
        assert len(stream.get_retry_candidates()) == 2
    assert place.with_name(f"{place.name}.legacy").read_bytes() == lines(event(1), event(2))


def test_the_log_of_our_own_stream_names_jobs_that_are_known(tmp_path: Path) -> None:
    """X2: a dead letter is not taken in a second time from the log that tells of it."""

    def down() -> None:
        raise ConnectionError("down")

    with ResilientEventStream(
        tmp_path / "s.jsonl", tmp_path / "d.jsonl", max_retries=1, sleep=lambda _: None
    ) as stream:
        stream.emit_with_retry("order.placed", "shop", down, {"order": 1})
        before = jobs(stream.app)
        with (tmp_path / "s.jsonl").open("rb") as log:
            assert {one.fate for one in stream.app.desk.transfer.import_lines(log)} == {"known"}
        assert jobs(stream.app) == before
        line = out(stream.app, "events").splitlines()[-1]
        assert json.loads(line)["status"] == "dead_letter"


def test_a_document_becomes_a_store_too(tmp_path: Path) -> None:
    place = tmp_path / "retry_queue.jsonl"
    place.write_bytes(file_of("articles", article(1), article(2)))
    with Redrive(f"jsonl:{place}") as app:
        assert len(list(app.desk.jobs.each())) == 2


@pytest.mark.parametrize("text", ["hello\n", '{"a":1}\n' * 30, "[1, 2]", '{"redrive":1}\n'])
def test_a_file_that_nobody_knows_stays_as_it_is(tmp_path: Path, text: str) -> None:
    place = tmp_path / "other.jsonl"
    place.write_text(text)
    with pytest.raises(StoreForeign), Redrive(f"jsonl:{place}") as app:
        list(app.desk.jobs.each())
    assert place.read_text() == text
    assert names(tmp_path) == {"other.jsonl"}


def test_who_only_looks_changes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "hooks.jsonl"
    place.write_bytes(lines(hook()))
    for options in ({"read_only": True}, {"create": False}):
        with pytest.raises(StoreForeign), Redrive(f"jsonl:{place}", **options) as app:
            list(app.desk.jobs.each())
    assert names(tmp_path) == {"hooks.jsonl"}


def test_a_file_kept_before_is_never_written_over(tmp_path: Path) -> None:
    place = tmp_path / "hooks.jsonl"
    for number in (1, 2):
        place.write_bytes(lines(hook(number)))
        with Redrive(f"jsonl:{place}") as app:
            assert len(list(app.desk.jobs.each())) == 1
        place.unlink()
    assert names(tmp_path) == {"hooks.jsonl.legacy", "hooks.jsonl.legacy-1"}


def test_killed_at_any_step_the_next_program_has_it_all(tmp_path: Path) -> None:
    """Before each system call that changes a name or a file; the second program finds everything."""
    place = tmp_path / "hooks.jsonl"
    program = (
        "import os, signal, sys\n"
        "from redrive import Redrive\n"
        "left = int(sys.argv[2])\n"
        "def hook(event, args):\n"
        "    global left\n"
        "    if event in {'os.rename', 'os.link', 'os.remove', 'open', 'os.truncate'}:\n"
        "        left -= sys.argv[1] in str(args)\n"
        "        if left < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(hook)\n"
        "with Redrive('jsonl:' + sys.argv[1]) as app: print(len(list(app.desk.jobs.each())))\n"
    )
    data = lines(*map(hook, range(5)))
    codes: list[int] = []
    for step in range(60):
        for one in tmp_path.iterdir():
            one.unlink()
        place.write_bytes(data)
        words = [sys.executable, "-c", program, str(place), str(step)]
        codes.append(subprocess.run(words, capture_output=True, check=False).returncode)
        with Redrive(f"jsonl:{place}") as app:
            assert len(list(app.desk.jobs.each())) == 5, step
        assert place.with_name("hooks.jsonl.legacy").read_bytes() == data
        assert not (tmp_path / "hooks.jsonl.adopting").exists()
        if codes[-1] == 0:
            break
    assert codes.count(-signal.SIGKILL) == len(codes) - 1 > 5
    assert codes[-1] == 0


def test_many_processes_at_once_take_it_in_once(tmp_path: Path) -> None:
    place = tmp_path / "hooks.jsonl"
    place.write_bytes(lines(*map(hook, range(200))))
    program = (
        "import sys; from redrive import Redrive\n"
        "with Redrive('jsonl:' + sys.argv[1]) as app: print(len(list(app.desk.jobs.each())))\n"
    )
    many = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(place)], stdout=subprocess.PIPE, env=os.environ
        )
        for _ in range(4)
    ]
    assert [one.communicate(timeout=60)[0] for one in many] == [b"200\n"] * 4
    assert "hooks.jsonl.legacy-1" not in names(tmp_path)
