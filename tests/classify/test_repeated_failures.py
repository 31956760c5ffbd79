"""What is remembered of one failure changes nothing about the next: the same text, masked the same."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from redrive.classify import classify as read
from redrive.classify import clues, fingerprint, judge, statements
from redrive.classify.fingerprint import _digest, _title
from redrive.classify.message_text import _word
from redrive.jobs.job import Failure


def forget() -> None:
    for module in (clues, fingerprint, judge, statements):
        module._KNOWN.clear()
    for cached in (_digest, _title, _word, statements._parsed):
        cached.cache_clear()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


def fail(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as again:  # noqa: BLE001 - also what is no Exception
        return again


def test_secrets_of_one_job_are_neither_shown_nor_masked_for_another() -> None:
    def work(word: str) -> None:
        raise ValueError(f"no {word} and no blue-horse")

    def failure(word: str, *secrets: str) -> Failure:
        with pytest.raises(ValueError, match="blue-horse") as caught:
            work(word)
        return read(caught.value, secrets=secrets)

    plain = failure("green-snake")
    masked = failure("green-snake", "blue-horse")
    again = failure("green-snake")
    assert "blue-horse" not in repr(masked)
    assert masked.message == "no green-snake and no •••"
    assert again == plain
    assert masked.fingerprint == plain.fingerprint


def test_no_error_is_kept_alive() -> None:
    class Mine(Exception):
        pass

    error = fail(Mine("x"))
    gone = weakref.ref(error)
    read(error)
    read(error)
    del error
    gc.collect()
    assert gone() is None
