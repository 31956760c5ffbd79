"""The audit log: who did what to jobs, groups, runs and lanes, when and why."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from redrive.errors import UsageError
from redrive.jobs import checks
from redrive.jobs.durations import Duration, seconds
from redrive.jobs.job import Action, Job
from redrive.payloads.masked_jobs import seen_action
from redrive.payloads.masking import mask_text

if TYPE_CHECKING:
    from redrive.desk.backend import Backend

_PAGE = 1000
_LONGEST_TARGET = 500


def number_of(name: str) -> int:
    """Return the number of an action written as A17 or 17."""
    if found := re.fullmatch(r"[Aa]?([0-9]{1,18})", name.strip()):
        return int(found[1])
    raise UsageError(f"{name!r:.80} is not an action, such as A17: see `redrive log`")


class Log:
    """Reads the audit log and adds to it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def actions(
        self,
        *,
        limit: int = 100,
        before: int | str | None = None,
        actor: str | None = None,
        verb: str | None = None,
        since: Duration | None = None,
        run: int | str | None = None,
        target: str | None = None,
    ) -> list[Action]:
        """Return the actions, newest first; the single steps of a run only if `run` names it.

        `since` is how long ago, at most; `target` is what the action was asked for, such as G7;
        `before` is the last one of the page before, such as A17.
        """
        from redrive.runs import run_records  # noqa: PLC0415 - few commands ask

        checks.whole(limit, "limit", least=1)
        if isinstance(before, str):
            before = number_of(before)
        if before is not None:
            checks.whole(before, "before", least=0)
        store = self._backend.store
        named = None if run is None else f"R{run_records.number_of(run)}"
        begin = -inf if since is None else store.now() - seconds(since, name="since")
        actions: list[Action] = []
        while len(actions) < limit:
            page = store.actions(limit=_PAGE, before=before)
            actions += [
                action
                for action in page
                if action.at >= begin
                and actor in (None, action.actor)
                and verb in (None, action.verb)
                and target in (None, action.target)
                and run_records.is_about(action, named)
            ]
            if len(page) < _PAGE or page[-1].at < begin:
                break
            before = page[-1].number
        return [seen_action(action) for action in actions[:limit]]

    def on_job(self, job: Job) -> list[Action]:
        """Return the newest 20 actions on a job, newest first; of those that are gone the number alone."""
        kept = self._backend.store.actions(numbers=job.actions)
        known = {action.number: seen_action(action) for action in kept}
        gone = (Action(number=number, actor="", verb="") for number in job.actions)
        return [known.get(action.number, action) for action in gone][::-1]

    def action(
        self,
        verb: str,
        target: str,
        reason: str = "",
        actor: str | None = None,
        secrets: Sequence[str] = (),
    ) -> Action:
        """Return the record of an action, masked: people write secrets into reasons and selectors."""
        return Action(
            actor=checks.text(actor or self._backend.settings.actor, "actor"),
            verb=verb,
            target=mask_text(checks.text(target, "target"), secrets)[:_LONGEST_TARGET],
            reason=mask_text(checks.text(reason, "reason"), secrets),
        )

    def record(self, action: Action) -> None:
        """Store an action that changed no job."""
        self._backend.store.record(action)

    def reveal(self, target: str, actor: str | None = None, secrets: Sequence[str] = ()) -> None:
        """Record that somebody asked for records with their secrets."""
        self.record(self.action("reveal", target, actor=actor, secrets=secrets))
