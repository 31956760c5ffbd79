"""What is remembered of one failure changes nothing about the next: the same text, masked the same."""

from __future__ import annotations

import errno
import gc
import weakref
from collections.abc import Iterator

import pytest

from redrive.classify import classify as read
from redrive.classify import clues, fingerprint, judge, statements
from redrive.classify.fingerprint import _digest, _title
from redrive.classify.message_text import _word
from redrive.jobs.job import Category, Failure
from redrive.policies.policy import when


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


def library(name: str) -> type[Exception]:
    package, _, last = name.rpartition(".")
    return type(last, (Exception,), {"__module__": package})


class Spoken(Exception):
    """Says what it means when it is asked, each time anew."""

    @property
    def redrive_category(self) -> str | None:
        return self.args[0] if self.args else None


def pairs() -> list[tuple[BaseException, BaseException]]:
    """Give errors of one class that mean different things, or say different words."""
    postgres, mail = library("psycopg.OperationalError"), library("smtplib.SMTPResponseException")
    caused = ValueError("one")
    caused.__cause__ = ConnectionResetError("peer")
    noted, told, grouped = ValueError("one"), ValueError("one"), ValueError("one")
    noted.add_note("seen before")
    vars(told).update(redrive_category="auth", retry_after=7)
    vars(grouped).update(redrive_group="mine")
    return [
        (ValueError("one"), ValueError("two")),
        (ValueError("one"), caused),
        (ValueError("one"), noted),
        (ValueError("one"), told),
        (ValueError("one"), grouped),
        (ValueError("one"), ValueError(ConnectionResetError("inside"))),
        (OSError(errno.ENOSPC, "full"), OSError(errno.EDQUOT, "full")),
        (OSError("bare"), OSError(errno.ENOSPC, "full")),
        (postgres("lost"), postgres("password authentication failed")),
        (mail(421, "busy"), mail(550, "nobody")),
        (Spoken("auth"), Spoken("quota")),
        (Spoken(), Spoken("quota")),
        (ExceptionGroup("two", [ValueError()]), ExceptionGroup("two", [ConnectionError()])),
    ]


def cold(error: BaseException, secrets: tuple[str, ...] = ()) -> Failure:
    forget()
    return read(error, secrets=secrets)


def test_each_reads_as_if_it_were_the_first() -> None:
    for pair in pairs():
        raised = [fail(error) for error in (*pair, *pair)]
        expected = [cold(error) for error in raised]
        forget()
        assert [read(error) for error in raised] == expected
        assert [read(error) for error in reversed(raised)] == expected[::-1]
        assert expected[0] != expected[1]


def test_rules_hold_for_what_was_seen_without_them() -> None:
    assert read(ValueError("x")).category is Category.UNKNOWN
    assert read(ValueError("x"), rules=[when(ValueError, "auth")]).category is Category.AUTH
    assert read(ValueError("x")).category is Category.UNKNOWN


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
