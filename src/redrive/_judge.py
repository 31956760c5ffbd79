"""What the evidence on an error says, asked in order: the strongest first.

First what is said outright: the handler's signals, the user's own rules, the error's own word;
a group speaks through its worst member. Then what is found: the server's word on retrying,
numbers and states of databases, error codes, the class, the HTTP status, the standard library's
errors, and last the errors inside this one. What each means is in the tables of `_evidence`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from redrive import _duration
from redrive._clues import (
    Clues,
    Kin,
    as_text,
    as_whole,
    gather,
    is_error,
    kin_of,
    look,
    module_of,
    name_of,
    within,
)
from redrive._evidence import (
    BAD_CERTIFICATES,
    CLASSES,
    CODES,
    ERRNOS,
    MYSQL_NUMBERS,
    MYSQL_PACKAGES,
    REFUSED,
    SQLSTATES,
    STATUSES,
    STDLIB,
    STOPS,
    WORST_FIRST,
    WRAPPERS,
)
from redrive.errors import GiveUp, RetryLater
from redrive.hints import PUSHBACK, is_refusal, is_used_up
from redrive.job import Category

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from redrive.policy import When

_DEEPEST: Final = 8
_MOST_ERRORS: Final = 64
_TEN_YEARS: Final = 3652 * 86400.0
_TOO_MANY: Final = 429
_FORBIDDEN: Final = 403
_CATEGORIES: Final[Mapping[str | None, Category]] = {c.value: c for c in Category}
_SYSTEM: Final = ("builtins", "OSError")

T = TypeVar("T")
Seen = dict[int, Clues]
"""The errors that were looked at, by identity; kept alive, or an identity could come again."""

_MEMBERS: Final = BaseExceptionGroup.__dict__["exceptions"].__get__


class Finding(NamedTuple):
    """What one piece of evidence says."""

    category: Category
    why: str
    clues: Clues
    """Of the error that says it: the one classified, or one inside."""
    code: str | None = None
    hint: float | None = None
    """The delay that the handler named."""
    final: bool = False


@dataclass(frozen=True, slots=True)
class _Case:
    """One error, what it carries, and which others were looked at before it."""

    clues: Clues
    rules: Sequence[When]
    seen: Seen
    depth: int

    @property
    def name(self) -> str:
        return name_of(type(self.clues.error))

    def finds(self, category: Category, why: str, code: str | None = None) -> Finding:
        return Finding(category, why, self.clues, code)


def fenced(work: Callable[[], T], otherwise: T) -> T:
    """Do one part of the work; if it fails, the other parts still count."""
    try:
        return work()
    except BaseException:  # noqa: BLE001 - an error that hurts its reader must not cost us the job
        return otherwise


def errno_name(clues: Clues) -> str | None:
    """Name the system error; TLS and name look-up count their own, so theirs are none."""
    if _SYSTEM not in clues.kin or clues.kin[0][0] in ("ssl", "socket"):
        return None
    return errno.errorcode.get(clues.whole("errno") or 0)


def judge(error: BaseException, rules: Sequence[When], seen: Seen, depth: int) -> Finding | None:
    """Go through the evidence, strongest first; None where there is none."""
    if id(error) in seen or len(seen) >= _MOST_ERRORS or depth > _DEEPEST:
        return None
    case = _Case(gather(error), rules, seen, depth)
    seen[id(error)] = case.clues
    for ask in _SAYINGS:
        found = ask(case)
        if found is not None:
            return found
    doubt: Finding | None = None
    for ask in _EVIDENCE:
        found = ask(case)
        if found is not None and found.category is not Category.UNKNOWN:
            return found
        doubt = doubt or found
    return doubt


def _by_rule(case: _Case) -> Finding | None:
    for rule in case.rules:
        if fenced(partial(_matches, rule, case), False):
            return case.finds(rule.then, f"your rule for {_rule_words(rule)}")
    return None


def _matches(rule: When, case: _Case) -> bool:
    """Tell whether all that a rule names is so."""
    clues = case.clues
    error = clues.error
    return (
        (rule.status is None or rule.status == clues.status)
        and (rule.code is None or _has_code(clues, rule.code))
        and (rule.error is None or issubclass(type(error), rule.error))
        and (rule.name is None or any(_is_named(cls, rule.name) for cls in type(error).__mro__))
        and (rule.test is None or bool(rule.test(error)))
    )


def _has_code(clues: Clues, code: str) -> bool:
    if any(code == found for found, _ in clues.codes):
        return True
    # A number is a code only to those who ask for it.
    return code in (clues.text("code"), str(clues.whole("code")), errno_name(clues))


def _is_named(cls: type, name: str) -> bool:
    """Match `openai.RateLimitError` wherever below `openai` the class is defined."""
    package, _, last = name.rpartition(".")
    module = module_of(cls)
    inside = not package or f"{module}.".startswith(f"{package}.")
    return (inside and cls.__name__ == last) or f"{module}.{cls.__qualname__}" == name


def _rule_words(rule: When) -> str:
    words = (
        None if rule.error is None else name_of(rule.error),
        rule.name,
        None if rule.status is None else f"status {rule.status}",
        None if rule.code is None else f"code {rule.code}",
        None if rule.test is None else as_text(look(rule.test, "__name__")) or "a test",
    )
    return ", ".join(word for word in words if word)


def _by_stop(case: _Case) -> Finding | None:
    if STOPS.isdisjoint(case.clues.kin):
        return None
    return case.finds(Category.UNKNOWN, f"{case.name} asks to stop and says nothing about the job")


def _by_signal(case: _Case) -> Finding | None:
    signal = case.clues.error
    if issubclass(type(signal), GiveUp):
        return case.finds(Category.PERMANENT, "the handler gave up")._replace(final=True)
    if issubclass(type(signal), RetryLater):
        found = case.finds(Category.TRANSIENT, "the handler asked to be run later")
        after = fenced(lambda: _duration.seconds(cast("float", look(signal, "after"))), None)
        return found if after is None or after > _TEN_YEARS else found._replace(hint=after)
    return None


def _by_own_word(case: _Case) -> Finding | None:
    said = case.clues.text("redrive_category")
    if said not in _CATEGORIES:
        return None
    return case.finds(_CATEGORIES[said], f"redrive_category is {said}")


def _by_group(case: _Case) -> Finding | None:
    """Let the worst error of a group speak for it."""
    error = case.clues.error
    if not issubclass(type(error), BaseExceptionGroup):
        return None
    members: tuple[BaseException, ...] = _MEMBERS(error)
    found = [finding for member in members if (finding := _member(case, member))]
    worst = min(found, key=lambda f: (not f.final, WORST_FIRST.index(f.category)), default=None)
    if worst is None or len(members) == 1:
        return worst
    return worst._replace(why=f"{worst.why}, the worst of {len(members)} errors")


def _member(case: _Case, error: BaseException) -> Finding | None:
    """Judge one error of a group; None only for one that was judged before, or one too many."""
    if id(error) in case.seen or len(case.seen) >= _MOST_ERRORS:
        return None
    found = judge(error, case.rules, case.seen, case.depth + 1)
    return found or Finding(Category.UNKNOWN, name_of(type(error)), Clues(error))


def _by_server(case: _Case) -> Finding | None:
    """Take the server's own word on whether to try again."""
    headers, status = case.clues.headers, case.clues.status or 0
    if is_refusal(headers):
        return case.finds(Category.PERMANENT, f"{PUSHBACK} says not to retry")
    for name in ("x-should-retry", "stripe-should-retry"):
        said = headers.get(name, "").strip().lower()
        category = _as_told(case, said, status)
        if category is not None:
            return case.finds(category, f"{name} {said}, status {status}")
    return None


def _as_told(case: _Case, said: str, status: int) -> Category | None:
    if said == "false" and status >= 500:  # noqa: PLR2004 - 5xx
        return Category.PERMANENT
    if said == "false" and status == _TOO_MANY:
        known = any(code in CODES for code, _ in case.clues.codes)
        return None if known else Category.QUOTA
    if said == "true" and 400 <= status < 500 and status != _TOO_MANY:  # noqa: PLR2004 - 4xx
        return Category.TRANSIENT
    return None


def _by_database(case: _Case) -> Finding | None:
    clues = case.clues
    if any(root in MYSQL_PACKAGES for root, _ in clues.kin):
        # Before the state, which says less: to MySQL a missing right is a syntax error.
        number = as_whole(clues.at("args", 0)) or clues.whole("errno") or 0
        if number in MYSQL_NUMBERS:
            return case.finds(MYSQL_NUMBERS[number], f"MySQL error {number}", str(number))
    state = clues.text("sqlstate") or clues.text("pgcode") or ""
    category = SQLSTATES.get(state) or SQLSTATES.get(state[:2])
    return None if category is None else case.finds(category, f"SQLSTATE {state}", state)


def _by_code(case: _Case) -> Finding | None:
    for code, where in case.clues.codes:
        if code in CODES:
            return case.finds(CODES[code], f"code {code}{where}", code)
    return None


def _by_wrapper(case: _Case) -> Finding | None:
    for kin in case.clues.kin:
        inner = case.clues.held.get(WRAPPERS[kin]) if kin in WRAPPERS else None
        if is_error(inner):
            return _inside(case, cast("BaseException", inner))
    return None


def _by_class(case: _Case) -> Finding | None:
    return _by_row(case, CLASSES)


def _by_status(case: _Case) -> Finding | None:
    status, headers = case.clues.status, case.clues.headers
    if status is None or status < 400:  # noqa: PLR2004 - 4xx
        return None
    if status == _FORBIDDEN and "retry-after" in headers:
        return case.finds(Category.RATE_LIMIT, "status 403 with retry-after")
    if status == _FORBIDDEN and is_used_up(headers, "x-ratelimit-remaining"):
        return case.finds(Category.RATE_LIMIT, "status 403 with x-ratelimit-remaining 0")
    other = Category.PERMANENT if status < 500 else Category.TRANSIENT  # noqa: PLR2004 - 5xx
    return case.finds(STATUSES.get(status, other), f"status {status}")


def _by_stdlib(case: _Case) -> Finding | None:
    return _by_row(case, STDLIB)


def _by_row(case: _Case, rows: Mapping[Kin, Category]) -> Finding | None:
    for kin in case.clues.kin:
        category = rows.get(kin)
        if category is None:
            continue
        bad = _bad_certificate(case.clues) if category is Category.TRANSIENT else None
        if bad is not None:
            return Finding(
                Category.PERMANENT, f"caused by {name_of(type(bad))}", case.clues, REFUSED
            )
        return case.finds(
            category, _kinship(case, kin), REFUSED if kin in BAD_CERTIFICATES else None
        )
    return None


def _kinship(case: _Case, kin: Kin) -> str:
    base = ".".join(kin).removeprefix("builtins.")
    same = kin[0] == case.clues.kin[0][0]
    return case.name if same else f"{case.name}, a kind of {base}"


def _bad_certificate(clues: Clues) -> BaseException | None:
    """Look for a certificate that was refused, which hides inside lost connections."""
    waiting, seen = list(clues.inside()), dict[int, BaseException]()
    while waiting and len(seen) < _MOST_ERRORS:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen[id(current)] = current
        if not BAD_CERTIFICATES.isdisjoint(kin_of(current)):
            return current
        waiting.extend(within(current))
    return None


def _by_errno(case: _Case) -> Finding | None:
    name = errno_name(case.clues)
    category = None if name is None else ERRNOS.get(name)
    return None if category is None else case.finds(category, f"errno {name}", name)


def _by_inner(case: _Case) -> Finding | None:
    for inner in case.clues.inside():
        found = _inside(case, inner)
        if found is not None:
            return found
    return None


def _inside(case: _Case, inner: BaseException) -> Finding | None:
    found = judge(inner, case.rules, case.seen, case.depth + 1)
    if found is None or found.category is Category.UNKNOWN:
        return None
    name = name_of(type(inner))
    if found.why == name:
        return found._replace(why=f"caused by {name}")
    if found.why.startswith("caused by "):
        return found
    return found._replace(why=f"caused by {name}: {found.why}")


_Ask = Callable[[_Case], Finding | None]
_SAYINGS: Final[tuple[_Ask, ...]] = (_by_signal, _by_rule, _by_stop, _by_own_word, _by_group)
"""What is said outright ends the search, even where it says unknown. The handler's signals come
before the rules: a rule for every Exception must not undo a GiveUp."""
_EVIDENCE: Final[tuple[_Ask, ...]] = (
    _by_server,
    _by_database,
    _by_code,
    _by_wrapper,
    _by_class,
    _by_status,
    _by_stdlib,
    _by_errno,
    _by_inner,
)
"""The rest, strongest first; what only says unknown lets weaker evidence speak."""
