"""Hostile selectors on hostile jobs are answered or refused in words, in bounded time, alike in stores."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from time import process_time

from kit import START, make_failure, make_job
from redrive import Job, Reason, Redrive, State
from redrive.desk.selectors import KNOWN
from redrive.errors import UsageError
from redrive.testing import ManualClock

QUESTIONS = 250
FIXED = [
    "payload.text:*a*a*a*a*a*a*b",
    "payload.text:>" + "1" * 1900,
    "handler:" + "*a" * 19 + "*b",
]
NAMES = [
    *KNOWN[:-1],
    "payload.text",
    "payload.n.id",
    "payload.text.0",
    "payload." + "a." * 300 + "b",
]
NAMES += ["payload.text." + "9" * 500, "", "nonsense"]
PIECES = [
    "a",
    "aa",
    "*",
    "**",
    "*a*a*a*a*b",
    "9" * 40,
    "1" * 1500,
    "-",
    ">",
    "<=",
    "=",
    ",",
    ".",
    '"',
]
PIECES += [
    '\\"',
    "\\",
    "\0",
    "\ud800",
    "İ",
    "•••",
    "1e999",
    "NaN",
    "G1",
    "2h",
    "null",
    "[",
    ":",
    " ",
]


def hostile_jobs() -> list[Job]:
    texts: list[object] = ["a" * 100_000, "ab" * 50_000, "9" * 5000, "-" + "1" * 4301, "", "a*b"]
    texts += ["İ" * 5000, "\ud800", "a\nb", 1e308, -0.0, True, None, 10**400, ["a"] * 1000, {}]
    payloads = [json.dumps({"text": text, "n": {"id": text}}) for text in texts]
    payloads += ['{"text":' + "1" * 5000 + "}", '{"text":1e999999}', '{"text":NaN}', '{"text":']
    payloads += ['{"text":' + "[" * 900 + "]" * 900 + "}", "[" * 5000, '{"text":"x","text":"y"}']
    failure = make_failure(message="a" * 2000, code="9" * 200)
    dead = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "finished": START, "failure": failure}
    fields = {"handler": "a" * 60, "tags": ("9" * 60, "a" * 60), "release": "1." + "0" * 200}
    made = [make_job(f"JOB{n:04d}", payload=text, **fields) for n, text in enumerate(payloads)]
    return [replace(job, **dead) if n % 3 else job for n, job in enumerate(made)]  # type: ignore[arg-type]


def question(rng: random.Random) -> str:
    words: list[str] = []
    for _ in range(rng.choice([1, 1, 2, 3, 60])):
        value, name = "".join(rng.choices(PIECES, k=rng.randint(1, 5))), rng.choice(NAMES)
        quote, minus = rng.choice(["", "", '"']), rng.choice(["", "", "-"])
        words.append(f"{minus}{name}{':' if name else ''}{quote}{value}{quote}")
    return " ".join(words)


def test_nothing_that_is_asked_raises_hangs_or_differs(tmp_path: Path) -> None:
    rng = random.Random(28)
    with Redrive("memory:", clock=ManualClock(START)) as one, Redrive(tmp_path / "x.db") as two:
        for app in (one, two):
            app.store.add(hostile_jobs())
        answered = 0
        for words in [*FIXED, *(question(rng) for _ in range(QUESTIONS))]:
            answers: list[object] = []
            for app in (one, two):
                began = process_time()
                try:
                    answers.append([job.id for job in app.desk.jobs.find(words).jobs])
                except UsageError:
                    answers.append("refused")
                assert process_time() - began < 5, words
            assert answers[0] == answers[1] or "age:" in words, words
            answered += answers[0] != "refused"
        assert answered > QUESTIONS / 10
