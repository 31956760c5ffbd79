"""The selector grammar: what people type to select jobs, the same for every verb.

    01J9ZQ4B  order:42  G7  R12  state:dead,pending  handler:billing.*  error:Timeout*  age:>2h  attempts:>=5
    action:A17  release:1.8.*  tag:vip  payload.customer.id:42  "free text"  -lane:mail

Spaces separate words, and all must hold; a comma separates alternatives, `*` matches anything, `-`
before a word negates it. Text in double quotes is taken literally. Filters by name, as Python has them,
become the same terms.

Selectors come from strangers: their length, words and stars are bounded, a comparison takes time that is
linear in the pattern and the text, and none raises, whatever is stored.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from redrive.errors import UsageError
from redrive.jobs import checks, durations
from redrive.jobs.durations import Duration
from redrive.jobs.job import Category, Failure, Group, Job, Reason, State
from redrive.payloads.masking import loads
from redrive.payloads.secret_names import is_secret_name
from redrive.payloads.wildcards import matches

Check = Callable[[Job], bool]
E = TypeVar("E", State, Category, Reason)
LONGEST = 2000  # characters of a selector, and of any one filter
MOST_TERMS = 50
MOST_STARS = 20  # in one word


def _error_texts(failure: Failure) -> tuple[str, ...]:
    """Return the names of an error, with its module and without, and its message."""
    return failure.type, failure.type.rpartition(".")[2], failure.message


_WORD = re.compile(
    r'\s*(?P<raw>(?P<minus>-?)(?:(?P<name>[A-Za-z_][^\s:"]*):)?'
    r'(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"]\S*)?))(?=\s|$)'
)
_SIGN = re.compile(r">=|<=|>|<|=|")
_GROUP = re.compile(r"[Gg]([0-9]{1,9})")
_RUN = re.compile(r"[Rr]([0-9]{1,9})")
_ACTION = re.compile(r"[Aa]([0-9]{1,9})")
_PLAIN = re.compile(r"[0-9]{1,9}")
ID = re.compile(r"[0-9A-Za-z_-]{4,64}")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")  # a key or the id of an event
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    "": operator.eq,
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
OPPOSITE = {">": "<", ">=": "<", "<": ">", "<=": ">"}
_NAMES = {"group": (_GROUP, "G7"), "run": (_RUN, "R12"), "action": (_ACTION, "A17")}
_COUNTS = ("attempts", "redrives", "crashes", "edits")
_TEXTS: Mapping[str, Callable[[Job], Iterable[object]]] = {
    "state": lambda job: (job.state,),
    "handler": lambda job: (job.handler,),
    "lane": lambda job: (job.lane,),
    "category": lambda job: (job.failure and job.failure.category,),
    "reason": lambda job: (job.reason,),
    "error": lambda job: _error_texts(job.failure) if job.failure else (),
    "status": lambda job: (job.failure and job.failure.status,),
    "code": lambda job: (job.failure and job.failure.code,),
    "key": lambda job: (job.key,),
    "tag": lambda job: job.tags,
    "release": lambda job: (job.failed_release or job.release,),
    "submitted-release": lambda job: (job.release,),
}
_MASKABLE = {"error", "code", "key", "tag", "text", "release", "submitted-release"}
KNOWN = (*_TEXTS, "group", "run", "action", "age", *_COUNTS, "text", "payload.FIELD")


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a selector: a name, how it is compared, and with what."""

    name: str
    values: tuple[str, ...]
    """Any of these."""
    raw: str
    """As it was typed."""
    sign: str = ""
    negated: bool = False
    quoted: bool = False

    @property
    def masked_name(self) -> str:
        """The secret name in a path of the payload, if there is one."""
        return next(filter(is_secret_name, self.name.split(".")[1:]), "")

    @property
    def may_be_masked(self) -> bool:
        """True if what it asks for may hold text that is masked in views."""
        return self.name in _MASKABLE or self.name.startswith("payload.")


class Filters(TypedDict, total=False):
    """What `find`, `groups` and the verbs of people can be asked for by name."""

    state: State | str | Iterable[State | str]
    handler: str
    lane: str
    category: Category | str
    group: int | str | Group
    tag: str
    key: str
    run: int
    older_than: Duration
    newer_than: Duration
    failed: bool
    """Only jobs that have failed at least once in this life."""
    text: str


def terms_of(filters: Filters) -> Iterator[Term]:
    """Yield the terms that filters stand for, but `failed`.

    Misspelled and empty filters are refused: they would select every job.
    """
    for name, value in filters.items():
        known = Filters.__annotations__
        if name not in known:
            raise UsageError(f"there is no filter {name!r}; use: {', '.join(known)}")
        if value is None or (isinstance(value, Sized) and not len(value)):
            msg = f"the filter {name} is empty, which would select every job: add a value or remove it"
            raise UsageError(msg)
        if isinstance(value, str):
            checked_text(value, f"the filter {name}")
        if name != "failed":
            yield _term_of(name, value)


def _term_of(name: str, value: Any) -> Term:
    sign = ""
    match name:
        case "state":
            values = (value,) if isinstance(value, str) else checks.texts(value, "the filter state")
        case "older_than" | "newer_than":
            age, sign = durations.seconds(value, name=name), ">=" if name == "older_than" else "<="
            name, values = "age", (f"{age:f}",)
        case "group":
            values = (str(group_number(value)),)
        case "run":
            values = (str(checks.whole(value, "the filter run", least=1)),)
        case _:
            values = (checks.text(value, f"the filter {name}"),)
    asked = f"{name}:{sign}{','.join(values)}"
    return Term(name, values, asked, sign, quoted=name != "handler")


def word(kind: type[E], value: str, name: str) -> E:
    """Return a state, category or reason; UsageError names those there are."""
    try:
        return kind(value)
    except ValueError:
        raise UsageError(f"{value!r} is not a {name}; use one of: {', '.join(kind)}") from None


def group_number(value: int | str | Group) -> int:
    """Return the number of a group written as 7, "7" or "G7"."""
    if isinstance(value, Group):
        return value.number
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and (_GROUP.fullmatch(value) or _PLAIN.fullmatch(value)):
        return int(value.lstrip("Gg"))
    raise UsageError(f"{value!r} is not a group; groups are named G1, G2 …: see `redrive groups`")


def checked_text(text: str, what: str = "the selector") -> str:
    """Return a text that every store can be asked for, or raise UsageError."""
    if len(text) > LONGEST:
        raise UsageError(f"{what} must have at most {LONGEST:,} characters; found {len(text):,}")
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError(f"{what} is not valid Unicode: {text!r:.80}; remove the lone surrogates")
    if "\0" in text:
        msg = f"{what} has a NUL character, which no job can hold: {text!r:.80}; remove it"
        raise UsageError(msg)
    return text


def parse(text: str) -> Iterator[Term]:
    """Yield the terms of a selector; UsageError names what cannot be understood.

    A word such as `order:42`, whose name is no filter, may be the key of a job.
    """
    at, text = 0, checked_text(text).rstrip()
    while at < len(text):
        match = _WORD.match(text, at)
        if match is None or match.end() == at:
            msg = f"cannot read {text[at:].strip()!r}: a quote is not closed, or is inside a word"
            raise UsageError(msg)
        if not match["name"]:
            yield _bare(match)
        elif _may_be_key(match):
            yield Term("id", (match["raw"],), match["raw"])
        else:
            yield _named(match)
        at = match.end()


def _may_be_key(match: re.Match[str]) -> bool:
    is_key = _KEY.fullmatch(match["raw"]) and match["quoted"] is None and not match["minus"]
    return bool(is_key and unknown_filter(match["raw"]))


def unknown_filter(text: str) -> str:
    """Return the message for a word whose name is no filter; empty if it has none or a known one."""
    match = _WORD.fullmatch(text)
    name = match["name"].lower() if match and match["name"] else ""
    known = name in {"", *_TEXTS, *_COUNTS, "group", "run", "action", "age", "text"}
    return "" if known or name.startswith("payload.") else _unknown(name)


def _named(match: re.Match[str]) -> Term:
    name, value, quoted = match["name"], *_value(match)
    if not name.startswith("payload."):
        name = name.lower()
        if unknown := unknown_filter(match["raw"]):
            raise UsageError(unknown)
    is_plain = quoted or name in {
        "handler",
        "lane",
        "tag",
    }  # whose names may begin like a comparison
    sign, value = ("", value) if is_plain else _signed(value)
    values = (value,) if quoted or name == "text" else tuple(value.split(","))
    if not all(text.strip() for text in values) or name == "payload.":
        msg = f"{match['raw']!r} is empty, which would select every job: add a value or remove it"
        raise UsageError(msg)
    if not quoted and value.count("*") > MOST_STARS:
        raise UsageError(
            f"{match['raw']!r:.80} has {value.count('*')} stars; use at most {MOST_STARS} in a word"
        )
    term = Term(name, values, match["raw"], sign, bool(match["minus"]), quoted)
    return _checked(term)


def _value(match: re.Match[str]) -> tuple[str, bool]:
    if match["quoted"] is None:
        return match["bare"] or "", False
    return re.sub(r"\\(.)", r"\1", match["quoted"]), True


def _signed(value: str) -> tuple[str, str]:
    match = _SIGN.match(value)
    sign = match[0] if match else ""
    return sign, value[len(sign) :]


def _unknown(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - for those who mistyped

    near = get_close_matches(name, KNOWN, n=1)
    meant = f" (did you mean {near[0]}:?)" if near else ""
    known = ", ".join(f"{known_name}:" for known_name in KNOWN)
    return f"there is no filter {name + ':'!r}{meant}; use {known}, or words in double quotes"


def _checked(term: Term) -> Term:
    """Refuse a comparison with what cannot be compared."""
    if term.name in _COUNTS and not all(map(_NUMBER.fullmatch, term.values)):
        msg = f"{term.name}: is compared with a number, as in {term.name}:>=5; found {term.raw!r}"
        raise UsageError(msg)
    ordered = term.name in {*_COUNTS, "age"} or term.name.startswith("payload.")
    if term.sign not in {"", "="} and not ordered:
        raise UsageError(f"{term.name}: cannot be compared by {term.sign}; found {term.raw!r}")
    if named := _NAMES.get(term.name):
        pattern, like = named
        for value in term.values:
            if not (pattern.fullmatch(value) or _PLAIN.fullmatch(value)):
                raise UsageError(f"{value!r} is not a {term.name}; write it like {like}")
    return term


def _bare(match: re.Match[str]) -> Term:
    """Read a word without a name: quoted text, a group, a run, or what names a job."""
    value, quoted = _value(match)
    minus = bool(match["minus"])
    if quoted and value.strip():
        return Term("text", (value,), match["raw"], "", minus, quoted=True)
    for name, pattern in (("group", _GROUP), ("run", _RUN), ("id", _KEY)):
        if not quoted and pattern.fullmatch(value):
            return Term(name, (value,), match["raw"], "", minus)
    raise UsageError(no_job(match["raw"]))


def is_set(text: str) -> bool:
    """Return True for the name of a group or a run, which never names one job."""
    return bool(_GROUP.fullmatch(text) or _RUN.fullmatch(text))


def is_selector(text: str) -> bool:
    """Return True for a text that means other jobs than the one that has it as its key."""
    return is_set(text) or (":" in text and not unknown_filter(text))


def no_job(text: str) -> str:
    """Return the message for a job that does not exist, with what else can be typed."""
    return (
        f"no job {text!r}; ids look like 01J9ZQ4B7V5X2C8D3E6F1G0H4K (4 or more of the first characters, "
        "the job's key or its event's id are enough), groups like G7, filters like state:dead; put words "
        "to search for in double quotes"
    )


def numbers(term: Term) -> tuple[int, ...]:
    """Return the numbers of groups, runs or actions."""
    return tuple(int(value.lstrip("GgRrAa")) for value in term.values)


def check(term: Term) -> Check:
    """Return the check of one job for a term."""
    fits = _question(term)
    return (lambda job: not fits(job)) if term.negated else fits


def _question(term: Term) -> Check:
    name = term.name
    if name == "id":
        return lambda job: job.id.startswith((term.values[0], term.values[0].upper()))
    if name == "text":
        return lambda job: contains(job, term.values[0].casefold())
    if name == "group":
        return lambda job: job.group in numbers(term)
    if name == "run":
        return lambda job: job.run is not None and abs(job.run) in numbers(term)
    if name == "action":
        return lambda job: bool(job.actions) and job.actions[-1] in numbers(term)
    if name in _COUNTS:
        return lambda job: _compared(getattr(job, name), term)
    if name.startswith("payload."):
        path = name.split(".")[1:]
        return lambda job: any(_compared(value, term) for value in _at(job.payload, path))
    fields = _TEXTS[name]
    return lambda job: any(_compared(value, term) for value in fields(job))


def contains(job: Job, text: str) -> bool:
    """Return True if case-folded text is in the error's type, message or title, or the payload."""
    parts = [job.payload]
    if job.failure is not None:
        parts += [job.failure.type, job.failure.message, job.failure.title]
    return any(text in part.casefold() for part in parts)


def _at(payload: str, path: list[str]) -> Iterator[object]:
    """Yield the value at a path of names and positions, if there is one."""
    try:
        value: Any = loads(payload)
        for step in path:
            value = value[int(step) if type(value) is list else step]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return
    yield value


def _compared(value: object, term: Term) -> bool:
    """Compare what a job has with the values of a term: as numbers or as text."""
    if value is None and not term.name.startswith("payload."):
        return False
    return any(_pair(value, wanted, term) for wanted in term.values)


def _pair(value: object, wanted: str, term: Term) -> bool:
    """Compare with one value: as numbers if both are, else as texts. "007" is no other way to say 7."""
    compare, ordered = _SIGNS[term.sign], term.sign in OPPOSITE
    text = value if isinstance(value, str) else _written(value)
    if _NUMBER.fullmatch(wanted) and not term.quoted:
        if type(value) in {int, float}:
            return compare(value, _number(wanted))
        if ordered and _NUMBER.fullmatch(text):
            return compare(_number(text), _number(wanted))
    if ordered:
        return isinstance(value, str) and compare(value, wanted)
    if term.name == "error":
        text, wanted = text.casefold(), wanted.casefold()
    return text == wanted if term.quoted else matches(wanted, text)


def _written(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):  # nested too deeply
        return ""


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)
