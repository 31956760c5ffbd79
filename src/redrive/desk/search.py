"""Selections, and finding their jobs: what the store answers by index, and what is asked job by job."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from redrive.desk import selectors
from redrive.desk.selectors import Filters, Term, no_job, word
from redrive.errors import JobNotFound, UsageError
from redrive.jobs import checks, durations
from redrive.jobs.job import Category, Group, Job, Reason, State
from redrive.payloads.masked_jobs import secrets_of, seen
from redrive.stores.contract import Page, Query, Scope, Store, every
from redrive.stores.cursors import cursor_of
from redrive.stores.refusals import no_group
from redrive.stores.tallies import Tally, largest

SEARCHED = 20_000
"""How many jobs a list asks one by one, at most, where the store cannot answer; the newest first."""
_READ_FOR_REASON = 100  # how many jobs of an action are read for secrets that its reason may repeat
_CANDIDATES = 5  # how many jobs an error names, if the beginning of an id is not unique

_INDEXED = ("handler", "lane", "category", "key", "run", "action")

USUAL: Mapping[str, Sequence[State]] = {
    "retry": (State.PENDING, State.DEAD),
    "resolve": (State.DEAD,),
    "discard": (State.DEAD,),
    "reopen": (State.RESOLVED,),
    "purge": tuple(State),
}
"""Which states a group or a filter means where no state is named.

A closed job is retried only by id or by `state:resolved`: somebody closed it on purpose.
"""


@dataclass(slots=True)
class Selection:
    """The jobs that are selected: what the store answers, and what is asked job by job."""

    ids: list[str] = field(default_factory=list[str])
    """What names a job (see `job_id`); if there are any, nothing else is asked."""
    groups: list[int] = field(default_factory=list[int])
    """Any of these groups; none is all."""
    query: Query = field(default_factory=Query)
    """For the indexes of the store."""
    terms: list[Term] = field(default_factory=list[Term])
    """For each job."""
    reveal: bool = False
    """True if masked values may be asked for; else jobs are compared as views show them."""
    asked: str = ""
    """As it was typed, for the audit log."""

    @property
    def is_empty(self) -> bool:
        """True if it selects nothing."""
        return not (self.ids or self.groups or self.terms) and self.query == Query()

    def usual(self, states: Iterable[State]) -> Selection:
        """Return the same with these states, if it names none."""
        query = self.query
        return replace(self, query=replace(query, states=query.states or frozenset(states)))

    @property
    def maskable(self) -> list[str]:
        """The values it asks for that may be masked in views."""
        return [value for term in self.terms if term.may_be_masked for value in term.values]

    def queries(self) -> list[Query]:
        """Return the queries for the store: one for each group."""
        return [replace(self.query, group=number) for number in self.groups] or [self.query]

    def question(self) -> Callable[[Job], bool]:
        """Return the check of each job for what the store cannot answer.

        Who may not reveal must not learn, not even by a count or a cursor, that a masked value fits.
        """
        openly, shown = list[selectors.Check](), list[selectors.Check]()
        for term in self.terms:
            check = selectors.check(term)
            hides = term.may_be_masked and not self.reveal
            (shown if hides else openly).append(check)
            if hides and term.name in {"text", "tag"} and not term.negated:
                openly.append(check)  # few jobs have it, and masking all the others takes long

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
    given = list(selectors.terms_of(filters))
    selection = Selection(query=Query(failed=filters.get("failed", False)), reveal=reveal)
    terms, asked = list[Term](), list[str]()
    for target in targets:
        if isinstance(target, Job):
            selection.ids.append(target.id)
            asked.append(target.id)
        elif isinstance(target, Group):
            selection.groups.append(target.number)
            asked.append(target.name)
        else:
            what = "a target (a job, its id, a group, or words of a selector)"
            asked.append(checks.text(target, what))
            terms += selectors.parse(asked[-1])
    selection.asked = " ".join([*asked, *(term.raw for term in given)])
    if "group" in filters and (selection.groups or any(term.name == "group" for term in terms)):
        raise UsageError("name the group once: G7 or group=7")
    _check_terms(terms, reveal=reveal)
    states = _states(terms, [term for term in given if term.name == "state"], usual)
    selection.query = replace(selection.query, states=states)
    for term in [*terms, *given]:
        _take(selection, term)
    if selection.ids and (selection.groups or selection.query != Query() or selection.terms):
        for name in selection.ids:
            if unknown := selectors.unknown_filter(name):
                raise UsageError(unknown)
        raise UsageError("use ids, or groups and filters, not both: an id already names its job")
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


def _states(terms: list[Term], given: list[Term], usual: Iterable[State]) -> frozenset[State]:
    """Return the states that are named, without those that are named with a minus; none is any."""

    def named(terms: list[Term], *, negated: bool = False) -> set[State]:
        asked = [t for t in terms if t.name == "state" and t.negated is negated]
        return {word(State, value, "state") for term in asked for value in term.values}

    wanted, filtered, but = named(terms), named(given), named(terms, negated=True)
    if not (wanted or filtered or but):
        return frozenset()
    states = (wanted & filtered if wanted and filtered else wanted or filtered or set(usual)) - but
    if not states:
        raise UsageError("the words leave no state, which would select every job: name one")
    return frozenset(states)


def _take(selection: Selection, term: Term) -> None:
    """Ask the store where it has an index, and each job otherwise."""
    for value in term.values:
        if term.name == "category":
            word(Category, value, "category")
        elif term.name == "reason":
            word(Reason, value, "reason")
    if term.name == "id" and not term.negated:
        selection.ids += term.values
    elif term.name == "group" and not term.negated:
        selection.groups += selectors.numbers(term)
    elif term.name == "age":
        selection.query = _aged(selection.query, term)
    elif term.name != "state":
        query = _indexed(selection.query, term)
        selection.query = query or selection.query
        if query is None or term.name == "key":  # the job of a key is asked if views show it
            selection.terms.append(term)


def _indexed(query: Query, term: Term) -> Query | None:
    """Return the query with a term that an index answers; None if none does, or one is asked already."""
    name, new = term.name, cast("Any", term.values[0])
    if name not in _INDEXED or term.negated or len(term.values) > 1 or getattr(query, name):
        return None
    if "*" in new and term.quoted is (name == "handler"):
        return None
    if name in {"run", "action"}:
        new = selectors.numbers(term)[0]
    changes: dict[str, Any] = {name: Category(new) if name == "category" else new}
    return replace(query, **changes)


def _aged(query: Query, term: Term) -> Query:
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
        older = query.older_than
        return replace(query, older_than=age if older is None else max(age, older))
    newer = query.newer_than
    return replace(query, newer_than=age if newer is None else min(age, newer))


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


def meant(store: Store, selection: Selection, usual: Iterable[State]) -> Iterator[Job | str]:
    """Yield each job an action is meant for, once; an id that nobody has comes as it was written.

    Groups and filters mean the usual states unless a state is named. However many jobs there are,
    all are searched: an action has no bound that people do not see. The jobs come as they are stored,
    also where `selection` is asked of jobs as views show them.
    """
    if selection.is_empty:
        raise UsageError("name the jobs: ids, a group such as G7, or filters (state=, handler=, …)")
    selection = selection.usual(usual)
    seen = set[str]()
    for job in _by_ids(store, selection.ids) if selection.ids else each(store, selection):
        name = job if isinstance(job, str) else job.id
        if name not in seen:
            seen.add(name)
            yield job


def _by_ids(store: Store, ids: Iterable[str]) -> Iterator[Job | str]:
    for text in ids:
        try:
            yield from store.find(Query(ids=(job_id(store, text),), limit=1)).jobs
        except JobNotFound:
            yield text


def known(jobs: Iterable[Job | str]) -> list[Job]:
    """Return the jobs of a selection; JobNotFound if one of its ids is unknown."""
    named = list(jobs)
    if missing := [text for text in named if isinstance(text, str)]:
        raise JobNotFound(f"no job {missing[0]!r}; nothing was changed")
    return [job for job in named if isinstance(job, Job)]


def secrets_in(store: Store, which: Sequence[str] | Query) -> list[str]:
    """Return the secrets of the first of these jobs, for a reason that may repeat one."""
    if not isinstance(which, Query):
        which = Query(ids=tuple(which[:_READ_FOR_REASON]))
        if not which.ids:
            return []
    jobs = store.find(replace(which, limit=_READ_FOR_REASON)).jobs
    return [secret for job in jobs for secret in secrets_of(job)]


def each(store: Store, selection: Selection) -> Iterator[Job]:
    """Return all jobs of a selection, newest first, page by page as they are asked for.

    They come as stored, never masked. JobNotFound if it names an id, a group or a run that is unknown.
    """
    if selection.ids:
        ids = dict.fromkeys(job_id(store, text) for text in selection.ids)
        return (job for name in ids for job in store.find(Query(ids=(name,), limit=1)).jobs)
    _check_names(store, selection)
    return filter(selection.question(), _merged(store, selection.queries()))


def no_run(number: int) -> JobNotFound:
    """Return the error for a run that is not remembered."""
    return JobNotFound(f"no run R{number}; `redrive run` lists the runs that are remembered")


def _check_names(store: Store, selection: Selection) -> None:
    """Raise JobNotFound if a group or a run is named that is unknown, as an unknown id is."""
    groups = set(selection.groups)
    if groups and (missing := groups - store.group_records(groups).keys()):
        raise no_group(min(missing))
    asked = [term for term in selection.terms if term.name == "run" and not term.negated]
    runs = [number for term in asked for number in selectors.numbers(term)]
    for number in [*runs, selection.query.run or 0]:
        if number:
            _check_run(store, number)


def _check_run(store: Store, number: int) -> None:
    from redrive.runs import run_records  # noqa: PLC0415 - few selections name a run

    if not run_records.stored(store, number) and not store.find(Query(run=number, limit=1)).jobs:
        raise no_run(number)


def find(
    store: Store, selection: Selection, *, limit: int, cursor: str | None, by_change: bool
) -> Page:
    """Return a page of a selection, asking SEARCHED jobs one by one at most; its scope says how many."""
    if selection.ids:
        return Page(list(each(store, selection)))
    _check_names(store, selection)
    queries = [
        replace(query, limit=limit, cursor=cursor, by_change=by_change)
        for query in selection.queries()
    ]
    if len(queries) == 1 and not selection.terms:
        return store.find(queries[0])
    fits = selection.question()
    if selection.query.key:  # where it looked would tell if a masked key was guessed right
        return Page([job for query in queries for job in store.find(query).jobs if fits(job)])
    matching, looked, after = list[Job](), 0, None
    for job in _merged(store, queries):
        if len(matching) == limit or looked == SEARCHED:
            return Page(matching, after, Scope(looked, _size(store, queries)))
        looked, after = looked + 1, cursor_of(job.updated, job.id, by_change=by_change)
        if fits(job):
            matching.append(job)
    return Page(matching, None, Scope(looked, looked))


def groups(store: Store, selection: Selection, limit: int) -> tuple[list[Group], Scope | None]:
    """Count a selection's jobs by cause: dead ones unless states are named, the commonest first."""
    if selection.ids:
        name = selection.ids[0]
        msg = f"groups are counted by groups and filters, not by jobs; found {name!r}"
        raise UsageError(selectors.unknown_filter(name) or msg)
    _check_names(store, selection)
    selection = selection.usual([State.DEAD])
    tallies, page = defaultdict[int, Tally](Tally), Page([])
    if selection.terms:
        page = find(store, selection, limit=SEARCHED, cursor=None, by_change=False)
    else:
        found = [store.groups(replace(query, limit=limit)) for query in selection.queries()]
        if len(found) == 1:
            return found[0], None
        for group in [group for some in found for group in some]:
            tallies[group.number].jobs += group.jobs
            for handler in group.handlers:
                tallies[group.number].add(handler, group.category, 0, 0.0)
    for job in page.jobs:
        if job.group is not None:
            kind = job.failure.category if job.failure else None
            tallies[job.group].add(job.handler, kind, 1, job.updated, job_id=job.id)
    records = store.group_records(tallies)
    most = largest(tallies.items(), limit)
    return [tally.group(number, records.get(number)) for number, tally in most], page.scope


def _merged(store: Store, queries: Sequence[Query]) -> Iterator[Job]:
    """Merge the jobs of several queries, which share none, in one order."""

    def order(job: Job) -> tuple[float, str]:
        return job.updated if queries[0].by_change else 0.0, job.id

    found = [every(store, query) for query in queries]
    return found[0] if len(found) == 1 else heapq.merge(*found, key=order, reverse=True)


def _size(store: Store, queries: Sequence[Query]) -> int:
    """Count the jobs that come into question: of these groups, or in these states."""
    if queries[0].group is not None:
        return sum(g.jobs for query in queries for g in store.groups(replace(query, cursor=None)))
    states = queries[0].states or set(State)
    return sum(count.jobs for count in store.counts() if count.state in states)
