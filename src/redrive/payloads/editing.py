"""A payload as a person edits it: what is hidden stays as it was where its mask is left alone.

A mask stands for the hidden value at its own path and nowhere else: moved to another field, which views
do not hide, it would show the secret. Numbers keep their text: an editor must not round somebody's money.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

from redrive.errors import BadPayload
from redrive.jobs.job import Job
from redrive.payloads import strict_json
from redrive.payloads.masked_jobs import secrets_of as secrets_of_job
from redrive.payloads.masking import MASK, mask_text, masker, secrets_in, secrets_of
from redrive.payloads.secret_names import is_secret_name


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


def shown(payload: str, more: Sequence[str] = (), *, reveal: bool = False) -> str:
    """Return a payload as text for an editor, its secrets and these hidden unless `reveal`."""
    value = parsed(payload)
    return written(value if reveal else _hidden(value, payload, more), indent="  ") + "\n"


def shown_of(job: Job, payload: str, *, reveal: bool = False) -> str:
    """Do the same for a payload of a job; one that cannot be read is masked text."""
    try:
        return shown(payload, secrets_of_job(job, first=payload is job.payload), reveal=reveal)
    except (BadPayload, RecursionError):
        return payload if reveal else mask_text(payload, secrets_of_job(job))


def restored(payload: str, edited: str, more: Sequence[str] = ()) -> str:
    """Return an edited payload with the hidden values in their places again.

    BadPayload if it is no JSON, or if a mask is where none was or would no longer be hidden.
    """
    value = parsed(strict_json.compact(edited))
    try:
        stored = parsed(payload)
    except BadPayload:  # a person corrects it
        stored = None
    restoring = _Restoring()
    whole = restoring.value(value, _hidden(stored, payload, more), stored, "payload")
    restoring.check_still_hidden(more)
    return written(whole)


def restored_of(job: Job, edited: str) -> str:
    """Do the same for the payload of a job."""
    return restored(job.payload, edited, secrets_of_job(job, first=True))


def _hidden(value: Any, payload: str, more: Sequence[str]) -> Any:
    """Return a parsed payload as views show it."""
    # A number also as it is written: 10.10 is known as 10.1.
    secrets = tuple(dict.fromkeys((*secrets_of(payload), *secrets_in(value), *more)))
    return _masked(value, masker(secrets), frozenset(secrets))


def _masked(value: Any, mask: Callable[[str], str], known: frozenset[str]) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return {
            mask(key): MASK if is_secret_name(key) else _masked(item, mask, known)
            for key, item in fields
        }
    if isinstance(value, list):
        return [_masked(item, mask, known) for item in cast("list[object]", value)]
    if isinstance(value, _Number):
        return MASK if value in known else value
    return mask(value) if isinstance(value, str) else value


class _Restoring:
    """Puts hidden values back, and checks that all of them stay hidden."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str, str]] = []
        """Texts whose masks were left alone: the path, the text, and what is shown of it."""
        self.named: list[Any] = []
        """The values under secret names of which that is true."""

    def value(self, edited: Any, shown: Any, stored: Any, path: str) -> Any:
        if isinstance(edited, dict):
            return self._fields(cast("dict[str, Any]", edited), shown, stored, path)
        if isinstance(edited, list):
            return self._items(cast("list[object]", edited), shown, stored, path)
        return self._text(edited, shown, stored, path) if type(edited) is str else edited

    def _fields(self, edited: dict[str, Any], shown: Any, stored: Any, path: str) -> Any:
        # Names that are hidden alike cannot be distinguished.
        names: dict[str, str] = {}
        if isinstance(stored, dict) and isinstance(shown, dict):
            before, after = cast("dict[str, Any]", stored), cast("dict[str, Any]", shown)
            names = dict(zip(after, before, strict=True)) if len(after) == len(before) else {}
        fields: dict[str, Any] = {}
        for key, item in edited.items():
            inner = f"{path}.{key}"
            name = names.get(key)
            if name is None:
                fields[self._text(key, None, None, inner)] = self.value(item, None, None, inner)
            elif is_secret_name(name) and item == MASK:
                fields[name] = stored[name]
                self.named.append(stored[name])
            else:
                fields[name] = self.value(item, shown[key], stored[name], inner)
        return fields

    def _items(self, edited: list[Any], shown: Any, stored: Any, path: str) -> Any:
        before = list(map(written, cast("list[object]", shown))) if isinstance(shown, list) else []
        times, is_as_long = Counter(before), len(before) == len(edited)
        items: list[Any] = []
        for at, item in enumerate(edited):
            text, inner = written(item), f"{path}.{at}"
            is_same = before[at : at + 1] == [text] and (is_as_long or times[text] == 1)
            # Else an item of another position may stand here, whose hidden values are others.
            if is_same or (is_as_long and text not in times):
                items.append(self.value(item, shown[at], stored[at], inner))
            else:
                items.append(self.value(item, None, None, inner))
        return items

    def _text(self, text: str, shown: Any, stored: Any, path: str) -> Any:
        if MASK not in text:
            return text
        if text != shown:
            raise BadPayload(
                f"{path:.80} has {MASK} where something else was shown, and what it hides cannot be "
                "told; leave each mask as it was, write the value itself, or edit with --reveal"
            )
        self.kept.append((path, stored, text))
        return stored

    def check_still_hidden(self, more: Sequence[str]) -> None:
        """Refuse to put back a text that was hidden for a secret in it which is no longer known as one.

        A secret counts only where its own mask was left: one that was typed may be a guess, and to
        take the right one would tell.
        """
        secrets = (*secrets_in({"secret": self.named}), *more)
        for path, text, shown in self.kept:
            if mask_text(text, secrets) != shown:
                raise BadPayload(
                    f"{path:.80} hides a secret of another field, which was changed: write both "
                    "values anew"
                )


def parsed(text: str) -> Any:
    """Read JSON, numbers as they were written; BadPayload if it is none."""
    try:
        return json.loads(text, parse_float=_Number, parse_int=_Number)
    except (ValueError, RecursionError) as error:
        raise BadPayload(f"the text is not JSON: {error}") from error


def value_of(text: str) -> object:
    """Return a payload as a value; text where it cannot be read."""
    try:
        return cast("object", parsed(text))
    except BadPayload:
        return text


def written(value: Any, indent: str = "", lead: str = "\n") -> str:
    """Write JSON, numbers as they were, nothing in it that could drive a terminal."""
    inner = f"{lead}{indent}" if indent else ""
    end, colon = (lead, ": ") if indent else ("", ":")
    if isinstance(value, dict) and value:
        items = [
            f"{_string(key)}{colon}{written(item, indent, inner)}"
            for key, item in cast("dict[str, Any]", value).items()
        ]
        return f"{{{inner}{f',{inner}'.join(items)}{end}}}"
    if isinstance(value, list) and value:
        items = [written(item, indent, inner) for item in cast("list[object]", value)]
        return f"[{inner}{f',{inner}'.join(items)}{end}]"
    if isinstance(value, _Number):
        return str(value)
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable()).replace("\x7f", "\\u007f")
