"""Verifying a journal: every byte is read, every line judged; nothing is changed."""

from __future__ import annotations

import os
from dataclasses import replace

from redrive.jobs.job import TRANSITIONS, State
from redrive.stores.jsonl import lines, recovery
from redrive.stores.jsonl.journal import Journal
from redrive.stores.jsonl.lines import Line
from redrive.stores.report import Problem, Report

_REPAIR = "`redrive verify --repair` puts the bytes aside and keeps every whole line"
_KEEP = "keep a copy of the file and report it; other jobs are not affected"
_MOST = 1000


class _Auditor:
    """Looks at each line once."""

    def __init__(self, damaged: set[int]) -> None:
        self.damaged = damaged
        """Where the lines begin that were already set aside when the journal was read."""
        self.states: dict[str, State] = {}
        self.problems: list[Problem] = []

    def take(self, found: Line, raw: bytes, offset: int) -> None:
        """Check one line whose bytes are right."""
        try:
            self._check(found, recovery.plain(raw))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            remedy = _REPAIR if offset in self.damaged else _KEEP
            self._complain(offset, f"line {found.seq} cannot be understood: {error}", remedy)
            return
        if found.kind not in lines.KINDS:
            self._complain(offset, f"line {found.seq} is a {found.kind!r}", _KEEP)

    def _check(self, found: Line, raw: bytes) -> None:
        if found.kind != "job":
            change = lines.change_of(raw, found)
            for gone in getattr(change, "ids", ()):
                self.states.pop(gone, None)
            return
        job = lines.job_of(raw, found)
        before = self.states.get(job.id, job.state)
        if job.state is not before and job.state not in TRANSITIONS[before]:
            raise ValueError(f"job {job.id} went from {before} to {job.state}")
        self.states[job.id] = job.state

    def _complain(self, offset: int, what: str, remedy: str) -> None:
        if len(self.problems) < _MOST:
            self.problems.append(Problem(f"byte {offset}", what, remedy))


def verify(journal: Journal, durability: str) -> Report:
    """Read the file from its first line, apart from what is in memory."""
    known = journal.reading
    auditor = _Auditor({one.offset for one in known.damage})
    start = len(os.pread(journal.descriptor, recovery.HEADER, 0).partition(b"\n")[0]) + 1
    reading = replace(
        known, end=start if known.end else 0, seq=journal.header.seq, damage=[], lines=0
    )
    recovery.read_on(journal.descriptor, reading, auditor.take)
    damage = [one for one in known.damage if one.offset == 0] + reading.damage
    problems = [
        Problem(f"byte {offset}", f"{length} bytes are not what was written", _REPAIR)
        if length
        else Problem(f"byte {offset}", "lines are missing here", _REPAIR)
        for offset, length in damage
    ]
    tail = os.fstat(journal.descriptor).st_size - reading.end
    facts = {
        "format": f"jsonl version {lines.VERSION}",
        "path": str(journal.place),
        "bytes": str(reading.end),
        "lines": str(reading.lines),
        "durability": durability,
    }
    if tail:
        facts["tail"] = f"{tail} bytes of an unfinished write; the next writer removes them"
    return Report(len(auditor.states), problems + auditor.problems, facts)
