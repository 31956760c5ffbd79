"""What jobs died of, how it goes on, what they share, and what people said about it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from kit import START
from ptykit import on_terminal
from redrive import Job, Reason, State
from redrive.cli import act
from redrive.stores.sqlite import SqliteStore
from shopkit import HOUR, ODD, TIMEOUT, WRONG_KEY, Shop, dead_letter, name, tried
from tablekit import each_row


def data(shop: Shop, *words: str, stdin: str = "") -> Any:
    result = shop.run(*words, "--json", stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)["data"]


@pytest.fixture
def bleeding(empty: Shop) -> Shop:
    """Three causes: one grows, one is old, one is large."""
    now = empty.clock.now()
    many = [
        *(dead_letter(n, updated=now - 60 * n) for n in range(1, 6)),
        *(dead_letter(n, ODD, updated=now - 60 * HOUR, created=START - 90 * HOUR) for n in (6, 7)),
        *(dead_letter(n, WRONG_KEY, updated=now - 20 * HOUR) for n in range(8, 18)),
    ]
    empty.add(*many)
    return empty


def test_groups_say_how_they_go_on(bleeding: Shop) -> None:
    rows = data(bleeding, "groups")
    assert [(row["group"], row["jobs"], row["deaths_last_hour"]) for row in rows] == [
        ("G3", 10, 0),
        ("G1", 5, 5),
        ("G2", 2, 0),
    ]
    trend = rows[1]["deaths_last_day"]
    assert trend == {"span_seconds": 7200, "numbers": [0] * 11 + [5]}
    assert rows[0]["deaths_last_day"]["numbers"] == [0, 10] + [0] * 10


def test_last_seen_is_the_last_death_whatever_is_done_to_the_jobs(bleeding: Shop) -> None:
    before = data(bleeding, "group", "G1")["last_seen"]
    bleeding.clock.advance(HOUR)
    data(bleeding, "edit", name(1), "--payload", "-", "--yes", stdin='{"to":"bob"}')
    assert data(bleeding, "group", "G1")["last_seen"] == before
    edited = data(bleeding, "log")[0]["at"]
    assert edited not in bleeding.run("group", "G1").stdout, (
        "nor did the job die when it was edited"
    )
    data(bleeding, "resolve", "G1", "--yes")
    data(bleeding, "reopen", "G1", "--yes")
    assert data(bleeding, "groups", "G1")[0]["last_seen"] == before


@each_row(
    "words, order",
    [
        (["--sort", "count"], ["G3", "G1", "G2"]),
        (["--sort", "growth"], ["G1", "G3", "G2"]),
        (["--sort", "age"], ["G2", "G3", "G1"]),
        (["--sort", "growth", "--limit", "1"], ["G1"]),
        (["--new"], ["G3", "G1"]),
        (["--new", "--since", "1h"], ["G1"]),
        (["category:auth,unknown"], ["G3", "G2"]),
        (["G1", "G2"], ["G1", "G2"]),
    ],
)
def test_groups_are_sorted_and_chosen(bleeding: Shop, words: list[str], order: list[str]) -> None:
    assert [row["group"] for row in data(bleeding, "groups", *words)] == order


def test_a_group_says_what_its_jobs_share(empty: Shop) -> None:
    """And of how many: what a secret is called is no fact, what it is even less."""
    regions = ["eu"] * 97 + ["us"] * 3
    empty.add(
        *(
            dead_letter(
                n,
                payload=json.dumps(
                    {"region": region, "order": {"n": n}, "password": "hunter22", "all": [1]}
                ),
                release="1.8.2",
            )
            for n, region in enumerate(regions, start=1)
        )
    )
    found = data(empty, "group", "G1")
    shared = {(fact["fact"], fact["value"]): fact["share"] for fact in found["shared"]}
    assert shared["payload.region", "eu"] == 0.97
    assert shared["submitted-release", "1.8.2"] == 1
    assert {fact["completed"] for fact in found["shared"]} == {None}, "nothing to compare with"
    assert not any("password" in name or "order" in name for name, _ in shared)
    assert found["shared_of"] == 100
    assert len(found["newest"]) == 5
    text = empty.run("group", "g1").stdout
    assert "shared\t97%\t-\tpayload.region\teu\n" in text


def test_a_group_shows_what_is_more_common_among_the_dead_than_among_the_completed(
    empty: Shop,
) -> None:
    def payload(region: str, plan: str, secret: str) -> str:
        return json.dumps({"region": region, "plan": plan, "note": secret})

    dead = [
        dead_letter(n, payload=payload("eu" if n <= 97 else "us", "free", "password=hunter22"))
        for n in range(1, 101)
    ]
    done = [
        replace(
            dead_letter(
                n, payload=payload("eu" if n <= 131 else "us", "free", "password=other123")
            ),
            state=State.COMPLETED,
            reason=Reason.DONE,
            failure=None,
            died_at=None,
            finished=empty.clock.now(),
        )
        for n in range(101, 201)
    ]
    empty.add(*dead, *done)
    found = data(empty, "group", "G1")
    region = next(fact for fact in found["shared"] if fact["fact"] == "payload.region")
    assert region == {"fact": "payload.region", "value": "eu", "share": 0.97, "completed": 0.31}
    names = {fact["fact"] for fact in found["shared"]}
    assert not names & {"handler", "lane", "payload.plan", "payload.note"}
    assert (found["shared_of"], found["completed_of"]) == (100, 100)
    assert "shared\t97%\t31%\tpayload.region\teu\n" in empty.run("group", "G1").stdout


def test_worker_and_release_are_those_of_the_last_attempt(empty: Shop) -> None:
    def ran(job: Job, worker: str, release: str) -> Job:
        last = replace(job.history[-1], worker=worker, release=release)
        return replace(job, history=(*job.history[:-1], last))

    died = [ran(dead_letter(n), "host-a:7", "1.8.2") for n in range(1, 31)]
    done = [
        replace(ran(job, f"host-b:{n}", "1.8.1"), state=State.COMPLETED, reason=Reason.DONE)
        for n, job in ((n, dead_letter(n)) for n in range(31, 61))
    ]
    empty.add(*died, *done)
    shared = {(fact["fact"], fact["value"]) for fact in data(empty, "group", "G1")["shared"]}
    assert {("worker", "host-a:7"), ("release", "1.8.2")} <= shared


def test_a_group_of_many_jobs_takes_no_more_reads_than_a_group_of_few(
    empty: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty.add(*(dead_letter(n) for n in range(1, 4)))
    few = _reads(empty, monkeypatch)
    empty.add(*(dead_letter(n) for n in range(4, 44)))
    assert _reads(empty, monkeypatch) == few > 0


def _reads(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> int:
    """Count the transactions of `redrive group G1`."""
    reads: list[object] = []
    read = SqliteStore._read
    with monkeypatch.context() as patch:
        patch.setattr(
            SqliteStore, "_read", lambda store, work: reads.append(work) or read(store, work)
        )
        data(shop, "group", "G1")
    return len(reads)


@each_row("width", [80, 140])
def test_japanese_text_stays_in_its_columns(empty: Shop, width: int) -> None:
    """What is shown by the time of day must not decide how wide it is: these died just now."""
    cause = replace(TIMEOUT, title="接続できません: 東京のサーバー", fingerprint="jp")
    died = dict.fromkeys(("updated", "finished", "first_failed", "died_at"), time.time())
    jobs = dead_letter(1, cause, handler="請求.印刷"), dead_letter(2, WRONG_KEY)
    empty.add(*(replace(job, **died) for job in jobs))
    shown = on_terminal("groups", width=width, env={"NO_COLOR": "1"}).raw.decode()
    lines = shown.replace("\r\n", "\n").splitlines()
    place = cell_len(lines[0][: lines[0].index("status")])
    rows = [line for line in lines if line.startswith(("G1", "G2"))]
    assert [cell_len(row[: row.index("open")]) for row in rows] == [place, place]
    assert max(map(cell_len, lines)) <= width


def test_a_note_without_a_text_is_an_error_that_says_so(bleeding: Shop) -> None:
    assert "note needs a text: redrive group G1 note" in bleeding.run("group", "G1", "note").stderr
    assert "only note takes a text" in bleeding.run("group", "G1", "resolve", "done").stderr


def test_an_edit_moves_no_time_of_death(empty: Shop) -> None:
    empty.add(dead_letter(1))
    (before,) = data(empty, "group", "G1")["newest"]
    with empty.app() as app:
        app.desk.edit(name(1), '{"to": "bob@example.com"}')
    (after,) = data(empty, "group", "G1")["newest"]
    assert (before["died_at"], after["edits"]) == (after["died_at"], 1)
    assert f"newest\t{name(1)}\t{before['died_at']}\t" in empty.run("group", "G1").stdout


def test_a_note_is_kept_with_who_wrote_it(bleeding: Shop) -> None:
    assert bleeding.run("group", "G1", "note", "ticket 4711").exit_code == 0
    assert "note\tticket 4711 (ada, 20" in bleeding.run("group", "G1").stdout
    row = next(row for row in data(bleeding, "groups") if row["group"] == "G1")
    assert (row["note"], row["noted_by"]) == ("ticket 4711", "ada")
    assert bleeding.run("group", "G1", "note", "").exit_code == 0
    assert data(bleeding, "group", "G1")["note"] is None
    assert [action["verb"] for action in data(bleeding, "log")] == ["note", "note"]


@pytest.mark.parametrize("words", [["group", "G1", "resolve"], ["resolve", "G1"]])
def test_resolving_a_group_closes_its_jobs_and_what_comes_after_is_a_regression(
    bleeding: Shop, words: list[str]
) -> None:
    asked = bleeding.run(*words)
    assert asked.exit_code == 2  # five jobs, and nobody to ask
    assert data(bleeding, "group", "G1")["status"] == "open"
    done = bleeding.run(*words, "--yes", "--reason", "fixed in 1.8.3")
    assert done.exit_code == 0, done.stderr
    assert bleeding.state_of(name(1)) == "resolved"
    found = data(bleeding, "group", "G1")
    assert (found["status"], found["jobs"], found["reason"]) == ("resolved", 0, "fixed in 1.8.3")
    bleeding.clock.advance(60)
    bleeding.add(dead_letter(99, updated=bleeding.clock.now()))
    found = data(bleeding, "group", "G1")
    assert (found["status"], found["jobs"]) == ("regressed", 1)
    assert "G1" in [row["group"] for row in data(bleeding, "groups", "--new", "--since", "1s")]
    assert {action["verb"] for action in data(bleeding, "log")} == {"resolve", "mark"}


def test_what_died_while_a_person_was_asked_is_a_regression(
    bleeding: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no part of what was closed, so the mark must not cover it. A number names a group too."""

    def meanwhile(*_: object) -> None:
        bleeding.clock.advance(60)
        bleeding.add(dead_letter(99, updated=bleeding.clock.now()))
        bleeding.clock.advance(60)

    monkeypatch.setattr(act, "ask", meanwhile)
    done = bleeding.run("group", "1", "resolve")
    assert done.exit_code == 0, done.stderr
    found = data(bleeding, "group", "G1")
    assert (found["status"], found["jobs"]) == ("regressed", 1)
    bleeding.run("resolve", name(99))
    assert (
        data(bleeding, "group", "G1")["status"] == "regressed"
    )  # until the group is resolved again
    bleeding.run("group", "1", "resolve", "--yes")
    assert data(bleeding, "group", "G1")["status"] == "resolved"


def test_reopening_undoes_it(bleeding: Shop) -> None:
    bleeding.run("group", "G1", "resolve", "--yes")
    assert bleeding.run("group", "G1", "reopen", "--dry-run").exit_code == 0
    assert data(bleeding, "group", "G1")["status"] == "resolved"
    assert bleeding.run("group", "G1", "reopen", "--yes").exit_code == 0
    found = data(bleeding, "group", "G1")
    assert (found["status"], found["jobs"]) == ("open", 5)


def test_a_part_of_a_group_does_not_mark_it(bleeding: Shop) -> None:
    bleeding.run("resolve", "G1", "handler:mail.*", "--yes")
    assert data(bleeding, "group", "G1")["status"] == "open"
    bleeding.run("group", "G1", "resolve", "--yes")
    bleeding.run("reopen", "G1", "--yes")
    assert data(bleeding, "group", "G1")["status"] == "open"


def test_a_group_without_dead_jobs_can_be_marked(empty: Shop) -> None:
    empty.add(
        tried(replace(dead_letter(1), state=State.PENDING, reason=None, finished=None), TIMEOUT)
    )
    assert empty.run("group", "G1", "resolve").exit_code == 0
    assert data(empty, "group", "G1")["status"] == "resolved"


@each_row(
    "words, code",
    [
        (["G99"], 3),
        (["seven"], 2),
        (["G1", "note"], 2),
        (["G1", "resolve", "because"], 2),
        (["G1", "ignore"], 2),
    ],
)
def test_what_makes_no_sense_is_refused(bleeding: Shop, words: list[str], code: int) -> None:
    result = bleeding.run("group", *words)
    assert result.exit_code == code
    assert result.stderr.startswith("error: ")


def test_the_group_command_counts_the_messages_of_the_newest(empty: Shop) -> None:
    messages = ["bank 7 refused", "card 11 expired", "card 12 expired"]
    failures = [replace(TIMEOUT, message=message) for message in messages]
    jobs = [dead_letter(n, failure) for n, failure in enumerate(failures, 1)]
    empty.add(*[replace(job, failure=one) for job, one in zip(jobs, failures, strict=True)])
    lines = empty.run("group", "G1").stdout.splitlines()
    assert [line.split("\t")[1::2] for line in lines if line.startswith("message")] == [
        ["2", "card * expired"],
        ["1", "bank * refused"],
    ]
    data = json.loads(empty.run("group", "G1", "--json").stdout)["data"]
    assert [one["text"] for one in data["messages"]] == ["card * expired", "bank * refused"]
