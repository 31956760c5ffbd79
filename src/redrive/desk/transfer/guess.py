"""Propose a mapping for records whose meaning nobody declared, by the names and values of their columns.

A proposal is shown to a person and never used by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from redrive.desk.transfer.formats import times
from redrive.desk.transfer.formats.fields import Fields
from redrive.desk.transfer.formats.record import program_name
from redrive.desk.transfer.mapping import FieldMapping
from redrive.desk.transfer.rules import (
    TIMES,
    Path,
    is_there,
    moment,
    parsed,
    quoted,
    word_of,
    written,
)
from redrive.payloads import masking

_NAMES: Final = {
    "key": "id uid uuid guid key jobid taskid messageid rowid eventid 番号 管理番号",
    "state": "status state st jobstatus phase result 状態 ステータス 状況 結果",
    "attempts": "attempts attempt attemptsmade retrycount retries retry tries trycount failcount"
    " numretries 試行回数 リトライ回数 再試行回数 回数",
    "max_attempts": "maxattempts maxretries retrylimit maxtries 最大試行回数 上限",
    "error": "error errormessage errormsg err errmsg lasterror exception failurereason reason message result"
    " エラー エラー内容 失敗理由 例外",
    "error.trace": "traceback stacktrace stack trace",
    "created": "createdat created creationdate insertedat enqueuedat datecreated timestamp ts"
    " 作成日時 登録日時 受付日時 日時 時刻",
    "due": "nextretryat nextretry nexttry nextattemptat retryat runat scheduledat availableat eta"
    " 次回実行日時 再試行日時 予定日時",
    "finished": "finishedat completedat doneat datedone endedat resolvedat 完了日時 終了日時",
    "failed_at": "failedat lastfailedat lasterrorat erroredat 失敗日時",
    "updated": "updatedat modifiedat modified lastmodified 更新日時 更新",
    "payload": "payload body data args arguments params parameters job kwargs request 内容 本文 データ",
    "handler": "handler task taskname jobtype jobname eventtype queue type kind 種別 処理",
}
"""Names of columns, without marks and in small letters, the likeliest first."""
_WORDS: Final = {
    "dead": "failed failure error dead deadletter exhausted fatal ng 失敗 エラー 異常 異常終了",
    "pending": "pending wait waiting queued new open retry retrying scheduled running processing started"
    " inprogress todo ready received 待ち 待機 待機中 未処理 処理中 実行中 再試行",
    "completed": "done completed complete success succeeded successful ok sent finished 完了 成功 済"
    " 正常終了 送信済",
    "resolved": "resolved cancelled canceled ignored closed revoked 取消 キャンセル 解決済",
}
_FORMATS: Final = (
    "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y年%m月%d日 %H:%M:%S", "%Y年%m月%d日 %H:%M",
    "%Y年%m月%d日", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S",
)  # fmt: skip
_MOST_STATES: Final = 12
_DEEPEST: Final = 8
_FEW: Final = 20
_LONGEST_KEY: Final = 64


@dataclass(frozen=True, slots=True)
class Proposal:
    """A mapping in words, and what a person has to look at."""

    map: list[str]
    set: list[str]
    notes: list[str]
    naive: list[str]
    """The columns whose times name no zone."""


def proposed(
    rows: Sequence[Fields], name: str, given: Iterable[str] = (), constants: Collection[str] = ()
) -> Proposal:
    """Propose a mapping for records of which these are the first.

    What is given stays; nothing is proposed for fields that have constants.
    """
    return _Guess(rows, list(given)).proposal(name, constants)


class _Guess:
    def __init__(self, rows: Sequence[Fields], given: list[str]) -> None:
        self._samples: dict[Path, list[object]] = {}
        for path, value in (member for row in rows for member in _members(row)):
            self._samples.setdefault(path, []).extend([value] if is_there(value) else [])
        self._rows = len(rows)
        self._free = sorted(self._samples, key=len)
        self._map = given
        self._set: list[str] = []
        self._notes: list[str] = []
        self._naive: list[str] = []

    def proposal(self, name: str, constants: Collection[str]) -> Proposal:
        taken = FieldMapping.of(name, self._map)
        for rule in taken.rules.values():
            for path in rule.paths:
                self._take(path)
        known = {"payload" if rule.startswith("payload") else rule for rule in taken.rules}
        known |= {*constants}
        steps: dict[str, Callable[[], None]] = {
            "key": self._key, "state": self._state, "payload": self._payload,
            "attempts": lambda: self._plain("attempts", _is_count),
            "max_attempts": lambda: self._plain("max_attempts", _is_count),
            "error": lambda: self._plain("error", _is_text),
            "error.trace": lambda: self._plain("error.trace", _is_text),
            **{field: partial(self._time, field) for field in TIMES if field in _NAMES},
            "handler": lambda: self._handler(name),
        }  # fmt: skip
        for field in ("key", "state", *(other for other in steps if other != "payload"), "payload"):
            if field not in known:
                known.add(field)
                steps[field]()
        return Proposal(self._map, self._set, self._notes, self._naive)

    def _take(self, column: Path) -> None:
        """Use a column for one field only; what stands around it stays free for the payload."""
        self._free = [path for path in self._free if path != column]

    def _found(self, field: str, fits: Callable[[object], bool]) -> Path | None:
        """Find the free column with the likeliest name most of whose values fit."""
        names = _NAMES[field].split()
        fitting = [one for one in self._free if _most(fits, self._samples[one])]
        for is_like in (str.__eq__, str.endswith, str.__contains__):
            for name in names:
                for column in fitting:
                    if _is_named(column, name, is_like):
                        return column
        return None

    def _add(self, field: str, column: Path, option: str = "") -> None:
        self._map.append(f"{field}={written(column)}{f':{option}' if option else ''}")
        self._take(column)

    def _plain(self, field: str, fits: Callable[[object], bool]) -> None:
        if (column := self._found(field, fits)) is not None and self._samples[column]:
            self._add(field, column)

    def _key(self) -> None:
        def tells_apart(column: Path) -> bool:
            values = self._samples[column]
            return len(values) == self._rows == len({word_of(value) for value in values})

        free, self._free = self._free, [name for name in self._free if tells_apart(name)]
        column = self._found("key", _is_key) or next(
            (one for one in self._free if all(map(_is_key, self._samples[one]))), None
        )
        self._free = free
        if column is None and (column := self._found("key", _is_key)) is not None:
            self._notes.append(
                f"some rows have no {written(column)}, or that of another row; those are left out"
            )
        if column is None:
            self._notes.append("no column tells the rows apart; name the key: --map key=COLUMN")
        else:
            self._add("key", column)

    def _state(self) -> None:
        column = self._found("state", _is_state)
        words = sorted(
            {word_of(one) for one in self._samples.get(column or (), []) if _is_state(one)}
        )
        if column is None or not words or len(words) > _MOST_STATES:
            self._set.append("state=dead")
            self._notes.append("no column has a state: state=dead holds for all rows; check it")
            return
        known = {word: _state_of(word) for word in words}
        odd = [word for word, state in known.items() if not state]
        if odd:
            self._notes.append(f"what these states mean is a guess; check it: {', '.join(odd)}")
        pairs = [f"{quoted(word, ',=')}={state or 'dead'}" for word, state in known.items()]
        if len(self._samples[column]) < self._rows:
            pairs.append("=dead")
            self._notes.append(
                f"rows in which {written(column)} has no value become dead; check it"
            )
        self._add("state", column, ",".join(pairs))

    def _time(self, field: str) -> None:
        column = self._found(field, lambda _: True)
        form = None if column is None else _form_of(self._samples[column])
        if column is not None and form is not None:
            self._add(field, column, form)
            values = [value for value in self._samples[column] if _reads(value, form)]
            if not all(_reads(value, form, times.no_zone) for value in values):
                self._naive.append(written(column))

    def _handler(self, name: str) -> None:
        column = self._found("handler", _is_text)
        kinds = {word_of(value) for value in self._samples.get(column or (), [])}
        if column is not None and kinds and len(kinds) <= _FEW and max(map(len, kinds)) <= 64:  # noqa: PLR2004
            self._add("handler", column)
        else:
            self._set.append(f"handler={program_name(name)}")
            self._notes.append(f"the handler is named {program_name(name)}; change it to yours")

    def _payload(self) -> None:
        holding = [one for one in self._free if _most(_is_object, self._samples[one] or [None])]
        free, self._free = self._free, holding
        column = self._found("payload", lambda _: True) or next(iter(self._free), None)
        self._free = free
        if column is not None:
            self._add("payload", column)
            return
        columns = [path for path in self._free if len(path) == 1]
        for one in columns:
            self._add(f"payload.{written(one)}", one)
        if not columns:
            self._map.append("payload=*")


def _most(fits: Callable[[object], bool], values: Sequence[object]) -> bool:
    """Return True unless half of the values do not fit; the odd ones will be bad records."""
    return sum(map(fits, values)) * 2 > len(values) or not values


def _members(row: Fields, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Yield the columns of a record and, at any depth, what stands in those that hold an object.

    The text of a payload is not looked into: what is in it belongs to the job.
    """
    for name, value in row.items():
        yield (*path, name), value
        is_payload = _short(name) in _NAMES["payload"].split()
        inner = parsed(value) if isinstance(value, str) and not is_payload else value
        if isinstance(inner, dict) and len(path) < _DEEPEST:
            yield from _members(cast("Fields", inner), (*path, name))


def _is_named(column: Path, name: str, is_like: Callable[[str, str], bool]) -> bool:
    """Return True if the name of a column is like this one; `retry.count` is also retrycount."""
    if is_like is str.__eq__:
        return name in {_short(column[-1]), _short("".join(column[-2:]))}
    is_long = len(name.encode()) > 2  # noqa: PLR2004 - two letters, such as st
    return is_long and is_like(_short(column[-1]), name)


def _short(column: str) -> str:
    return re.sub(r"[\W_]+", "", column).lower()


def _state_of(word: str) -> str:
    return next((state for state, known in _WORDS.items() if _short(word) in known.split()), "")


def _is_state(value: object) -> bool:
    """Return True for a word or number that may be shown: states stand in the proposed command."""
    is_word = type(value) in (str, int, bool)
    return is_word and (word := word_of(value)) == masking.mask_text(word)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_key(value: object) -> bool:
    return type(value) is int or (isinstance(value, str) and len(value) <= _LONGEST_KEY)


def _is_count(value: object) -> bool:
    return type(value) is int or (isinstance(value, str) and value.strip().isdecimal())


def _is_object(value: object) -> bool:
    return isinstance(parsed(value) if isinstance(value, str) else value, dict)


def _form_of(values: Iterable[object]) -> str | None:
    """Return the format that most values have, "" for those that need none; None if there is none."""
    some = list(values)
    fitting = {form: sum(_reads(value, form) for value in some) for form in ("", *_FORMATS)}
    form = max(fitting, key=fitting.__getitem__)
    return form if fitting[form] * 2 > len(some) else None


def _reads(value: object, form: str, zone: times.Zone = times.local) -> bool:
    try:
        moment(value, form, zone)
    except (ValueError, TypeError):  # also NaiveTime, if the zone is refused
        return False
    return True
