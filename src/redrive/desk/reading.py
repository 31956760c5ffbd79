"""Looking at jobs, causes, deeds and workers, without anything that could run or change a job.

It is apart from the desk because a command that only looks should not wait for what it does not need.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, cast

from redrive.desk import search
from redrive.desk.selection import Filters, Target, group_number, job_id, no_group, read
from redrive.errors import JobNotFound
from redrive.jobs import checks
from redrive.jobs.durations import Duration, seconds
from redrive.jobs.job import Act, Group, Job, State
from redrive.payloads import masked_jobs
from redrive.stores import open_store, worker_notes
from redrive.stores.contract import PAUSE, Count, Note, Page, Query, Scope, Store

if TYPE_CHECKING:
    from redrive.jobs.clock import Clock
    from redrive.runs.run_records import Run

__all__ = ["Count", "Looking", "Mark", "Note", "Page", "Scope"]

GROUP = "group:"
"""What the names of these notes begin with; the number follows."""

_ACTS = 1000
Status = Literal["open", "resolved", "regressed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What was said about a group, by whom and when."""

    resolved: float | None = None
    """When it was marked as resolved; None while it is open."""
    by: str = ""
    """A person, or a run such as R12."""
    reason: str = ""
    note: str = ""
    noted: float | None = None
    noted_by: str = ""

    def status(self, last_seen: float | None) -> Status:
        """Say how a group stands whose newest dead job died then."""
        if self.resolved is None:
            return "open"
        return "regressed" if last_seen is not None and last_seen > self.resolved else "resolved"


class Looking:
    """Looks at a store; `Redrive` does that and more."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._opened = open_store(url, create=False, read_only=True, clock=clock)

    @property
    def store(self) -> Store:
        """The open store."""
        return self._opened

    def close(self) -> None:
        """Let go of files and connections."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, which: str) -> Job:
        """Give one job with its whole history, by id or the unique beginning of one."""
        job = self.store.get(job_id(self.store, which))
        if job is None:
            msg = f"no job {which!r}"
            raise JobNotFound(msg)
        return job

    def find(
        self,
        *words: Target,
        limit: int = 100,
        cursor: str | None = None,
        by_change: bool = False,
        reveal: bool = True,
        **filters: Unpack[Filters],
    ) -> Page:
        """Give a page of jobs, newest first; every word and filter given must hold.

        Words are those of the selector grammar: `app.find("handler:billing.* age:>2h")`. What no index
        answers is asked job by job, of a bounded number; then the page's `scope` says how many. With
        `reveal=False` the jobs come masked, and nothing that is masked can be asked for.
        """
        wanted = read(words, filters, reveal=reveal)
        store = self.store
        checks.whole(limit, "limit", least=1)
        page = search.find(store, wanted, limit=limit, cursor=cursor, by_change=by_change)
        return page if reveal else page._replace(jobs=[masked_jobs.seen(job) for job in page.jobs])

    def each(
        self, *words: Target, reveal: bool = True, **filters: Unpack[Filters]
    ) -> Iterator[Job]:
        """Return all jobs that match, newest first, page by page as they are asked for.

        With `reveal=False` nothing that is masked can be asked for; the jobs come as they are stored.
        """
        return search.each(self.store, read(words, filters, reveal=reveal))

    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""
        return self.store.counts()

    def groups(
        self,
        *words: Target,
        limit: int = 100,
        reveal: bool = True,
        **filters: Unpack[Filters],
    ) -> list[Group]:
        """Give the causes of dead jobs (or of those that are selected), the commonest first."""
        return self.tally(*words, limit=limit, reveal=reveal, **filters)[0]

    def tally(
        self,
        *words: Target,
        limit: int = 100,
        reveal: bool = True,
        **filters: Unpack[Filters],
    ) -> tuple[list[Group], Scope | None]:
        """Return the causes, and how far was looked where no index answers; `reveal` is as in `find`."""
        checks.whole(limit, "limit", least=1)
        return search.groups(self.store, read(words, filters, reveal=reveal), limit)

    def group(self, which: int | str | Group) -> Group:
        """Give a group with its dead jobs counted, or with its others where none is dead."""
        number, store = group_number(which), self.store
        for states in (frozenset({State.DEAD}), frozenset(State)):
            if found := store.groups(Query(group=number, states=states, limit=1)):
                return found[0] if State.PENDING not in states else replace(found[0], jobs=0)
        raise no_group(number)

    def deaths(
        self, width: float, number: int, *, groups: Collection[int] | None = None
    ) -> dict[int, list[int]]:
        """Count when the dead died: in the last spans of so many seconds, the oldest span first.

        For each of these groups; without groups, all dead jobs under 0.
        """
        return self.store.deaths(width, number, groups=groups)

    def group_marks(self) -> dict[int, Mark]:
        """Give what was said about groups, by number."""
        notes = self.store.notes(GROUP)
        return {int(note.name[len(GROUP) :]): mark_of(note) for note in notes}

    def acts(
        self,
        *,
        limit: int = 100,
        before: int | None = None,
        actor: str | None = None,
        verb: str | None = None,
        since: Duration | None = None,
        run: int | str | None = None,
    ) -> list[Act]:
        """Give what people did, newest first; the single steps of a run only if it is asked for.

        `since` is how long ago, at most.
        """
        from redrive.runs import run_records  # noqa: PLC0415 - few commands ask

        checks.whole(limit, "limit", least=1)
        asked = None if run is None else f"R{run_records.number_of(run)}"
        begin = -inf if since is None else self.store.now() - seconds(since, name="since")
        found: list[Act] = []
        while len(found) < limit:
            page = self.store.acts(limit=_ACTS, before=before)
            found += [
                act
                for act in page
                if act.at >= begin
                and actor in {None, act.actor}
                and verb in {None, act.verb}
                and run_records.is_about(act, asked)
            ]
            if len(page) < _ACTS or page[-1].at < begin:
                break
            before = page[-1].number
        return found[:limit]

    def workers(self) -> list[Note]:
        """Give the notes of live workers; the value says where each runs and what it serves."""
        return [
            note for note in self.store.notes(worker_notes.WORKER) if not worker_notes.is_pass(note)
        ]

    def last_pass(self) -> float | None:
        """Say when what was due was last run by a pass (`run_due`), if that is a day ago at most."""
        store = self.store
        left = [
            note.expires_in or 0.0
            for note in store.notes(worker_notes.WORKER)
            if worker_notes.is_pass(note)
        ]
        return store.now() + max(left) - worker_notes.PASS_LASTS if left else None

    def unserved(self, counts: Sequence[Count] | None = None) -> list[str]:
        """Give the lanes with due jobs that no worker and no pass of the last day serves; they wait.

        Who has just counted the jobs spares the store a second time.
        """
        store = self.store
        now, lanes = store.now(), worker_notes.served(store, "lanes")
        return sorted(
            {
                count.lane
                for count in (store.counts() if counts is None else counts)
                if count.state is State.PENDING and count.oldest is not None and count.oldest <= now
            }
            - lanes
        )

    def unserved_because(self) -> dict[str, str]:
        """Return the lanes that a worker cannot serve for want of a library, and what it said."""
        missing = worker_notes.missing(self.store)
        return {lane: f"handler {name} cannot run: {why}" for name, (lane, why) in missing.items()}

    def pauses(self) -> list[Note]:
        """Give the pauses in force; the name is `pause:` and the lane, the value who and why."""
        return self.store.notes(PAUSE)

    def live_runs(self) -> list[Run]:
        """Give the runs that are not over, newest first, each with how it fares."""
        from redrive.runs import run_records  # noqa: PLC0415 - few commands ask

        live = [run for run in run_records.every(self.store) if not run.is_over]
        return [replace(run, counts=run_records.counted(self.store, run)[1]) for run in live]


def mark_of(note: Note) -> Mark:
    """Read the note about a group."""
    try:
        value = cast("dict[str, Any]", json.loads(note.value))
        return Mark(**{name: value[name] for name in Mark.__annotations__ if name in value})
    except (ValueError, TypeError):
        return Mark(note=note.value)  # written by somebody else
