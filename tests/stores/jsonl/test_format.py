"""What stands in the file, and what is done with a file that is not quite ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from kit import make_failure, make_job
from redrive.errors import StoreForeign, StoreReadOnly
from redrive.stores.index.entries import Put
from redrive.stores.jsonl import JsonlStore, lines
from redrive.testing import ManualClock
from stores.jsonl.scenes import Film, picture

CLOCK = ManualClock()


def rewritten(line: bytes, **changes: Any) -> bytes:
    """A line with other fields, and the checksum that belongs to them."""
    rest = line[16:-2] + b"".join(
        b',"%s":%s' % (name.encode(), json.dumps(value).encode()) for name, value in changes.items()
    )
    rest += b"}\n"
    return b'{"crc":"%08x%s' % (crc32(rest), rest)


def put(path: Path, data: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "payload",
    [
        '{"price":10.10,"big":9223372036854775809,"tiny":1E-7,"z":1,"a":2}',
        '{"escaped":"\\u00e9\\/\\n","plain":"é"}',
        '{"lines":"\u2028\u2029\x85\x1c\x1d\x0b\x0c"}',
        '{"fake":"\\n{\\"crc\\":\\"00000000\\",\\"seq\\":2}"}',
        '{ "spaced" :\n\t[ 1,\r\n2 ] }',
        '{"payload":{"payload":","},"history":[],"end":1}',
        '{"lone":"\ud800"}',
        "{}",
    ],
)
def test_a_payload_comes_back_as_exactly_the_text_it_was(tmp_path: Path, payload: str) -> None:
    """M9, F74, F76: numbers, escapes, order and line separators."""
    with_history = make_job("b", payload=payload, failure=make_failure(), tags=("x",))
    path = tmp_path / "jobs.jsonl"
    store = JsonlStore(path, clock=CLOCK)
    store.add([make_job("a", payload=payload), with_history])
    (claim,) = store.claim(["mail"], limit=1, holder="w", lease_for=9, only=["a"])
    store.close()
    again = JsonlStore(path, clock=CLOCK)
    assert claim.job.payload == payload
    assert [again.get(one).payload for one in "ab"] == [payload, payload]  # type: ignore[union-attr]
    again.compact()
    assert again.get("a").payload == payload  # type: ignore[union-attr]


class Measured(float):
    """A number that shows itself in its own way, as those of some libraries do."""

    def __repr__(self) -> str:
        return f"Measured({float(self)})"


SUBMITS: list[dict[str, Any]] = [
    {},
    {"key": 'k"\\\n\x7f', "lane": "Zoë\u2028\x00"},
    {"key": "Zoë:7", "lane": "", "due": 5.5},
    {"max_attempts": 0, "key": ""},
    {"max_attempts": 10**30, "due": 0.1 + 0.2, "since": 1e300, "updated": -0.0},
    {"due": 5, "created": Measured(1.5), "max_attempts": 3.5},
    {"due": 10**400},
    {"handler": "\ud800"},
    {"key": "\udfff"},
    {"payload": '{"a":\n1}'},
    {"tags": ("x",)},
]


@pytest.mark.parametrize("given", SUBMITS)
def test_a_plain_job_is_written_as_the_encoder_would(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """M9: its text is spelled out to save time, and nobody must see that."""
    change = Put(make_job(**given))
    body = lines.body_of(change)
    monkeypatch.setattr(lines, "_plain_body", lambda _: None)
    assert body == lines.body_of(change)


@pytest.mark.parametrize("given", [one for one in SUBMITS if one.get("max_attempts") != 3.5])
def test_a_plain_job_is_read_as_the_decoder_would(given: dict[str, Any]) -> None:
    """M9: what the index needs is cut out of the line, and nobody must see that either."""
    raw = lines.line(1, ends=True, body=lines.body_of(Put(make_job(**given))))
    found = lines.parse(raw)
    assert found is not None
    head, whole = lines.head_of(raw, found), json.loads(raw)["job"]
    for name in ("id", "handler", "lane", "due", "updated", "key", "state", "failure"):
        assert head.get(name) == whole.get(name)


def test_every_line_is_one_json_object(shot: Film) -> None:
    """T2: readable with any tool, and the payload in it is JSON, not a string."""
    found = [json.loads(line) for line in shot.data.split(b"\n")[:-1]]
    assert found[0]["redrive"] == "jsonl"
    assert [line["seq"] for line in found[1:]] == list(range(1, len(found)))
    first = next(line for line in found if "job" in line)
    assert first["payload"]["price"] == 10.10
    assert "Zoë".encode() in shot.data, "readable with jq and by people, not escaped"


@pytest.mark.parametrize(
    "data",
    [
        b'{"level":"info"}\n',
        b"SQLite format 3\0" + bytes(84),
        b"hello",
        b'{"redrive":"other"}\n',
        '{"redrive":"jsonl"}\n'.encode("utf-16"),
        b"\n",
    ],
)
def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path: Path, data: bytes) -> None:
    """T6, F77."""
    path = put(tmp_path / "app.log", data)
    for options in ({}, {"read_only": True}, {"create": False}):
        with pytest.raises(StoreForeign, match=r"app\.log.*name another file"):
            JsonlStore(path, clock=CLOCK, **options)
    assert path.read_bytes() == data


def test_a_file_of_another_version_is_refused_and_left_alone(tmp_path: Path, shot: Film) -> None:
    """F33."""
    for version in (1, 2, 99):
        data = shot.data.replace(b'"version":3', b'"version":%d' % version, 1)
        path = put(tmp_path / "jobs.jsonl", data)
        for read_only in (True, False):
            expected = rf"jobs\.jsonl .*schema {version}, this program reads schema 3\."
            with pytest.raises(StoreForeign, match=expected):
                JsonlStore(path, clock=CLOCK, read_only=read_only)
        assert path.read_bytes() == data


def test_an_unknown_kind_of_line_is_refused(tmp_path: Path, shot: Film) -> None:
    rest = b'","seq":1,"end":1,"freeze":{"all":true}}\n'
    line = b'{"crc":"%08x%s' % (crc32(rest), rest)
    path = put(tmp_path / "jobs.jsonl", shot.data[: shot.ends[0]] + line)
    for read_only in (True, False):
        with pytest.raises(StoreForeign, match="freeze"):
            JsonlStore(path, clock=CLOCK, read_only=read_only)


@pytest.mark.parametrize("edit", ["bom", "crlf", "both"])
def test_an_editors_line_ends_are_read_with_a_warning_and_not_written(
    tmp_path: Path, shot: Film, caplog: pytest.LogCaptureFixture, edit: str
) -> None:
    """F77."""
    data = shot.data if edit == "bom" else shot.data.replace(b"\n", b"\r\n")
    data = data if edit == "crlf" else b"\xef\xbb\xbf" + data
    path = put(tmp_path / "jobs.jsonl", data)
    store = JsonlStore(path, clock=shot.clock)
    assert "changed by an editor" in caplog.text
    assert picture(store) == shot.pictures[-1]
    assert store.verify().ok
    with pytest.raises(StoreReadOnly, match="dos2unix"):
        store.add([make_job()])
    store.close()
    assert path.read_bytes() == data


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    """T6."""
    path = put(tmp_path / "jobs.jsonl", b"")
    reader = JsonlStore(path, clock=CLOCK, read_only=True)
    assert reader.counts() == []
    store = JsonlStore(path, clock=CLOCK)
    store.add([make_job("a")])
    assert reader.get("a") is not None


def test_what_cannot_be_written_as_json_fails_alone(tmp_path: Path) -> None:
    """F69: the operation that cannot be encoded changes nothing."""
    path = tmp_path / "jobs.jsonl"
    store = JsonlStore(path, clock=CLOCK)
    store.add([make_job("a")])
    size = path.stat().st_size
    for bad in ({"due": float("nan")}, {"origin": {"x": object()}}):
        with pytest.raises((ValueError, TypeError)):
            store.add([make_job("b"), make_job("c", **bad)])
    assert path.stat().st_size == size
    assert store.get("b") is None
    store.add([make_job("b")])
    assert store.verify().ok
