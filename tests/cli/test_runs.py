"""A bulk retry on the command line: started, attached to, followed, steered; or run here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ptykit import on_terminal
from redrive import GiveUp, Redrive
from redrive.cli import runs
from shopkit import Shop, dead_letter, name

PROGRAM = """
from redrive import GiveUp, Redrive

app = Redrive("redrive.db")
seen = []

@app.handler("mail.send")
def send(to, password):
    seen.append(to)
    if len(seen) in {failing}:
        wrong = "the very value"
        raise GiveUp("gone")
"""


@pytest.fixture
def many(empty: Shop) -> Shop:
    """Twenty dead letters of one cause."""
    empty.add(*(dead_letter(number) for number in range(1, 21)))
    return empty


Worked = Callable[..., None]


@pytest.fixture
def worked(many: Shop, monkeypatch: pytest.MonkeyPatch) -> Worked:
    """Have a worker pass over the jobs whenever somebody who follows a run sleeps."""

    def set_up(*, failing: frozenset[int] = frozenset(), rounds: int = 30) -> None:
        left = iter(range(rounds))

        def sleep(_seconds: float) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            with many.app() as app:
                _register(app, failing)
                app.run_due()
            many.clock.advance(1)

        monkeypatch.setattr(runs.time, "sleep", sleep)

    return set_up


def _register(app: Redrive, failing: frozenset[int]) -> None:
    numbers = iter(range(1000))

    @app.handler("mail.send")
    def send(to: str, password: str) -> None:
        if next(numbers) in failing:
            raise GiveUp("no such customer")


def data_of(shop: Shop, *words: str) -> Any:
    result = shop.run(*words, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["data"]


def test_a_bulk_retry_is_a_run_that_can_be_looked_at(many: Shop) -> None:
    started = data_of(many, "retry", "G1", "--name", "API-395", "--canary", "3", "--yes")
    assert (started["run"], started["matched"], started["done"]) == ("R1", 20, 20)
    assert many.state_of(name(1)) == "dead"
    (listed,) = data_of(many, "run")
    assert (listed["run"], listed["phase"], listed["waiting"]) == ("R1", "live", 20)
    shown = data_of(many, "run", "r1")
    assert (shown["name"], shown["canary"], shown["asked"]) == ("API-395", 3, "G1")
    text = many.run("run", "R1").stdout
    assert "R1 live: 0 ok · 20 waiting" in text
    assert "settings\tcanary 3" in text
    assert "\nleft out\t0\n" in text
    assert "R1" in many.run("run", "--plain").stdout


def test_without_a_worker_it_says_so(many: Shop) -> None:
    assert "no worker" in many.run("retry", "G1", "--yes").stderr


def test_a_retried_job_is_what_to_look_at_next_and_what_it_waits_for_is_named(many: Shop) -> None:
    shown = on_terminal("retry", name(1)).raw.decode()
    assert f"next: redrive show {name(1)}" in shown
    assert "note: no worker is alive" in shown


def test_one_job_named_by_its_id_is_retried_at_once(many: Shop) -> None:
    assert many.run("retry", name(1)).exit_code == 0
    assert many.state_of(name(1)) == "pending"
    assert many.run("retry", name(2), "--name", "x", "--yes").exit_code == 0
    assert many.state_of(name(2)) == "dead"
    assert [run["run"] for run in data_of(many, "run")] == ["R1"]


def test_repeating_the_command_attaches_and_never_doubles(many: Shop) -> None:
    """F61; exit 4 for those who want to know."""
    many.run("retry", "G1", "--yes")
    again = many.run("retry", "G1", "--yes")
    assert (again.exit_code, "R1 has these jobs already" in again.stderr) == (0, True)
    refused = many.run("retry", "G1", "--yes", "--no-attach")
    assert (refused.exit_code, refused.stdout) == (4, "")
    other = many.run("retry", "--all", "--yes")  # other words, the same jobs
    assert "attached" in other.stderr
    many.add(dead_letter(30))
    more = many.run("retry", "G1", "--yes").stderr
    assert "attached" in more
    assert "not part of it: 1 newer job;" in more
    assert len(data_of(many, "run")) == 1
    assert data_of(many, "retry", "--all", "--yes")["done"] == 1  # the new one, in other words


def test_other_options_for_a_live_run_are_refused(many: Shop) -> None:
    many.run("retry", "G1", "--rate", "5/s", "--yes")
    assert many.run("retry", "G1", "--rate", "5/s", "--yes").exit_code == 0
    refused = many.run("retry", "G1", "--rate", "50/s", "--yes")
    assert refused.exit_code == 4
    assert "R1 has these jobs already, with 5/s; not applied: --rate 50/s" in refused.stderr
    assert "redrive run R1 rate 50/s" in refused.stderr
    both = many.run("retry", "G1", "--canary", "3", "--ramp", "--rate", "5/s", "--yes")
    assert "not applied: --canary 3, --ramp" in both.stderr


def test_the_rate_of_a_run_is_changed_by_a_command(many: Shop) -> None:
    many.run("retry", "G1", "--rate", "5/s", "--yes")
    assert data_of(many, "run", "R1", "rate", "30/m")["rate"] == 0.5
    many.run("run", "R1", "rate", "7/s", "--reason", "the API is slow")
    reasons = [action["reason"] for action in data_of(many, "log", "--verb", "rate")]
    assert reasons == ["7/s: the API is slow", "0.5/s"]
    for words in (["rate"], ["pause", "5/s"]):
        assert many.run("run", "R1", *words).exit_code == 2, words


def test_the_plan_repeats_canary_rate_and_stop_rule(many: Shop) -> None:
    words = ["retry", "G1", "--canary", "3", "--rate", "20/s", "--stop-on", "5%", "--dry-run"]
    assert "canary 3, 20/s, stop on 5%" in many.run(*words).stdout
    data = data_of(many, *words)
    assert (data["canary"], data["rate"], data["stop_on"]) == (3, 20.0, "5%")


def test_other_ids_on_standard_input_are_another_run(many: Shop) -> None:
    """Both were asked for as "-"; one job in common must not swallow the others."""
    ids = [name(number) for number in range(1, 21)]
    many.run("retry", "-", "--yes", stdin="\n".join(ids[:10]))
    other = many.run("retry", "-", "--yes", "--json", stdin="\n".join(ids[9:]))
    data = json.loads(other.stdout)["data"]
    assert (data["run"], data["matched"], data["done"]) == ("R2", 11, 10)
    again = many.run("retry", "-", "--yes", stdin="\n".join(ids[9:]))
    assert "R2 has these jobs already" in again.stderr


def test_a_run_called_off_when_its_worker_is_gone_holds_no_job_for_long(many: Shop) -> None:
    """Nobody is there to close it but whoever comes next; until then it is no run to attach to."""
    many.run("retry", "G1", "--yes")
    with many.app() as app:
        app.store.note("runs:turn", "a worker that was killed", expires_in=5.0)
    many.run("run", "R1", "cancel")
    assert many.run("retry", "G1", "--yes").exit_code == 4
    many.clock.advance(6)
    assert data_of(many, "retry", "G1", "--yes")["run"] == "R2"
    assert data_of(many, "run", "R1")["left"] == {"not released before the run was cancelled": 20}


def test_waiting_ends_with_the_outcome(many: Shop, worked: Worked) -> None:
    worked()
    result = many.run("retry", "G1", "--canary", "3", "--rate", "5/s", "--yes", "--wait")
    assert result.exit_code == 0, result.stderr
    assert "R1 done: 20 ok" in result.stdout


def test_some_failed_again_is_exit_6_and_says_of_what(many: Shop, worked: Worked) -> None:
    worked(failing=frozenset({4, 5}))
    result = many.run("retry", "G1", "--yes", "--wait", "--json")
    data = json.loads(result.stdout)["data"]
    assert result.exit_code == 6
    assert (data["succeeded"], data["failed"], data["new_cause"]) == (18, 2, {"G2": 2})


def test_a_failed_canary_is_exit_7(many: Shop, worked: Worked) -> None:
    worked(failing=frozenset({0}))
    result = many.run("retry", "G1", "--canary", "2", "--yes", "--wait")
    assert result.exit_code == 7
    assert "R1 stopped (1 of 2 canary jobs failed again): 1 ok" in result.stdout
    assert "left\t18\tnot released before the run was stopped" in result.stdout


def test_stopped_by_its_limit_is_exit_7(many: Shop, worked: Worked) -> None:
    worked(failing=frozenset(range(99)))
    words = ["--rate", "2/s", "--stop-on", "3", "--yes", "--wait", "--json"]
    result = many.run("retry", "G1", *words)
    data = json.loads(result.stdout)["data"]
    assert (result.exit_code, data["phase"]) == (7, "stopped")
    assert 3 <= data["failed"] < 20


def test_an_interrupt_detaches_and_says_how_to_stop_it(many: Shop, worked: Worked) -> None:
    worked(rounds=1)
    result = many.run("retry", "G1", "--rate", "1/s", "--yes", "--wait")
    assert result.exit_code == 130
    assert "redrive run R1 pause" in result.stderr
    assert data_of(many, "run", "R1")["phase"] == "live"


def test_watching_a_run_that_is_there(many: Shop, worked: Worked) -> None:
    many.run("retry", "G1", "--yes")
    worked(failing=frozenset({0}))
    assert many.run("run", "R1", "--watch").exit_code == 6


def test_new_of_the_same_cause_are_told_at_the_end(many: Shop, worked: Worked) -> None:
    worked()
    many.run("retry", "G1", "--yes")
    many.clock.advance(5)
    late = many.clock.now()
    many.add(*(dead_letter(n, updated=late, finished=late) for n in range(40, 52)))
    result = many.run("run", "R1", "--watch")
    assert "12 jobs died of the same cause" in result.stderr


def test_a_run_is_paused_resumed_and_cancelled(many: Shop) -> None:
    many.run("retry", "G1", "--yes")
    assert data_of(many, "run", "R1", "pause")["phase"] == "paused"
    assert many.run("run", "R1", "pause").exit_code == 4
    assert data_of(many, "run", "R1", "resume")["phase"] == "live"
    ended = data_of(many, "run", "R1", "cancel", "--reason", "a mistake")
    assert (ended["phase"], ended["why"]) == ("cancelled", "a mistake")
    assert ended["left"] == {"not released before the run was cancelled": 20}
    assert many.run("run", "R1", "cancel").exit_code == 4
    actions = [action["verb"] for action in data_of(many, "log")]
    assert actions == ["cancel", "resume", "pause", "retry"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "R9"], 3),
        (["run", "nine"], 2),
        (["run", "R1", "burn"], 2),
        (["retry", "G1", "--ramp"], 2),
        (["retry", "G1", "--stop-on", "some"], 2),
        (["retry", "G1", "--rate", "0/s"], 2),
        (["retry", "G1", "--app", "x:y"], 2),
        (["retry", "G1", "--inline", "--canary", "3", "--app", "x:y"], 2),
        (["retry", "G1", "--inline"], 2),
    ],
)
def test_wrong_usage(many: Shop, words: list[str], code: int) -> None:
    assert many.run(*words, *(["--yes"] if words[0] == "retry" else [])).exit_code == code


def test_no_control_byte_of_a_name_reaches_anybody(many: Shop) -> None:
    evil = "\x1b]52;c;aGk=\x07\u202e[/x]"
    many.run("retry", "G1", "--name", evil, "--reason", evil, "--yes")
    for words in (["run"], ["run", "R1"], ["run", "R1", "pause"], ["log"]):
        assert not set("\x1b\x07\u202e") & set(many.run(*words).stdout)


@pytest.fixture
def program(many: Shop, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write the program of the shop; these calls of its handler fail."""

    def write(failing: str) -> str:
        (many.folder / "shop_program.py").write_text(PROGRAM.format(failing=failing), "utf-8")
        monkeypatch.syspath_prepend(str(many.folder))
        monkeypatch.delitem(sys.modules, "shop_program", raising=False)
        return "shop_program:app"

    return write


def test_inline_runs_the_jobs_here(many: Shop, program: Callable[[str], str]) -> None:
    words = ["--inline", "--app", program("{0}"), "--yes", "--json"]
    result = many.run("retry", "G1", *words)
    data = json.loads(result.stdout)["data"]
    assert (result.exit_code, data["succeeded"], data["left"]) == (0, 20, 0), result.stderr
    assert many.state_of(name(20)) == "completed"


def test_inline_stops_where_it_was_told_to(many: Shop, program: Callable[[str], str]) -> None:
    words = ["--inline", "--app", program("{2, 4}"), "--stop-on", "2", "--yes", "--json"]
    result = many.run("retry", "G1", *words)
    data = json.loads(result.stdout)["data"]
    assert (result.exit_code, data["succeeded"], data["failed_again"]) == (7, 2, 2)
    assert (data["left"], data["ids"]) == (16, [name(2), name(4)])
    assert many.state_of(name(5)) == "dead"


def test_inline_with_a_failure_is_exit_6(many: Shop, program: Callable[[str], str]) -> None:
    result = many.run("retry", name(1), "--inline", "--app", program("{1}"))
    assert result.exit_code == 6
    assert "GiveUp" in result.stdout
