"""What each command shows, and where."""

from __future__ import annotations

import json

from kit import START, make_job
from redrive import Redrive
from shopkit import HOUR, TIMEOUT, Shop, dead_letter, name, tried
from tablekit import each_row


def test_status_opens_with_the_verdict_and_what_changed(empty: Shop) -> None:
    now = empty.clock.now()
    empty.add(*(dead_letter(n, updated=now - 60) for n in range(1, 13)))
    lines = empty.run("status").stdout.splitlines()
    assert lines[0].startswith("INCIDENT: G1 grows: 12 died in 10 minutes, it began 1m ago: ")
    at = lines.index("#changed\twhat\tsubject\tsince\tdetail")
    assert lines[at + 1].startswith("changed\tnew\tG1\t")
    assert lines[at + 1].endswith("\t12 deaths: SomeError: refused")
    assert at < lines.index("Dead letter queue\t12")
    data = json.loads(empty.run("status", "--json").stdout)["data"]
    assert (data["verdict"], data["why"]) == ("INCIDENT", data["reasons"][0])
    assert [change["what"] for change in data["changes"]] == ["new"]


def test_status_shows_jobs_that_retry_for_over_an_hour(empty: Shop) -> None:
    then = empty.clock.now() - 2 * HOUR
    job = make_job(name(1), created=then, since=then, due=then + 3 * HOUR)
    empty.add(tried(job, TIMEOUT))
    lines = empty.run("status").stdout.splitlines()
    assert lines[0] == "DEGRADED: 1 job retrying for over an hour, the first for 2h"
    assert "retrying\tmail\t1\t2025-06-16T13:06:40.000Z" in lines


def test_status_says_whether_it_grows(empty: Shop) -> None:
    now = empty.clock.now()
    ages = [30, 500, 3000, 5000, 22.5 * HOUR, 30 * HOUR]
    empty.add(*(dead_letter(n, updated=now - age) for n, age in enumerate(ages, start=1)))
    data = json.loads(empty.run("status", "--json").stdout)["data"]
    assert (data["died_last_10_minutes"], data["died_last_hour"]) == (2, 3)
    assert data["deaths_last_day"]["numbers"] == [1, *[0] * 20, 1, 2, 1]
    assert data["groups"][0]["deaths_last_hour"] == 3


def test_status_shows_runs_that_are_not_over(shop: Shop) -> None:
    with shop.app() as app:
        run = app.desk.runs.start("G1", name="stripe")
    data = json.loads(shop.run("status", "--json").stdout)["data"]
    assert [(r["run"], r["phase"], r["name"], r["total"]) for r in data["runs"]] == [
        (run.id, "live", "stripe", run.total)
    ]
    assert f"run\t{run.id}\tlive\t{run.total}\t" in shop.run("status").stdout


def test_what_has_been_due_for_long_is_not_healthy(empty: Shop) -> None:
    now = empty.clock.now()
    empty.add(
        make_job(name(1), handler="mail.send", due=now - 2 * HOUR),
        make_job(name(2), handler="mail.send", due=now + HOUR),
        make_job(name(3), handler="pay", due=now - 3 * HOUR),
        make_job(name(4), handler="held", due=now - HOUR),
        make_job(name(5), handler="fresh", due=now - 1),
    )
    with empty.app() as app:
        app.desk.lanes.pause("held")
    lines = empty.run("status").stdout.splitlines()
    assert lines[0] == (
        "INCIDENT: 3 jobs pending in the lanes pay, mail.send, the oldest due for 3h: "
        "is a worker running, and does it know the handlers?"
    )
    assert lines[1] == (
        "1 job pending in the lane held, the oldest due for 1h: "
        "paused; resume with `redrive resume LANE`"
    )
    data = json.loads(empty.run("status", "--json").stdout)["data"]
    assert data["healthy"] is False
    assert [(o["lane"], o["paused"]) for o in data["overdue"]] == [
        ("pay", False),
        ("mail.send", False),
        ("held", True),
    ]


@each_row(
    "command, words",
    [("dlq", "Dead letter queue is empty!"), ("failed", "No failed jobs!"), ("list", "No jobs.")],
)
def test_an_empty_view_says_so(empty: Shop, command: str, words: str) -> None:
    empty.add()
    assert empty.run(command).stdout == f"{words}\n"
    assert json.loads(empty.run(command, "--json").stdout)["data"] == []


def test_failed_means_waiting_again_after_a_failure_in_this_life(shop: Shop) -> None:
    data = json.loads(shop.run("failed", "--json").stdout)["data"]
    assert [job["id"] for job in data] == [name(6)]
    shop.run("retry", name(1))  # a fresh life: it has not failed in it yet
    data = json.loads(shop.run("failed", "--json").stdout)["data"]
    assert [job["id"] for job in data] == [name(6)]


def test_dlq_shows_twenty_and_says_how_to_go_on(empty: Shop) -> None:
    empty.add(*(dead_letter(number) for number in range(1, 46)))
    seen: list[str] = []
    cursor: list[str] = []
    for expected in (20, 20, 5):
        page = json.loads(empty.run("dlq", "--json", *cursor).stdout)
        assert len(page["data"]) == expected
        seen += [job["id"] for job in page["data"]]
        cursor = ["--cursor", str(page["page"]["cursor"])]
    assert page["page"]["cursor"] is None
    assert seen == [name(number) for number in range(45, 0, -1)]
    first = empty.run("dlq", "--plain")
    assert "--cursor" in first.stderr
    assert "--cursor" not in first.stdout


def test_list_finds_by_words(shop: Shop) -> None:
    found: list[tuple[list[str], list[int]]] = [
        (["state:dead,completed"], [7, 4, 3, 2, 1]),
        (["handler:p*"], [6, 5, 4, 3]),
        (["lane:pdf.print"], [4]),
        (["G1"], [6, 2, 1]),
        (["g2", "G3"], [4, 3]),
        (["age:>23h1m", "age:<86240s"], [4, 3]),
        (['"VAT_ID"'], [4]),
        (["key:invoice-4"], [4]),
        (["state:dead handler:p* -category:auth"], [4]),
        (["G1", "state:dead"], [2, 1]),
        (["state:dead", "--", "-G1 -error:Key*"], [3]),
        ([name(2), name(1)], [2, 1]),
        (["01j9zq4b7v5x2c8d3e6f1g0004"], [4]),
    ]
    for words, numbers in found:
        result = shop.run("list", "--ids", *words)
        assert result.stdout.split() == [name(number) for number in numbers], result.stderr


def test_a_wrong_selection_is_a_usage_error_in_one_line(shop: Shop) -> None:
    wrong = ["age:2h", "state:failed", "category:bad", "group:seven", "--limit=0", "01J9ZQ4B7V5"]
    for words in [*([one] for one in wrong), [name(1), "state:dead"], ["--cursor", "nonsense"]]:
        result = shop.run("list", *words)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")

    assert "Traceback" not in result.stderr


def test_ids_are_all_unless_a_limit_is_said(empty: Shop) -> None:
    """They are for pipes: `redrive list --ids | redrive discard -` must not stop in the middle."""
    empty.add(*(dead_letter(one) for one in range(1, 1046)))
    for line, number in {
        "list --ids": 1045,
        "list --ids --limit 30": 30,
        "list G1 --ids": 1045,
        "list G1 G1 --ids": 1045,
        "list": 20,
    }.items():
        words = line.split()
        page = json.loads(empty.run(*words, "--json").stdout)
        assert len(page["data"]) == number
        assert page["page"]["count"] == number
        if "--ids" in words:
            result = empty.run(*words)
            ids = result.stdout.split()
            assert len(set(ids)) == len(ids) == number
            assert ("--cursor" in result.stderr) == ("--limit" in words)


def test_show_finds_a_job_by_the_beginning_of_its_id(shop: Shop) -> None:
    assert shop.run("show", name(7)[:26]).exit_code == 0
    shop.add(make_job("02ZZZZZZ"))
    assert "02ZZZZZZ" in shop.run("show", "02zz").stdout


def test_show_tells_the_lineage_and_masks_every_payload(shop: Shop) -> None:
    with shop.app() as app:
        app.desk.edit(name(1), '{"to":"bob@example.com","password":"hunter23"}', reason="typo")
    shop.run("retry", name(1))
    shop.run("resolve", name(1), "--reason", "sent by hand")
    for output in ("--plain", "--json"):
        text = shop.run("show", name(1), output).stdout
        assert "hunter2" not in text
        assert "sent by hand" in text
        assert "bob@example.com" in text
        assert "ada@example.com" in text
    data = json.loads(shop.run("show", name(1), "--json").stdout)["data"]
    assert (data["redrives"], data["edits"], data["resolution"]["actor"]) == (1, 1, "ada")


def test_a_secret_of_the_payload_is_hidden_in_the_error_too(empty: Shop) -> None:
    """Whoever stored the error, the view masks it."""
    leak = TIMEOUT.__class__(
        category=TIMEOUT.category, type="E", message="said hunter22", traceback="E: hunter22\n"
    )
    empty.add(dead_letter(1, leak))
    for output in ("--plain", "--json"):
        assert "hunter22" not in empty.run("show", name(1), output).stdout


def test_show_says_in_words_how_often_and_since_when(shop: Shop) -> None:
    text = shop.run("show", name(1)).stdout
    assert "failures so far\ttransient 3\n" in text
    assert "\nretried\t" not in text
    assert "\n#attempt\tnumber\tretried\tstarted\ttook\t" in text
    shop.run("retry", name(1))
    text = shop.run("show", name(1)).stdout
    assert "\nretried\tonce\n" in text
    assert "\ndue since\t" in text
    assert "next retry" not in text
    assert "\nnext retry\t" in shop.run("show", name(6)).stdout


def test_show_of_a_group_says_what_to_type(shop: Shop) -> None:
    result = shop.run("show", "G2")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[1] == "hint: redrive list G2"


def test_every_duration_in_plain_text_has_its_unit(shop: Shop) -> None:
    shop.run("pause", "mail.send", "--for", "2h")
    lines = shop.run("status").stdout.splitlines()
    assert "Oldest due\t86400s" in lines
    assert "pause\tmail.send\tada\t7200s\t-" in lines


def test_the_retry_line_can_be_pasted(shop: Shop) -> None:
    store = ["--store", "redrive.db"]
    data = json.loads(shop.run("show", name(1), "--json", *store).stdout)["data"]
    assert data["retry"] == f"redrive retry {name(1)} --store sqlite:{shop.folder}/redrive.db"
    words = data["retry"].split()[1:]
    assert shop.run(*words).exit_code == 0
    assert shop.state_of(name(1)) == "pending"


def test_groups_count_the_dead_of_each_cause(shop: Shop) -> None:
    data = json.loads(shop.run("groups", "--json").stdout)["data"]
    assert [(g["group"], g["jobs"]) for g in data] == [("G1", 2), ("G2", 1), ("G3", 1)]
    data = json.loads(shop.run("groups", "state:pending", "--json").stdout)["data"]
    assert [(g["group"], g["jobs"]) for g in data] == [("G1", 1)]
    assert shop.run("groups", name(1)).exit_code == 2


def test_the_log_pages_backwards(shop: Shop) -> None:
    for _ in range(5):
        shop.run("pause", "mail.send")
    first = json.loads(shop.run("log", "--limit", "3", "--json").stdout)
    rest = json.loads(
        shop.run("log", "--limit", "3", "--before", first["page"]["before"], "--json").stdout
    )
    named = [action["action"] for action in first["data"] + rest["data"]]
    assert named == ["A5", "A4", "A3", "A2", "A1"]
    assert rest["page"]["before"] is None
    assert shop.run("log", "--before", "x").exit_code == 2


def test_the_log_is_asked_for_who_what_and_when(shop: Shop) -> None:
    shop.run("pause", "mail.send")
    shop.clock.advance(2 * HOUR)
    with Redrive("redrive.db", clock=shop.clock, actor="deploy") as app:
        app.desk.resolve("G1", reason="done")
        app.desk.runs.start("G2", name="again")

    def verbs(*words: str) -> list[str]:
        return [
            action["verb"]
            for action in json.loads(shop.run("log", "--json", *words).stdout)["data"]
        ]

    assert verbs() == ["retry", "resolve", "pause"]
    assert verbs("--actor", "ada") == ["pause"]
    assert verbs("--since", "1h") == ["retry", "resolve"]
    assert verbs("--verb", "resolve") == ["resolve"]
    assert verbs("--run", "R1") == ["retry", "enlist"]
    assert shop.run("log", "--actor", "nobody").stdout == "No action matches.\n"
    assert shop.run("log", "--since", "soon").exit_code == 2


def test_metrics_count_by_state_lane_and_category(shop: Shop) -> None:
    lines = shop.run("metrics").stdout.splitlines()
    assert lines[0].split("\t") == ["metric", "state", "lane", "category", "jobs", "oldest"]
    assert "redrive_jobs\tdead\tmail.send\ttransient\t2\t86340s" in lines
    data = json.loads(shop.run("metrics", "--json").stdout)["data"]
    assert sum(row["jobs"] for row in data) == 7


def test_what_was_looked_through_one_by_one_is_said(shop: Shop) -> None:
    result = shop.run("list", "payload.to:ada*")
    assert result.stderr.endswith("searched all 7 jobs\n")
    page = json.loads(shop.run("list", "payload.to:ada*", "--limit", "1", "--json").stdout)["page"]
    assert page["scope"] == {"looked": 4, "of": 7}
    assert page["cursor"] is not None
    assert json.loads(shop.run("groups", "attempts:>0", "--json").stdout)["page"]["scope"] == {
        "looked": 4,
        "of": 4,
    }


def test_the_actor_of_an_app_is_kept(shop: Shop) -> None:
    with Redrive("redrive.db", clock=shop.clock, actor="deploy") as app:
        app.desk.resolve("G1", reason="done")
    data = json.loads(shop.run("log", "--json").stdout)["data"]
    assert data[0]["actor"] == "deploy"
    assert shop.clock.now() == START + 24 * HOUR
