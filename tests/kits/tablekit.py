"""A table as one test: every row is tried, and those that fail are reported together."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest


def each_row(
    names: str, rows: Iterable[Any], **fresh: Callable[[], AbstractContextManager[Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Try the test with each row, as `parametrize` does, but as one test.

    Fixtures are the same for all rows, but for the directory and what is said to be made afresh.
    """
    columns = [name.strip() for name in names.split(",")]
    table = [row if len(columns) > 1 else (row,) for row in rows]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        wanted = signature.parameters

        @functools.wraps(test)
        def every_row(*own: Any, **fixtures: Any) -> None:
            assert table, "a table without rows"
            errors: list[BaseException] = []
            for number, row in enumerate(table):
                values = fixtures | dict(zip(columns, row, strict=True))
                with pytest.MonkeyPatch.context() as monkeypatch, ExitStack() as stack:
                    values |= {name: stack.enter_context(make()) for name, make in fresh.items()}
                    if "monkeypatch" in wanted:
                        values["monkeypatch"] = monkeypatch
                    if "tmp_path" in wanted:
                        values["tmp_path"] = Path(fixtures["tmp_path"], str(number))
                        values["tmp_path"].mkdir()
                    if "capsys" in wanted:
                        fixtures["capsys"].readouterr()
                    if "caplog" in wanted:
                        fixtures["caplog"].clear()
                    try:
                        test(*own, **values)
                    except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:  # noqa: BLE001 - all are told
                        error.add_note(f"in row {number}: {row!r}"[:500])
                        errors.append(error)
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(table)} rows", errors)

        left = [
            one for name, one in wanted.items() if name not in {*columns, *fresh, "monkeypatch"}
        ]
        every_row.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return every_row

    return decorate
