"""A payload as a person edits it: its secrets are marks that are put back afterwards.

Each hidden value has a mark of its own, which stands for it in its own field and nowhere else: moved to
another field, which views do not hide, it would show the secret. Numbers keep their text: an editor must
not round somebody's money.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from redrive.errors import BadPayload
from redrive.jobs.job import Job
from redrive.payloads import strict_json
from redrive.payloads.masked_jobs import secrets_of as secrets_of_job
from redrive.payloads.masking import MASK, mask_text, masker, secrets_in, secrets_of
from redrive.payloads.secret_names import is_secret_name


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


Path = tuple[str | int, ...]
"""Where a value stands: names (hidden ones as their marks) and positions in lists."""


class Secret(NamedTuple):
    """What a mark stands for, and the only place where it does."""

    value: Any
    path: Path


@dataclass(slots=True)
class Hidden:
    """A payload's text for an editor, and what its marks stand for."""

    text: str
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Those of the payload and those that the caller knows, which are hidden wherever they recur."""
    more: tuple[str, ...] = field(default=(), repr=False)
    """Those that the caller knows: of the payload as it was first."""
    values: dict[str, Secret] = field(default_factory=dict[str, Secret], repr=False)
    """By mark."""
    mark: str = MASK
    """What stands on both sides of a mark's number; nothing like it is in the payload."""
    has_mask: bool = False
    """True if a mask is part of the payload itself."""

    def restore(self, edited: str) -> str:
        """Return the payload with the hidden values in their places again.

        A hidden value is known by its mark, or by its place if it stands as views show it. BadPayload
        if it is no JSON, if a mark is not where it was, would no longer be hidden, or cannot be told.
        """
        used = set[str]()
        text = written(self._restored(parsed(strict_json.compact(edited)), (), used))
        self._check_still_hidden(used)
        if MASK in text and not self.has_mask:
            raise BadPayload(
                f"the payload has {MASK} where a secret was hidden, and which one cannot be told: "
                "write the secret itself, or edit with --reveal"
            )
        return text

    def _restored(self, value: Any, path: Path, used: set[str]) -> Any:
        if isinstance(value, dict):
            return {
                self._put_back(key, (*path, key), used): self._restored(item, (*path, key), used)
                for key, item in cast("dict[str, Any]", value).items()
            }
        if isinstance(value, list):
            items = enumerate(cast("list[object]", value))
            return [self._restored(item, (*path, at), used) for at, item in items]
        return self._put_back(value, (*path, VALUE), used) if type(value) is str else value

    def _put_back(self, text: str, path: Path, used: set[str]) -> Any:
        mark = self._places().get(path, "") if MASK in text else ""
        if mark and text in (mark, self._view(self.values[mark])):
            used.add(mark)
            return self.values[mark].value
        value = self.values.get(text)
        if value is not None:
            raise BadPayload(
                f"the mark {text} stands for the hidden value of {_spelled(value.path)} and cannot be "
                f"put at {_spelled(path)}; leave it where it was, or write the value itself"
            )
        if self.mark in text and re.search(rf"{self.mark}\d+{self.mark}", text):
            raise BadPayload(
                f"{text!r:.80} at {_spelled(path)} has a mark for a hidden value inside a text; leave the "
                "mark whole and where it was, or write the value itself"
            )
        return text

    def _places(self) -> dict[Path, str]:
        """Return the marks by the place of what they stand for."""
        return {secret.path: mark for mark, secret in self.values.items()}

    def _view(self, secret: Secret) -> str:
        """Return a hidden value as views show it."""
        is_text = isinstance(secret.value, str) and not isinstance(secret.value, _Number)
        return (
            mask_text(secret.value, self.secrets)
            if is_text and not _is_named(secret.path)
            else MASK
        )

    def _check_still_hidden(self, used: set[str]) -> None:
        """Refuse to put back a text that was hidden for a secret in it which is no longer known as one.

        A secret counts only where its own mark was left: one that was typed may be a guess, and to
        take the right one would tell.
        """
        pairs = [(mark, self.values[mark]) for mark in used]
        named = [secret.value for _, secret in pairs if _is_named(secret.path)]
        now = (*secrets_in({"secret": named}), *self.more)
        for mark, secret in pairs:
            if isinstance(secret.value, str) and not _is_named(secret.path):
                before, after = (mask_text(secret.value, known) for known in (self.secrets, now))
                if before != after:
                    raise BadPayload(
                        f"the mark {mark} at {_spelled(secret.path)} hides a secret of another field, "
                        "which was changed: write both values anew"
                    )


VALUE = ""  # the last step of the path of a value: what stands there, not its name


def _is_named(path: Path) -> bool:
    """Return True if it is hidden because of its name, whatever it is."""
    return path[-1] == VALUE and any(
        isinstance(step, str) and is_secret_name(step) for step in path
    )


def _spelled(path: Path) -> str:
    return ".".join(["payload", *(str(step) for step in path if step != VALUE)])


def hide(payload: str, more: Sequence[str] = (), *, reveal: bool = False) -> Hidden:
    """Write a payload out for an editor, its secrets and these as marks unless they are to be seen."""
    value = parsed(payload)
    hidden = Hidden("", more=tuple(more), has_mask=MASK in payload)
    if not reveal:
        # A number also as it is written: 10.10 is known as 10.1.
        hidden.secrets = tuple(dict.fromkeys((*secrets_of(payload), *secrets_in(value), *more)))
        value = _Hider(payload, hidden).hide(value, ())
    hidden.text = written(value, indent="  ") + "\n"
    return hidden


def hidden_of(job: Job, payload: str, *, reveal: bool = False) -> Hidden:
    """Do the same for a payload of a job; one that cannot be read is masked text without marks."""
    try:
        return hide(payload, secrets_of_job(job, first=payload is job.payload), reveal=reveal)
    except (BadPayload, RecursionError):
        return Hidden(payload if reveal else mask_text(payload, secrets_of_job(job)))


class _Hider:
    def __init__(self, payload: str, hidden: Hidden) -> None:
        self._hidden = hidden
        self._mask = masker(hidden.secrets)
        self._known = frozenset(hidden.secrets)
        while re.search(rf"{hidden.mark}\d+{hidden.mark}", payload):
            hidden.mark += MASK[0]

    def hide(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return dict(self._field(*pair, path) for pair in cast("dict[str, Any]", value).items())
        if isinstance(value, list):
            items = enumerate(cast("list[object]", value))
            return [self.hide(item, (*path, at)) for at, item in items]
        if isinstance(value, _Number):
            return self._put(value, (*path, VALUE)) if value in self._known else value
        return self._text(value, (*path, VALUE)) if type(value) is str else value

    def _field(self, key: str, item: Any, path: Path) -> tuple[str, Any]:
        name = self._text(key, path, is_key=True)
        inner = (*path, name)
        if is_secret_name(key):
            return name, self._put(item, (*inner, VALUE))
        return name, self.hide(item, inner)

    def _text(self, text: str, path: Path, *, is_key: bool = False) -> str:
        if self._mask(text) == text:
            return text
        return self._put(text, (*path, self._next()) if is_key else path)

    def _put(self, value: Any, path: Path) -> str:
        mark = self._next()
        self._hidden.values[mark] = Secret(value, path)
        return mark

    def _next(self) -> str:
        return f"{self._hidden.mark}{len(self._hidden.values) + 1}{self._hidden.mark}"


def parsed(text: str) -> Any:
    """Read JSON, numbers as they were written; BadPayload if it is none."""
    try:
        return json.loads(text, parse_float=_Number, parse_int=_Number)
    except (ValueError, RecursionError) as error:
        raise BadPayload(f"the text is not JSON: {error}") from error


def value_of(text: str) -> object:
    """Return a payload with its marks as a value; text where it cannot be read."""
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
