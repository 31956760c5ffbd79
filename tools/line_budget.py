"""Compare the lines of source with the budget in pyproject.toml; raising it takes a line in an ADR."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lines(suffix: str) -> int:
    files = (ROOT / "src").rglob(f"*{suffix}")
    return sum(len(path.read_text("utf-8").splitlines()) for path in files)


def main() -> int:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    budget = settings["tool"]["line-budget"]
    found = {"python": lines(".py"), "sql": lines(".sql")}
    for kind, most in budget.items():
        print(f"{kind}: {found[kind]:,} of {most:,} lines")
    over = [kind for kind, most in budget.items() if found[kind] > most]
    if over:
        print(f"over the budget: {', '.join(over)}; remove code before you add more")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
