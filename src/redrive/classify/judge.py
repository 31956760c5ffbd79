"""Find the category of an error: check the evidence in order, the strongest first.

Explicit evidence ends the search: the handler's signals, the user's rules, a request to stop, the
error's own `redrive_category`; a group has the category of its worst member. Then the `tables` are
searched; evidence for `unknown` counts only if nothing weaker finds another category.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from redrive.classify import clues as look
from redrive.classify import names, rules, tables
from redrive.classify.clues import Clues, as_text, as_whole, errno_name, is_a, known, name_of
from redrive.classify.hints import PUSHBACK, is_refusal, is_used_up
from redrive.errors import GiveUp, RetryLater
from redrive.jobs.job import HOPELESS, Category
from redrive.policies.policy import When

Rows = Mapping[str, Category]
_DEEPEST, _MOST_ERRORS = 8, 64
_CLIENT, _FORBIDDEN, _TOO_MANY, _SERVER = 400, 403, 429, 500
_STATE: Final = 5
"""How long a SQLSTATE is; anything else under that name is none, and may be anything."""
_CATEGORIES: Final = {category.value: category for category in Category}
_TELLING: Final = (*tables.MYSQL, *tables.REPLIERS, *(f"{package}." for package in tables.TEXTS))
"""Libraries whose errors have their meaning in their arguments."""
_MISTAKES: Final = HOPELESS - {Category.AUTH}
_MOST_KNOWN: Final = 500
_KNOWN: Final[dict[tuple[type, str | None], tuple[Category, str, str | None, bool] | None]] = {}
"""What bare errors mean, by their class and errno."""


class Finding(NamedTuple):
    """The category that one piece of evidence gives, and the clues of the error that has it."""

    clues: Clues
    category: Category
    why: str
    code: str | None = None
    final: bool = False


class Judge:
    """Classifies an error and the errors inside it, each once."""

    def __init__(self, own_rules: Sequence[When]) -> None:
        self.seen: dict[int, Clues] = {}
        """By identity of the error; they keep it alive, or its identity could come again."""
        self.raised: list[str] = []
        """The rules whose test raised an error, which counts as no match."""
        self._rules = own_rules
        self._depth = 0

    def judge(self, error: BaseException) -> Finding | None:
        """Return the first finding; None if there is none, or the error was classified before."""
        if not self._is_new(error) or self._depth > _DEEPEST:
            return None
        clues = self.seen[id(error)] = look.gather(error)
        if not self._rules and _is_bare(clues):
            return self._bare(clues)
        return self._weighed(clues)

    def _weighed(self, clues: Clues) -> Finding | None:
        self._depth += 1
        finding = next(filter(None, self._explicit(clues)), None) or self._by_evidence(clues)
        self._depth -= 1
        return finding

    def _bare(self, clues: Clues) -> Finding | None:
        """Use the finding for the last error of the same class and errno: most errors have one."""
        key = type(clues.error), errno_name(clues)
        if key not in _KNOWN:
            finding = self._weighed(clues)
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[key] = None if finding is None else finding[1:]
        known = _KNOWN[key]
        return None if known is None else Finding(clues, *known)

    def _is_new(self, error: BaseException) -> bool:
        return id(error) not in self.seen and len(self.seen) < _MOST_ERRORS

    def _explicit(self, clues: Clues) -> Iterator[Finding | None]:
        # The handler's signals before the rules: one for every Exception must not undo a GiveUp.
        if is_a(clues.error, GiveUp):
            why = as_text(clues.held.get("redrive_why")) or "the handler gave up"
            yield Finding(clues, Category.PERMANENT, why, final=True)
        if is_a(clues.error, RetryLater):
            yield Finding(clues, Category.TRANSIENT, "the handler asked to be run later")
        for rule in self._rules:
            if rules.applies(rule, clues, self.raised):
                yield Finding(clues, rule.then, f"your rule for {rules.description(rule)}")
        if not tables.STOPS.keys().isdisjoint(clues.kin):
            why = f"{name_of(type(clues.error))} is a request to stop, not a failure of the job"
            yield Finding(clues, Category.UNKNOWN, why)
        if "redrive_category" in clues.held:
            word = as_text(clues.held["redrive_category"]) or ""
            why = as_text(clues.held.get("redrive_why")) or f"redrive_category is {word}"
            yield _row(clues, _CATEGORIES, word, why)
        if is_a(clues.error, BaseExceptionGroup):
            yield self._worst(clues)

    def _worst(self, group: Clues) -> Finding | None:
        members = look.members(group.error)
        findings = [
            self.judge(member) or Finding(Clues(member), Category.UNKNOWN, name_of(type(member)))
            for member in members
            if self._is_new(member)
        ]
        findings.sort(key=lambda each: (not each.final, tables.WORST_FIRST.index(each.category)))
        more = f", the worst of {len(members)} errors" if len(members) > 1 else ""
        return findings[0]._replace(why=findings[0].why + more) if findings else None

    def _by_evidence(self, clues: Clues) -> Finding | None:
        unknown: Finding | None = None
        for finding in self._evidence(clues):
            if finding is not None and finding.category is not Category.UNKNOWN:
                return finding
            unknown = unknown or finding
        return unknown

    def _evidence(self, clues: Clues) -> Iterator[Finding | None]:
        if clues.headers:
            yield _by_server(clues)
        yield _by_database(clues)
        yield _by_code(clues)
        yield _by_reply(clues)
        yield _by_text(clues)
        for name in ("orig", "reason"):  # SQLAlchemy and urllib3 know less than what they hold
            if is_a(clues.held.get(name), BaseException):
                yield self._inner(clues.held[name])
        yield self._by_class(clues, tables.CLASSES)
        by_status = _by_status(clues)
        if by_status and by_status.category in HOPELESS:
            yield _in_spite_of(by_status)
        yield by_status
        if clues.held.get("retryable") is True or clues.held.get("retriable") is True:
            yield Finding(clues, Category.TRANSIENT, "the error says that it can be retried")
        yield _by_words_of_codes(clues)
        yield self._by_name(clues)
        yield self._by_class(clues, tables.STDLIB)
        if number := errno_name(clues):
            yield _row(clues, tables.ERRNOS, number, f"errno {number}", number)
        for error in look.inside(clues):
            yield self._inner(error)
        for name in tables.PASSING_NAMES if known(type(clues.error)).dialect else ():
            if any(kin.endswith(f".{name}") for kin in clues.kin):
                yield Finding(clues, Category.TRANSIENT, f"class name {name}")

    def _by_class(self, clues: Clues, rows: Rows) -> Finding | None:
        if rows.keys().isdisjoint(clues.kin):
            return None
        kin = next(kin for kin in clues.kin if kin in rows)
        if rows[kin] is Category.TRANSIENT and (finding := self._bad_certificate(clues)):
            return finding
        name = name_of(type(clues.error))
        if kin.partition(".")[0] != clues.kin[0].partition(".")[0]:
            name += f", a kind of {kin.removeprefix('builtins.')}"
        return Finding(clues, rows[kin], name)

    def _by_name(self, clues: Clues) -> Finding | None:
        named = known(type(clues.error)).named
        if named is None:
            return None
        if named[1] is Category.TRANSIENT and (finding := self._bad_certificate(clues)):
            return finding
        if named[1] in HOPELESS and (finding := self._passing_cause(clues)):
            return finding
        if named[1] in _MISTAKES and clues.kin[1].startswith("builtins."):
            finding = self._by_class(clues, tables.STDLIB)  # below Python's own ConnectionError
            if finding:
                return finding
        return Finding(clues, named[1], f"class name {named[0]}")

    def _passing_cause(self, clues: Clues) -> Finding | None:
        """Return the cause that an error was raised from if that passes, such as a lost connection.

        What was only being handled when the error was raised is no cause of it.
        """
        context = clues.held.get("__context__")
        for error in look.inside(clues):
            finding = None if error is context else self._inner(error)
            if finding and finding.category not in HOPELESS:
                return finding
        return None

    def _bad_certificate(self, clues: Clues) -> Finding | None:
        """Search the errors inside a lost connection for a certificate that was refused."""
        for error in look.inside(clues):
            finding = self._inner(error)
            if finding and not tables.BAD_CERTIFICATES.keys().isdisjoint(finding.clues.kin):
                return finding
        return None

    def _inner(self, error: BaseException) -> Finding | None:
        finding = self.judge(error)
        if finding is None or finding.category is Category.UNKNOWN:
            return None
        name, why = name_of(type(error)), finding.why
        if why.startswith("caused by "):
            return finding
        return finding._replace(
            why=f"caused by {name}" if why == name else f"caused by {name}: {why}"
        )


def _is_bare(clues: Clues) -> bool:
    """Return True if only the class and the errno of an error can be evidence."""
    arguments: tuple[object, ...] | None = clues.held.get("args")
    return (
        clues.held.keys() <= {"args", "errno", "__suppress_context__"}
        and type(arguments) is tuple
        and not (arguments and is_a(arguments[0], BaseException))
        and not is_a(clues.error, BaseExceptionGroup)
        and not clues.kin[0].startswith(_TELLING)
        and not known(type(clues.error)).dialect
    )


def _row(clues: Clues, rows: Rows, key: str, why: str, code: str | None = None) -> Finding | None:
    return Finding(clues, rows[key], why, code) if key in rows else None


def _by_server(clues: Clues) -> Finding | None:
    """Use the header in which a server says if a retry makes sense."""
    status, headers = clues.status or 0, clues.headers
    if is_refusal(headers):
        return Finding(clues, Category.PERMANENT, f"{PUSHBACK} says not to retry")
    for name in headers.keys() & {"x-should-retry", "stripe-should-retry"}:
        answer = headers[name].strip().lower()
        why = f"{name} {answer}, status {status}"
        if answer == "false" and status >= _SERVER:
            return Finding(clues, Category.PERMANENT, why)
        if answer == "false" and status == _TOO_MANY and not _by_code(clues):
            return Finding(clues, Category.QUOTA, why)
        if answer == "true" and _CLIENT <= status < _SERVER and status != _TOO_MANY:
            return Finding(clues, Category.TRANSIENT, why)
    return None


def _by_database(clues: Clues) -> Finding | None:
    held, number = clues.held, ""
    dialect = known(type(clues.error)).dialect
    if clues.kin[0].startswith(tables.MYSQL) or dialect == "mysql":
        number = str(as_whole(look.reach(held, "args", 0)) or as_whole(held.get("errno")))
    if clues.kin[0].startswith("pymongo."):
        number = str(as_whole(held.get("code")))
        return _row(clues, tables.MONGO_NUMBERS, number, f"MongoDB error {number}", number)
    state = as_text(held.get("sqlstate")) or as_text(held.get("pgcode")) or ""
    if dialect == "sql" and not state:
        state = as_text(held.get("code")) or as_text(look.reach(held, "args", 0, "C")) or ""
    if len(state) != _STATE:
        state = ""
    if not number and not state:
        return None
    key = state if state in tables.SQLSTATES else state[:2]
    # The number first: the state says less, to MySQL a missing right is a syntax error.
    finding = _row(clues, tables.MYSQL_NUMBERS, number, f"MySQL error {number}", number)
    return finding or _row(clues, tables.SQLSTATES, key, f"SQLSTATE {state}", state)


def _by_code(clues: Clues) -> Finding | None:
    for code, where in clues.codes:
        if code in tables.CODES:
            return Finding(clues, tables.CODES[code], f"code {code}{where}", code)
    return None


def _by_reply(clues: Clues) -> Finding | None:
    """Take the number that a mail or file server replied; of several recipients', the mildest."""
    if not clues.kin[0].startswith(tables.REPLIERS):
        return None
    argument = look.reach(clues.held, "args", 0)
    several = list(dict[Any, Any].values(argument)) if is_a(argument, dict) else []
    replies = [look.reach(reply, 0) for reply in several] if several else [argument]
    numbers = [str(as_whole(reply) or (as_text(reply) or "")[:3]) for reply in replies]
    number = min(numbers, default="")
    key = number if number in tables.REPLIES else number[:1]
    return _row(clues, tables.REPLIES, key, f"reply {number}", number)


def _by_text(clues: Clues) -> Finding | None:
    dialect = known(type(clues.error)).dialect
    texts = tables.DIALECT_TEXTS.get(dialect) or tables.TEXTS.get(clues.kin[0].partition(".")[0])
    if not texts:
        return None
    places = ((0,), (1,), (0, 1), (0, "message")) if dialect else ((0,),)
    messages = [as_text(look.reach(clues.held, "args", *place)) or "" for place in places]
    for phrase, category in texts.items():
        if any(phrase in message for message in messages):
            return Finding(clues, category, f"the message says: {phrase.strip()}")
    return None


def _by_words_of_codes(clues: Clues) -> Finding | None:
    for code, where in clues.codes:
        if category := names.category_of_code(code):
            return Finding(clues, category, f"code {code}{where}", code)
    return None


def _in_spite_of(status: Finding) -> Finding | None:
    """Use a code or a class name that knows more than a status of 4xx: it may well pass.

    A status about the login is only doubted by a limit: `session_timeout` needs a new login.
    """
    finding, named = _by_words_of_codes(status.clues), known(type(status.clues.error)).named
    limits = {Category.RATE_LIMIT, Category.QUOTA}
    if status.category is not Category.AUTH:
        limits |= {Category.TRANSIENT, Category.AUTH}
    if finding and finding.category in limits:
        return finding
    if named and named[1] is Category.RATE_LIMIT:
        return Finding(status.clues, named[1], f"class name {named[0]}")
    return None


def _by_status(clues: Clues) -> Finding | None:
    status, headers = clues.status, clues.headers
    if status is None or status < _CLIENT:
        return None
    limited = "retry-after" in headers or any(
        is_used_up(headers, name) for name in ("x-ratelimit-remaining", "x-rate-limit-remaining")
    )
    if status == _FORBIDDEN and limited:
        return Finding(clues, Category.RATE_LIMIT, "status 403 with the headers of a rate limit")
    other = Category.PERMANENT if status < _SERVER else Category.TRANSIENT
    return Finding(clues, tables.STATUSES.get(str(status), other), f"status {status}")
