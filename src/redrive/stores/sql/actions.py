"""What people do to jobs, and what retention removes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from redrive.jobs.job import TERMINAL, Action, Job, State
from redrive.jobs.transitions import Changed, Verb, amend_changes, changed, is_changed, with_action
from redrive.stores.contract import Moved, PurgeRule
from redrive.stores.moving import apply_to
from redrive.stores.refusals import no_job
from redrive.stores.sql.notes import action_landed, record_action
from redrive.stores.sql.outbox import Reports, SqlOutbox, write_events
from redrive.stores.sql.rows import readable_rows
from redrive.stores.sql.tx import Row, Tx

ROW = "_row"  # what a job that was read carries beside its fields: the number of its row


class SqlActions(SqlOutbox):
    """The verbs that people and retention use."""

    @abstractmethod
    def _write_changes(self, tx: Tx, changes: Sequence[Changed], verb: Verb | None) -> None:
        """Write jobs that an action changed; those read last in this transaction."""

    @abstractmethod
    def _kinds(self, tx: Tx, state: State) -> Iterable[Row]:
        """Return lane, handler and category of the jobs that ended in a state, each once."""

    def move(
        self,
        ids: Sequence[str],
        verb: Verb,
        action: Action,
        *,
        delays: Sequence[float] | None = None,
        run: int | None = None,
    ) -> Moved:
        """Apply an action to exactly these jobs; see the contract."""
        reports = self._reports()

        def work(tx: Tx) -> Moved:
            found = {row[1]: row for row in tx.all("to_change", (tx.array(ids),))}
            done, skipped, kept = apply_to(
                lambda one: self._present(found.get(one), one),
                lambda action: record_action(tx, action),
                ids,
                verb,
                action,
                now=tx.now(),
                delays=delays,
                run=run,
            )
            self._keep(tx, done, kept if run != 0 else None, verb, reports)
            return Moved([change.job for change in done], skipped, kept)

        def landed(tx: Tx, moved: Moved) -> bool:
            tx.all("to_change", (tx.array(ids),))  # waits for a transaction that holds them
            return action_landed(tx, moved.action)

        moved = self._write(work, durable=True, landed=landed)
        self._hint_of(moved.done)
        return moved

    def amend(self, job_id: str, payload: str, action: Action, *, expected: int) -> Job:
        """Replace the payload of a job; see the contract."""
        reports = self._reports()

        def work(tx: Tx) -> Job:
            job = self._present(tx.one("to_change", (tx.array([job_id]),)), job_id)
            change = changed(job, amend_changes(job, payload, now=tx.now(), expected=expected))
            kept = record_action(tx, replace(action, done=1))
            change = with_action(change, kept.number)
            self._keep(tx, [change], kept, None, reports)
            tx.run("repay", (change.job.payload, change.job.original, job.__dict__[ROW]))
            return change.job

        def landed(tx: Tx, job: Job) -> bool:
            stored = [self._job_of(row) for row in tx.all("to_change", (tx.array([job.id]),))]
            mine = job.edits, job.payload, job.updated
            return [(one.edits, one.payload, one.updated) for one in stored] == [mine]

        return self._write(work, durable=True, landed=landed)

    def _keep(
        self,
        tx: Tx,
        done: Sequence[Changed],
        action: Action | None,
        verb: Verb | None,
        reports: Reports,
    ) -> None:
        """Write jobs that an action changed; without one they only leave their run."""
        self._write_changes(tx, done, verb)
        if action is not None and done:
            rows = tx.array(one.was.__dict__[ROW] for one in done)
            tx.run("last_action", (action.number, rows))
        if verb != "enlist":
            write_events(tx, reports, ((one.was, one.job) for one in done))

    def _present(self, row: Row | None, job_id: str) -> Job:
        if row is None:
            raise no_job(job_id)
        return self._job_of(row)

    def purge(self, rules: Sequence[PurgeRule], *, limit: int = 10_000) -> list[tuple[str, State]]:
        """Remove ended jobs by rule, and what else is beyond its bounds; see the contract."""
        reports, most = self._reports(), max(limit, 0)

        def work(tx: Tx) -> list[tuple[str, State]]:
            gone: dict[int, tuple[str, State]] = {}
            for rule in rules:
                if rule.state in TERMINAL:
                    gone.update(self._over(tx, rule, most))
            chosen = dict(list(gone.items())[:most])
            numbers = tx.array(chosen)
            if chosen and reports.wants("purged"):
                jobs = readable_rows(tx.all("by_numbers", (numbers,)), self._job_of)
                write_events(tx, reports, ((job, None) for job in jobs))
            for statement in ("remove_attempts", "remove_rest", "remove_jobs"):
                tx.run(statement, (numbers,))
            tx.run("remove_expired", (tx.now(),))
            return list(chosen.values())

        return self._write(work, durable=False)

    def _over(self, tx: Tx, rule: PurgeRule, limit: int) -> Iterator[tuple[int, tuple[str, State]]]:
        """Return the numbers of jobs that a rule removes."""
        now = tx.now()
        before = now - rule.older_than
        if rule.ids is not None:
            rows = tx.all("to_change", (tx.array(rule.ids),))
            for job in readable_rows(rows, self._job_of):
                is_old = job.state is rule.state and job.updated < before
                if (
                    is_old
                    and not (rule.since and is_changed(job.updated, rule.since, now))
                    and rule.is_for(job.handler)
                    and rule.was_dead in {None, job.died_at is not None}
                ):
                    yield job.__dict__[ROW], (job.handler, rule.state)
            return
        for lane, handler, category, *_ in self._kinds(tx, rule.state):
            if rule.is_for(handler):
                kind = (rule.state.value, lane, handler, category)
                for (number,) in tx.all("over", (*kind, before, rule.was_dead, limit)):
                    yield number, (handler, rule.state)
