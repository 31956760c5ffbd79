"""Run every rig in its full form, one after the other, and say which failed.

    python rigs/run.py          all of them; takes some minutes
    python rigs/run.py --list   what there is

Each rig prints its figures and has a negative control: a build that is broken on purpose and must be
found out. A rig that cannot fail proves nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable

RIGS: dict[str, tuple[dict[str, str], list[str]]] = {
    "machine": ({}, [PYTHON, "rigs/machine.py"]),
    "machine, control": ({}, [PYTHON, "rigs/machine.py", "--control"]),
    "journal, every byte": (
        {"REDRIVE_FULL": "1"},
        [PYTHON, "-m", "pytest", "-q", "-n", "2", "--timeout", "1800", "tests/journal"],
    ),
}


def main() -> int:
    """Run them all; gives the exit code."""
    if "--list" in sys.argv:
        print(*RIGS, sep="\n")
        return 0
    failed: list[str] = []
    for name, (environment, command) in RIGS.items():
        print(f"== {name}", flush=True)
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False)
        if done.returncode:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "every rig held")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
