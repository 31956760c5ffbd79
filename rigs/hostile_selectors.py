"""Hostile selectors on hostile jobs: bounded by CPU time, refused in words or answered, and right.

    python rigs/hostile_selectors.py            20,000 questions of each store, and a server under attack
    python rigs/hostile_selectors.py --short    200 of each
    python rigs/hostile_selectors.py --control  builds with a slow, a raising and a wrong comparison

Each question is random: fields, signs, stars, numbers of any length, NUL, surrogates, quotes, deep paths.
The jobs hold texts of 100,000 letters, numbers of 5,000 digits, deep nesting, NaN and broken JSON. A
question may take BOUND seconds of CPU, and may end in a UsageError, in nothing else. All stores must
answer alike. On small texts the answers are compared with those of a matcher that tries everything. At
last a real server is asked the worst by eight clients: its probe must answer, and SIGTERM must end it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "kits"))

import pgkit
from kit import START, make_failure, make_job
from redrive import Job, Reason, Redrive, State
from redrive.desk import selectors
from redrive.errors import UsageError
from redrive.testing import ManualClock

BOUND = 3.0
"""Seconds of CPU for one question of all jobs; most take a hundredth."""
PROBE = 1.0
"""Seconds for a probe while the server is attacked: it is a tenth on an idle machine."""
LARGE = 100_000


class TooSlow(BaseException):
    """A question took longer than its bound."""


def _alarm(_number: int, _frame: FrameType | None) -> None:
    raise TooSlow


def hostile_jobs() -> list[Job]:
    """Jobs with everything that ever made a comparison slow or raise."""
    texts: list[object] = [
        "a" * LARGE,
        "ab" * (LARGE // 2),
        "9" * 5000,
        "-" + "1" * 4301,
        "",
        "a*b",
    ]
    texts += ["İ" * 5000, "\ud800", "a\nb", 1e308, -0.0, True, None, 10**400, ["a"] * 1000, {}]
    payloads = [json.dumps({"text": text, "n": {"id": text}}) for text in texts]
    payloads += ['{"text":' + "1" * 5000 + "}", '{"text":1e999999}', '{"text":NaN}', '{"text":'] * 1
    payloads += ['{"text":' + "[" * 900 + "]" * 900 + "}", "[" * 5000, '{"text":"x","text":"y"}']
    failures = [make_failure(cause=f"c{n}", message="a" * n, code="9" * 200) for n in (0, 5, 2000)]
    dead = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "finished": START}
    made: list[Job] = []
    for number, payload in enumerate(payloads):
        tags = ("9" * 60, "a" * 60) if number % 2 else ()
        job = make_job(
            f"JOB{number:04d}", payload=payload, handler="a" * 60 + str(number % 3), tags=tags
        )
        job = replace(job, lane="mail", key="a" * 100 + str(number), release="1." + "0" * 200)
        made.append(replace(job, failure=failures[number % 3], **dead) if number % 3 else job)
    return made


TAME = ["a", "aa", "*", "*a*", "1", "9" * 28, "b", "İ", "2h", "null", "."]
NAMES = [*selectors.KNOWN[:-1], "payload.text", "payload.n.id", "payload.text.0", "payload.x.y.z"]
NAMES += ["payload." + "a." * 300 + "b", "payload.text." + "9" * 500]
FREE = [
    "payload.text",
    "payload.n.id",
    "error",
    "code",
    "key",
    "tag",
    "release",
    "text",
    "handler",
    "lane",
]
PIECES = [
    "a",
    "aa",
    "*",
    "**",
    "*a",
    "*a*a*a*a*a*a*b",
    "9" * 40,
    "1" * 1500,
    "-",
    ">",
    "<=",
    "=",
    ",",
    ".",
]
PIECES += [
    '"',
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
    "{",
    ":",
    " ",
]


def question(rng: random.Random) -> str:
    """Make up a selector."""
    words: list[str] = []
    for _ in range(rng.choice([1, 1, 1, 2, 3, 60])):
        pieces = PIECES if rng.random() < 0.3 else TAME
        value = "".join(rng.choices(pieces, k=rng.randint(1, 6)))
        quote = rng.choice(["", "", '"'])
        sign = rng.choice(["", "", "", "", "", ">", "<", ">=", "<=", "="])
        name = rng.choice([*NAMES, *FREE * 3, "", "nonsense"])
        minus = rng.choice(["", "", "-"])
        words.append(
            f"{minus}{name}{':' if name else ''}{quote}{'' if quote else sign}{value}{quote}"
        )
    return " ".join(words)


@contextlib.contextmanager
def stores(*, postgres: bool) -> Iterator[dict[str, Redrive]]:
    with tempfile.TemporaryDirectory() as folder:
        urls = {"memory": "memory:", "sqlite": f"{folder}/x.db", "jsonl": f"jsonl:{folder}/x.jsonl"}
        if postgres:
            urls["postgres"] = pgkit.url_of(pgkit.new_schema())
        apps = {kind: Redrive(url, clock=ManualClock(START + 99)) for kind, url in urls.items()}
        for app in apps.values():
            app.store.add(hostile_jobs())
        try:
            yield apps
        finally:
            for app in apps.values():
                app.close()


class Rig:
    """Asks, measures and compares."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.problems: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.longest = (0.0, "")

    def ask(self, app: Redrive, words: str, *, reveal: bool) -> object:
        """Ask one store; what it answers, or that it refuses."""
        began = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, BOUND)
        try:
            found: object = [job.id for job in app.desk.jobs.find(words, reveal=reveal).jobs]
        except UsageError:
            found = "refused"
        except TooSlow:
            self.problems["takes too long"] += 1
            return "slow"
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what the rig looks for
            self.problems[f"raises {type(error).__name__}: {error!s:.80} for {words!r:.120}"] += 1
            return "raised"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self.longest = max(self.longest, (time.process_time() - began, words[:80]))
        return found

    def fuzz(self, apps: dict[str, Redrive], number: int) -> None:
        """Ask all stores the same; they must agree."""
        fixed = ["payload.text:*a*a*a*a*a*a*b", "payload.text:>" + "1" * 1900, "payload.text:>1"]
        fixed += [
            "handler:" + "*a" * 19 + "*b",
            "error:" + "*a" * 19 + "*b",
            'text:"aaaab"',
            "key:*a*b*",
        ]
        for words in [*fixed, *(question(self.rng) for _ in range(number))]:
            reveal = self.rng.random() < 0.5
            answers = {kind: self.ask(app, words, reveal=reveal) for kind, app in apps.items()}
            self.answers["refused" if "refused" in answers.values() else "answered"] += 1
            if len({str(answer) for answer in answers.values()}) > 1:
                self.problems[f"stores differ on {words!r:.120}: {answers!s:.300}"] += 1
            if self.problems["takes too long"] > 2:
                return

    def compare(self, number: int) -> None:
        """Compare answers on small texts with those of a matcher that tries everything."""
        app = Redrive("memory:", clock=ManualClock(START))
        texts = ["".join(self.rng.choices("ab1", k=self.rng.randint(0, 7))) for _ in range(40)]
        app.store.add(
            [
                make_job(f"JOB{n:04d}", payload=json.dumps({"t": text}))
                for n, text in enumerate(texts)
            ]
        )
        for _ in range(number):
            pattern = "".join(self.rng.choices("ab1**", k=self.rng.randint(1, 7)))
            found = {job.id for job in app.desk.jobs.find(f"payload.t:{pattern}").jobs}
            right = {f"JOB{n:04d}" for n, text in enumerate(texts) if naive(pattern, text)}
            if found != right:
                self.problems[f"{pattern!r} finds the wrong jobs"] += 1
        app.close()


def naive(pattern: str, text: str) -> bool:
    """Try everything a star may stand for."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(naive(pattern[1:], text[at:]) for at in range(len(text) + 1))
    return bool(text) and pattern[0] == text[0] and naive(pattern[1:], text[1:])


def serve_under_attack(rig: Rig, seconds: float) -> None:
    """Ask a real server the worst, by eight clients; the probe must answer, and SIGTERM must end it."""
    with tempfile.TemporaryDirectory() as folder:
        place = f"{folder}/x.db"
        with Redrive(place) as app:
            big = json.dumps({"text": "a" * 3000})
            app.store.add([make_job(f"JOB{n:05d}", payload=big) for n in range(2000)])
        command = [
            sys.executable,
            "-m",
            "redrive",
            "serve",
            "--no-auth",
            "--port",
            "0",
            "--store",
            place,
        ]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        base = server.stderr.readline().split()[-1]
        over = threading.Event()

        def attack() -> None:
            worst = [
                "payload.text:*a*a*a*a*a*a*b",
                '"' + "a" * 500 + 'b"',
                "-payload.text:>1" + "1" * 25,
            ]
            while not over.is_set():
                for words in worst:
                    with contextlib.suppress(OSError, urllib.error.URLError):
                        url = f"{base}/api/v1/jobs?q={urllib.parse.quote(words)}"
                        urllib.request.urlopen(url, timeout=60).read()  # noqa: S310 - our own server

        clients = [threading.Thread(target=attack, daemon=True) for _ in range(8)]
        for client in clients:
            client.start()
        waits: list[float] = []
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                began = time.monotonic()
                with urllib.request.urlopen(f"{base}/healthz", timeout=30) as answer:  # noqa: S310
                    answer.read()
                waits.append(time.monotonic() - began)
                time.sleep(0.05)
            began = time.monotonic()
            server.terminate()
            server.wait(30)
            waits.sort()
            print(
                f"{len(waits)} probes under attack: median {waits[len(waits) // 2] * 1000:.0f} ms, "
                f"longest {waits[-1] * 1000:.0f} ms; ended {time.monotonic() - began:.1f} s after SIGTERM"
            )
            if waits[-1] > PROBE:
                rig.problems[f"a probe took {waits[-1]:.1f} s"] += 1
        except (OSError, subprocess.TimeoutExpired) as error:
            rig.problems[f"the server under attack: {error}"] += 1
        finally:
            over.set()
            server.kill()
            server.wait()


def regular(pattern: str, text: str) -> bool:
    """Match by a regular expression."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def converting(text: str) -> list[tuple[int, int | str]]:
    """Convert digits of any length."""
    parts = re.findall(r"\d+|[^\W\d_]+", text)
    return [(1, int(part)) if part.isdecimal() else (0, part) for part in parts]


def hasty(pattern: str, text: str) -> bool:
    """Take each part where it occurs, in whatever order."""
    return all(part in text for part in pattern.split("*"))


CONTROLS: list[tuple[str, str, Callable[..., Any]]] = [
    ("takes too long", "matches", regular),
    ("raises ValueError", "_version", converting),
    ("finds the wrong jobs", "matches", hasty),
]


def control(rng: random.Random) -> bool:
    """Whether each broken build is found out."""
    held = True
    for words, attribute, broken in CONTROLS:
        rig = Rig(rng)
        with mock.patch.object(selectors, attribute, broken), stores(postgres=False) as apps:
            rig.fuzz({"memory": apps["memory"]}, 40)
            rig.compare(300)
        problems = [one for one in rig.problems if words in one]
        print(f"{broken.__name__}: {problems[0] if problems else 'NOT FOUND OUT'}", flush=True)
        held &= bool(problems)
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="200 questions")
    parser.add_argument("--control", action="store_true", help="broken builds must be found out")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    given = parser.parse_args()
    rng = random.Random(given.seed)
    print(f"seed {given.seed}")
    signal.signal(signal.SIGVTALRM, _alarm)
    if given.control:
        return 0 if control(rng) else 1
    rig = Rig(rng)
    with stores(postgres=True) as apps:
        rig.fuzz(apps, 200 if given.short else 20_000)
    rig.compare(1000 if given.short else 50_000)
    print(f"{sum(rig.answers.values()):,} questions of 4 stores: {dict(rig.answers)}")
    print(f"the longest took {rig.longest[0]:.2f} s of CPU: {rig.longest[1]!r}")
    serve_under_attack(rig, 8.0 if given.short else 60.0)
    print(*(f"PROBLEM {count} x {what}" for what, count in rig.problems.items()), sep="\n")
    return 1 if rig.problems else 0


if __name__ == "__main__":
    sys.exit(main())
