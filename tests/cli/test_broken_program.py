"""A program that cannot be imported costs its jobs nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shopkit import Shop, name
from tablekit import each_row

BROKEN = {
    "no_such_library": "import not_there_at_all\n",
    "no_python": "def (:\n",
    "raises": "1 / 0\n",
    "no_app": "app = 7\n",
}


@each_row("module", BROKEN)
def test_when_the_program_cannot_be_imported_its_jobs_wait_unspent(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    """The error says what failed; nothing was claimed."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path(f"{module}.py").write_text(BROKEN[module])
    result = shop.run("work", f"{module}:app", "--once", "--ignore-backoff")
    assert result.exit_code in {1, 2}
    assert module in result.stderr
    with shop.app() as app:
        waiting, failed = app.get(name(5)), app.get(name(6))
    assert (waiting.state, waiting.attempts, waiting.lease) == ("pending", 0, 0)
    assert (failed.state, failed.attempts, failed.lease) == ("pending", 1, 1)
