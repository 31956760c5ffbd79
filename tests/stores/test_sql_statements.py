"""The SQL in files: a name means one statement, for one that means two is a bug in a rare command."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.stores.sql import tx


def test_two_statements_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "a.sql").write_text("-- name: one\n-- x\nSELECT 1\n", encoding="utf-8")
    monkeypatch.setattr(tx, "_HERE", tmp_path)
    assert tx.load_queries("odd") == {"one": "SELECT 1"}
    (tmp_path / "odd" / "b.sql").write_text("-- name: one\n-- y\nSELECT 2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="another statement named 'one'"):
        tx.load_queries("odd")


def test_every_statement_has_a_name_of_its_own() -> None:
    assert "enlist" in tx.load_queries("sqlite")
    assert "enlist" in tx.load_queries("postgres", schema="s", channel="c")
