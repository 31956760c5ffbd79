"""What the callers were told, kept outside the store, and what is wrong if the store says otherwise.

Lines that children tell (times are of the machine's monotonic clock, the same for all processes):

    accepted ID                             a submit returned
    claimed ID LEASE HOLDER AT              a claim returned, at that time
    ended ID LEASE HOLDER CALLED AT STATE   a settlement was taken: called and returned then
    refused ID LEASE                        a settlement was refused by the fence
    job ID STATE LEASE ORDINALS             what is stored, with the attempts that were done, or -
    looked                                  that was all that is stored
    problem WORDS                           anything else that must not be
    error WORDS                             an error that nobody expected
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple, TextIO

_UNSYNCED = 1.0
"""Seconds for which a server may keep a settlement that it has answered from its disk."""


class End(NamedTuple):
    """A settlement that was taken."""

    lease: int
    holder: str
    called: float
    at: float
    state: str


class Stored(NamedTuple):
    """A job as the store has it in the end."""

    state: str
    lease: int
    done: list[int]


@dataclass
class Ledger:
    """Everything that was told; `file` gets it too, for people to look at."""

    file: TextIO | None = None
    undoable: bool = False
    """Whether a stop of the server may undo the last settlements: that is what is promised there."""
    forgetful: bool = False
    """Whether the store is made to forget claims, so that lease numbers are given again."""
    accepted: set[str] = field(default_factory=set)
    claims: dict[str, list[tuple[int, str, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    ends: dict[str, list[End]] = field(default_factory=lambda: defaultdict(list))
    stored: dict[str, Stored] = field(default_factory=dict)
    looked: bool = False
    stops: list[float] = field(default_factory=list)
    refusals: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    problems: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def hear(self, words: list[str]) -> None:
        """Note down one line."""
        if self.file is not None:
            print(*words, file=self.file)
        match words:
            case ["accepted", job]:
                self.accepted.add(job)
            case ["claimed", job, lease, holder, at]:
                self.claims[job].append((int(lease), holder, float(at)))
            case ["ended", job, lease, holder, called, at, state]:
                self.ends[job].append(End(int(lease), holder, float(called), float(at), state))
            case ["refused", job, lease]:
                self.refusals[job].append(int(lease))
            case ["job", job, state, lease, done]:
                ordinals = [int(one) for one in done.split(",") if one != "-"]
                self.stored[job] = Stored(state, int(lease), ordinals)
            case ["looked"]:
                self.looked = True
            case ["problem", *rest]:
                self.problems.append(" ".join(rest))
            case _:
                self.errors.append(" ".join(words))

    def stop(self) -> None:
        """Note down that the server is being stopped now."""
        self.stops.append(time.monotonic())

    def is_undoable(self, end: End) -> bool:
        """Whether a settlement was answered so shortly before a stop that it may be undone."""
        return self.undoable and any(
            end.called <= stop + _UNSYNCED and stop - _UNSYNCED <= end.at for stop in self.stops
        )

    @property
    def refused(self) -> int:
        """How many settlements came too late."""
        return sum(map(len, self.refusals.values()))

    def completed(self) -> int:
        """How many jobs somebody was told to be completed."""
        return sum(any(end.state == "completed" for end in ends) for ends in self.ends.values())

    def undone(self) -> int:
        """How many settlements a stop undid, as it may: the job was settled once more."""
        return sum(len(ends) - 1 for ends in map(_finals, self.ends.values()) if len(ends) > 1)

    def lost(self) -> list[str]:
        """Give the accepted jobs that are not there, and the completed ones that are not."""
        if not self.looked:
            return []
        gone = [f"{job} was accepted and is not there" for job in self.accepted - set(self.stored)]
        for job, ends in self.ends.items():
            safe = [end for end in _finals(ends) if not self.is_undoable(end)]
            if safe and job in self.stored and self.stored[job].state != "completed":
                gone.append(f"{job} was completed and is {self.stored[job].state}")
        return gone

    def doubled(self) -> list[str]:
        """Give the jobs that were completed twice, or settled twice for one lease."""
        found: list[str] = []
        for job, ends in self.ends.items():
            finals = _finals(ends)[:-1]  # whichever was the last may stand
            if any(not self.is_undoable(end) for end in finals):
                found.append(f"{job} was completed {len(finals) + 1} times: {ends}")
            leases = Counter(end.lease for end in ends)
            if any(number > 1 for number in leases.values()):
                found.append(f"{job} was settled twice for one lease: {ends}")
        for job, stored in self.stored.items():
            if len(stored.done) > 1:
                found.append(f"{job} has {len(stored.done)} completed attempts")
        return found

    def overtaken(self) -> list[str]:
        """Give the settlements that were taken although the job had been given to another."""
        found: list[str] = []
        for job, ends in self.ends.items():
            claims = self.claims.get(job, [])
            since = {(lease, holder): at for lease, holder, at in claims}
            for end in ends:
                mine = end.lease, since.get(end[:2], end.called)
                found += [
                    f"{job}: {end} was taken, but {holder} had it as {lease} since {at}"
                    for lease, holder, at in claims
                    if at < end.called and (lease, at) > mine
                ]
        return found

    def shared(self) -> list[str]:
        """Give the claims that two had."""
        if self.forgetful:
            return []
        found: list[str] = []
        for job, claims in self.claims.items():
            leases = Counter(lease for lease, *_ in claims)
            found += [f"{job}: lease {one} was given twice" for one, n in leases.items() if n > 1]
        return found

    def denied(self) -> list[str]:
        """Give the settlements that were called refused and yet are stored."""
        return [
            f"{job}: lease {lease} was called refused and is stored as done"
            for job, leases in self.refusals.items()
            for lease in leases
            if job in self.stored and lease in self.stored[job].done
        ]

    def unfinished(self) -> list[str]:
        """Give the jobs that did not complete in the end."""
        return [
            f"{job} is {stored.state}"
            for job, stored in self.stored.items()
            if stored.state != "completed"
        ]

    def is_broken(self) -> bool:
        """Whether something is wrong already, before anybody has looked into the store."""
        return bool(self.doubled() or self.overtaken() or self.shared() or self.problems)

    def faults(self) -> dict[str, list[str]]:
        """Give everything that is wrong, by kind."""
        return {
            "lost": self.lost(),
            "doubled": self.doubled(),
            "overtaken": self.overtaken(),
            "shared": self.shared(),
            "denied": self.denied(),
            "unfinished": self.unfinished(),
            "problems": self.problems,
            "errors": self.errors,
        }


def _finals(ends: list[End]) -> list[End]:
    return sorted((end for end in ends if end.state == "completed"), key=lambda end: end.at)
