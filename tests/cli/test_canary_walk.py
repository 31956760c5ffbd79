"""Secrets in every field of every record, through every command, form and route: none gets out.

The records are written into the store as another program would write them, with nothing masked. A new
command or route that is not walked fails.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import click
import pytest

from alertkit import Kept, tick
from kit import START, make_attempt, make_failure, make_job
from ptykit import on_terminal
from redrive import Job, Reason, Redrive, State
from redrive.alerts import Alerts
from redrive.cli._root import root
from redrive.desk.backend import ReadOnly
from redrive.desk.desk import Desk
from redrive.desk.transfer import line_of
from redrive.errors import RedriveError, Refused
from redrive.jobs.job import Action, Resolution
from redrive.metrics import text as metrics_text
from redrive.runs import driver, run_records
from redrive.web.api import ROUTES
from redrive.web.auth import made
from secretkit import canary
from shopkit import HOUR, Shop, name
from tablekit import each_row
from webkit import ACT, READ, TOKENS, Web

NAMED, SHAPED, HEADER, NOTED, IMPORTED = map(
    canary, ["named", "shaped", "header", "noted", "imported"]
)
SECRETS = (NAMED, SHAPED, HEADER, NOTED, IMPORTED)
PAYLOAD = {
    "to": "ada@example.com",
    "password": NAMED,
    "note": f"try {NAMED}",
    "headers": {"Authorization": f"Bearer {HEADER}"},
    "text": f"with sk-ant-{SHAPED} of ours",
}
SAID = f"sk-ant-{SHAPED} password={NOTED}"
"""Text that shows by itself that it is secret."""
REVEAL = "reveal-" + "v" * 30


def failing(**more: Any) -> Job:
    """A job whose every text repeats a secret."""
    both = f"{NAMED} {HEADER} {SAID}"  # of a header only its token
    texts = ("message", "why", "code", "request_id", "type", "traceback")
    # A title outlives its jobs, so what only their payloads tell is masked when it is stored.
    failure = make_failure("auth", cause="key", title=SAID, **dict.fromkeys(texts, both))
    job = make_job(
        **{
            "id": name(1),
            "handler": "mail.send",
            "payload": json.dumps(PAYLOAD),
            "original": json.dumps({**PAYLOAD, "to": "bob"}),
            "edits": 1,
            "key": f"k-{NAMED}",
            "tags": (f"sk-ant-{SHAPED}", NAMED),
            "release": f"1.2-sk-ant-{SHAPED}",
            "detail": both,
            "origin": {"file": "old.jsonl", "line": both, "token": NAMED},
            "attempts": 1,
            "lease": 1,
            "failure": failure,
            "first_failed": START,
            "updated": START + 60,
            **more,
        }
    )
    attempt = replace(make_attempt(job, failure), worker=f"w-{NAMED}", provider=SAID)
    return replace(job, history=(attempt,))


def jobs() -> list[Job]:
    dead = {"state": State.DEAD, "reason": Reason.PERMANENT, "finished": START + 60}
    why = Resolution(actor=SAID, reason=f"{NAMED} {SAID}", at=START + 99)
    closed = {**dead, "state": State.RESOLVED, "reason": Reason.RESOLVED, "resolution": why}
    return [
        failing(**dead),
        failing(id=name(2), key="k-2", **dead),
        failing(id=name(3), key="k-3", due=START + HOUR),
        failing(id=name(4), key="k-4", **closed),
        failing(id=name(5), key="k-5", **dead),
    ]


def imported() -> bytes:
    failure = make_failure("invalid", cause="i", message=f"bad {IMPORTED}", title=f"got {IMPORTED}")
    dead = {"state": State.DEAD, "reason": Reason.PERMANENT, "finished": START + 60}
    payload = json.dumps({"secret": IMPORTED})
    job = make_job(name(6), payload=payload, attempts=1, lease=1, failure=failure, **dead)
    return line_of(replace(job, history=(make_attempt(job, failure),))).encode()


def plant(app: Redrive) -> None:
    """Fill a store, past everything that masks."""
    store = app.store
    store.add(jobs())
    list(app.desk.transfer.import_lines([imported()]))
    marks = {"resolved": START, "resolved_by": SAID, "reason": SAID, "note": SAID, "noted": START}
    marks["noted_by"] = SAID
    leak = Action(actor="ada", verb="note", target=SAID, reason=SAID, detail={"said": SAID})
    assert store.change_group(1, marks, leak, expected=store.group_records([1])[1].version)
    store.note("pause:mail.send", json.dumps({"by": SAID, "reason": SAID, "since": START}))
    store.note("pause:other", SAID)
    worker = {
        "host": SAID,
        "version": SAID,
        "pid": 7,
        "lanes": [],
        "missing": {"x": ["mail.send", SAID]},
    }
    store.note("worker:x", json.dumps(worker), expires_in=1e6)
    run = app.desk.runs.start(name(5))
    known = run_records.stored(store, run.number)
    assert known is not None
    leaking = replace(known[0], name=SAID, reason=SAID, asked=SAID, why=SAID)
    driver.save(store, leaking, known[1], durable=True)
    store.record(leak)


@pytest.fixture
def walk(empty: Shop) -> Shop:
    with empty.app() as app:
        plant(app)
    Path("redrive.toml").write_text(f'store = "redrive.db"\n[alerts]\nslack = "https://h/{SAID}"\n')
    return empty


def check(where: str, text: str) -> None:
    for secret in SECRETS:
        assert secret not in text, f"{secret} is in {where}: {text[:3000]}"


LINES: dict[str, tuple[str, ...]] = {
    "status": ("status",),
    "dlq": ("dlq",),
    "failed": ("failed",),
    "list": ("list", "list --ids", "list state:resolved", f"list {name(6)}"),
    "show": (
        *(f"show {name(n)}" for n in range(1, 7)),
        f"show {name(1)} --payload",
    ),
    "groups": ("groups",),
    "group": ("group G1", "group G2"),
    "run": ("run", "run R1"),
    "metrics": ("metrics", "metrics --prometheus"),
    "log": ("log",),
    "explain": ("explain 429", "explain DEFAULT"),
    "alerts": ("alerts list",),
    "doctor": ("doctor",),
    "verify": ("verify",),
    "edit": (f"edit {name(1)} --payload new.json --dry-run",),
    "init": ("init",),
    "retry": ("retry G1 --dry-run", f"retry {name(1)}"),
    "resolve": ("resolve G1 --dry-run", f"resolve {name(2)} --yes --reason x-{NAMED}"),
    "discard": (f"discard {name(2)} --dry-run --reason x",),
    "reopen": (f"reopen {name(4)} --yes",),
    "pause": (f"pause mail.send --reason password={NOTED}",),
    "resume": ("resume mail.send",),
    "purge": ("purge state:resolved --dry-run",),
    "export": ("export -o out.jsonl --force",),
    "import": ("import out.jsonl", "import out.jsonl --dry-run"),
    # They serve or run a program of the user's; what they show is asked for below and in tests/app.
    "work": (),
    "serve": (),
    "demo": (),
}
READING = (
    "status",
    "dlq",
    "failed",
    "list",
    "groups",
    "group G1",
    "run",
    "run R1",
    "log",
    "doctor",
)


def test_every_command_is_walked() -> None:
    known = set(root.list_commands(click.Context(root)))
    assert known >= {"status", "retry"}
    assert known - {"help"} <= set(LINES)


@each_row("form", ["--plain", "--json", "--jsonl", "--verbose"])
def test_no_command_shows_a_secret(walk: Shop, form: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    Path("new.json").write_text(json.dumps({**PAYLOAD, "to": "eve", "password": "•••"}))
    shown = 0
    for line in chain.from_iterable(LINES.values()):
        done = walk.run(*line.split(), form)
        assert done.exception is None or isinstance(done.exception, SystemExit), line
        check(f"redrive {line} {form}", done.output)
        shown += len(done.output)
    assert shown > 10_000
    assert NAMED in Path("out.jsonl").read_text(), "an export is whole, in a private file"
    assert Path("out.jsonl").stat().st_mode & 0o077 == 0
    check("the log", "\n".join(map(str, (record.__dict__ for record in caplog.records))))


def test_no_terminal_shows_a_secret(walk: Shop) -> None:
    for words in (*READING, f"show {name(1)}", f"show {name(6)}"):
        check(words, walk.drawn(*words.split(), width=400))
    shown = on_terminal("status", width=400)
    check("status", shown.text + shown.raw.decode("utf-8", "replace"))


def bodies() -> Iterator[tuple[str, str, dict[str, object]]]:
    job, why = f"/api/v1/jobs/{name(1)}", {"reason": f"had {NAMED} {SAID}"}
    yield "post_jobs", "/api/v1/jobs", {"handler": "mail.send", "payload": PAYLOAD, "key": "n"}
    yield "post_jobs", "/api/v1/jobs", {"handler": "mail.send", "payload": PAYLOAD, "key": "k-2"}
    yield "post_jobs_job_edit", f"{job}/edit", {"payload": PAYLOAD, "edits": 1, **why}
    act = "/api/v1/actions"
    for number, verb in ((1, "resolve"), (1, "reopen"), (1, "discard"), (2, "retry")):
        yield "post_actions", act, {"verb": verb, "q": name(number), **why}
    for word in ({"dry_run": True}, {"as_of": f"1.0:1 {SAID}", "confirm": 1, "name": SAID}):
        yield "post_actions", act, {"verb": "retry", "q": f'state:dead "{SAID}"', **word}
    yield "post_groups_group_mark", "/api/v1/groups/G1/mark", {"resolved": True, **why}
    yield "post_groups_group_note", "/api/v1/groups/G1/note", {"note": SAID}
    yield "post_alerts_channel_test", "/api/v1/alerts/kept/test", why
    yield "post_pauses", "/api/v1/pauses", {"lane": "mail.send", "reason": SAID}
    yield "post_pauses_lane_resume", "/api/v1/pauses/mail.send/resume", {"reason": SAID}
    yield "post_runs_run_pause", "/api/v1/runs/R1/pause", {"reason": SAID}
    yield "post_runs_run_resume", "/api/v1/runs/R1/resume", {"reason": SAID}
    yield "post_runs_run_rate", "/api/v1/runs/R1/rate", {"rate": "5/s", "reason": SAID}
    yield "post_runs_run_cancel", "/api/v1/runs/R1/cancel", {"reason": SAID}


def test_no_route_shows_a_secret(walk: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """Not even where the caller sends one, as a payload or inside a reason, a wrong field or a query."""
    caplog.set_level(logging.DEBUG)
    with walk.app() as app:
        app.handler("mail.send")(lambda **payload: None)
        web = Web(app)
        values = {"job": name(1), "group": "G1", "run": "R1"}
        app.alerts = Alerts(Kept())
        for route in ROUTES:
            if route.method == "GET":
                for number in range(1, 7):
                    path = route.path.format(**{**values, "job": name(number)})
                    check(path, web.ask("GET", path, token=READ).text)
        posts = list(bodies())
        assert {one[0] for one in posts} == {r.name for r in ROUTES if r.method == "POST"}
        for which, path, body in posts:
            answer = web.ask("POST", path, json=body)
            check(which, answer.text)
            for wrong in ({**body, "payload": NAMED}, {**body, f"password={NOTED}": 1}, {SAID: 1}):
                check(which, web.ask("POST", path, json=wrong).text)
    check("the log", "\n".join(str(record.__dict__) for record in caplog.records))


def test_a_token_for_reveal_sees_payloads_whole_and_is_recorded(walk: Shop) -> None:
    with walk.app() as app:
        web = Web(app, tokens=[*TOKENS, made("chief", "reveal", REVEAL)])
        place = f"/api/v1/jobs/{name(1)}?reveal=true"
        for token in (READ, ACT):
            assert web.ask("GET", place, token=token).status_code == 403
        assert web.get(place, token=REVEAL)["payload"] == PAYLOAD
        assert web.get(place.replace("true", "false"), token=REVEAL)["payload"] != PAYLOAD
        acts = [act for act in app.desk.log.actions() if act.verb == "reveal"]
        assert [(act.actor, act.target) for act in acts] == [("chief", name(1))]


def test_the_desk_returns_nothing_unmasked_unless_it_is_revealed(walk: Shop) -> None:
    with walk.app() as app:
        desk = app.desk
        reads: list[Callable[[], object]] = [
            lambda: [desk.jobs.get(name(number)) for number in range(1, 7)],
            lambda: desk.jobs.find().jobs,
            lambda: list(desk.jobs.each()),
            lambda: [desk.groups.find(), desk.groups.get("G1"), desk.groups.records()],
            lambda: [desk.runs.recent(), desk.runs.get("R1")],
            lambda: [desk.lanes.pauses(), desk.lanes.workers(), desk.lanes.unserved_because()],
            desk.log.actions,
            lambda: desk.jobs.editable(name(1)),
            lambda: desk.jobs.preview_edit(name(1), desk.jobs.editable(name(1)).payload),
            lambda: desk.resolve(name(2)).done,
            lambda: desk.edit(name(1), json.dumps({**PAYLOAD, "to": "x"})),
        ]
        for number, read in enumerate(reads):
            check(f"read {number}", whole(read()))
        assert "reveal" not in {act.verb for act in desk.log.actions()}
        for revealed in (
            desk.jobs.get(name(3), reveal=True),
            *desk.jobs.each("state:pending", reveal=True),
        ):
            assert NAMED in revealed.payload
        targets = [act.target for act in desk.log.actions() if act.verb == "reveal"]
        assert targets == ["state:pending", name(3)]


def test_a_secret_that_was_searched_for_is_not_in_the_audit_log(walk: Shop) -> None:
    with walk.app() as app:
        jobs = app.desk.jobs
        assert jobs.find(f'state:dead "{NAMED}"', reveal=True).jobs
        assert list(jobs.each(text=NAMED, reveal=True))
        assert not jobs.find(f"tag:{'x' * 480}{NAMED}", reveal=True).jobs
        targets = [act.target for act in app.desk.log.actions() if act.verb == "reveal"]
        assert targets == ["tag:•••", "text:•••", 'state:dead "•••"']


def test_an_event_shows_no_secret(walk: Shop) -> None:
    with walk.app() as app:
        events: list[object] = []
        app.listen(events.append)
        app.desk.retry(name(1), reason="x")
        app.desk.edit(name(2), json.dumps({"to": "x"}))
        assert len(events) == 2
        check("events", whole(events))


def test_what_cannot_be_recorded_is_not_revealed(walk: Shop) -> None:
    with (
        closing(ReadOnly(walk.url, walk.clock)) as backend,
        pytest.raises(Refused, match="read-only"),
    ):
        Desk(backend).jobs.get(name(1), reveal=True)


def whole(value: object) -> str:
    """Every text inside records; their repr shows none."""
    if isinstance(value, list | tuple | frozenset):
        return "\n".join(map(whole, value))
    if isinstance(value, Mapping):
        return "\n".join(f"{key} {whole(item)}" for key, item in value.items())
    if is_dataclass(value):
        texts = (whole(getattr(value, one.name)) for one in fields(value))
        return "\n".join([repr(value), *texts])
    return str(value)


def test_metrics_and_alerts_show_no_secret(walk: Shop) -> None:
    kept = Kept()
    alerts = Alerts(kept, text=lambda _, job: f"{job.payload} {job.failure}")
    with Redrive(walk.url, clock=walk.clock, alerts=alerts) as app:
        check("metrics", metrics_text(app.desk))
        tick(app)
        walk.clock.advance(HOUR)
        app.store.add([failing(id=name(9), key="k-9", state=State.DEAD, finished=walk.clock.now())])
        tick(app)
        assert kept.messages
        check("alerts", whole(kept.messages))


def test_our_own_errors_show_no_secret(walk: Shop) -> None:
    with walk.app() as app:

        @app.handler("mail.send")
        def send(to: int, password: int = 0) -> None: ...

        wrong: list[Callable[[], object]] = [
            lambda: app.desk.edit(name(1), json.dumps(PAYLOAD)),
            lambda: app.desk.edit(name(1), json.dumps({"to": 1, "note": "•••"})),
            lambda: app.desk.jobs.find(f"payload.password:{NAMED}"),
            lambda: app.desk.jobs.check_payload("mail.send", json.dumps(PAYLOAD)),
            lambda: app.desk.discard(name(3), reason=""),
            lambda: app.desk.jobs.get("nobody"),
        ]
        for number, call in enumerate(wrong):
            with pytest.raises(RedriveError) as caught:
                call()
            text = "".join(traceback.format_exception(caught.value))
            text = re.sub(r"(?m)^.*test_canary_walk.*\n.*\n", "", text)
            check(f"error {number}: {caught.value!r}", text)


def test_an_import_shows_no_address_that_is_secret(walk: Shop) -> None:
    hook = {"url": f"https://hooks.slack.com/services/{NAMED}", "password": HEADER}
    Path("hooks.jsonl").write_text(json.dumps(hook) + "\n")
    Path("canaries.py").write_text(
        "def good(row): return {'key': 'k', 'handler': 'h', 'payload': row, 'error': str(row)}\n"
        "def bad(row): raise ValueError(f'cannot read {row}')\n"
    )
    for kind, code in (("good", 0), ("bad", 6)):
        for more in (["--dry-run", "--json"], ["--dry-run"], []):
            done = walk.run("import", "hooks.jsonl", "--with", f"canaries:{kind}", *more)
            assert done.exit_code == code, done.output
            check("import", done.output)
    check("show", walk.run("show", "key:k").output)
