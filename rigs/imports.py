"""An import is killed with SIGKILL at random moments and run again until it ends.

    python rigs/imports.py             60 rounds of 4,000 rows on each store, up to 3 kills a round
    python rigs/imports.py --short     3 rounds of 1,500 rows
    python rigs/imports.py --control   imports that are broken on purpose: each must be found out

One row in fifty cannot be read. At the end every other row is one job that is what its row says, the
bad ones are in the last quarantine file, and one more import adds nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

from scene import KINDS, place

from redrive import Redrive

STATES = {"失敗": "dead", "待ち": "pending", "完了": "completed"}
AT = 1_700_100_000
PATIENCE = 300.0
Row = dict[str, str]


def to_job(row: Row) -> dict[str, Any]:
    """Make a job of a row; the imports below name this function."""
    payload = {"to": row["宛先"], "text": row["本文"]}
    due = AT + int(row["番号"])
    fields = {"key": row["番号"], "handler": "mail", "payload": payload, "due": due}
    return {**fields, "state": STATES[row["状態"]], "attempts": int(row["試行"]), "created": AT}


def rows(number: int, rng: random.Random) -> list[Row]:
    """Make the rows; one in fifty has a state that is unknown."""
    states = [*STATES]
    return [
        {
            "番号": str(n),
            "宛先": f"u{n}@example.org",
            "本文": "雪" * (n % 50),
            "試行": str(n % 4),
            "状態": "謎" if rng.random() < 0.02 else rng.choice(states),
        }
        for n in range(number)
    ]


def start(source: Path, url: str, broken: str) -> subprocess.Popen[str]:
    """Start an import in a process of its own."""
    words = ["import", source.name, "--with", "imports:to_job", "--store", url, "--json", "--quiet"]
    command = [sys.executable, __file__, "--as-import", broken, *words]
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, stdout=pipe, stderr=null, text=True, cwd=source.parent)


def to_the_end(source: Path, url: str, broken: str) -> dict[str, Any]:
    """Import to the end; return the summary."""
    out, _ = start(source, url, broken).communicate(timeout=PATIENCE)
    return json.loads(out).get("data") or {}


def faults(source: Path, url: str, made: list[Row], broken: str) -> list[str]:
    """Compare the store and the quarantine file with the rows, and import once more."""
    found: list[str] = []
    aside = max(source.parent.glob("*.bad*"), key=lambda file: file.stat().st_mtime_ns)
    bad = [json.loads(line)["record"] for line in aside.read_text("utf-8").splitlines()]
    if bad != [row for row in made if row["状態"] not in STATES]:
        found.append(f"{len(bad)} rows in quarantine are not the bad ones")
    wanted = sorted(
        (row["番号"], fields["payload"], fields["state"], fields["attempts"], fields["due"])
        for row in made
        if row["状態"] in STATES and (fields := to_job(row))
    )
    with Redrive(url) as app:
        jobs = list(app.desk.jobs.each())
    got = [(job.key, json.loads(job.payload), job.state, job.attempts, job.due) for job in jobs]
    if sorted(got, key=lambda one: str(one[0])) != sorted(wanted, key=lambda one: one[0]):
        found.append(f"{len(got)} jobs, {len({*map(str, got)})} different, of {len(wanted)} rows")
    again = to_the_end(source, url, broken)
    if (again.get("added"), again.get("known")) != (0, len(wanted)):
        found.append(f"one more import: {again.get('added')} added, {again.get('known')} known")
    return found


def one_round(url: str, number: int, rng: random.Random, broken: str) -> tuple[int, list[str]]:
    """Import new rows with kills; return how many hit, and the faults."""
    with tempfile.TemporaryDirectory(prefix="redrive-import-") as folder:
        source = Path(folder) / "old.csv"
        made = rows(number, rng)
        with source.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [*made[0]])
            writer.writeheader()
            writer.writerows(made)
        hits = 0
        for _ in range(rng.randint(1, 3)):
            process = start(source, url, broken)
            wanted, until = rng.randrange(0, number), time.monotonic() + PATIENCE
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
    if given.control:
        missed = [name for name in BROKEN if not run("sqlite", 5, 1500, name)]
        print(*(f"NOT FOUND OUT: {name}\n" for name in missed), sep="", end="")
        return 1 if missed else 0
    rounds, number = (3, 1500) if given.short else (60, 4000)
    held = [run(kind, rounds, number) for kind in given.stores or list(KINDS)]
    return 0 if all(held) else 1


def no_key() -> None:
    """Give each job an id of chance and no key: a second import adds all again."""
    from redrive.desk import importing  # noqa: PLC0415 - only in a broken import
    from redrive.jobs.ids import new_id  # noqa: PLC0415
    from redrive.jobs.records import evolve  # noqa: PLC0415

    checked = importing.checked
    importing.checked = lambda job: evolve(checked(job), id=new_id(), key=None)


def resumes_by_count() -> None:
    """Skip as many rows as there are jobs: bad ones among them are never put aside."""
    from redrive.desk import importing  # noqa: PLC0415 - only in a broken import

    whole = importing.stored

    def resumed(store: Any, found: Any, **options: Any) -> Any:
        done = sum(count.jobs for count in store.counts())
        return whole(store, islice(found, done, None), **options)

    importing.stored = resumed


BROKEN = {one.__name__: one for one in (no_key, resumes_by_count)}


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
