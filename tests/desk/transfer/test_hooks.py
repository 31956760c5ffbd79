"""R-HOOKS 7 to 9: many lines about one hook, ids that stay known, URLs that nobody configured."""

from __future__ import annotations

import json

import pytest

from exchangekit import AT, Record, hook, jobs, lines, only, out, take
from redrive import Redrive
from redrive.jobs.job import Reason, State

SAME = hook()["data"]


def tries(*changes: Record) -> list[Record]:
    """Lines about one hook, a minute apart, each with an id of its own."""
    return [
        hook(number, data=SAME, timestamp=(AT + 60 * number) * 1000, **one)
        for number, one in enumerate(changes, 1)
    ]


def test_lines_about_one_hook_are_one_job() -> None:
    told = tries(
        {"attemptsMade": 1},
        {"attemptsMade": 3, "nextRetry": (AT + 999) * 1000},
        {"attemptsMade": 2},
    )
    app, fates = take(lines(hook(9), *told))
    assert [one.fate for one in fates] == ["added", "added", "folded", "folded"]
    job = next(job for job in jobs(app).values() if job.key == told[0]["jobId"])
    assert (job.state, job.attempts, job.created, job.due) == (State.PENDING, 3, AT + 60, AT + 999)
    assert job.updated == AT + 180
    assert job.origin is not None
    assert job.origin["ids"] == [one["jobId"] for one in told]


def test_the_latest_line_says_when_it_changed_also_if_it_got_furthest() -> None:
    job = only(lines(*tries({"attemptsMade": 1}, {"attemptsMade": 2, "state": "exhausted"})))
    assert (job.created, job.first_failed, job.updated, job.finished) == (
        AT + 60, AT + 60, AT + 120, AT + 120,
    )  # fmt: skip
    assert job.history[-1].started == AT + 120


@pytest.mark.parametrize("order", [1, -1])
def test_one_that_was_resolved_is_completed_whatever_else_is_told(order: int) -> None:
    done = {"state": "resolved", "resolvedAt": (AT + 70) * 1000, "attemptsMade": 2}
    job = only(lines(*tries({"state": "exhausted", "attemptsMade": 5}, done)[::order]))
    assert (job.state, job.reason, job.finished) == (State.COMPLETED, Reason.DONE, AT + 70)


def test_the_order_of_keys_in_a_hook_does_not_part_it() -> None:
    one, two = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    first, second = (hook(n, data={**SAME, "hook": it}) for n, it in enumerate((one, two)))
    assert len(jobs(take(lines(first, second))[0])) == 1


def test_any_of_its_ids_and_the_hook_itself_are_known_later() -> None:
    """X2: also when the first line is gone, or comes back mended with an id of its own."""
    told = tries({}, {}, {})
    app, _ = take(lines(*told[:2]))
    before = jobs(app)
    for some in (told, told[1:], told[2:]):
        _, fates = take(lines(*some), app)
        assert {one.fate for one in fates} == {"known"}
    assert jobs(app) == before


def test_ids_that_were_folded_go_out_and_in_again() -> None:
    app, _ = take(lines(*tries({}, {"state": "exhausted"}, {"attemptsMade": 2})))
    [line] = out(app, "hooks").splitlines()
    assert json.loads(line)["jobId"] == tries({})[0]["jobId"]
    again, _ = take(line)
    assert jobs(again) == jobs(app)


@pytest.mark.parametrize("state", ["pending", "retrying"])
def test_what_was_waiting_waits_and_its_greatest_age_counts_from_the_import(state: str) -> None:
    """R-HOOKS 9: whatever its URL and its attempts; what is shown is its own age."""
    data = {**SAME, "endpoint": "http://10.0.0.1/"}
    job = only(lines(hook(1, data=data, state=state, attemptsMade=5, maxAttempts=5)))
    assert (job.state, job.created) == (State.PENDING, AT + 0.001)
    assert job.since == AT + 30 * 86400


def test_a_job_of_the_program_itself_goes_out_with_its_key_and_is_known_when_it_comes_back() -> (
    None
):
    app = Redrive("memory:")

    @app.handler("hook.post", attempts=5)
    def post(hook: dict[str, str], endpoint: str) -> None:
        raise ConnectionError("down")

    post.options(key="hook-1-abcdef").try_now({"text": "x"}, "https://api.example/hooks")
    [line] = out(app, "hooks").splitlines()
    value = json.loads(line)
    assert (value["jobId"], value["attemptsMade"], value["state"]) == (
        "hook-1-abcdef",
        1,
        "pending",
    )
    bare = {name: found for name, found in value.items() if name != "redrive"}
    _, fates = take(lines(bare), app)
    assert [one.fate for one in fates] == ["known"]
