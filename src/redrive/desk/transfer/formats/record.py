"""What every format shares: how a record becomes a job, and what of a job no format can hold.

That goes out in one more field, `redrive`, and is believed on the way back as long as the rest of the
record agrees. So a job that came from a format and goes back to it is the same job.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, cast

from redrive.desk.transfer.formats import times
from redrive.desk.transfer.formats.failings import CATEGORIES, Failing, grouped
from redrive.desk.transfer.formats.fields import Fields, Raw, cut, inner, written
from redrive.jobs import ids
from redrive.jobs.job import TERMINAL, Attempt, Category, Job, Reason, Resolution, State
from redrive.jobs.records import altered, evolve
from redrive.jobs.reports import IMPORTED
from redrive.payloads import strict_json

EXTRA: Final = "redrive"  # the field in which goes out what a format has no place for
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_ID = re.compile(r"[0-9A-Za-z_-]{4,64}")
_UNFIT = re.compile(r"^\.|[^A-Za-z0-9._-]")


class Line(NamedTuple):
    """One record: its text, what that means, and the name it stood under, if any."""

    text: str
    value: Fields
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferOptions:
    """The options of an import or an export."""

    handler: str | None = None
    """Instead of the format's usual one."""
    zone: times.Zone | None = None
    """The zone of times that name none; without it they are refused in, and written as local out."""
    urls: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where each endpoint sends to, by its name: jobs that came from no record do not say it."""
    limit: int = strict_json.MAX_BYTES
    now: float = 0.0
    skip: Callable[[Job, str], None] = lambda _job, _why: None
    """Called with each job that the format cannot hold, and why."""

    def naive(self, at: float) -> str:
        """Write a time without its zone: in the zone that was named, or in local time."""
        return times.naive(at, self.zone or times.local)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How the records of one program look, and what they mean."""

    name: str
    fits: Callable[[Fields], bool]
    """True for a record that has the fields of this format."""
    job: Callable[[Sequence[Line], TransferOptions], Job]
    """Make a job of all the lines about it; ValueError says what is wrong."""
    write: Callable[[Iterable[Job], TransferOptions], Iterator[str]] = lambda _jobs, _asked: iter(
        ()
    )
    """Write jobs as lines; nothing if the format is only read."""
    group: Callable[[Fields], str] | None = None
    """What lines about one job have in common, where there may be many."""
    names: Callable[[Job], Iterable[str]] | None = None
    """The same of a stored job, and the ids it was known by."""
    ignores: Callable[[Fields], str] | None = None
    """Why a record of this shape is no work at all; empty for one that is."""
    ends: Callable[[Fields], Iterable[str]] | None = None
    """The ids of other lines that a line says the end of."""
    chain: Callable[[Fields], Link | None] | None = None
    """How a line follows one with another id, where no line names that id."""
    url: str = ""
    """The member of the payload that says where a job is sent."""
    is_mapped: bool = False
    """True for a mapping of the user's own."""


class Link(NamedTuple):
    """The place of one line in a chain of retries that have an id each."""

    alike: str
    """What all lines of the chain have in common."""
    after: int
    """The number of the retry before it; 0 for none."""
    number: int
    """Its own number; 0 for a line that ends the chain."""
    at: str
    ready: str
    """When the next line may follow."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """What a record tells about a job; what it leaves open is None, and `made` fills it in."""

    ident: str
    handler: str
    payload: str
    state: State
    reason: Reason | None = None
    value: object = None
    """The state as the record has it."""
    moment: float | None = None
    """The time that the id begins with, instead of the creation's."""
    attempts: int = 0
    failed: int | None = None
    """How many attempts failed, where that is not all of them."""
    max_attempts: int = 0
    created: float | None = None
    updated: float | None = None
    due: float | None = None
    finished: float | None = None
    failed_at: float | None = None
    """When the latest attempt failed."""
    first_failed: float | None = None
    died_at: float | None = None
    failings: list[Failing] = field(default_factory=list[Failing])
    redrives: int = 0
    tags: tuple[str, ...] = ()
    key: str | None = None
    origin: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def began(self) -> float:
        """The time of the record, to sort by."""
        return self.created or 0.0

    @property
    def latest(self) -> float | None:
        """The latest time that the record tells, of those that are over."""
        times = (self.created, self.updated, self.failed_at)
        ended = self.finished if self.state in TERMINAL else None
        return max((at for at in (*times, ended) if at is not None), default=None)


def made(
    draft: Draft,
    asked: TransferOptions,
    extra: object,
    *,
    format: str,  # noqa: A002 - the word for it
    is_same: Callable[[State], bool] = lambda _: True,
) -> Job:
    """Make the job that a record tells of; `extra` is what we once added to the record."""
    last = asked.now if draft.latest is None else draft.latest
    created = next((at for at in (draft.created, draft.failed_at) if at is not None), last)
    failed = draft.attempts if draft.failed is None else draft.failed
    spent = min(failed, draft.attempts)
    failure = draft.failings[-1].failure if draft.failings else None
    due = max(created, last if draft.due is None else draft.due)
    history = _history(draft.failings, failed, draft.redrives)
    has_failed = bool(failed or draft.failings)
    firsts = (draft.first_failed, *(failing.at for failing in draft.failings[:1]), last)
    ended = last if draft.finished is None else draft.finished
    handler = asked.handler or fit_name(draft.handler)
    job = Job(
        id=ids.id_of(created if draft.moment is None else draft.moment, f"{format}\0{draft.ident}"),
        handler=handler,
        lane=handler,
        payload=strict_json.compact(draft.payload, max_bytes=asked.limit),
        key=key_of(format, draft.ident) if draft.key is None else draft.key,
        created=created,
        updated=last,
        due=due,
        since=due,
        state=draft.state,
        reason=draft.reason,
        attempts=draft.attempts,
        spent={(failure.category if failure else Category.UNKNOWN).value: spent} if spent else {},
        own_max_attempts=draft.max_attempts or None,
        max_attempts=draft.max_attempts,
        redrives=draft.redrives,
        finished=ended if draft.state in TERMINAL else None,
        died_at=ended if draft.died_at is None and draft.state is State.DEAD else draft.died_at,
        first_failed=next(at for at in firsts if at is not None) if has_failed else None,
        failure=None if failure is None else altered(failure, traceback=""),
        lease=history[-1].ordinal if history else 0,
        folded=max(0, failed - len(history)),
        tags=draft.tags,
        origin={"format": format, "id": draft.ident, **draft.origin},
        history=history,
    )
    if isinstance(extra, dict):
        job = _with_extra(job, cast("Fields", extra), asked, is_same)
    if job.state is State.RESOLVED and job.finished is not None:
        was = Reason.EXHAUSTED
        end = Resolution(actor=IMPORTED, reason=job.detail, at=job.finished, was=was)
        job = evolve(job, resolution=end)
    return grouped(job)


def _history(failings: Sequence[Failing], failed: int, redrives: int) -> tuple[Attempt, ...]:
    kept = failings[-failed:] if failed else failings
    first = max(failed, len(kept)) - len(kept) + 1
    return tuple(
        Attempt(
            ordinal=number,
            number=number,
            life=max(0, redrives - 1),
            started=round(failing.at - failing.duration, 6),
            duration=failing.duration,
            worker=IMPORTED,
            outcome="failed",
            failure=failing.failure,
        )
        for number, failing in enumerate(kept, first)
    )


def fit_name(text: str) -> str:
    """Make a handler's name of any text."""
    return _UNFIT.sub("_", text)[:64] or "_"


def program_name(text: str) -> str:
    """Make a name of the name of a table or a file; one in another script says nothing."""
    return fit_name(text) if re.search("[A-Za-z0-9]", text) else IMPORTED


def key_of(format: str, ident: str) -> str:  # noqa: A002
    """Return the key under which a record is known: its format and its id."""
    is_plain = _KEY.fullmatch(format)
    name = format if is_plain else f"{program_name(format)}-{_digest(format)[:8]}"
    return visible(f"{name}:{ident}", format)


def visible(key: str, format: str) -> str:  # noqa: A002
    """Return a key that can travel in a header; one that cannot is known by its digest."""
    return key if _KEY.fullmatch(key) else f"{program_name(format)}:{_digest(key)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def is_id(text: object) -> bool:
    """Return True if a text can be a job's id."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def beside(job: Job, usual: str, **more: object) -> Fields:
    """Return what goes out in the field `redrive`; `usual` is the handler that the format implies."""
    origin = job.origin or {}
    usual_key = key_of(str(origin["format"]), str(origin["id"])) if "id" in origin else None
    extra: Fields = {
        "id": job.id,
        "state": "pending" if job.state is State.RUNNING else job.state.value,
        "reason": job.reason,
        "detail": job.detail or None,
        "category": job.failure.category if job.failure else None,
        "updated": job.updated,
        "finished": job.finished,
        "died_at": job.died_at,
        "first_failed": job.first_failed,
        "redrives": job.redrives or None,
        "tried": job.history[-1].started if job.history else None,
        "limited": False if job.own_max_attempts is None else None,
        "handler": job.handler if job.handler != usual else None,
        "lane": job.lane if job.lane != job.handler else None,
        "key": job.key if job.key != usual_key else None,
        **more,
    }
    return {name: value for name, value in extra.items() if value is not None}


def _with_extra(
    job: Job, given: Fields, asked: TransferOptions, is_same: Callable[[State], bool]
) -> Job:
    """Believe the field `redrive` as far as it agrees with the record."""
    if is_id(given.get("id")):
        job = evolve(job, id=given["id"])
    if asked.handler is None:
        handler = given.get("handler", job.handler)
        job = evolve(job, handler=handler, lane=given.get("lane", handler))
    if isinstance(key := given.get("key"), str) and _KEY.fullmatch(key):
        job = evolve(job, key=key)
    if given.get("limited") is False:
        job = evolve(job, own_max_attempts=None)
    state = given.get("state")
    if state not in _STATES or state == State.RUNNING or not is_same(State(state)):
        return job
    numbers = ("created", "updated", "finished", "died_at", "first_failed", "redrives")
    changes: Fields = {name: given.get(name) for name in numbers if name in given}
    if "due" in given:
        changes |= {"due": given["due"], "since": given["due"]}
    if job.failure is not None and given.get("category") in CATEGORIES:
        changes.update(_recategorised(job, Category(given["category"]), given.get("tried")))
    job = evolve(job, **{"finished": None, **changes, "state": State(state)})
    reason, detail = given.get("reason"), given.get("detail", "")
    return evolve(
        job,
        reason=Reason(reason) if reason in _REASONS else None,
        detail=detail if isinstance(detail, str) else "",
    )


def _recategorised(job: Job, category: Category, tried: object) -> Fields:
    """Return attempts whose last failure has the category and time that the record gives elsewhere."""
    history = job.history
    if history and history[-1].failure is not None:
        failure = replace(history[-1].failure, category=category)
        started = cast("float", history[-1].started if tried is None else tried)
        history = (*history[:-1], replace(history[-1], failure=failure, started=started))
    return {
        "failure": replace(job.failure, category=category) if job.failure else None,
        "history": history,
        "spent": {category.value: sum(job.spent.values())} if job.spent else {},
    }


_STATES: Final = frozenset(State)
_REASONS: Final = frozenset(Reason)


def kept_ids(value: Fields) -> list[str]:
    """Return the further ids that the field `redrive` of a record keeps."""
    more = inner(value, EXTRA).get("ids")
    return [str(name) for name in cast("list[object]", more)] if isinstance(more, list) else []


def origin_of(job: Job, format: str) -> Mapping[str, Any]:  # noqa: A002
    """Return what is known of where a job came from, if it came from this format."""
    origin = cast("Mapping[str, Any]", job.origin or {})
    return origin if origin.get("format") == format else {}


def members_of(job: Job) -> Fields:
    """Return the members of a payload, each as the text it is."""
    return _Members((name, Raw(cut(job.payload, name))) for name in strict_json.loads(job.payload))


class _Members(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        raise ValueError(f"its payload has no {name}")


def each(write: Callable[[Job, TransferOptions], Iterable[Fields]]) -> Callable[..., Iterator[str]]:
    """Make of what writes one job what writes many; a job that does not fit is skipped."""

    def lines(jobs: Iterable[Job], asked: TransferOptions) -> Iterator[str]:
        for job in jobs:
            try:
                texts = [written(value) for value in write(job, asked)]
            except ValueError as error:
                asked.skip(job, str(error))
            else:
                yield from texts

    return lines
