"""Try to learn masked secrets through every route, command and selector.

    python rigs/mask_oracle.py            all questions, on every store
    python rigs/mask_oracle.py --short    a sample of them, on SQLite and in memory
    python rigs/mask_oracle.py --control  builds that leak: each must be found out

Two worlds are alike but for their secrets, which stand in payloads (by name, by shape, repeated in other
fields), errors, tracebacks, tags, keys, releases, headers, notes, reasons, and in imported failures.
Every question is asked of both, with guesses that are right in the first world and wrong in the second.
Any difference between the two answers tells the asker that a guess was right: that is a leak. So is an
answer with a secret in it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import string
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "kits"))

from click.testing import CliRunner

import pgkit
from kit import START, make_attempt, make_failure, make_job
from redrive import Job, Reason, Redrive, State
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.desk import jobs as desk_jobs
from redrive.desk import search
from redrive.desk.transfer import line_of
from redrive.jobs.job import Resolution
from redrive.payloads import masking
from redrive.testing import ManualClock
from redrive.web.api import ROUTES
from webkit import READ, Web

HOUR = 3600.0
LONG = 14
SECRETS = ("named", "shaped", "nested", "told", "tagged", "session", "imported", "noted", "bearer")
_VARIES = re.compile(r'"(?:as_of|cursor)": ?(?:"[^"]*"|[\d.]+)')


def words_of(secret: str) -> Iterator[str]:
    """Guesses: the whole, beginnings, inner parts and ends."""
    yield from (secret, secret[:3], secret[:6], secret[2:9], secret[-5:], secret.upper())


@dataclass
class World:
    """A store with its secrets, and the faces that people ask."""

    folder: Path
    url: str
    secrets: dict[str, str]
    pin: int
    app: Redrive
    web: Web

    def command(self, words: tuple[str, ...], stdin: str = "") -> str:
        """Run a command where the store is; what it shows, and its exit code."""
        with contextlib.chdir(self.folder):
            clock = ManualClock(START + 24 * HOUR)
            words = (*words, "--store", self.url)
            done = CliRunner().invoke(root, list(words), obj=Cli(clock), input=stdin)
        return f"{done.exit_code}\n{done.output}".replace(str(self.folder), "").replace(
            self.url, ""
        )

    def ask(self, method: str, path: str, body: object = None) -> str:
        """Ask the server, by a token that may read where that is enough."""
        said: dict[str, Any] = {} if body is None else {"json": body}
        if method == "GET":
            said["token"] = READ
        answer = self.web.ask(method, path, **said)
        shown = _VARIES.sub("", answer.text).replace(self.app.store.url, "")
        return f"{answer.status_code}\n{shown}"

    def close(self) -> None:
        """Let go of the store."""
        self.app.close()


def job_id(number: int) -> str:
    return f"01J9ZQ4B7V5X2C8D3E6F1G{number:04d}"


def payload(secrets: dict[str, str], pin: int) -> dict[str, Any]:
    return {
        "to": "ada@example.com",
        "password": secrets["named"],
        "note": f"try {secrets['named']} again",
        "text": f"with sk-ant-{secrets['shaped']} of ours",
        "deep": {"rows": [{"api_key": secrets["nested"], "n": 1}, {"n": 2}]},
        "pin": pin,
        "session_id": secrets["session"],
        "headers": {"Authorization": f"Bearer {secrets['bearer']}", "accept": "text/html"},
        "パスワード": secrets["session"],
        f"sk-ant-{secrets['shaped']}": 1,
    }


def jobs(secrets: dict[str, str], pin: int) -> list[Job]:
    told = f"login with {secrets['named']} failed: token={secrets['told']}"
    failure = make_failure(
        "auth",
        cause="key",
        type="LoginError",
        message=told,
        title=f"LoginError: token={secrets['told']}",
        why=f"said {secrets['named']}",
        code=f"sk-ant-{secrets['shaped']}",
        request_id=secrets["named"],
        traceback=f"Traceback …\n  password={secrets['told']} {secrets['nested']}\nLoginError\n",
    )
    dead = {"state": State.DEAD, "reason": Reason.PERMANENT, "finished": START + 60, "attempts": 1}
    full: dict[str, Any] = {
        "payload": json.dumps(payload(secrets, pin), ensure_ascii=False),
        "updated": START + 60,
        "lease": 1,
        "first_failed": START,
        "spent": {"auth": 1},
        "tags": ("vip", f"sk-ant-{secrets['tagged']}"),
        "release": f"1.2-sk-ant-{secrets['tagged']}",
        "detail": f"gave up on token={secrets['told']}",
        **dead,
    }
    made = [make_job(job_id(1), key=f"order-{secrets['named']}", failure=failure, **full)]
    made.append(make_job(job_id(2), key="order-2", failure=failure, **full))
    why = Resolution(actor="ada", reason=f"had {secrets['named']}", at=START + 99)
    closed = {**full, "state": State.RESOLVED, "reason": Reason.RESOLVED, "resolution": why}
    made.append(make_job(job_id(3), failure=failure, **closed))
    plain = {**full, "payload": '{"to":"bob","password":"x"}', "tags": (), "release": "1.1"}
    made.append(make_job(job_id(4), failure=make_failure("auth", cause="key"), **plain))
    made.append(make_job(job_id(5), payload=full["payload"]))
    return [
        replace(job, history=(make_attempt(job, job.failure),)) if job.failure else job
        for job in made
    ]


def imported(secrets: dict[str, str]) -> bytes:
    """Write a line of an export whose errors nobody masked."""
    failure = make_failure("invalid", cause="i", message=f"bad token={secrets['imported']}")
    job = make_job(
        job_id(6),
        payload=json.dumps({"secret": secrets["imported"]}),
        state=State.DEAD,
        reason=Reason.PERMANENT,
        finished=START + 60,
        updated=START + 60,
        attempts=1,
        lease=1,
        failure=replace(failure, title=f"got {secrets['imported']}"),
    )
    job = replace(job, history=(make_attempt(job, job.failure),))
    return line_of(job).encode()


def world(kind: str, place: Path, secrets: dict[str, str], pin: int) -> World:
    place.mkdir()
    urls = {"sqlite": "redrive.db", "jsonl": "jsonl:redrive.jsonl", "memory": "memory:"}
    url = pgkit.url_of(pgkit.new_schema()) if kind == "postgres" else urls[kind]
    clock = ManualClock(START + 24 * HOUR)
    with contextlib.chdir(place):
        app = Redrive(url, clock=clock, actor="ada", payload_limit=100_000)
        app.store.add(jobs(secrets, pin))
        list(app.desk.transfer.import_lines([imported(secrets)]))

    @app.handler("mail")
    def send(**fields: Any) -> None: ...

    word = f"password={secrets['noted']}"
    app.desk.groups.mark("G1", note=word, reason=word)
    app.desk.lanes.pause("mail", reason=word)
    app.desk.runs.start(job_id(4), name=word, reason=word)
    return World(place, url, secrets, pin, app, Web(app))


@contextlib.contextmanager
def worlds(kind: str, rng: random.Random) -> Iterator[tuple[World, World]]:
    with tempfile.TemporaryDirectory() as folder:
        letters = string.ascii_letters + string.digits
        made: list[World] = []
        for name, pin in (("right", 4711), ("wrong", 8093)):
            secrets = {one: "".join(rng.choices(letters, k=LONG)) for one in SECRETS}
            made.append(world(kind, Path(folder) / name, secrets, pin))
        try:
            yield made[0], made[1]
        finally:
            for one in made:
                one.close()


FIELDS = [
    *("error", "code", "key", "tag", "release", "text", "status", "reason", "lane", "handler"),
    "submitted-release",
    *(
        "payload.password",
        "payload.note",
        "payload.text",
        "payload.deep.rows.0.api_key",
        "payload.pin",
    ),
    *(
        "payload.session_id",
        "payload.headers.Authorization",
        "payload.headers",
        "payload.パスワード",
    ),
    *("payload.deep", "payload.deep.rows", "payload.secret", "payload.to"),
]


def selectors(right: World, rng: random.Random) -> list[str]:
    """Every operator on every field, with every guess."""
    guesses = [word for secret in right.secrets.values() for word in words_of(secret)]
    guesses += [str(right.pin), str(right.pin - 1), f"sk-ant-{right.secrets['shaped']}"]
    guesses += [f"order-{right.secrets['named']}", f"sk-ant-{right.secrets['tagged']}"]
    guesses += [f"1.2-sk-ant-{right.secrets['tagged']}", f"token={right.secrets['told'][:4]}"]
    guesses += [f"Bearer {right.secrets['bearer']}", f"try {right.secrets['named'][:5]}"]
    forms = ["{f}:{g}", '{f}:"{g}"', "{f}:{g}*", "{f}:*{g}*", "{f}:*{g}", "{f}:x,*{g}*", "{f}:>{g}"]
    forms += [
        "{f}:<={g}",
        "{f}:={g}",
        "-{f}:*{g}*",
        "-{f}:<{g}",
        "G1 {f}:*{g}*",
        "state:dead {f}:{g}",
    ]
    found = [f'"{guess}"' for guess in guesses] + [f'-"{guess}" G1' for guess in guesses]
    found += [f.format(f=name, g=g) for f, name, g in itertools.product(forms, FIELDS, guesses)]
    found += [
        f'tag:"sk-ant-{right.secrets["tagged"]}"',
        f"payload.sk-ant-{right.secrets['shaped']}:1",
    ]
    found += [f'key:"order-{right.secrets["named"]}"', "payload.password:*", "-payload.pin:*"]
    return rng.sample(found, len(found))


def questions_of_web(selector: str) -> Iterator[tuple[str, str, object]]:
    from urllib.parse import quote  # noqa: PLC0415

    q = quote(selector)
    yield "GET", f"/api/v1/jobs?q={q}", None
    yield "GET", f"/api/v1/jobs?q={q}&limit=1&order=changed", None
    yield "GET", f"/api/v1/groups?q={q}", None
    yield "POST", "/api/v1/actions", {"verb": "resolve", "q": selector, "dry_run": True}


def every_route() -> Iterator[tuple[str, str, object]]:
    """Each route that reads, and each change that answers with what it changed."""
    values = {"job": [job_id(n) for n in range(1, 7)], "group": ["G1", "G2"], "run": ["R1"]}
    for route in ROUTES:
        names = list(route.params)
        if route.method == "GET" and set(names) <= set(values) and route.path != "/metrics":
            for chosen in itertools.product(*(values[name] for name in names)):
                path = route.path
                for name, value in zip(names, chosen, strict=True):
                    path = path.replace(f"{{{name}}}", value)
                yield "GET", path, None
    for verb in ("reopen", "resolve"):
        yield "POST", "/api/v1/actions", {"verb": verb, "q": job_id(3), "reason": "x"}
    yield "POST", "/api/v1/groups/G1/note", {"note": "n"}


def edits(right: World) -> Iterator[tuple[str, str, object]]:
    """Edits with guesses, with masks moved, and submits that a key compares."""
    seen = json.loads(right.web.ask("GET", f"/api/v1/jobs/{job_id(2)}").text)["payload"]
    place = f"/api/v1/jobs/{job_id(2)}/edit"
    yield "POST", place, {"payload": {"to": masking.MASK}, "edits": 0}
    for change in (
        {"to": masking.MASK},
        {"to": f"x {masking.MASK}"},
        {masking.MASK: 1},
        {"deep": {"rows": [masking.MASK]}},
    ):
        yield "POST", place, {"payload": {**seen, **change}, "edits": 0}
    yield "POST", place, {"payload": {**seen, "password": "replaced"}, "edits": 0}
    for guess in ("named", "told"):
        body = {**payload(right.secrets, right.pin), "password": right.secrets[guess]}
        yield "POST", "/api/v1/jobs", {"handler": "mail", "payload": body, "key": "order-2"}
    yield (
        "POST",
        place,
        {"payload": {**seen, "password": right.secrets["named"], "note": ""}, "edits": 0},
    )
    yield "GET", f"/api/v1/jobs/{job_id(2)}", None


def commands(selector: str) -> Iterator[tuple[str, ...]]:
    for form in ("--json", "--plain"):
        yield ("list", form, "--", selector)
        yield ("list", form, "--ids", "--", selector)
        yield ("groups", form, "--", selector)
        for verb in ("retry", "resolve", "discard", "reopen"):
            yield (verb, form, "--dry-run", "--reason", "x", "--", selector)


def every_command(right: World) -> Iterator[tuple[tuple[str, ...], str]]:
    words = [
        "status",
        "dlq",
        "failed",
        "groups",
        "group G1",
        "group G2",
        "run",
    ]
    words += ["run R1", "metrics", "log", "doctor", "verify", "list --limit 50"]
    words += [f"show {job_id(n)}" for n in range(1, 7)]
    words += [f"show {job_id(1)} --payload", "purge state:resolved --dry-run"]
    for line, form in itertools.product(words, ("--json", "--plain")):
        yield (*line.split(), form), ""
    for name in ("text", "key", "tag"):
        for word in words_of(right.secrets["named"]):
            yield ("list", f"{name}:{word}", "--json"), ""
    guess = payload(right.secrets, right.pin)
    for change in (
        {},
        {"password": "else"},
        {"to": "x", "password": f"h sk-ant-{right.secrets['shaped'][:2]}"},
    ):
        for form in ("--json", "--plain"):
            text = json.dumps({**guess, **change}, ensure_ascii=False)
            yield ("edit", job_id(1), "--payload", "-", "--dry-run", form), text


class Rig:
    """Asks both worlds and writes down what differs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.asked: Counter[str] = Counter()
        self.leaks: list[str] = []

    def compare(self, what: str, ask: Callable[[World], str], pair: tuple[World, World]) -> None:
        """Ask both worlds the same."""
        answers = [ask(one) for one in pair]
        self.asked[what.split(maxsplit=1)[0]] += 1
        if answers[0] != answers[1]:
            self.leaks.append(f"answers differ: {what}\n   {_differing(*answers)}")
        for one, answer in zip(pair, answers, strict=True):
            for name, secret in one.secrets.items():
                # The guess itself comes back in answers that repeat the question.
                if secret in answer and (one is pair[1] or secret not in what):
                    self.leaks.append(f"the {name} secret is in the answer: {what}")

    def run(self, kind: str, most: int) -> None:
        """Ask everything of two worlds in stores of this kind."""
        with worlds(kind, self.rng) as pair:
            asked = selectors(pair[0], self.rng)
            for method, path, body in every_route():
                self._web(method, path, body, pair)
            for selector in asked[:most]:
                for method, path, body in questions_of_web(selector):
                    self._web(method, path, body, pair)
            if kind != "memory":
                self._commands(pair, asked[: most // 8])
            for method, path, body in edits(pair[0]):
                self._web(method, path, body, pair)

    def _commands(self, pair: tuple[World, World], asked: list[str]) -> None:
        for words, stdin in every_command(pair[0]):
            self._command(words, pair, stdin)
        for selector in asked:
            for words in self.rng.sample(list(commands(selector)), 4):
                self._command(words, pair)

    def _web(self, method: str, path: str, body: object, pair: tuple[World, World]) -> None:
        what = f"{method} {path} {json.dumps(body, ensure_ascii=False)}"
        self.compare(what, lambda one: one.ask(method, path, body), pair)

    def _command(self, words: tuple[str, ...], pair: tuple[World, World], stdin: str = "") -> None:
        what = f"redrive {' '.join(words)} {stdin}"
        self.compare(what, lambda one: one.command(words, stdin), pair)


def _differing(one: str, other: str) -> str:
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return f"…{one[max(0, at - 60) : at + 60]!r} / …{other[max(0, at - 60) : at + 60]!r}"


def asks_what_is_stored(job: Job) -> Job:
    """Match, or return, unmasked values."""
    return job


def lets_every_name(_terms: object, *, reveal: bool) -> None:
    """Let words name masked fields; what they match is still masked."""
    del reveal


def compares_keys_openly(*_: object) -> None:
    """Say whether a payload is the one a key stands for."""


def forgets_the_shapes(text: str) -> tuple[()]:
    """Mask only what is known to be secret."""
    del text
    return ()


CONTROLS: list[tuple[object, str, Callable[..., Any]]] = [
    (search, "seen", asks_what_is_stored),
    (desk_jobs, "seen", asks_what_is_stored),
    (desk_jobs.Jobs, "same_as_masked", compares_keys_openly),
    (masking, "_unknown", forgets_the_shapes),
]


def control(rng: random.Random) -> bool:
    """Whether each build that leaks is found out."""
    held = True
    for owner, attribute, broken in CONTROLS:
        rig = Rig(rng)
        with mock.patch.object(owner, attribute, broken):
            rig.run("memory", 200)
        print(f"{broken.__name__}: {rig.leaks[0] if rig.leaks else 'NOT FOUND OUT'}", flush=True)
        held &= bool(rig.leaks)
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="a sample")
    parser.add_argument("--control", action="store_true", help="builds that leak must be found out")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    given = parser.parse_args()
    rng = random.Random(given.seed)
    print(f"seed {given.seed}")
    if given.control:
        return 0 if control(rng) else 1
    rig, began = Rig(rng), time.monotonic()
    kinds = ["sqlite", "memory"] if given.short else ["sqlite", "memory", "jsonl", "postgres"]
    for kind in kinds:
        rig.run(kind, 150 if given.short else 3000)
        print(f"{kind}: {dict(rig.asked)} in {time.monotonic() - began:.0f} s", flush=True)
    print(*(f"LEAK {leak}" for leak in rig.leaks[:20]), sep="\n")
    return 1 if rig.leaks else 0


if __name__ == "__main__":
    os.environ.pop("REDRIVE_STORE", None)
    sys.exit(main())
