"""A table tried in one test tells of every row that fails, and gives each row what is its own."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from tablekit import each_row


def test_every_row_is_tried_and_each_that_fails_is_told_with_its_row() -> None:
    tried: list[int] = []

    @each_row("number", [1, 2, 3])
    @each_row("text, fails", [("a", False), ("b", True)])
    def table(number: int, text: str, *, fails: bool) -> None:
        tried.append(number)
        with pytest.raises(ValueError, match="x") if fails and number > 1 else nullcontext():
            pass

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows") as caught:
        table()
    assert tried == [1, 1, 2, 2, 3, 3]
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["in row 1: (2,)"],
        ["in row 2: (3,)"],
    ]


@each_row("name", ["a", "b"])
def test_a_row_has_its_own_directory_and_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "OF_A_ROW" not in os.environ
    monkeypatch.setenv("OF_A_ROW", name)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).touch()
