"""Everything works behind a pooler in transaction mode, which gives each transaction another session.

python rigs/pooler.py            the contract suite, the tests of PostgreSQL, and a crowd
python rigs/pooler.py --short    a crowd, and a part of the tests
python rigs/pooler.py --control  a build that keeps statements in its session: must be found out
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import crowd
import pooled
from scene import verdict

ROOT = Path(__file__).resolve().parents[1]

SHORT = "tests/stores/contract/test_fence.py tests/stores/contract/test_claim.py tests/stores/contract/test_add.py"
FULL = "tests/stores/contract tests/stores/postgres"
LEFT_OUT = ("test_lost_commits", "test_opening", "test_listen", "test_listening")
"""Not asked: the first two bring a proxy or users of their own, past the pooler; and hints do not come
through one in this mode, so that workers behind it find new jobs by looking (F30)."""


def suite(paths: str) -> bool:
    """Run tests of the PostgreSQL store through the pooler; whether all passed."""
    began = time.monotonic()
    chosen = " and ".join(["postgres", *(f"not {name}" for name in LEFT_OUT)])
    options = ["-q", "-p", "pooled", "-p", "no:cacheprovider", "-k", chosen]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *paths.split()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"rigs:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    words = done.stdout.strip().splitlines()[-1:] or ["no word"]
    print(f"pooler postgresql: tests: {words[0]}, {time.monotonic() - began:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout[-5000:], done.stderr[-5000:], sep="\n")
    return done.returncode == 0


def main() -> int:
    """Read the command line and run; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    pooled.install()
    if given.control:
        return 1 if verdict(crowd.rig, "pooler", "postgresql", 5, "prepared") else 0
    held = [
        verdict(crowd.rig, "pooler", "postgresql", 10 if given.short else 200),
        suite(SHORT if given.short else FULL),
    ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
