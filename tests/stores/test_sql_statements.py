"""The SQL in files: a name means one statement, and a shared one is written for both dialects."""

from __future__ import annotations

from pathlib import Path

import pytest

from redrive.stores.sql import tx


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("shared", "sqlite", "postgres"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tx, "_HERE", tmp_path)
    return tmp_path


@pytest.mark.parametrize("other", ["shared/b.sql", "sqlite/b.sql"])
def test_two_statements_of_one_name_are_refused(folder: Path, other: str) -> None:
    (folder / "sqlite" / "a.sql").write_text("-- name: one -- x\nSELECT 1\n", encoding="utf-8")
    assert tx.load_queries("sqlite") == {"one": "SELECT 1"}
    (folder / other).write_text("-- name: one -- y\n-- z\nSELECT 2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="another statement named 'one'"):
        tx.load_queries("sqlite")


@pytest.mark.parametrize(
    ("shared", "sqlite", "postgres"),
    [
        ("SELECT x FROM {schema}.t WHERE y = ?", "SELECT x FROM s.t WHERE y = ?",
         "SELECT x FROM s.t WHERE y = %s"),
        ("x = coalesce(?::int8, x)", "x = coalesce(?, x)", "x = coalesce(%s::int8, x)"),
        ("n = ANY(?::int8[]) AND y = ?", "n IN (SELECT value FROM json_each(?)) AND y = ?",
         "n = ANY(%b::int8[]) AND y = %s"),
        ("INSERT INTO t VALUES (?::int8,\n    ?::text)", "INSERT INTO t VALUES (?,\n    ?)",
         "INSERT INTO t SELECT * FROM unnest(%b::int8[], %b::text[]) AS rows (column1, column2)"),
        ("INSERT INTO t VALUES (?, 0)", "INSERT INTO t VALUES (?, 0)", "INSERT INTO t VALUES (%s, 0)"),
    ],
)  # fmt: skip
def test_a_shared_statement_is_written_for_each_dialect(
    folder: Path, shared: str, sqlite: str, postgres: str
) -> None:
    (folder / "shared" / "a.sql").write_text(f"-- name: one\n-- x\n{shared}\n", encoding="utf-8")
    assert tx.load_queries("sqlite", schema="s")["one"] == sqlite
    assert tx.load_queries("postgres", schema="s")["one"] == postgres
