"""Measure an import of many records of each format: `python tests/desk/transfer/large.py [NUMBER] [STORE]`.

For each format it writes a file of that many records, imports it in a process of its own into a new
store, twice, and prints seconds and the process's largest memory, beside those of a hundredth.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
sys.path.append(str(Path(__file__).parents[2] / "kits"))

from exchangekit import MAKERS, queue

PROGRAM = (
    "import re, sys; from redrive.cli import main\n"
    "try: main()\n"
    "finally: print(re.search('VmHWM:.*?(\\\\d+)', open('/proc/self/status').read())[1],"
    " file=sys.stderr)"
)
"""The peak since the program started: `ru_maxrss` has that of the process that started it as well."""


def write(place: Path, name: str, number: int) -> None:
    with place.open("w", encoding="utf-8") as file:
        head, tail = json.dumps(queue(), indent=2).split("[]", 1)
        file.write(f"{head}[\n" if name == "articles" else "")
        for one in range(number):
            comma = ",\n" if name == "articles" and one else ""
            file.write(comma + json.dumps(MAKERS[name](one)))
            file.write("\n" if name != "articles" else "")
        file.write(f"]{tail}" if name == "articles" else "")


def run(*words: str) -> tuple[float, int, dict[str, int]]:
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words, "--json", "--quiet"],
        capture_output=True,
        text=True,
        check=True,
    )
    took = time.perf_counter() - start
    return took, int(done.stderr.split()[-1]) // 1024, json.loads(done.stdout)["data"]


def main(number: int, kind: str) -> None:
    for name in MAKERS:
        for many in (number // 100, number):
            with tempfile.TemporaryDirectory() as folder:
                place, store = Path(folder) / "f", f"{kind}:{folder}/store"
                write(place, name, many)
                subprocess.run(
                    [sys.executable, "-m", "redrive", "init", "--store", store],
                    check=True,
                    capture_output=True,
                )
                words = ("import", str(place), "--assume-tz", "UTC", "--force", "--store", store)
                took, peak, told = run(*words)
                again, most, second = run(*words)
                assert (told["added"], second["known"]) == (many, many)
                size = place.stat().st_size / 1e6
                print(  # noqa: T201 - it is for people
                    f"{name:10} {many:8,} records {size:7.1f} MB: {took:6.1f} s, {peak:4} MiB;"
                    f" again {again:6.1f} s, {most:4} MiB",
                    flush=True,
                )


if __name__ == "__main__":
    main(int((sys.argv[1:2] or ["200000"])[0]), (sys.argv[2:3] or ["sqlite"])[0])
