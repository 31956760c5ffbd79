"""Selections: from ids, groups, filters and selectors to a query and what is checked job by job."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import TypedDict, TypeVar, Unpack

from redrive.desk import selectors
from redrive.desk.selectors import Term, no_job
from redrive.errors import JobNotFound, UsageError
from redrive.jobs import checks, durations
from redrive.jobs.durations import Duration
from redrive.jobs.job import Category, Group, Job, Reason, State
from redrive.payloads.masked_jobs import seen
from redrive.stores.contract import Query, Store

_GROUP = re.compile(r"[Gg]?(\d{1,9})")
_CANDIDATES = 5  # how many jobs an error names, if the beginning of an id is not unique
_EXACT = ("lane", "category", "tag", "key")
_MASKABLE = ("tag", "key", "text")  # filters that a store answers, of what may be masked in views
_TEXTS = ("handler", "text", *_EXACT)  # the filters that are one text each
E = TypeVar("E", State, Category, Reason)

USUAL: Mapping[str, Sequence[State]] = {
    "retry": (State.PENDING, State.DEAD),
    "resolve": (State.DEAD,),
    "discard": (State.DEAD,),
    "reopen": (State.RESOLVED,),
    "purge": tuple(State),
}
"""Which states a group or a filter means where no state is named.

A closed job is retried only by id or by `state="resolved"`: somebody closed it on purpose.
"""


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
    action: int
    """The number of the last action on them."""
    older_than: Duration
    newer_than: Duration
    failed: bool
    text: str
    match: str
    """More words of the selector grammar, asked job by job."""


def query_of(**filters: Unpack[Filters]) -> Query:
    """Build a query from filters. Misspelled and empty filters are refused: they would select every job."""
    for name, value in filters.items():
        _check_filter(name, value)
    category = filters.get("category")
    older, newer = filters.get("older_than"), filters.get("newer_than")
    return Query(
        handler=filters.get("handler", ""),
        lane=filters.get("lane", ""),
        tag=filters.get("tag", ""),
        key=filters.get("key", ""),
        run=filters.get("run"),
        action=filters.get("action"),
        failed=filters.get("failed", False),
        text=filters.get("text", ""),
        states=_states(filters.get("state", ())),
        category=None if category is None else _word(Category, category, "category"),
        group=group_number(filters["group"]) if "group" in filters else None,
        older_than=None if older is None else durations.seconds(older, name="older_than"),
        newer_than=None if newer is None else durations.seconds(newer, name="newer_than"),
    )


def _check_filter(name: str, value: object) -> None:
    known = Filters.__annotations__
    if name not in known:
        raise UsageError(f"there is no filter {name!r}; use: {', '.join(known)}")
    if value is None or (isinstance(value, Sized) and not len(value)):
        msg = f"the filter {name} is empty, which would select every job: add a value or remove it"
        raise UsageError(msg)
    if isinstance(value, str):
        selectors.checked_text(value, f"the filter {name}")
    if name in _TEXTS:
        checks.text(value, f"the filter {name}")
    elif name in {"run", "action"}:
        checks.whole(value, f"the filter {name}", least=1)


def _states(value: State | str | Iterable[State | str]) -> frozenset[State]:
    words = [value] if isinstance(value, str) else checks.texts(value, "the filter state")
    return frozenset(_word(State, word, "state") for word in words)


def _word(kind: type[E], value: str, name: str) -> E:
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
    match = _GROUP.fullmatch(value) if isinstance(value, str) else None
    if match:
        return int(match[1])
    raise UsageError(f"{value!r} is not a group; groups are named G1, G2 …: see `redrive groups`")


def no_run(number: int) -> JobNotFound:
    """Return the error for a run that is not remembered."""
    return JobNotFound(f"no run R{number}; `redrive run` lists the runs that are remembered")


@dataclass(slots=True)
class Selection:
    """The jobs that are selected: what the store answers, and what is checked job by job."""

    ids: list[str] = field(default_factory=list[str])
    """What names a job (see `job_id`); if there are any, nothing else is asked."""
    groups: list[int] = field(default_factory=list[int])
    """Any of these groups; none is all."""
    filters: Filters = field(default_factory=Filters)
    """For the store."""
    terms: list[Term] = field(default_factory=list[Term])
    """For each job."""
    reveal: bool = False
    """True if masked values may be asked for; else jobs are compared as views show them."""
    asked: str = ""
    """As it was typed, for the audit log."""

    @property
    def is_empty(self) -> bool:
        """True if it selects nothing."""
        return not (self.ids or self.groups or self.filters or self.terms)

    def usual(self, states: Iterable[State]) -> Selection:
        """Return the same with these states, if it names none."""
        filters = Filters(**self.filters)
        filters.setdefault("state", states)
        return replace(self, filters=filters)

    @property
    def maskable(self) -> list[str]:
        """The values it asks for that may be masked in views."""
        filters = [str(value) for name, value in self.filters.items() if name in _MASKABLE]
        return filters + [v for term in self.terms if term.may_be_masked for v in term.values]

    def question(self) -> Callable[[Job], bool]:
        """Return the check of each job for what the store cannot answer."""
        return self._asked(self.terms)

    def confirmation(self) -> Callable[[Job], bool] | None:
        """Return what must hold of each job the store has found; None where its answer is enough.

        A store compares what it keeps. Who may not reveal must not learn from its answer, not even by
        a count or a cursor, that a masked value fits.
        """
        asked = [(name, str(value)) for name, value in self.filters.items() if name in _MASKABLE]
        if self.reveal or not asked:
            return None
        return self._asked([Term(name, (value,), "", quoted=True) for name, value in asked])

    def _asked(self, terms: list[Term]) -> Callable[[Job], bool]:
        openly = [selectors.check(term) for term in terms if self.reveal or not term.may_be_masked]
        shown = [selectors.check(term) for term in terms if not self.reveal and term.may_be_masked]

        def fits(job: Job) -> bool:
            if not all(check(job) for check in openly):
                return False
            view = seen(job) if shown else job
            return all(check(view) for check in shown)

        return fits


Target = str | Job | Group | Selection
"""A job, its id or the unique beginning of one, its key, its event's id; a group; words of a selector.

A selection that was read before stands alone.
"""


def read(
    targets: Sequence[Target],
    filters: Filters,
    usual: Iterable[State] = tuple(State),
    *,
    reveal: bool = False,
) -> Selection:
    """Read the words of a selection and its filters; all must hold, groups are alternatives.

    `usual` are the states from which `-state:` takes away, where none is named. Without `reveal` a word
    that names a masked field is refused.
    """
    if len(targets) == 1 and isinstance(targets[0], Selection) and not filters:
        return replace(targets[0], reveal=reveal)
    selection = Selection(filters=Filters(**filters), reveal=reveal)
    terms = list(
        selectors.parse(checks.text(selection.filters.pop("match", ""), "match"), keys=False)
    )
    for target in targets:
        if isinstance(target, Job):
            selection.ids.append(target.id)
        elif isinstance(target, Group):
            selection.groups.append(target.number)
        else:
            what = "a target (a job, its id, a group, or words of a selector)"
            terms += selectors.parse(checks.text(target, what))
    _check_terms(terms, reveal=reveal)
    _take_terms(selection, terms, usual)
    if selection.ids and (selection.groups or selection.filters or selection.terms):
        for name in selection.ids:
            if unknown := selectors.unknown_filter(name):
                raise UsageError(unknown)
        raise UsageError("use ids, or groups and filters, not both: an id already names its job")
    if selection.groups and "group" in selection.filters:
        raise UsageError("name the group once: G7 or group=7")
    selection.groups = list(dict.fromkeys(selection.groups))
    return selection


def _check_terms(terms: list[Term], *, reveal: bool) -> None:
    asked = [term for term in terms if term.name != "id" or term.negated]
    if len(asked) > selectors.MOST_TERMS:
        msg = f"a selector may have {selectors.MOST_TERMS} words beside ids; found {len(asked)}"
        raise UsageError(msg)
    for term in terms:
        if not reveal and term.masked_name:
            raise UsageError(
                f"{term.name} cannot be searched: {term.masked_name!r} is a masked field. A program "
                "that may see secrets can use app.desk.jobs.find(…, reveal=True)"
            )


def _take_terms(selection: Selection, terms: list[Term], usual: Iterable[State]) -> None:
    states = [term for term in terms if term.name == "state"]
    if states:
        _take_states(selection.filters, states, usual)
    for term in terms:
        for value in term.values:
            if term.name == "category":
                _word(Category, value, "category")
            elif term.name == "reason":
                _word(Reason, value, "reason")
        if term.name == "id" and not term.negated:
            selection.ids += term.values
        elif term.name == "group" and not term.negated:
            selection.groups += selectors.numbers(term)
        elif term.name == "age":
            _take_age(selection.filters, term)
        elif term.name != "state" and not _take_filter(selection.filters, term):
            selection.terms.append(term)


def _take_states(filters: Filters, terms: list[Term], usual: Iterable[State]) -> None:
    """Add the states that are named; those that are named with a minus are taken away."""
    by_sign = {
        minus: {
            _word(State, value, "state")
            for term in terms
            if term.negated is minus
            for value in term.values
        }
        for minus in (False, True)
    }
    named = by_sign[False] or _states(filters.get("state", usual))
    if "state" in filters:
        named &= _states(filters["state"])
    filters["state"] = sorted(named - by_sign[True])


def _take_age(filters: Filters, term: Term) -> None:
    """Ask for the narrowest of all ages that are named."""
    sign = selectors.OPPOSITE.get(term.sign, "") if term.negated else term.sign
    try:
        age = durations.seconds(term.values[0])
    except UsageError:
        age = None
    if age is None or sign not in selectors.OPPOSITE or len(term.values) > 1:
        raise UsageError(
            "age must be like age:>2h (older) or age:<1h30m (newer), with the units s, m, h, d, w; "
            f"found {term.raw!r}"
        )
    if sign.startswith(">"):
        filters["older_than"] = max(age, durations.seconds(filters.get("older_than", age)))
    else:
        filters["newer_than"] = min(age, durations.seconds(filters.get("newer_than", age)))


def _take_filter(filters: Filters, term: Term) -> bool:
    """Make a filter of a term, if the store knows one for it that is still free."""
    name, value = term.name, term.values[0]
    if term.negated or len(term.values) > 1 or name in filters or term.sign in selectors.OPPOSITE:
        return False
    if name in {"run", "action"}:
        filters[name] = selectors.numbers(term)[0]  # type: ignore[literal-required]
    elif name == "text" or (name in _EXACT and not term.is_pattern):
        filters[name] = value  # type: ignore[literal-required]
    elif name == "handler" and (term.is_pattern or "*" not in value):
        filters["handler"] = value
    else:
        return False
    return True


def job_id(store: Store, text: str) -> str:
    """Return the id of the job that a text names; UsageError if it names more than one.

    It may be an id or the beginning of one, else a key or `key:KEY`, else the id of an event. The name
    of a group or a run is none of these.
    """
    selectors.checked_text(checks.text(text, "a job's id"), "a job's id")
    is_id = selectors.ID.fullmatch(text) is not None
    if is_id:
        if store.get(text) is not None:
            return text
        if jobs := store.find(Query(prefix=text.upper(), limit=_CANDIDATES + 1)).jobs:
            return _only(jobs, f"{text!r} is the beginning of more than one id", "type more of it")
    if text and not selectors.is_set(text):
        keys = dict.fromkeys((text.removeprefix("key:") or text, text))
        by_key = [job for key in keys for job in store.find(Query(key=key, limit=1)).jobs]
        # A correct guess of a masked key must not be confirmed.
        jobs = [job for job in by_key if seen(job).key in keys]
        if jobs := jobs or store.find(Query(event=text, limit=_CANDIDATES + 1)).jobs:
            return _only(jobs, f"{text!r} matches more than one job", "type the id of one of them")
    if unknown := selectors.unknown_filter(text):
        raise UsageError(unknown)
    raise JobNotFound(no_job(text)) if is_id else UsageError(no_job(text))


def _only(jobs: Sequence[Job], many: str, advice: str) -> str:
    if len(jobs) > 1:
        names = ", ".join(job.id for job in jobs[:_CANDIDATES])
        more = " and more" if len(jobs) > _CANDIDATES else ""
        raise UsageError(f"{many}: {names}{more}; {advice}")
    return jobs[0].id


def spelled(targets: Iterable[Target], filters: Filters) -> str:
    """Write a selection down for the record."""
    names = [*map(_spelled, targets), *(f"{name}:{value}" for name, value in filters.items())]
    return " ".join(names)


def _spelled(target: Target) -> str:
    match target:
        case str():
            return target
        case Job():
            return target.id
        case Group():
            return target.name
        case Selection():
            return target.asked
