"""Tracebacks as people know them, masked, bounded and without our own frames."""

from __future__ import annotations

import traceback

import pytest

from redrive.classify import classify
from tablekit import each_row


def fail(error: BaseException) -> None:
    local = "value-of-a-variable"
    assert local
    raise error


def caught(error: BaseException) -> BaseException:
    try:
        fail(error)
    except BaseException as again:  # noqa: BLE001 - also what is no Exception
        return again
    raise AssertionError


def raised_from(outer: BaseException, inner: BaseException | None) -> BaseException:
    try:
        try:
            fail(KeyError("first"))
        except KeyError:
            raise outer from inner
    except BaseException as again:  # noqa: BLE001
        return again


def during(outer: Exception) -> BaseException:
    try:
        try:
            fail(KeyError("first"))
        except KeyError:
            raise outer  # noqa: B904 - that is the case
    except BaseException as again:  # noqa: BLE001
        return again


def without_marks(text: str) -> str:
    """Leave out the lines that only point at a part of the line above."""
    return "".join(line for line in text.splitlines(keepends=True) if line.strip(" ~^\n"))


def noted() -> BaseException:
    error = ValueError("x")
    error.add_note("seen before")
    return caught(error)


@each_row(
    "error",
    [
        caught(ValueError("two\nlines")),
        caught(ValueError()),
        ValueError("never raised"),
        raised_from(RuntimeError("then"), caught(KeyError("cause"))),
        raised_from(RuntimeError("then"), None),
        during(RuntimeError("then")),
        noted(),
    ],
)
def test_reads_as_python_prints_it(error: BaseException) -> None:
    expected = "".join(traceback.format_exception(error))
    assert without_marks(classify(error).traceback) == without_marks(expected)


def test_shows_no_values_of_variables() -> None:
    text = classify(caught(ValueError("x"))).traceback
    assert text.count("value-of-a-variable") == 0
    assert "raise error" in text


def test_leaves_out_our_own_frames_above_the_handler() -> None:
    ours = {"__name__": "redrive.attempts.executions", "fail": fail}
    exec("def run(error):\n    fail(error)", ours)
    with pytest.raises(ValueError, match="x") as raised:
        ours["run"](ValueError("x"))  # type: ignore[operator]
    error = raised.value
    assert error.__traceback__ is not None
    error.__traceback__ = error.__traceback__.tb_next  # the test's own frame
    text = classify(error).traceback
    assert "in run" not in text
    assert "in fail" in text
    assert error.__traceback__ is not None
    error.__traceback__.tb_next = None
    assert "in run" in classify(error).traceback  # only ours: better than nothing


def test_long_recursion_and_long_text_keep_head_and_tail() -> None:
    def down(depth: int) -> None:
        if not depth:
            raise ValueError("bottom " + "x" * 5000)
        down(depth - 1)

    with pytest.raises(ValueError, match="bottom") as raised:
        down(200)
    text = classify(raised.value).traceback
    assert text.startswith("Traceback (most recent call last):\n")
    assert "frames left out" in text
    assert text.endswith("characters more)\n")


def test_a_huge_chain_is_cut_in_the_middle() -> None:
    error: BaseException = ValueError("first cause " + "a" * 3000)
    for _ in range(30):
        again = ValueError("b" * 3000)
        again.add_note("c" * 3000)
        again.__cause__ = error
        error = again
    text = classify(error).traceback
    assert len(text) <= 16384
    assert "characters left out" in text


def test_members_of_a_group_are_set_in_below_it() -> None:
    members = [caught(ValueError(f"member {number}")) for number in range(12)]
    text = classify(ExceptionGroup("several", members)).traceback  # type: ignore[type-var]
    assert "ExceptionGroup: several (12 sub-exceptions)\n" in text
    assert "  +---------------- 1 ----------------\n" in text
    assert "    | ValueError: member 0\n" in text
    assert text.count("  +---------------- ") == 10


def test_secrets_in_source_lines_are_masked() -> None:
    def call(*, api_key: str) -> None:
        raise ValueError(len(api_key))

    with pytest.raises(ValueError, match="16") as raised:
        call(api_key="0123456789abcdef")
    text = classify(raised.value, secrets=["0123456789abcdef"]).traceback
    assert "0123456789abcdef" not in text
    assert "in call" in text
