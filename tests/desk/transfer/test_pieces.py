"""X1: files cut into records, however they are laid out and wherever they end."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from itertools import chain
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exchangekit import MAKERS, TOKYO, article, failure, file_of, hook, lines, queue
from redrive.desk.transfer.formats import pieces as cutting
from redrive.desk.transfer.formats.pieces import Piece, pieces
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.desk.transfer.importing import stored
from redrive.stores.memory import MemoryStore


def laid_out(*records: dict[str, object]) -> Iterator[bytes]:
    """The same records in every way in which a file may hold them."""
    yield lines(*records)
    yield lines(*records).rstrip(b"\n")
    yield b"\xef\xbb\xbf" + lines(*records)
    yield lines(*records).replace(b"\n", b"\r\n\r\n")
    for indent in (None, 2):
        yield json.dumps(records, indent=indent).encode()
    yield b"\n".join(json.dumps(one, indent=2).encode() for one in records)
    yield b"[\n" + b",\n".join(json.dumps(one).encode() for one in records) + b"\n]\n"


@pytest.mark.parametrize("maker", MAKERS.values())
@pytest.mark.parametrize("size", [1, 7, 1 << 18])
def test_records_are_found_however_they_are_laid_out(
    maker: object, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "_HEAD", 400)  # so that chunks come in the middle of everything
    records = [maker(number) for number in (1, 2, 3)]  # type: ignore[operator]
    for data in laid_out(*records):
        found = list(pieces(data[at : at + size] for at in range(0, len(data), size)))
        assert [json.loads(one.raw) for one in found] == records
        for one in found:
            assert data[one.offset :].startswith(one.raw)
            assert one.number == data[: one.offset].count(b"\n") + 1


@pytest.mark.parametrize("indent", [None, 2])
def test_items_are_found_in_their_frame_and_documents_under_their_names(indent: int | None) -> None:
    records = [article(1), article(2)]
    data = json.dumps(queue(*records), indent=indent).encode()
    assert [json.loads(one.raw) for one in pieces([data])] == records
    named = {f"f{number}": failure(number, failureId=None) for number in (1, 2)}
    for collection in (named, {"bigquerySyncFailures": named}):
        found = pieces([json.dumps(collection, indent=indent).encode()])
        assert {one.name: json.loads(one.raw) for one in found} == named


def told(data: bytes) -> tuple[int, list[bytes]]:
    """How many jobs a file gives, and what was put aside."""
    asked = TransferOptions(zone=lambda: TOKYO)
    fates = list(chain.from_iterable(stored(MemoryStore(), io.BytesIO(data), asked)))
    added = sum(one.fate == "added" for one in fates)
    return added, [one.raw for one in fates if one.fate == "bad"]


@pytest.mark.parametrize("name", MAKERS)
def test_a_file_cut_at_any_byte_loses_nothing_but_what_was_cut(name: str) -> None:
    records = [MAKERS[name](number) for number in (1, 2, 3)]
    data = file_of(name, *records)
    ends = [one.offset + len(one.raw.rstrip()) for one in pieces([data])]
    for at in range(len(data)):
        number, aside = told(data[:at])
        whole = sum(end <= at for end in ends)
        assert number == whole
        start = ends[whole - 1] if whole else 0
        rest = data[start:at].strip(b" \r\n,")
        if name == "articles" and at > ends[-1]:
            assert len(aside) == 1  # the frame is not closed
        elif rest and not (name == "articles" and rest == b"{"):
            assert len(aside) == 1
            assert data[:at].rstrip().endswith(aside[0].strip())


def test_a_bad_record_in_a_document_costs_itself_alone() -> None:
    good = json.dumps([hook(1), hook(2)])
    data = good.replace('"attemptsMade": 1', '"attemptsMade": "one"', 1).encode()
    assert told(data)[0] == 1
    assert len(told(data)[1]) == 1
    odd = good.replace('"state": "pending"', '"state": NaN', 1).encode()
    assert told(odd)[0] == 1


def test_where_brackets_do_not_match_the_rest_is_one_piece() -> None:
    first, second = json.dumps(hook(1)), json.dumps(hook(2))
    for data in (f"[{first} {second}]", f"[{first}}}, {second}]", f"[{first},, {second}]"):
        found = list(pieces([data.encode()]))
        assert found[0].raw.decode() == first
        assert sum(len(one.raw) for one in found[1:]) >= len(second)
        assert found[-1].trouble


def test_a_long_damaged_document_is_put_aside_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "LONGEST", 1000)
    data = b'[{"a":' + b"7" * 5000
    found = list(pieces([data]))
    assert b"".join(one.raw for one in found) == data[1:]
    assert {len(one.raw) for one in found[:-1]} == {1000}
    assert all(one.trouble for one in found)


def test_a_torn_line_before_whole_ones_costs_that_line() -> None:
    for torn in (b'{"jobId": "a", "data": {', b'{"jobId": "a",', b'{"jobId'):
        number, aside = told(torn + b"\n" + lines(hook(1), hook(2)))
        assert (number, aside) == (2, [torn + b"\n"])


bits = st.sampled_from(
    [
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"\\",
        b"\n",
        b" ",
        b"7",
        b'"a"',
        b"\xff",
        b'"items"',
    ]
)


@settings(max_examples=300)
@given(st.lists(bits, max_size=40).map(b"".join), st.integers(1, 50), st.integers(1, 30))
def test_whatever_is_cut_every_byte_that_matters_is_in_one_piece(
    data: bytes, size: int, head: int
) -> None:
    """F112: no bytes are lost or told of twice, in whatever chunks they come."""
    with mock.patch.object(cutting, "_HEAD", head):
        check_cut(data, size)


def check_cut(data: bytes, size: int) -> None:
    whole = list(pieces([data]))
    parts = list(pieces(data[at : at + size] for at in range(0, len(data), size)))
    assert parts == whole
    last = 0
    for one in whole:
        assert one.offset >= last
        assert data[one.offset : one.offset + len(one.raw)] == one.raw
        between = data[last : one.offset]
        assert is_frame(between, whole), between
        last = one.offset + len(one.raw)


def is_frame(between: bytes, whole: list[Piece]) -> bool:
    """Between pieces there is nothing but what holds records together."""
    text = between.decode(errors="replace")
    return not whole or not text.strip("[]{},: \n\ufeff") or '"' in text
