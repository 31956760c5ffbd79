"""Measure Redrive beside raw limits and peers, in one run.

    python bench/run.py                      everything; writes docs/performance.md and its plot
    python bench/run.py --quick              a taste of everything, printed only
    python bench/run.py sqlite-submit import only these, printed only
    python bench/run.py --list               what there is

Peers that are not installed are left out and named; `make bench` installs them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import growth
import imports
import journal
import machine
import plot
import postgres
import report
import server
import sqlite
import worker
import worker_aside
import worker_latency
from measure import Measure, Result, Stage, measured

MEASURES: tuple[Measure, ...] = (
    sqlite.SUBMIT,
    sqlite.SHARED,
    sqlite.SETTLE,
    journal.SUBMIT,
    journal.SHARED,
    journal.SETTLE,
    journal.OPEN,
    postgres.SUBMIT,
    postgres.BULKS,
    *worker.MEASURES,
    *worker_latency.MEASURES,
    *worker_aside.MEASURES,
    imports.IMPORT,
    *growth.MEASURES,
)

TARGETS = (
    *("sqlite-submit", "sqlite-settle", "sqlite-drain", "sqlite-retry", "postgres-submit"),
    *("postgres-drain", "postgres-retry", "postgres-cpu", "postgres-latency"),
)
"""The measures that stores and worker are held to; `--targets` takes these."""

FULL = 1_000_000
"""Jobs in a full store."""

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Measure what was asked for, show it, and write the page if it is whole."""
    asked = _asked()
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)  # not after all that work
    chosen = [one for one in MEASURES if not asked.measure or one.name in asked.measure]
    if asked.list:
        for one in chosen:
            print(f"{one.name:20} {one.title}")
        return
    with tempfile.TemporaryDirectory(prefix="redrive-bench-", dir=asked.dir) as directory:
        facts = machine.facts(Path(directory))
    facts["a full store"] = f"{asked.jobs:,} jobs"
    results = [_measured(one, asked) for one in chosen]
    if any(one.name.startswith("postgres") for one in chosen):
        facts["PostgreSQL"] = server.version()
    print(report.goals(results))
    whole = not (asked.quick or asked.measure or asked.jobs < FULL)
    if place := asked.out or (DOCS if whole else None):
        (place / "performance.md").write_text(report.page(results, facts, asked.rounds), "utf-8")
        (place / "performance.svg").write_text(plot.svg(results), "utf-8")
        print(f"written: {place / 'performance.md'}")


def _measured(measure: Measure, asked: argparse.Namespace) -> Result:
    """Measure in a directory of its own, which is removed at once: some fill gigabytes."""
    print(f"… {measure.name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="redrive-bench-", dir=asked.dir) as directory:
        stage = Stage(Path(directory), asked.jobs, asked.quick)
        tries = 1 if asked.quick else asked.tries
        result = measured(measure, stage, rounds=asked.rounds, tries=tries)
    print(report.section(result), flush=True)
    return result


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [one.name for one in MEASURES]
    parser.add_argument("measure", nargs="*", choices=[*names, []], help="all, if none is named")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--targets", action="store_true", help=f"these: {', '.join(TARGETS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, one try")
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many (5)")
    parser.add_argument("--tries", type=int, default=3, help="again while it is noisy (3)")
    parser.add_argument("--jobs", type=int, help="in a full store (1,000,000; quick: 100,000)")
    parser.add_argument(
        "--dir", type=Path, help="the disk to measure; the temporary one if not said"
    )
    parser.add_argument("--out", type=Path, help="write the page there, whole or not")
    asked = parser.parse_args()
    if asked.targets:
        asked.measure = [*TARGETS, *asked.measure]
    asked.jobs = asked.jobs or (FULL // 10 if asked.quick else FULL)
    return asked


if __name__ == "__main__":
    main()
