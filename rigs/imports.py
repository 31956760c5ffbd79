"""An import by a mapping is killed with SIGKILL at random moments and run again until it ends.

    python rigs/imports.py             60 rounds of 4,000 rows on each store, up to 3 kills a round
    python rigs/imports.py --short     3 rounds of 1,500 rows
    python rigs/imports.py --control   imports that are broken on purpose: each must be found out

The table has states in Japanese, a payload over six columns, epoch milliseconds beside ISO times, and
rows that cannot be read. At the end every readable row is one job with its state, payload, attempts and
times, every other row is in the quarantine file, and one more import adds nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from broken.imports import BROKEN
from scene import KINDS, place

from redrive import Redrive

STATES = {"失敗": "dead", "待ち": "pending", "完了": "completed"}
COLUMNS = (
    "番号",
    "宛先",
    "件名",
    "本文",
    "優先度",
    "金額",
    "言語",
    "試行",
    "状態",
    "作成",
    "次回ms",
)
PAYLOAD = dict(zip(("to", "subject", "body", "rank", "sum", "lang"), COLUMNS[1:7], strict=True))
MAP = {
    "key": "番号",
    **{f"payload.{name}": column for name, column in PAYLOAD.items()},
    "attempts": "試行",
    "state": "状態:" + ",".join(f"{word}={state}" for word, state in STATES.items()),
    "created": "作成",
    "due": "次回ms",
}
AT = 1_700_100_000
PATIENCE = 300.0
Row = tuple[Any, ...]


def rows(number: int, rng: random.Random) -> list[Row]:
    """Make the rows; one in fifty has a state that is not mapped, or a time that is none."""
    made: list[Row] = []
    for n in range(number):
        state, created = rng.choice([*STATES]), f"2023-11-14T22:{n % 60:02d}:20+00:00"
        if rng.random() < 0.02:
            state, created = rng.choice([("謎", created), (state, "yesterday")])
        about = (f"u{n}@example.org", f"件名 {n}", "雪" * (n % 50), n % 5, n / 4, "ja")
        made.append((n, *about, n % 4, state, created, (AT + n) * 1000))
    return made


def is_good(row: Row) -> bool:
    """Return True for a row that can be read."""
    return row[8] in STATES and row[9] != "yesterday"


def write(source: Path, made: list[Row]) -> None:
    """Write the table."""
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    with sqlite3.connect(source) as db:
        db.execute(f"CREATE TABLE queue ({names})")
        db.executemany(f"INSERT INTO queue VALUES ({', '.join('?' * len(COLUMNS))})", made)  # noqa: S608


def start(source: Path, url: str, broken: str) -> subprocess.Popen[str]:
    """Start an import in a process of its own."""
    words = ["--table", "queue", "--from", f"sqlite:{source}", "--store", url, "--handler", "mail"]
    words += [word for pair in MAP.items() for word in ("--map", "=".join(pair))]
    words += ["--quarantine", str(source.with_name("queue.bad")), "--force", "--json", "--quiet"]
    command = [sys.executable, __file__, "--as-import", broken, "import", *words]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=source.parent
    )


def to_the_end(source: Path, url: str, broken: str) -> dict[str, Any]:
    """Import to the end; return the summary."""
    process = start(source, url, broken)
    out, _ = process.communicate(timeout=PATIENCE)
    return {"exit": process.returncode, **(json.loads(out).get("data") or {})}


def faults(source: Path, url: str, made: list[Row], broken: str) -> list[str]:
    """Compare the store and the quarantine file with the table, and import once more."""
    good = {f"queue:{row[0]}": row for row in made if is_good(row)}
    found: list[str] = []
    with Redrive(url) as app:
        jobs = list(app.desk.jobs.each())
    keys = [job.key for job in jobs]
    found += [f"{len(keys)} jobs, {len({*keys})} keys, {len(good)} rows"] * (
        len(keys) != len(good) or {*keys} != {*good}
    )
    for job in jobs:
        row = good.get(job.key or "")
        if row is not None and (
            json.loads(job.payload) != dict(zip(PAYLOAD, row[1:7], strict=True))
            or (job.state, job.attempts, job.due) != (STATES[row[8]], row[7], AT + row[0])
        ):
            found.append(f"{job.key} is not what its row says")
    bad = source.with_name("queue.bad")
    lines = bad.read_text("utf-8").splitlines() if bad.exists() else []
    aside = sorted(json.loads(json.loads(line)["text"])["番号"] for line in lines)
    if aside != [row[0] for row in made if not is_good(row)]:
        found.append(f"{len(aside)} rows in quarantine, {len(made) - len(good)} are bad")
    again = to_the_end(source, url, broken)
    if (again.get("added"), again.get("known")) != (0, len(good)):
        found.append(f"one more import: {again}")
    return found


def one_round(url: str, number: int, rng: random.Random, broken: str) -> tuple[int, list[str]]:
    """Import a new table with kills; return how many hit, and the faults."""
    with tempfile.TemporaryDirectory(prefix="redrive-import-") as folder:
        source = Path(folder) / "old.db"
        made = rows(number, rng)
        write(source, made)
        hits = 0
        for _ in range(rng.randint(1, 3)):
            process = start(source, url, broken)
            wanted = rng.randrange(0, number)
            until = time.monotonic() + PATIENCE
            while process.poll() is None and stored(url) < wanted and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(rng.random() * 0.05)
            hits += process.poll() is None
            process.kill()
            process.communicate()
        to_the_end(source, url, broken)
        return hits, faults(source, url, made, broken)


def stored(url: str) -> int:
    """Return how many jobs are stored by now; 0 while there is no store."""
    try:
        with Redrive(url, create=False, read_only=True) as app:
            return sum(count.jobs for count in app.desk.jobs.counts())
    except Exception:  # noqa: BLE001 - it is just being made
        return 0


def run(kind: str, rounds: int, number: int, broken: str = "") -> bool:
    """Run it on one store; return True if it held, or if a broken import was found out."""
    rng, hits, found = random.Random(f"{kind}{broken}"), 0, list[str]()
    began = time.monotonic()
    for _ in range(rounds):
        with place(kind) as url:
            hit, wrong = one_round(url, number, rng, broken)
        hits, found = hits + hit, found + wrong
        if found:
            break
    took = time.monotonic() - began
    print(f"{kind:<11}{broken:<18}{hits} kills in {rounds} rounds of {number:,} rows, {took:.0f} s")
    print(*(f"  {fault}\n" for fault in found[:5]), sep="", end="", flush=True)
    return bool(found) if broken else not found and hits > 0


def main() -> int:
    """Read the command line and run; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stores", nargs="*", help=f"of: {', '.join(KINDS)}; all if none is named")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    kinds = given.stores or list(KINDS)
    if given.control:
        missed = [name for name in BROKEN if not run("sqlite", 5, 1500, name)]
        print(*(f"NOT FOUND OUT: {name}\n" for name in missed), sep="", end="")
        return 1 if missed else 0
    rounds, number = (3, 1500) if given.short else (60, 4000)
    held = [run(kind, rounds, number) for kind in kinds]
    return 0 if all(held) else 1


def as_import(broken: str, *words: str) -> None:
    """Be a process that imports, broken on purpose if that is asked for."""
    if broken:
        BROKEN[broken]()
    from redrive.cli import main as command  # noqa: PLC0415 - broken before it is loaded

    sys.argv = ["redrive", *words]
    command()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-import"]:
        as_import(*sys.argv[2:])
    else:
        sys.exit(main())
