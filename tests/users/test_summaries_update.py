"""R-SUMMARIES 7: an UPDATE of a dead row is an audited retry; any other change is refused in words."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from psycopg import errors

from kit import START, make_action, make_failure, make_settlement
from redrive import Reason, State
from redrive.jobs.job import Completed, Dead
from summarykit import HANDLER, RETRY, VIEW, Service, role
from tablekit import each_row

OWN = {"n", "id", "key", "payload", "more", "action"}
TIMES = {"at", "due", "updated"}
ENDED: dict[str, Any] = {"finished": START + 9, "updated": START + 9}


@pytest.mark.parametrize("change", ["", ", retry_count = 0", ", retry_count = retry_count"])
def test_r_summaries_7_status_alone_retries_a_dead_letter(service: Service, change: str) -> None:
    service.keep_dead("job1")
    query = f"UPDATE {VIEW} SET status = 'pending'{change} WHERE article_id = 'a1' RETURNING *"
    assert service.sql(query) == [service.row("a1")]
    job = service.app.get("job1")
    assert (job.state, job.attempts, job.redrives) == (State.PENDING, 0, 5)
    assert [(action.verb, action.target) for action in service.app.desk.log.actions()] == [
        ("retry", "job1")
    ]


def test_r_summaries_7_status_alone_leaves_a_job_that_is_not_dead(service: Service) -> None:
    service.keep("job1", attempts=1, spent={"timeout": 1})
    before = service.stored("job1")
    service.sql(f"UPDATE {VIEW} SET status = 'pending'")
    assert service.stored("job1") == before
    assert service.notices == [
        "job job1 is pending and stays as it is; only a dead letter is driven again"
    ]


def test_r_summaries_7_it_leaves_what_a_retry_by_the_store_leaves(service: Service) -> None:
    """Column by column: the trigger and `jobs.transitions` must not drift apart."""
    for job_id in ("by-store", "by-update"):
        service.keep_dead(job_id, job_id)
    service.app.store.move(["by-store", "by-update"], "enlist", make_action("enlist"), run=-3)
    before = time.time()
    done = service.app.store.move(["by-store"], "retry", make_action(target="by-store")).done
    assert service.retry("by-update") == 1
    after = time.time()
    stored, updated = service.stored("by-store", "by-update")
    for column in stored.keys() - OWN - TIMES:
        assert updated[column] == stored[column], column
    theirs, mine = (json.loads(row["more"]) for row in (stored, updated))
    (taken, retried), (also_taken, also_retried) = theirs.pop("actions"), mine.pop("actions")
    assert (taken, retried + 1) == (also_taken, also_retried)
    assert (stored["action"], updated["action"]) == (retried, also_retried)
    assert mine == theirs
    for row in (stored, updated):
        assert len({row[column] for column in TIMES}) == 1
        assert before - 1 <= row["at"] <= after + 1
    moved = {"id": "by-update", "key": "key-by-update", "payload": '{"article_id":"by-update"}'}
    moved |= {"due": updated["due"], "since": updated["due"], "updated": updated["updated"]}
    moved |= {"actions": (taken, also_retried)}
    assert service.app.get("by-update") == replace(done[0], **moved, history=())
    assert service.app.store.verify().ok


def test_r_summaries_7_the_act_says_who_what_and_when(service: Service) -> None:
    service.keep_dead("by-store", "a0")
    service.keep_dead("by-update", "a1")
    service.app.desk.retry("by-store")
    service.retry("a1")
    mine, theirs = service.app.desk.log.actions()
    assert mine == replace(
        theirs,
        number=mine.number,
        at=service.stored("by-update")[0]["updated"],
        actor="postgres",
        target="by-update",
        reason="UPDATE summarize_job_queue",
    )
    assert "postgres\tretry\tby-update\t-\t1\t0" in service.run("log").stdout


def test_r_summaries_7_the_role_of_the_moment_is_the_actor(service: Service) -> None:
    service.keep_dead("job1")
    with role(service, "oncall") as oncall:
        service.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA redrive TO {oncall}")
        service.sql(f"SET ROLE {oncall}")
        assert service.retry("a1") == 1
        assert service.app.desk.log.actions()[0].actor == oncall


def test_r_summaries_7_a_role_that_may_only_look_changes_nothing(service: Service) -> None:
    service.keep_dead("job1")
    with role(service, "reader") as reader:
        service.sql(f"SET ROLE {reader}")
        assert service.row("a1")["status"] == "dead_letter"
        with pytest.raises(errors.InsufficientPrivilege):
            service.retry("a1")
    assert service.app.get("job1").state is State.DEAD
    assert service.app.desk.log.actions() == []


def test_r_summaries_7_it_runs_again_with_all_its_attempts(service: Service) -> None:
    service.failing["some text"] = ValueError("no")
    job = service.accept("a1", "some text")
    service.work()
    changed = service.sql(f"{RETRY} WHERE article_id = 'a1' RETURNING *")
    assert changed == [service.row("a1")]
    assert (changed[0]["status"], changed[0]["retry_count"]) == ("pending", 0)
    service.work()
    assert service.row("a1")["retry_count"] == 3
    service.failing.clear()
    assert service.retry("a1") == 1
    service.work()
    assert service.row("a1")["status"] == "completed"
    assert [one.life for one in service.app.get(job.id).history] == [0, 0, 0, 1, 1, 1, 2]


def test_r_summaries_7_the_articles_other_rows_stay_and_each_is_noticed(service: Service) -> None:
    service.keep("running")
    service.app.store.claim([HANDLER], limit=1, holder="w", lease_for=60)
    service.keep("done", state=State.COMPLETED, **ENDED)
    service.keep("pending", attempts=1, spent={"timeout": 1})
    service.keep("closed", state=State.RESOLVED, reason=Reason.RESOLVED, **ENDED)
    service.keep_dead("dead")
    service.keep_dead("other", "a2")
    names = ["running", "done", "pending", "closed", "other"]
    before = service.stored(*names)
    assert service.retry("a1") == 1
    assert service.stored(*names) == before
    assert service.app.get("dead").state is State.PENDING
    left = "and stays as it is; only a dead letter is driven again"
    assert sorted(service.notices) == [
        f"job closed is resolved {left}",
        f"job done is completed {left}",
        f"job pending is pending {left}",
        f"job running is running {left}",
    ]
    assert [action.target for action in service.app.desk.log.actions()] == ["dead"]


@each_row(
    "change, command",
    [
        (f"UPDATE {VIEW} SET retry_count = 0", "redrive retry job1"),
        (f"UPDATE {VIEW} SET status = 'pending', retry_count = 1", "redrive retry job1"),
        (f"UPDATE {VIEW} SET status = 'pending', retry_count = NULL", "redrive retry job1"),
        (f"UPDATE {VIEW} SET status = 'completed', retry_count = 0", "redrive resolve job1"),
        (f"UPDATE {VIEW} SET status = 'dead_letter'", "redrive resolve job1"),
        (f"UPDATE {VIEW} SET status = NULL, retry_count = 0", "redrive retry job1"),
        (f"{RETRY}, error_message = NULL", "redrive retry job1"),
        (f"{RETRY}, article_id = 'a2'", "redrive retry job1"),
        (f"{RETRY}, max_retries = 9", "redrive retry job1"),
        (f"{RETRY}, job_id = 'job2'", "redrive retry job1"),
        (f"{RETRY}, completed_at = now()", "redrive retry job1"),
        (f"DELETE FROM {VIEW}", "redrive discard job1 --reason"),
        (f"INSERT INTO {VIEW} (article_id) VALUES ('a2')", "HANDLER.submit(...)"),
        (f"INSERT INTO {VIEW} SELECT * FROM {VIEW}", "HANDLER.submit(...)"),
    ],
)
def test_r_summaries_7_any_other_change_is_an_error_that_names_the_command(
    service: Service, change: str, command: str
) -> None:
    service.keep_dead("job1")
    before = service.stored("job1")
    with pytest.raises(errors.FeatureNotSupported) as raised:
        service.sql(change)
    assert command in str(raised.value)
    assert service.stored("job1") == before
    assert service.app.desk.log.actions() == []


def test_r_summaries_7_a_statement_that_is_refused_has_changed_no_row(service: Service) -> None:
    service.keep_dead("job1", "a1")
    service.keep_dead("job2", "a2")
    before = service.stored("job1", "job2")
    with pytest.raises(errors.FeatureNotSupported):
        service.sql(f"{RETRY}, error_message = CASE article_id WHEN 'a1' THEN error_message END")
    assert service.stored("job1", "job2") == before
    assert service.app.desk.log.actions() == []


def test_r_summaries_7_many_articles_at_once_are_each_a_retry_of_their_own(
    service: Service,
) -> None:
    for n in range(20):
        service.keep_dead(f"job{n:02d}", f"a{n}")
    assert service.operator.execute(RETRY.encode()).rowcount == 20
    assert {action.target for action in service.app.desk.log.actions()} == {
        f"job{n:02d}" for n in range(20)
    }
    assert service.app.store.verify().ok


def test_r_summaries_7_undone_with_the_operators_transaction(service: Service) -> None:
    service.keep_dead("job1")
    before = service.stored("job1")
    with service.operator.transaction(force_rollback=True):
        assert service.retry("a1") == 1
    assert service.stored("job1") == before
    assert service.app.desk.log.actions() == []


def test_r_summaries_7_listeners_hear_of_it_once_it_is_true(service: Service) -> None:
    service.keep_dead("job1")
    with service.session() as listener:
        listener.execute("LISTEN redrive_redrive")
        with service.operator.transaction():
            service.retry("a1")
            assert list(listener.notifies(timeout=0.05)) == []
        assert [one.payload for one in listener.notifies(timeout=60, stop_after=1)] == [""]


def test_r_summaries_7_a_paused_lane_stays_paused(service: Service) -> None:
    service.sql("INSERT INTO articles VALUES ('a1', 'some text')")
    service.keep_dead("job1")
    service.app.desk.lanes.pause(HANDLER, reason="the model is down")
    assert service.retry("a1") == 1
    assert service.app.run_due().taken == 0
    service.app.desk.lanes.resume(HANDLER)
    service.work()
    assert service.row("a1")["status"] == "completed"


def test_r_summaries_7_a_worker_of_the_life_before_is_fenced_off(service: Service) -> None:
    """The lease number does not go back."""
    service.keep("job1")
    store = service.app.store
    (late,) = store.claim([HANDLER], limit=1, holder="w", lease_for=60)
    (seized,) = store.seize(by="sweep", lease_for=60, holder="w")
    store.settle([make_settlement(seized, Dead(Reason.CRASH), make_failure("crash"))])
    assert service.retry("a1") == 1
    (claim,) = store.claim([HANDLER], limit=1, holder="w", lease_for=60)
    assert store.settle([make_settlement(late, Completed(Reason.DONE))]) == [None]
    assert store.renew([late, claim], lease_for=60) == [False, True]
