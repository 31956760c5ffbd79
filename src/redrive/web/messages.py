"""The types of requests and answers: checks, JSON Schema and OpenAPI come from them.

Documents that the command line prints too stand in `desk.shapes`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from msgspec import UNSET, Meta, Struct, UnsetType

from redrive.desk import lists, shapes
from redrive.registry import UNFIT

PAGE, MOST = 50, 200  # how many entries a page has by default, and at most
_YEAR = 366 * 86_400.0

END = r"$(?!\n)"
"""The end of a text. Python's `$` also stands before a newline; JSON Schema's does not."""
NO_NUL = rf"^[^\u0000]*{END}"  # not every store keeps NUL

_WORDS = "which jobs, as a selector, such as state:dead handler:mail.*"


def _text(most: int, about: str = "a text", *, least: int = 0, pattern: str = NO_NUL) -> Meta:
    return Meta(min_length=least or None, max_length=most, pattern=pattern, description=about)


ReasonText = Annotated[str, _text(1000, "why; kept in the audit log")]
Limit = Annotated[int, Meta(ge=1, le=MOST, description="how many")]
_RATE = "the most jobs per time: 20/s, 30/m"
_NAMED = "printable, without space : \" ' * , | ( )"
_UNFIT = UNFIT.replace("\ud800-\udfff", "")  # which no JSON can have
_NAME = rf"^(?!-|\.\.?{END})[^{_UNFIT}]+{END}"
_LANE = rf"^(?!-|\.\.?{END})[^{_UNFIT.replace(':', '')}]+{END}"
Name = Annotated[str, _text(64, _NAMED, least=1, pattern=_NAME)]
Lane = Annotated[str, _text(128, f"{_NAMED}; colons may be", least=1, pattern=_LANE)]
RunName = Annotated[str, _text(10, "such as R12", pattern=rf"^[Rr]?[0-9]{{1,9}}{END}")]
_ID = rf"^[0-9A-Za-z_-]+{END}"

PATH: dict[str, Any] = {
    "job": Annotated[str, _text(64, "the id, or its unique beginning", least=4, pattern=_ID)],
    "group": Annotated[str, _text(10, "such as G7", pattern=rf"^[Gg]?[0-9]{{1,9}}{END}")],
    "run": RunName,
    "lane": Lane,
    "channel": Name,
}
"""The names in paths."""


class Request(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A query or a body; unknown names are refused, not ignored."""


class Search(Request, kw_only=True):
    """Which groups."""

    q: Annotated[str, _text(2000, _WORDS)] = ""
    limit: Limit = PAGE

    @property
    def words(self) -> list[str]:
        """The words, if there are any."""
        return [self.q] if self.q.strip() else []


class GroupSearch(Search, kw_only=True):
    """Which groups, and in which order."""

    status: Annotated[
        lists.Status, Meta(description="new: first seen in the last day, or regressed")
    ] = "all"
    sort: Annotated[
        lists.Order, Meta(description="most jobs, most deaths in the last hour, first seen first")
    ] = "jobs"


class JobSearch(Search, kw_only=True):
    """Which jobs."""

    cursor: Annotated[str, _text(200, "where the page before ended", least=1)] | UnsetType = UNSET
    order: Literal["submitted", "changed"] = "submitted"


class Count(Request, kw_only=True):
    """Which jobs to count."""

    q: Annotated[str, _text(2000, _WORDS, least=1)]

    @property
    def words(self) -> list[str]:
        """The words of the selector."""
        return [self.q]


class JobView(Request, kw_only=True):
    """How one job is shown."""

    reveal: Annotated[
        bool, Meta(description="payloads unmasked; needs a token with the right reveal")
    ] = False


class RunSearch(Request, kw_only=True):
    """Which runs."""

    limit: Limit = PAGE


class ActionSearch(Request, kw_only=True):
    """Which actions; `before` is the last one of the page before."""

    limit: Limit = PAGE
    before: (
        Annotated[str, _text(16, "such as A17", pattern=rf"^[Aa]?[0-9]{{1,15}}{END}")] | UnsetType
    ) = UNSET
    run: RunName | UnsetType = UNSET
    actor: Annotated[str, _text(64, "who")] | UnsetType = UNSET
    verb: Annotated[str, _text(32, "such as retry")] | UnsetType = UNSET
    target: Annotated[str, _text(500, "a job, a group, a run or a lane")] | UnsetType = UNSET
    since: Annotated[float, Meta(ge=0, le=100 * _YEAR, description="seconds ago")] | UnsetType = (
        UNSET
    )


class Why(Request, kw_only=True):
    """The reason of an action."""

    reason: ReasonText = ""


class Submit(Request, kw_only=True):
    """A call of a handler."""

    handler: Name
    payload: Annotated[dict[str, Any], Meta(description="the handler's arguments by name")]
    key: (
        Annotated[
            str,
            _text(
                255,
                "idempotency key: the same key is the same job",
                least=1,
                pattern=rf"^[\x21-\x7e]+{END}",
            ),
        ]
        | UnsetType
    ) = UNSET
    delay: Annotated[float, Meta(ge=0, le=_YEAR, description="seconds until it may run")] = 0.0
    tags: Annotated[list[Name], Meta(max_length=20)] = []
    attempts: Annotated[int, Meta(ge=1, le=1000)] | UnsetType = UNSET


class Edit(Why, kw_only=True):
    """A new payload; `edits` is as it was when the caller saw the job."""

    payload: Annotated[dict[str, Any], Meta(description="all of it; ••• keeps a hidden value")]
    edits: Annotated[int, Meta(ge=0, description="409 if the job was edited since")]


class Mark(Why, kw_only=True):
    """A group is resolved, or open."""

    resolved: bool


class Note(Why, kw_only=True):
    """A note about a group."""

    note: Annotated[str, _text(1000)]


class Act(Why, kw_only=True):
    """What to do to which jobs. More than one job needs the `as_of` and the number of a plan."""

    verb: Literal["retry", "resolve", "discard", "reopen"]
    q: Annotated[str, _text(2000, _WORDS, least=1)]
    dry_run: Annotated[bool, Meta(description="only return the plan")] = False
    as_of: Annotated[str, _text(64, "of the plan: what changed since is left out")] | UnsetType = (
        UNSET
    )
    confirm: Annotated[int, Meta(ge=0, description="eligible jobs of the plan")] | UnsetType = UNSET
    name: Annotated[str, _text(200, "a name for the run")] = ""
    canary: Annotated[int, Meta(ge=0, le=100_000, description="number of jobs to retry first")] = 0
    rate: Annotated[str, _text(30, _RATE)] = ""
    ramp: Annotated[bool, Meta(description="start at a tenth of the rate")] = False
    stop_on: Annotated[str, _text(10, "stop when 10% or 25 have failed again")] = ""


class SetRate(Why, kw_only=True):
    """A new rate of a run."""

    rate: Annotated[str, _text(30, _RATE, pattern=rf"^[1-9][0-9]{{0,8}}(/[smh])?{END}")]


class PauseLane(Why, kw_only=True):
    """A lane to pause."""

    lane: Lane
    seconds: Annotated[float, Meta(ge=1, le=_YEAR, description="for how long")] | UnsetType = UNSET


class Problem(TypedDict):
    """An error."""

    type: str
    title: str
    status: int
    code: str
    detail: str


class Status(TypedDict):
    """The answer of a probe."""

    status: Literal["ok", "unavailable"]


class Counts(TypedDict):
    """How many jobs each state has."""

    pending: int
    running: int
    completed: int
    dead: int
    resolved: int


class Standing(shapes.Health, Status):
    """Counts, ages, workers and pauses, for callers with a token."""

    counts: Counts
    version: str


class Submitted(shapes.Job):
    """A job that was submitted; `new` is false if its key was known."""

    new: bool


class Jobs(TypedDict):
    """A page of jobs."""

    jobs: list[shapes.Job]
    cursor: str | None
    scope: shapes.Scope | None


class Groups(TypedDict):
    """Groups, the largest first."""

    groups: list[shapes.Group]
    scope: shapes.Scope | None


class Pauses(TypedDict):
    """The lanes that are paused."""

    pauses: list[shapes.Pause]


class Lanes(TypedDict):
    """Every lane that has jobs or a pause."""

    lanes: list[shapes.WholeLane]


class Handlers(TypedDict):
    """The handlers of the program that is served."""

    handlers: list[shapes.Handler]


class AlertList(TypedDict):
    """The channels of alerts, and the latest messages."""

    channels: list[shapes.AlertChannel]
    messages: list[shapes.AlertMessage]


class AlertTest(TypedDict):
    """What a channel answered to a test message."""

    channel: str
    answer: str


class Counted(TypedDict):
    """How many jobs match; `more` if not all were counted."""

    count: int
    more: bool


class Runs(TypedDict):
    """Bulk retries, newest first."""

    runs: list[shapes.Run]


class Actions(TypedDict):
    """Actions, newest first."""

    actions: list[shapes.Action]
