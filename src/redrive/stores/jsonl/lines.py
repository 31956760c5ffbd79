"""The lines of a journal: how each is written, checked and read back.

    {"redrive":"jsonl","version":3,"crc":"…","store":"…","seq":0,"notes":0,"created":"…"}
    {"crc":"1a2b3c4d","seq":1,"end":1,"job":{…},"history":[…],"payload":{…}}
    {"crc":"…","seq":2,"end":1,"mark":{"synced":1}}

One JSON object a line, so `jq` reads them all. `crc` covers every byte after it; `seq` counts up by
one; `end` is 1 on the last line of an operation, which happened as a whole or not at all. The order
of these keys is fixed, so a line can be judged without parsing it. The payload is the text it was
given as, not a rewriting of it: it is cut out of the line by its place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from json.encoder import encode_basestring as _quoted
from math import inf, isfinite
from operator import itemgetter
from typing import Any, NamedTuple, cast
from zlib import crc32

from redrive.jobs.groups import GroupRecord, LaneCount
from redrive.jobs.job import Action, Job
from redrive.jobs.records import BLANK
from redrive.stores._codec import (
    action_from_dict,
    check_types,
    encode,
    head_to_dict,
    job_from_dict,
    record_to_dict,
)
from redrive.stores.counting import SPANS, Tick, counts_from_dict
from redrive.stores.group_codec import group_from_dict, group_to_json
from redrive.stores.index import changes as c
from redrive.stores.index.changes import Change

VERSION = 3

_VERSION = re.compile(rb'\{"redrive":"jsonl","version":(\d+)\b')
_HEADER = re.compile(rb'\{"redrive":"jsonl","version":%d,"crc":"([0-9a-f]{8})",' % VERSION)
_LINE = re.compile(rb'\{"crc":"([0-9a-f]{8})","seq":(\d{1,18}),"end":([01]),"([a-z]+)":')
_TEXT = rb'"([^"\\]*)"'
_TIME = rb"\d+\.\d+"
_PLAIN_HEAD = re.compile(
    rb'\{"id":%b,"handler":%b,"lane":%b,"created":%b,"due":(%b),"since":%b,"updated":(%b)'
    rb'(?:,"key":%b)?(?:,"limit":\d+)?\},"payload":'
    % (_TEXT, _TEXT, _TEXT, _TIME, _TIME, _TIME, _TIME, _TEXT)
)
"""What `_plain_body` writes, unless it holds escapes or odd times."""
START = b'{"crc":"'
_COVERED = 16  # where the checked part of a line begins: behind the digits of its checksum
_PAYLOAD = ',"payload":'
_HISTORY = ',"history":'


def _no_number(word: str) -> float:
    """Refuse NaN, Infinity and 1e999, which no order holds for."""
    raise TypeError(f"{word:.80} is not a finite number")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if isfinite(number) else _no_number(digits)


_decoder = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)
_decode = _decoder.raw_decode
_float, _integer = float.__repr__, int.__repr__
"""How JSON has them; other types of numbers raise or are shown as these."""
_PLAIN = {"id", "handler", "lane", "created", "due", "since", "updated", "key", "max_attempts"}
"""The fields that a plain submit sets, beside the payload."""
_rare = itemgetter(*(vars(BLANK).keys() - _PLAIN - {"payload", "is_new"}))
_NOTHING_RARE = _rare(vars(BLANK))


class Header(NamedTuple):
    """The first line of a journal."""

    store: str
    """Random, and kept for life: another file at the same place has another one."""
    seq: int
    """The number before that of the first line."""
    notes: int
    """The highest version any note has had; those that are gone must not come back."""
    events: int = 0
    """The highest number any event has had; the same holds for these."""


class Line(NamedTuple):
    """What the beginning of a line says."""

    seq: int
    ends: bool
    kind: str
    body: int
    """Where its value begins."""


def header_line(header: Header, now: float) -> bytes:
    """Write the first line of a journal."""
    created = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    front = b'{"redrive":"jsonl","version":%d,"crc":"' % VERSION
    rest = encode({**header._asdict(), "created": created})[1:].encode()
    back = b'",%s\n' % rest
    return b"%s%08x%s" % (front, crc32(front + back), back)


def read_header(raw: bytes) -> Header | None:
    """Read the first line of a journal; None if it is not one, or not whole."""
    found = _HEADER.match(raw)
    if found is None or not raw.endswith(b"}\n"):
        return None
    checked = raw[: found.start(1)] + raw[found.end(1) :]
    if b"%08x" % crc32(checked) != found[1]:
        return None
    try:
        data = json.loads(raw)
        check_types(Header, data)
        return Header(data["store"], data["seq"], data["notes"], data["events"])
    except (KeyError, ValueError, TypeError):
        return None


def version_of(raw: bytes) -> int | None:
    """Return the version in the first line of a journal, whole or not."""
    found = _VERSION.match(raw)
    return int(found[1]) if found else None


def line(seq: int, *, ends: bool, body: bytes) -> bytes:
    """Write a line around a body such as `"mark":{}`."""
    rest = b'","seq":%d,"end":%d,%b}\n' % (seq, ends, body)
    return b'{"crc":"%08x%b' % (crc32(rest), rest)


def parse(raw: bytes) -> Line | None:
    """Read the beginning of a line; None unless every byte of it is as it was written."""
    found = _LINE.match(raw)
    if found is None:
        return None
    crc, seq, ends, kind = found.groups()
    if b"%08x" % crc32(raw[_COVERED:]) != crc or raw[-2:] != b"}\n":
        return None
    return Line(int(seq), ends == b"1", kind.decode(), found.end())


def body_of(change: Change) -> bytes:
    """Write the part of a line that says what changed."""
    if isinstance(change, c.Put):
        return _job_body(change.job)
    kind = _NAMES[type(change)]
    return b'"%s":%s' % (kind.encode(), _text(_WRITERS[kind](change)))


def mark_body(synced: int) -> bytes:
    """Write the part of a line that says up to which number all is on the disk."""
    return b'"mark":{"synced":%d}' % synced


def head_of(raw: bytes, found: Line) -> dict[str, Any]:
    """Read what an index has to know of a job's head, not its history and payload."""
    head: dict[str, Any]
    plain = _PLAIN_HEAD.match(raw, found.body)
    if plain is not None:
        one, handler, lane, due, updated, key = plain.groups()
        head = {"id": one.decode(), "handler": handler.decode(), "lane": lane.decode()}
        head["due"], head["updated"] = float(due), float(updated)
        if key is not None:
            head["key"] = key.decode()
        return head
    head = _decode(raw[found.body :].decode())[0]
    check_types(Job, head)
    return head


def job_of(raw: bytes, found: Line) -> Job:
    """Read a whole job back."""
    text = raw[found.body : -2].decode()
    head, at = _decode(text)
    if text.startswith(_HISTORY, at):
        head["history"], at = _decode(text, at + len(_HISTORY))
    check_types(Job, head)
    payload = text[at + len(_PAYLOAD) :]
    if payload.startswith('"'):
        payload = json.loads(payload)
    return job_from_dict(head, payload)


def change_of(raw: bytes, found: Line) -> Change | None:
    """Read a line that is no job; None for a mark. Fields of a newer version are left aside.

    TypeError if a value is of a type that Redrive never writes there.
    """
    value = _decoder.decode(raw.decode())[found.kind]
    kind = _KINDS.get(found.kind)
    if kind is None:
        return None
    if kind is c.Purged or kind is c.Delivered:
        value = {_FIRST[kind]: value}
    check_types(kind, value)
    if kind is Action:
        return action_from_dict(value)
    if kind is GroupRecord:
        return group_from_dict(value)
    read = _READERS.get(found.kind, _plain_change)
    try:
        return read(kind, value)
    except (ValueError, AttributeError) as error:
        raise TypeError(f"a {found.kind} cannot be {value!r:.80}") from error


def change_at(raw: bytes, found: Line) -> Change:
    """Read any line that changes something."""
    change = c.Put(job_of(raw, found)) if found.kind == "job" else change_of(raw, found)
    if change is None:
        raise ValueError(f"a {found.kind} is not a change")
    return change


def _plain_change(kind: Any, value: dict[str, Any]) -> Change:
    """Build a change of its fields; KeyError if one is missing that has no default."""
    fields = {**kind._field_defaults, **value}
    change: Change = kind(*(_fixed(fields[name]) for name in kind._fields))
    return change


def _fixed(value: object) -> object:
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _read_bucket(_: object, value: dict[str, Any]) -> c.Bucket:
    if value["span"] not in SPANS:
        raise ValueError(value["span"])
    lanes = {lane: LaneCount(*map(int, counts)) for lane, counts in value["lanes"].items()}
    groups = {int(number): int(deaths) for number, deaths in value["groups"].items()}
    return c.Bucket(value["span"], value["start"], lanes, groups)


_KINDS: dict[str, type[Any]] = {
    "purge": c.Purged,
    "group": GroupRecord,
    "tick": Tick,
    "counts": c.Bucket,
    "folded": c.Folded,
    "sub": c.Subscribed,
    "event": c.Queued,
    "handed": c.Handed,
    "delivered": c.Delivered,
    "act": Action,
    "note": c.Noted,
}
"""The kinds of lines beside jobs and marks, and what each says."""
KINDS = frozenset({"job", "mark", *_KINDS})
_NAMES = {kind: name for name, kind in _KINDS.items()}
_FIRST = {c.Purged: "ids", c.Delivered: "numbers"}
"""The kinds that have one value only, which stands in the line by itself."""
_READERS: dict[str, Callable[[Any, dict[str, Any]], Change]] = {
    "tick": lambda _, value: Tick(value["at"], counts_from_dict(value["counts"])),
    "counts": _read_bucket,
}
_WRITERS: dict[str, Callable[[Any], object]] = {
    **{name: lambda change: change._asdict() for name in _KINDS},
    "purge": lambda change: change.ids,
    "delivered": lambda change: change.numbers,
    "group": lambda change: json.loads(group_to_json(change)),
    "tick": lambda change: {"at": change.at, "counts": change.counts._asdict()},
    "act": record_to_dict,
}


def _job_body(job: Job) -> bytes:
    body = _plain_body(job) if _rare(vars(job)) == _NOTHING_RARE else None
    if body is not None:
        return body
    value: dict[str, Any] = {"job": head_to_dict(job)}
    if job.history:
        value["history"] = [record_to_dict(attempt) for attempt in job.history]
    return b'%b,"payload":%b' % (_text(value)[1:-1], _embedded(job.payload))


def _plain_body(job: Job) -> bytes | None:
    """Write a job as a plain submit gives it; None if one of its values needs more care.

    Its text is spelled out, because the encoder takes twice as long and most jobs are such ones.
    """
    payload = job.payload
    if not payload.startswith("{") or "\n" in payload or "\r" in payload:
        return None
    try:
        if not -inf < job.created + job.due + job.since + job.updated < inf:
            return None
        key = "" if job.key is None else f',"key":{_quoted(job.key)}'
        limit = f',"limit":{_integer(job.max_attempts)}' if job.max_attempts else ""
        return (
            f'"job":{{"id":{_quoted(job.id)},"handler":{_quoted(job.handler)},'
            f'"lane":{_quoted(job.lane)},"created":{_float(job.created)},"due":{_float(job.due)},'
            f'"since":{_float(job.since)},"updated":{_float(job.updated)}{key}{limit}}},'
            f'"payload":{payload}'
        ).encode()
    except (OverflowError, TypeError, UnicodeEncodeError):
        return None


def _embedded(payload: str) -> bytes:
    """Return the payload unchanged; as a JSON string if it would not fit on a line."""
    if payload.startswith("{") and "\n" not in payload and "\r" not in payload:
        try:
            return payload.encode()
        except UnicodeEncodeError:
            pass
    return json.dumps(payload).encode()


def _text(value: object) -> bytes:
    """Write JSON as UTF-8; error text may hold lone surrogates, which only escapes can carry."""
    try:
        return encode(value).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
