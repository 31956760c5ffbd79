"""Evil handlers in whole workers: each comes to its own end, and every innocent job is done.

    python rigs/evil.py                      every handler in every mode, with 1 and 2 processes
    python rigs/evil.py --short              every handler at least once; for every change
    python rigs/evil.py --control            builds that are broken on purpose: must be found out
    python rigs/evil.py --only NAME,… [--mode async] [--processes 2]   some of them, each alone

EVIL_KEEP=DIRECTORY keeps the store and the log of lives that failed.

A cell is a handler of `evil_handlers.py`, a mode (thread, async, child) and a number of processes. A
life is one `redrive work` with a supervisor that serves one or several cells. Innocent jobs of all
modes are submitted before, between and after the evil ones, then one of each mode every second. The
rig keeps the ledger: nothing is lost, no innocent job dies or fails, each evil job has the end that
its row names, a last job of each mode is still served, SIGTERM ends everything within the grace, and
no process is left. The figures are the longest standstill (no innocent job was completed though some
waited) and the longest wait of one innocent job. The promise is a standstill of at most 10 s; since a
machine may be slow, the rig fails only beyond a multiple of what a life without evil needs there.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "kits"))

import evil_handlers
from broken import processes
from evil_handlers import MODES, ROWS

from crewkit import Crew
from redrive import Job, Redrive, State
from redrive.submission import Options

HERE = Path(__file__).resolve().parent
PROCESSES = (1, 2)
CELLS = list(itertools.product(MODES, PROCESSES))
PROMISE = 10.0
GRACE = 2.0
WATCHDOG = 5.0
"""Seconds of silence after which the supervisor replaces a process, where a handler freezes it."""
LIVES = 4
"""Lives at one time: most of them wait."""
KILLED_AFTER = 5.0
"""Seconds beyond the grace after which the supervisor kills."""
ALONE = ("tamper", "harm", "ruin", "kill", "freeze")
"""Groups whose handlers do not share a life in the full form; `freeze` never does."""
AGAIN = {"harm", "ruin", "kill", "freeze"}
"""Groups beside which an innocent job may run twice: its process ended."""
DWELL = 3.0
"""Seconds that a life goes on after the last evil job ended: some strike later."""
FEW_FILES = 200
"""Descriptors that a worker process has open at most, unless something leaks."""


@dataclass(frozen=True)
class Life:
    """What one worker lives through."""

    names: tuple[str, ...]
    mode: str
    processes: int
    broken: str = ""

    def __str__(self) -> str:
        what = self.names[0] if len(self.names) == 1 else f"{len(self.names)} handlers"
        return f"{what} × {self.mode} × {self.processes}{f' ({self.broken})' * bool(self.broken)}"

    @property
    def groups(self) -> set[str]:
        """The groups of its handlers."""
        return {ROWS[name].group for name in self.names}


@dataclass
class Scale:
    """How long things may take on this machine: `calm` is a life without evil, in seconds."""

    calm: float = 2.0
    patience: float = 120.0

    @property
    def standstill(self) -> float:
        """Seconds in which some innocent job must be completed."""
        return max(3 * PROMISE, 5 * self.calm)

    @property
    def end(self) -> float:
        """Seconds for three crashes or failures of everything in a life."""
        return max(self.patience, 10 * self.calm)


@dataclass
class Record:
    """What became of one life."""

    life: Life
    faults: list[str] = field(default_factory=list)
    cells: dict[str, str] = field(default_factory=dict)
    """The end of each evil handler."""
    innocents: int = 0
    again: int = 0
    standstill: float = 0.0
    longest: float = 0.0
    stopped: float = 0.0
    seconds: float = 0.0
    stale: bool = False
    """True if there was nothing to sabotage any more: then nothing was found out."""


class Ledger:
    """The jobs that were accepted, and when the rig saw each innocent one completed."""

    def __init__(self, app: Redrive) -> None:
        self.app = app
        self.evil: dict[str, str] = {}
        self.submitted: dict[str, float] = {}
        self.completed: dict[str, float] = {}
        self.standstill = 0.0
        self._moved = time.monotonic()

    def submit(self, handler: str) -> str:
        """Submit a job; return its id."""
        submitter, number = self.app.submitter, len(self.evil) + len(self.submitted)
        entry = submitter.registry.need(handler)
        return submitter.submit(entry, json.dumps({"number": number}), Options()).id

    def innocents(self, times: int = 1) -> list[str]:
        """Submit innocent jobs, one of each mode so many times."""
        ids = [self.submit(f"innocent.{mode}") for _ in range(times) for mode in MODES]
        self.submitted |= dict.fromkeys(ids, time.monotonic())
        return ids

    def look(self) -> dict[str, Job]:
        """Read the store; note who is completed now, and for how long nobody was."""
        jobs = {job.id: job for job in self.app.desk.jobs.each()}
        now = time.monotonic()
        done = {one for one in self.submitted if one in jobs and jobs[one].state == "completed"}
        if new := done - self.completed.keys():
            self.completed |= dict.fromkeys(new, now)
        waiting = self.submitted.keys() - self.completed.keys()
        since = max(self._moved, min((self.submitted[one] for one in waiting), default=now))
        self.standstill = max(self.standstill, now - since)
        if new or not waiting:
            self._moved = now
        return jobs

    def is_over(self, job: Job, mode: str) -> bool:
        """Return True if nothing more is expected of a job."""
        right = ROWS[self.evil[job.id]].ends[mode] if job.id in self.evil else ""
        return job.is_terminal or _end_of(job) in right.split("|")

    def started(self) -> None:
        """Count waits from now on: what was submitted before could not run."""
        self._moved = time.monotonic()
        self.submitted = dict.fromkeys(self.submitted, self._moved)

    def longest(self) -> float:
        """Return the seconds that the slowest innocent job took, or has waited up to now."""
        now = time.monotonic()
        return max(self.completed.get(one, now) - at for one, at in self.submitted.items())


def live(life: Life, scale: Scale) -> Record:
    """Let a worker live through it, and judge."""
    record, began = Record(life), time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="redrive-rig-"))
    mark = f"EVIL_LIFE={uuid.uuid4().hex}"
    url = f"sqlite:{directory}/jobs.db"
    more = dict([mark.split("=")]) | {"CREW_BROKEN": life.broken}
    if life.mode == "child":
        more["EVIL_LOOK"] = "1"
    options = ["--processes", str(life.processes), "--concurrency", "2", "--grace", f"{GRACE:g}s"]
    if "freeze" in life.groups:
        options += ["--watchdog", f"{max(WATCHDOG, 3 * scale.calm):.0f}s"]
    crew = Crew(directory, url, *options, program="evil_handlers:app", path=HERE, **more)
    try:
        with evil_handlers.build(url) as app:
            ledger = Ledger(app)
            _fill(ledger, life)
            crew.start()
            _await_start(crew, scale)
            ledger.started()
            _work_off(life, ledger, crew, scale, record)
            _probe(ledger, crew, scale, record, mark)
            _stop(crew, scale, record)
            _judge(life, ledger, crew, record)
        left = _left(mark, 5.0 + scale.calm)
        record.faults += [f"a process was left: {one}" for one in left.values()]
    finally:
        for pid in _left(mark, 0.0):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if crew.process is not None:
            crew.process.wait()
        record.seconds = time.monotonic() - began
        record.stale = processes.STALE in crew.log()
        if record.faults and (keep := os.environ.get("EVIL_KEEP")):
            shutil.copytree(
                directory, Path(keep) / str(life).replace(" × ", "-"), dirs_exist_ok=True
            )
        shutil.rmtree(directory, ignore_errors=True)
    return record


def _fill(ledger: Ledger, life: Life) -> None:
    """Submit innocent jobs before, between and after the evil ones."""
    ledger.innocents(3)
    for name in life.names:
        ledger.evil[ledger.submit(f"{name}.{life.mode}")] = name
        ledger.innocents()
    ledger.innocents(3)


def _await_start(crew: Crew, scale: Scale) -> None:
    """Wait until a handler began, or long enough."""
    end = time.monotonic() + scale.standstill
    while not crew.ran() and time.monotonic() < end:
        time.sleep(0.02)


def _work_off(life: Life, ledger: Ledger, crew: Crew, scale: Scale, record: Record) -> None:
    """Wait for the end of every job; meanwhile one innocent job of each mode comes every second."""
    falls = any(ROWS[name].fells for name in life.names)
    dwell = DWELL if life.groups & AGAIN else 0.5
    end, quiet = time.monotonic() + scale.end, time.monotonic() + dwell
    for turn in itertools.count(1):
        jobs = ledger.look()
        open_jobs = [job for job in jobs.values() if not ledger.is_over(job, life.mode)]
        if any(job.id in ledger.evil for job in open_jobs):
            quiet = time.monotonic() + dwell
        if (not open_jobs and time.monotonic() >= quiet) or time.monotonic() > end:
            return
        if ledger.standstill > 2 * scale.standstill:
            return  # nothing will change any more
        if crew.process is not None and (code := crew.process.poll()) is not None:
            if not falls:
                record.faults.append(f"the supervisor ended with code {code}")
            crew.start()
        if time.monotonic() < quiet and turn % 5 == 0:
            ledger.innocents()
        time.sleep(0.2)


def _probe(ledger: Ledger, crew: Crew, scale: Scale, record: Record, mark: str) -> None:
    """Submit one more job of each mode: the worker still serves."""
    ids, end = ledger.innocents(), time.monotonic() + scale.standstill
    while ledger.look() and not set(ids) <= ledger.completed.keys():
        if time.monotonic() > end:
            modes = [m for m, one in zip(MODES, ids, strict=True) if one not in ledger.completed]
            record.faults.append(f"at the end no job is served: {', '.join(modes)}")
            return
        if crew.process is not None and crew.process.poll() is not None:
            crew.start()
        time.sleep(0.1)
    files = [_files_of(pid) for pid in crew.workers()]
    record.faults += [f"{count} descriptors are open" for count in files if count > FEW_FILES]
    if record.life.mode == "child":
        strays = _left(mark, 5.0 + scale.calm, crew)
        record.faults += [f"a process outlived its handler: {one}" for one in strays.values()]


def _files_of(pid: int) -> int:
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return 0


def _stop(crew: Crew, scale: Scale, record: Record) -> None:
    """SIGTERM ends everything within the grace, and what the supervisor adds."""
    began = time.monotonic()
    assert crew.process is not None
    if crew.process.poll() is None:
        crew.terminate()
        limit = GRACE + KILLED_AFTER + max(5.0, 5 * scale.calm)
        with contextlib.suppress(Exception):
            code = crew.end(limit)
            record.faults += [f"after SIGTERM the exit code is {code}"] if code else []
        if crew.process.poll() is None:
            record.faults.append(f"alive {limit:.0f} s after SIGTERM")
    record.stopped = time.monotonic() - began


def _judge(life: Life, ledger: Ledger, crew: Crew, record: Record) -> None:
    """Compare the store with the ledger."""
    jobs = ledger.look()
    record.innocents = len(ledger.submitted)
    record.standstill, record.longest = ledger.standstill, ledger.longest()
    for job_id, name in ledger.evil.items():
        end = _end_of(jobs.get(job_id))
        record.cells[name] = end
        if end not in ROWS[name].ends[life.mode].split("|"):
            began = sum(one.job == job_id for one in crew.ran())
            record.faults.append(
                f"{name} must be {ROWS[name].ends[life.mode]} and is {end} after {began} starts"
            )
    found: Counter[str] = Counter()
    for job_id in ledger.submitted:
        found[_innocent_fault(ledger.app, jobs.get(job_id))] += 1
    runs = Counter(one.job for one in crew.ran("ended") if one.job in ledger.submitted)
    record.again = sum(runs.values()) - len(runs)
    if not life.groups & AGAIN:
        found["ran twice"] += sum(count > 1 for count in runs.values())
    del found[""]
    record.faults += [f"{count} innocent jobs: {what}" for what, count in found.items() if count]
    if unknown := jobs.keys() - ledger.evil.keys() - ledger.submitted.keys():
        record.faults.append(f"{len(unknown)} jobs that nobody submitted")


def _end_of(job: Job | None) -> str:
    if job is None:
        return "LOST"
    if job.state is State.COMPLETED:
        return "done"
    category = job.failure.category if job.failure else ""
    if job.state is not State.DEAD:
        words = f"{job.state} (attempts {job.attempts}, crashes {job.crashes})"
        return "waits" if category == "timeout" else words
    return {"crash": "crash", "timeout": "late"}.get(category, "failed")


def _innocent_fault(app: Redrive, job: Job | None) -> str:
    if job is None:
        return "LOST"
    if job.state is not State.COMPLETED:
        return f"{job.handler} is {job.state} after {job.crashes} crashes"
    failed = [
        one for one in getattr(app.store.get(job.id), "history", ()) if one.outcome == "failed"
    ]
    return f"{job.handler} failed before: {failed[0].failure.why[:100]}" if failed else ""


def _left(mark: str, patience: float, crew: Crew | None = None) -> dict[int, str]:
    """Return the processes with a mark, once there are none or after a while.

    With a crew that lives: without its supervisor, its workers and their children.
    """
    end = time.monotonic() + patience
    while True:
        found = {pid: (parent, words) for pid, parent, words in _marked(mark)}
        if crew is not None and found.pop(crew.pid, None):
            workers = {pid for pid, (_, words) in found.items() if " work " in words}
            found = {pid: one for pid, one in found.items() if not {pid, one[0]} & workers}
        if not found or time.monotonic() > end:
            return {pid: words for pid, (_, words) in found.items()}
        time.sleep(0.1)


def _marked(mark: str) -> Iterator[tuple[int, int, str]]:
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (place / "environ").read_bytes():
                words = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    yield int(place.name), int(parent), f"{state} {words[:90]}"


def full() -> list[Life]:
    """Every cell; handlers that cost the process live alone."""
    return [life for mode, n in CELLS for life in _lives(_rows_of(mode), mode, n, ALONE)]


def short() -> list[Life]:
    """Every handler in one mode with one number of processes, by its place in its group."""
    chosen: dict[tuple[str, int], list[str]] = {cell: [] for cell in CELLS}
    turns: dict[str, Iterator[tuple[str, int]]] = {}
    for name, row in ROWS.items():
        cells = [one for one in CELLS if name in _rows_of(one[0])]
        chosen[next(turns.setdefault(row.group, itertools.cycle(cells)))].append(name)
    return [
        life
        for (mode, processes), names in chosen.items()
        for life in _lives(names, mode, processes, ("freeze",))
    ]


def _rows_of(mode: str) -> list[str]:
    """Return the handlers that are survived in a mode."""
    return [name for name, row in ROWS.items() if mode == "child" or row.group != "ruin"]


def _lives(names: Sequence[str], mode: str, processes: int, alone: Sequence[str]) -> Iterator[Life]:
    shared: dict[str, list[str]] = {}
    for name in names:
        group = ROWS[name].group
        if group in alone or ROWS[name].fells:
            yield Life((name,), mode, processes)
        else:
            shared.setdefault(group, []).append(name)
    for many in shared.values():
        yield Life(tuple(many), mode, processes)


CONTROLS = (
    Life(("raises_keyboard_interrupt",), "thread", 1, "interruptible"),
    Life(("is_killed",), "thread", 1, "forgiving"),
    Life(("blocks",), "async", 1, "unwatched"),
    Life(("aborts",), "child", 1, "optimistic"),
    Life(("leaves_a_process",), "child", 1, "careless"),
    Life(("sets_the_umask",), "child", 1, "unaware"),
)
"""What must fail: a sabotage of `broken/workers.py`, and the cell that finds it out."""
CONTROL_RUNS = 5
"""So often a sabotage that was not found out is tried again."""


def run_all(lives: Sequence[Life], scale: Scale, at_once: int = LIVES) -> list[Record]:
    """Run lives, some at one time; print a line of each."""
    records: list[Record] = []
    slow = sorted(lives, key=lambda life: "freeze" not in life.groups)
    with ThreadPoolExecutor(at_once) as pool:
        for ended in as_completed([pool.submit(live, life, scale) for life in slow]):
            records.append(ended.result())
            _print(records[-1], scale)
    return records


def _print(record: Record, scale: Scale) -> None:
    late = record.standstill > scale.standstill
    if late:
        record.faults.append(f"nobody went on for {record.standstill:.0f} s")
    ends = Counter(record.cells.values())
    words = next(iter(ends)) if len(record.cells) == 1 else dict(ends)
    print(
        f"{'FAILED' if record.faults else 'held  '} {record.life!s:<48} {words}, "
        f"{record.innocents} innocent ({record.again} again), "
        f"standstill {record.standstill:.1f} s, longest wait {record.longest:.1f} s, "
        f"stopped in {record.stopped:.1f} s, {record.seconds:.0f} s in all",
        *(f"    {fault}" for fault in record.faults[:8]),
        sep="\n",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="every handler once")
    parser.add_argument("--control", action="store_true", help="broken builds must be found out")
    parser.add_argument("--only", default="", help="names of handlers, or groups, with commas")
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--lives", type=int, default=LIVES, help="so many at one time")
    parser.add_argument(
        "--patience", type=float, default=120.0, help="seconds for evil jobs to end"
    )
    given = parser.parse_args()
    calm = live(Life((), "thread", 1), Scale())
    scale = Scale(calm.seconds, given.patience)
    _print(calm, scale)
    if given.control:
        return control(scale)
    lives = short() if given.short else full()
    if given.only:
        names = [n for n, row in ROWS.items() if {n, row.group} & {*given.only.split(",")}]
        lives = [Life((n,), *cell) for n in names for cell in CELLS]
    lives = [one for one in lives if given.mode in {None, one.mode}]
    lives = [one for one in lives if given.processes in {None, one.processes}]
    began = time.monotonic()
    records = run_all(lives, scale, given.lives)
    if not given.short:
        table(records)
    return summary([calm, *records], time.monotonic() - began)


def summary(records: list[Record], seconds: float) -> int:
    cells = sum(len(record.cells) for record in records)
    bad = [record for record in records if record.faults]
    above = sum(record.standstill > PROMISE for record in records)
    print(
        f"{cells} cells in {len(records)} lives, {sum(r.innocents for r in records):,} innocent "
        f"jobs ({sum(r.again for r in records)} ran again), longest standstill "
        f"{max(r.standstill for r in records):.1f} s, {above} lives above {PROMISE:g} s, "
        f"{len(bad)} failed, {seconds:.0f} s"
    )
    return 1 if bad else 0


def table(records: list[Record]) -> None:
    """Print handler × mode × processes: its end and the longest standstill; `!` where it failed."""
    found = {
        (
            name,
            one.life.mode,
            one.life.processes,
        ): f"{end} {one.standstill:.1f}{'!' * bool(one.faults)}"
        for one in records
        for name, end in one.cells.items()
    }
    print(f"{'handler':<34}", *(f"{f'{mode} × {n}':<16}" for mode, n in CELLS))
    for name in dict.fromkeys(name for name, _, _ in found):
        print(f"{name:<34}", *(f"{found.get((name, *cell), '-')[:15]:<16}" for cell in CELLS))


def control(scale: Scale) -> int:
    """Return 0 if each broken build is found out."""
    missed: Sequence[Life] = CONTROLS
    for _ in range(CONTROL_RUNS):  # whether the next job gets the spoiled child is chance
        missed = [one.life for one in run_all(missed, scale) if not one.faults or one.stale]
    print(*(f"NOT FOUND OUT: {life}" for life in missed), sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
