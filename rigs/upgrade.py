"""A store of an older Redrive is migrated while it is killed, and while an old worker works on it.

    python rigs/upgrade.py             200 kills of the migration of 12,000 jobs, on each store
    python rigs/upgrade.py --short     12 kills, 1,500 jobs
    python rigs/upgrade.py --control   a migration without its transaction: must be found out

The store is that of the tests, made by commit 1ad7865, with jobs added by that commit's own code (which
comes from the repository's history; without it only the jobs of the tests are there, and no old worker
runs). `redrive migrate` runs in a process that is killed with SIGKILL at a random moment, once it writes;
on PostgreSQL every other time its session is ended in its stead. It is run again until it ends. Then every job, group,
action, note and run must be as the old program saw it, and `verify` finds nothing.

An old worker runs slow jobs while its store is migrated: it stops claiming and says that a newer Redrive
wrote the store; a new worker beside it does all that is left, and no job counts a crash.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from broken import processes
from children import Crew, Line
from old_program import SLOW
from scene import KINDS

import pgkit
from redrive import Redrive, current
from redrive.jobs.job import State
from redrive.stores import open_store
from redrive.stores.contract import UPGRADED, Query
from stores.upgrade.contents import contents
from stores.upgrade.test_old_stores import RENAMED, differences

OLD = "1ad7865"
HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parent / "tests" / "stores" / "upgrade" / "stores"
NAMES = {"sqlite": "store.db", "jsonl": "store.jsonl", "postgresql": "store.sql"}
EVERYTHING = Query(states=frozenset(State), limit=1_000_000)
PATIENCE = 120.0
SCHEMA = "redrive"
SESSIONS = "FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"


@dataclass
class Findings:
    """What was seen on one kind of store."""

    rounds: int = 0
    kills: int = 0
    """Processes that were killed before they ended."""
    sessions: int = 0
    """Sessions of PostgreSQL that were ended amid a migration."""
    faults: list[str] = field(default_factory=list[str])


def exported(directory: Path) -> Path | None:
    """Write the source of the old commit into a directory; None if its history is not here."""
    archive = directory / "old.tar"
    words = ["git", "archive", "-o", str(archive), OLD, "src"]
    if subprocess.run(words, cwd=HERE.parent, check=False, capture_output=True).returncode:
        return None
    subprocess.run(["tar", "-x", "-f", str(archive), "-C", str(directory)], check=True)  # noqa: S607
    return directory / "src"


class OldRelease:
    """The program of the old commit, in processes of its own."""

    def __init__(self, source: Path) -> None:
        self._environment = {**os.environ, "PYTHONPATH": str(source)}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start it; what it says can be read."""
        command = [sys.executable, str(HERE / "old_program.py"), *words]
        return subprocess.Popen(
            command,
            env=self._environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str) -> str:
        """Run it to its end; returns what it printed."""
        with self.start(*words) as program:
            said, errors = program.communicate(timeout=PATIENCE)
        assert program.returncode == 0, f"the old program failed: {errors[-2000:]}"
        return said


class Master:
    """An old store, filled once and copied for every round."""

    def __init__(self, kind: str, directory: Path, old: OldRelease | None, jobs: int) -> None:
        self.kind = kind
        self._directory = directory / f"master-{kind}"
        self._directory.mkdir()
        self._numbers = itertools.count(1)
        self._databases: list[str] = []
        self.url = self._loaded()
        if old is None:
            self.seen: dict[str, Any] = json.loads((FIXTURES / "expected.json").read_text("utf-8"))
        else:
            if jobs:
                old.run("fill", self.url, str(jobs))
            self.seen = json.loads(old.run("dump", self.url))

    def _loaded(self) -> str:
        fixture = FIXTURES / NAMES[self.kind]
        if self.kind != "postgresql":
            copy = Path(shutil.copy(fixture, self._directory))
            copy.chmod(0o600)
            return f"{self.kind}:{copy}"
        name = self._database()
        text = fixture.read_text("utf-8").replace("{schema}", SCHEMA)
        with psycopg.connect(_url(name), autocommit=True) as connection:
            connection.execute(text.replace("{channel}", f"redrive_{SCHEMA}").encode())
        return f"{_url(name)}&schema={SCHEMA}"

    def _database(self, template: str = "template0") -> str:
        name = f"upgrade{os.getpid()}_{next(self._numbers)}"
        with pgkit.connect() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        self._databases.append(name)
        return name

    @contextlib.contextmanager
    def copied(self) -> Iterator[str]:
        """Copy the store; the copy is removed in the end."""
        if self.kind == "postgresql":
            name = self._database(self._databases[0])
            yield f"{_url(name)}&schema={SCHEMA}"
            self._drop(name)
            return
        copy = Path(f"{self._directory}-{next(self._numbers)}")
        shutil.copytree(self._directory, copy)
        yield f"{self.kind}:{copy / NAMES[self.kind]}"
        shutil.rmtree(copy)

    def _drop(self, name: str) -> None:
        self._databases.remove(name)
        with pgkit.connect() as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def close(self) -> None:
        """Remove what is on the server."""
        for name in list(self._databases):
            self._drop(name)


def _url(database: str) -> str:
    return pgkit.url_of().replace("/postgres?", f"/{database}?")


def migration(url: str, broken: str) -> subprocess.Popen[str]:
    """Start `redrive migrate`; broken on purpose, if asked to."""
    command = [sys.executable, "-m", "redrive"]
    if broken:
        command = [sys.executable, str(HERE / "upgrade.py"), "--as-migration", broken]
    return subprocess.Popen(
        [*command, "migrate", "--store", url],
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def migrated(url: str, broken: str, delays: Iterator[float], found: Findings) -> bool:
    """Migrate until it ends, cut short after these delays; False if it cannot any more."""
    for number, delay in enumerate(itertools.chain(delays, [PATIENCE])):
        with migration(url, broken) as process:
            wait_until_writing(url, process)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(delay)
            ended = 0
            if process.poll() is None and url.startswith("postgresql") and number % 2:
                ended = end_sessions(url)
                found.sessions += ended
                process.wait(PATIENCE)
            elif process.poll() is None:
                found.kills += 1
                process.kill()
                continue
            said = process.communicate(timeout=PATIENCE)[1]
            if process.returncode and ended and "cannot be reached" in said:
                continue  # amid its commit: it cannot know, says so, and is run again
            if process.returncode:
                found.faults.append(f"migrate failed: {said[-300:]}")
            return process.returncode == 0
    found.faults.append(f"migrate did not end in {PATIENCE:g} s")
    return False


def wait_until_writing(url: str, process: subprocess.Popen[str]) -> None:
    """Wait until a migration holds the store's lock, or has its transaction, or is over."""
    while process.poll() is None and not is_writing(url):
        time.sleep(0.001)


def is_writing(url: str) -> bool:
    """Return True while a process changes the store."""
    if url.startswith("postgresql"):
        busy = watcher().execute(f"SELECT {SESSIONS} AND xact_start < now()", (name_in(url),))
        return busy.rowcount > 0
    lock = Path(url.partition(":")[2] + ".lock")
    with contextlib.suppress(FileNotFoundError), lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@functools.cache
def watcher() -> psycopg.Connection[Any]:
    """Return a connection for what is asked often."""
    return pgkit.connect()


def end_sessions(url: str) -> int:
    """End the sessions of a database; returns how many there were."""
    with pgkit.connect() as connection:
        words = f"SELECT pg_terminate_backend(pid) {SESSIONS}"
        return connection.execute(words, (name_in(url),)).rowcount


def name_in(url: str) -> str:
    """Return the name of the database."""
    return url.partition("?")[0].rpartition("/")[2]


def compare(master: Master, url: str, found: Findings) -> None:
    """Compare a migrated store with what the old program saw."""
    with contextlib.closing(open_store(url, create=False)) as store:
        problems = store.verify().problems
        now = contents(store, EVERYTHING)
    found.faults += [f"verify: {one.where}: {one.what}" for one in problems[:3]]
    before = expected(master.seen)
    lost = sorted(before["jobs"].keys() - now["jobs"].keys())
    more = sorted(now["jobs"].keys() - before["jobs"].keys())
    found.faults += [f"{len(lost)} jobs are lost: {lost[:3]}"] if lost else []
    found.faults += [f"{len(more)} jobs came from nowhere: {more[:3]}"] if more else []
    for part in ("jobs", "groups", "acts", "notes", "runs"):
        found.faults += differences(before[part], now[part], part)[:3]


def expected(seen: dict[str, Any]) -> dict[str, Any]:
    """Return what an old program saw, as this version keeps it."""
    jobs = {
        one: {RENAMED.get(name, name): value for name, value in job.items()}
        | ({"holder": UPGRADED + job["holder"]} if job["holder"] else {})
        for one, job in seen["jobs"].items()
    }
    notes = {
        name: note | {"expires_in": None}
        if note["expires_in"] is None
        else {"value": note["value"]}
        for name, note in seen["notes"].items()
        if not name.startswith("group:")
    }
    return {**seen, "jobs": jobs, "notes": notes}


def killed_often(master: Master, kills: int, broken: str) -> Findings:
    """Migrate copies of a store until so many migrations were cut short."""
    found = Findings()
    with master.copied() as url, migration(url, broken) as process:
        wait_until_writing(url, process)
        began = time.monotonic()
        said = process.communicate(timeout=PATIENCE)[1]
        window = time.monotonic() - began
        if process.returncode:
            found.faults.append(f"migrate failed without a kill: {said[-500:]}")
            return found
        compare(master, url, found)
    while found.kills + found.sessions < kills and found.rounds < kills and not found.faults:
        found.rounds += 1
        delays = (window * random.uniform(0.0, 0.9) for _ in range(random.randint(1, 4)))
        with master.copied() as url:
            if migrated(url, broken, delays, found):
                compare(master, url, found)
    return found


def beside_an_old_worker(kind: str, directory: Path, old: OldRelease) -> Findings:
    """Migrate a store on which an old worker works, and let a new one do the rest."""
    found = Findings(rounds=1)
    with contextlib.ExitStack() as stack:
        master = Master(kind, directory, old, 0)
        stack.callback(master.close)
        url = stack.enter_context(master.copied())
        worker = stack.enter_context(old.start("work", url))
        assert worker.stdout is not None
        said = [worker.stdout.readline() for _ in range(7)]  # in the midst of its jobs
        migrated(url, "", iter(()), found)
        done: list[list[str]] = []
        crew = Crew(done.append)
        crew.join(crew.start(functools.partial(work_off, url)), seconds=PATIENCE)
        worker.kill()  # it would wait for its store for half a minute
        out, errors = worker.communicate(timeout=PATIENCE)
    _judge(found, [line.split() for line in [*said, *out.splitlines()]], errors, done)
    return found


def work_off(url: str, line: Line) -> None:
    """Be the new worker: do what is left, then tell what is stored."""
    app = Redrive(url, lease=2.0)

    @app.handler("rig.slow")
    def slow(number: int) -> None:  # noqa: ARG001
        line.tell("began", current().job_id)

    with app.worker(concurrency=2):
        end = time.monotonic() + PATIENCE / 2
        while any(job.state is not State.COMPLETED for job in _slow(app)):
            assert time.monotonic() < end, "the new worker does not come to an end"
            time.sleep(0.2)
    for job in _slow(app):
        history = app.get(job.id).history
        line.tell("job", job.id, job.crashes, sum(one.outcome == "done" for one in history))
    for problem in app.store.verify().problems:
        line.tell("problem", *problem.what.split())
    app.close()


def _slow(app: Redrive) -> list[Any]:
    return app.store.find(Query(handler="rig.slow", limit=1000)).jobs


def _judge(found: Findings, old: list[list[str]], errors: str, new: list[list[str]]) -> None:
    """Look at what both workers did."""
    ours = [words[1] for words in new if words[0] == "began"]
    theirs = [words[1] for words in old if words[0] == "began"]
    stored = {words[1]: words[2:] for words in new if words[0] == "job"}
    twice = set(ours) & set(theirs)
    found.faults += [" ".join(words) for words in new if words[0] in {"problem", "error"}]
    if "newer" not in errors:
        found.faults.append(f"the old worker does not say that the store is newer: {errors[-500:]}")
    if len(stored) != SLOW:
        found.faults.append(f"{SLOW} jobs were submitted, {len(stored)} are there")
    if len(twice) > 2:  # what ran when the store was migrated
        found.faults.append(f"{len(twice)} jobs ran in both workers")
    if len(theirs) > SLOW // 2 or not ours:
        found.faults.append(f"the old worker went on: it began {len(theirs)} jobs")
    found.faults += [
        f"{job} has {crashes} crashes and was done {done} times"
        for job, (crashes, done) in stored.items()
        if (crashes, done) != ("0", "1")
    ]


def report(name: str, found: Findings, began: float) -> None:
    """Print what came of it in one line, and the first faults."""
    print(
        f"upgrade {name}: {found.rounds} stores, {found.kills} migrations killed, {found.sessions} "
        f"sessions ended, {len(found.faults)} faults, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    print(
        *(fault[:300] for fault in found.faults[:5]),
        sep="\n",
        end="\n" if found.faults else "",
        flush=True,
    )


def run(kinds: list[str], jobs: int, kills: int, broken: str) -> bool:
    """Run it on these stores; returns whether all held, or whether a broken build was found out."""
    held = True
    with tempfile.TemporaryDirectory(prefix="redrive-upgrade-") as place:
        directory = Path(place)
        source = exported(directory)
        old = None if source is None else OldRelease(source)
        if old is None:
            print(f"commit {OLD} is not in this repository: without its jobs and its worker")
        for kind in kinds:
            began = time.monotonic()
            with contextlib.closing(Master(kind, directory, old, jobs)) as master:
                found = killed_often(master, kills, broken)
            report(f"{kind}{f' ({broken})' if broken else ''}", found, began)
            held &= bool(found.faults) is bool(broken)
            if old is not None and not broken:
                began = time.monotonic()
                beside = beside_an_old_worker(kind, Path(tempfile.mkdtemp(dir=place)), old)
                report(f"{kind}, beside an old worker", beside, began)
                held &= not beside.faults
    return held


def main() -> int:
    """Read the command line and run; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stores", nargs="*", help=f"of: {', '.join(KINDS)}; all if none is named")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    kinds = given.stores or list(KINDS)
    jobs, kills = (1500, 12) if given.short or given.control else (12_000, 200)
    if given.control:
        missed = [kind for kind in kinds if not run([kind], jobs, 20, "piecemeal")]
        print(*(f"NOT FOUND OUT: piecemeal on {kind}\n" for kind in missed), sep="", end="")
        return 1 if missed else 0
    return 0 if run(kinds, jobs, kills, "") else 1


def as_migration(broken: str, *words: str) -> None:
    """Be a process that migrates, broken on purpose."""
    processes.sabotage(broken)
    from redrive.cli import main as command  # noqa: PLC0415 - broken before it is loaded

    sys.argv = ["redrive", *words]
    command()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-migration"]:
        as_migration(*sys.argv[2:])
    else:
        sys.exit(main())
