"""Children as the worker uses them: started when needed, reused, told, stopped, replaced."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from childkit import PROGRAM, end_of, evil_job, held
from kit import make_job
from redrive import Redrive
from redrive.attempts import executions
from redrive.errors import ChildFailed
from redrive.jobs.outcomes import Done, Interrupted, Skipped
from redrive.worker import children
from redrive.worker.children import Child, Ran

Run = Callable[..., Ran]


@pytest.fixture
def own(nothing_left: None) -> Iterator[Child]:
    """A child of this test's own, not yet started."""
    found = Child(PROGRAM, grace=0.5)
    yield found
    found.close()


def pid_of(child: Child) -> int:
    assert child._process is not None
    return child._process._popen.pid


def until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end, "waited for too long"
        time.sleep(0.005)


class Background:
    """A run in another thread."""

    def __init__(self, child: Child, name: str, **arguments: object) -> None:
        self.job, entry = evil_job(name, json.dumps(arguments))
        self._ran: list[Ran] = []
        self._thread = threading.Thread(target=lambda: self._ran.append(child.run(self.job, entry)))
        self._thread.start()

    def end(self) -> Ran:
        self._thread.join(30)
        return self._ran[0]


def test_one_process_runs_many_jobs_sync_and_async(run: Run, child: Child) -> None:
    before = pid_of(child)
    for name in ("look", "say", "raises_half_characters", "interrupts_the_loop", "skips"):
        run(name, '{"text":"hello"}' if name == "say" else "{}")
    assert pid_of(child) == before


def test_the_output_of_a_handler_goes_to_standard_error_the_rest_is_counted(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run("say", '{"text":"grüße"}')
    assert capsys.readouterr().err == "grüße\n"
    run("prints_much")
    shown = capsys.readouterr().err
    assert shown.startswith("x" * 1023 + "\n")
    kept, dropped = 64 * 1024, f"{(1 << 30) - 64 * 1024:,}"
    assert f"redrive: {dropped} more bytes of output of job " in shown[kept:]
    run("say", '{"text":"again"}')
    assert capsys.readouterr().err == "again\n"


def test_a_job_arrives_whole_however_large(run: Run) -> None:
    """A payload of the largest size, from a parent whose buffer is much smaller."""
    text = "ü" * 500_000
    outcome = run("say", json.dumps({"text": text, "size": 1000}, ensure_ascii=False)).outcome
    assert isinstance(outcome, Done)


def test_arguments_that_do_not_fit_may_be_of_another_release(run: Run) -> None:
    assert end_of(run("say", '{"words":"hello"}').outcome)[0] == "unknown"


def test_a_handler_is_told_that_its_lease_is_lost(own: Child, tmp_path: Path) -> None:
    running = Background(own, "wait_for_loss", began=str(tmp_path / "began"))
    until((tmp_path / "began").exists)
    own.lose("another-job")
    own.lose(running.job.id)
    assert running.end().outcome == Skipped("lost")
    own.lose(running.job.id)
    assert isinstance(own.run(*evil_job("look")).outcome, Done)


def test_a_stopped_handler_cleans_up_and_nothing_is_spent(own: Child, tmp_path: Path) -> None:
    began, ended = tmp_path / "began", tmp_path / "ended"
    running = Background(own, "wait", began=str(began), ended=str(ended))
    until(began.exists)
    own.stop(grace=20)
    assert isinstance(running.end().outcome, Interrupted)
    assert ended.exists()
    assert isinstance(own.run(*evil_job("look")).outcome, Interrupted), "nothing is begun any more"


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> float:
    """How many seconds of silence end a child in this test."""
    monkeypatch.setattr(executions, "BLOCKED", 4.0)
    return 4.0


@pytest.mark.parametrize("name", ["holds_for_ever", "stops_for_ever"])
def test_a_plain_handler_that_lets_nothing_else_run_is_killed(
    own: Child, silence: float, name: str
) -> None:
    """It has no time limit, and its end is its own."""
    category, words = end_of(own.run(*evil_job(name)).outcome)
    assert category == "crash"
    assert f"held the GIL of its process for over {silence:g} s" in words
    assert "give its handler a timeout" in words
    assert isinstance(own.run(*evil_job("look")).outcome, Done)


@pytest.mark.parametrize("name", ["takes_its_time", "holds_for_a_while"])
def test_a_plain_handler_that_takes_long_is_left_alone(
    own: Child, silence: float, name: str
) -> None:
    """It lets others run, or has a time limit of its own."""
    ran = own.run(*evil_job(name, json.dumps({"seconds": round(2 * silence)})))
    assert isinstance(ran.outcome, Done), end_of(ran.outcome)


def test_a_child_that_an_earlier_job_froze_is_replaced_and_the_next_job_pays_nothing(
    own: Child, silence: float
) -> None:
    assert isinstance(own.run(*evil_job("leaves_a_holder")).outcome, Done)
    frozen = pid_of(own)
    time.sleep(2)
    assert isinstance(own.run(*evil_job("look")).outcome, Done)
    assert pid_of(own) != frozen


def test_a_handler_that_will_not_stop_is_killed(own: Child) -> None:
    """Total time within the grace."""
    begun = threading.Event()
    job, entry = evil_job("catches_everything")
    ran: list[Ran] = []
    thread = threading.Thread(target=lambda: ran.append(own.run(job, entry, on_start=begun.set)))
    thread.start()
    assert begun.wait(30)
    own.stop(grace=0.05)
    thread.join(30)
    assert isinstance(ran[0].outcome, Interrupted)


def test_a_service_manager_that_signals_everybody_does_not_end_a_handler(
    own: Child, tmp_path: Path
) -> None:
    """The worker drains, and the handlers in its children may end too."""
    running = Background(own, "wait_for_loss", began=str(tmp_path / "began"))
    until((tmp_path / "began").exists)
    os.kill(pid_of(own), signal.SIGTERM)
    time.sleep(0.05)
    own.lose()
    assert running.end().outcome == Skipped("lost")


def test_a_process_that_dies_while_it_waits_harms_no_job(own: Child) -> None:
    own.run(*evil_job("look"))
    first = pid_of(own)
    os.kill(first, signal.SIGKILL)
    assert isinstance(own.run(*evil_job("look")).outcome, Done)
    assert pid_of(own) != first


BROKEN = {
    "import not_there_at_all": "importing PROGRAM failed: ModuleNotFoundError: No module",
    "1 / 0": "importing PROGRAM failed: ZeroDivisionError: division by zero",
    "raise SystemExit(3)": "importing PROGRAM failed: SystemExit: 3",
    "app = 7": "PROGRAM:app is of the type int, not a Redrive object",
    "import os; os._exit(3)": "exited with code 3 while it started",
    "import ctypes; ctypes.string_at(0)": "killed by SIGSEGV while it started",
    "from redrive import Redrive; app = Redrive('memory:')": "has no handler 'look'",
}


@pytest.mark.parametrize("code", BROKEN)
def test_a_program_that_cannot_be_started_harms_no_job(
    nothing_left: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """The handler was not begun, and the error says what is wrong."""
    name = f"broken_{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    child = Child(f"{name}:app")
    entry = Redrive("memory:").handler("look")(lambda: None).entry  # of a module nobody can import
    with pytest.raises(ChildFailed) as caught:
        child.run(make_job(handler="look"), entry, on_start=pytest.fail)
    assert BROKEN[code].replace("PROGRAM", name) in str(caught.value)
    child.close()


def test_a_program_that_takes_for_ever_to_start(
    nothing_left: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "endless.py").write_text("import time; time.sleep(3600)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(children, "_START_WITHIN", 0.5)
    child = Child("endless:app")
    with pytest.raises(ChildFailed, match="was not ready within"):
        child.run(*evil_job("look"))
    child.close()


def test_without_descriptors_it_says_so_and_works_again_later(own: Child) -> None:
    """Nothing was begun, and nothing is held on to."""
    before, (soft, hard) = held(), resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in range(8):
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free() + spare, hard))
        try:
            with pytest.raises(ChildFailed, match="Too many open files"):
                own.run(*evil_job("look"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        own.close()
        assert held() == before
    assert isinstance(own.run(*evil_job("look")).outcome, Done)


def lowest_free() -> int:
    found = os.dup(0)
    os.close(found)
    return found


def test_a_program_that_works_when_it_is_imported_starts_no_children_of_children(
    nothing_left: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unguarded.py").write_text(
        "from childkit import *\nfrom redrive.worker.children import Child\n"
        "Child('unguarded:app').run(*evil_job('look'))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    child = Child("unguarded:app")
    with pytest.raises(ChildFailed, match="if __name__ == '__main__'"):
        child.run(*evil_job("look"))
    child.close()


def test_a_handler_in_a_module_that_the_program_does_not_import(
    nothing_left: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_app.py").write_text("from redrive import Redrive\napp = Redrive('memory:')\n")
    (tmp_path / "shop_jobs.py").write_text(
        "from shop_app import app\n\n@app.handler('ship')\ndef ship() -> None: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import shop_jobs  # type: ignore[import-not-found]  # noqa: PLC0415

    child = Child("shop_app:app")
    ran = child.run(make_job(handler="ship"), shop_jobs.ship.entry)
    assert isinstance(ran.outcome, Done)
    child.close()
