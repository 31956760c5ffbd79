"""Several providers for one piece of work: whom a call asks, and what it gives or raises (B1 to B5)."""

from __future__ import annotations

import inspect
import logging
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from redrive import Category, GiveUp, Skip, fallback, when
from redrive.classify import classify
from redrive.errors import AllProvidersFailed, ProviderPaused, UsageError
from redrive.in_place.fallback import Answer
from redrive.stores.memory import MemoryStore
from redrive.strategies import RetryStrategy
from redrive.testing import ManualClock
from tablekit import each_row


class Refused(Exception):
    """What a client raises, with what the server said."""

    def __init__(self, status: int, code: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"status {status}")
        self.status_code = status
        self.body = {"error": {"code": code}} if code else {}
        if retry_after is not None:
            self.retry_after = retry_after


class Providers:
    """Two providers that do as they are told, and remember when they were asked."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        self.script: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.ask: Callable[[str], Answer[str]] = fallback(
            store=self.store,
            openai=self.provider("openai"),
            claude=self.provider("claude"),
            **options,
        )

    def provider(self, name: str) -> Callable[[str], str]:
        def answer(text: str) -> str:
            self.asked.append(name)
            if name in self.script:
                raise self.script[name]
            return f"{name} on {text}"

        return answer

    def winner(self) -> str:
        """Ask once; gives who was asked, in order, the last one having answered."""
        self.asked.clear()
        assert self.ask("cats").winner == self.asked[-1]
        return " ".join(self.asked)

    def fails(self) -> AllProvidersFailed:
        self.asked.clear()
        with pytest.raises(AllProvidersFailed) as caught:
            self.ask("cats")
        return caught.value

    def left(self) -> dict[str, float | None]:
        """How long each cooldown still lasts."""
        notes = self.store.notes("pause:provider:")
        return {note.name.rpartition(":")[2]: note.expires_in for note in notes}


@pytest.fixture
def two() -> Providers:
    return Providers()


def test_b1_the_first_one_answers_and_nobody_else_is_asked(two: Providers) -> None:
    answer = two.ask("cats")
    assert answer == Answer("openai on cats", "openai", ())
    assert two.asked == ["openai"]


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (Refused(429), "rate_limit"),
        (Refused(429, "insufficient_quota"), "quota"),
        (Refused(529), "transient"),
        (Refused(401), "auth"),
        (ConnectionResetError("gone"), "transient"),
        (KeyError("x"), "unknown"),
    ],
)
def test_b1_when_it_fails_the_next_one_is_asked_once(
    two: Providers, error: Exception, category: str
) -> None:
    two.script["openai"] = error
    answer = two.ask("cats")
    assert (answer.value, answer.winner) == ("claude on cats", "claude")
    assert [(miss.provider, miss.category) for miss in answer.tried] == [("openai", category)]
    assert two.asked == ["openai", "claude"]


def test_b1_the_other_way_round_while_the_preferred_one_cools_down(two: Providers) -> None:
    two.script["openai"] = Refused(503)
    assert two.winner() == "openai claude"
    assert two.winner() == "claude"
    two.script = {"claude": Refused(503)}
    assert two.winner() == "claude openai", "cooling by a guess is asked last"
    assert two.winner() == "openai", "it works again, so it comes first again"


def test_b1_who_said_how_long_is_not_asked_before_that(two: Providers) -> None:
    two.script["openai"] = Refused(429, retry_after=50)
    two.winner()
    two.script["claude"] = Refused(500)
    error = two.fails()
    assert two.asked == ["claude"]
    assert isinstance(error.exceptions[0], ProviderPaused)


def test_b2_a_hint_is_the_cool_down_and_afterwards_the_preferred_one_is_back(
    two: Providers,
) -> None:
    two.script["openai"] = Refused(429, retry_after=3600)
    two.winner()
    assert two.left() == {"openai": 3600}
    two.script.clear()
    two.clock.advance(3599)
    assert two.winner() == "claude"
    two.clock.advance(1)
    assert two.winner() == "openai"
    assert two.store.notes("cooled:") == []


def test_b2_without_a_hint_cool_downs_grow_from_30_seconds_to_10_minutes(two: Providers) -> None:
    two.script["openai"] = Refused(503)
    seen: list[float | None] = []
    for _ in range(7):
        assert two.winner() == "openai claude"
        seen.append(two.left()["openai"])
        two.clock.advance(seen[-1] or 0)
    assert seen == [30, 60, 120, 240, 480, 600, 600]
    two.script.clear()
    assert two.winner() == "openai"
    two.script["openai"] = Refused(503)
    two.winner()
    assert two.left() == {"openai": 30}, "a success begins anew"


def test_b2_an_hour_later_a_cool_down_is_forgotten(two: Providers) -> None:
    two.script["openai"] = Refused(503)
    two.winner()
    two.clock.advance(30 + 3600)
    two.winner()
    assert two.left() == {"openai": 30}


@each_row("hint", [None, 20_000])
def test_b2_no_cool_down_is_longer_than_the_longest(hint: float | None) -> None:
    two = Providers(longest="5m")
    two.script["openai"] = Refused(429, retry_after=hint)
    for _ in range(6):
        two.winner()
        two.clock.advance(two.left()["openai"] or 0)
    two.winner()
    assert two.left() == {"openai": 300}


@each_row("error", [Refused(400), Refused(404), Refused(422)])
def test_b2_what_is_the_inputs_fault_starts_no_cooldown_however_often(error: Exception) -> None:
    two = Providers(on=Category)
    two.script["openai"] = error
    for _ in range(5):
        assert two.winner() == "openai claude"
    assert two.left() == {}


def chained(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


class ConnectError(Exception):
    __module__ = "httpx"


@pytest.mark.parametrize(
    "error",
    [
        Refused(429),
        Refused(429, "insufficient_quota"),
        Refused(401),
        Refused(503),
        Refused(529),
        Refused(500, "overloaded_error"),
        Refused(500, retry_after=20),
        ConnectionRefusedError(111, "refused"),
        chained(RuntimeError("no answer"), OSError(113, "no route to host")),
        chained(RuntimeError("no answer"), ExceptionGroup("all", [ConnectionRefusedError()])),
        ConnectError("all connection attempts failed"),
        socket.gaierror(-2, "Name or service not known"),
    ],
    ids=repr,
)
def test_b2_what_is_about_the_provider_starts_a_cooldown_at_once(
    two: Providers, error: Exception
) -> None:
    two.script["openai"] = error
    assert two.winner() == "openai claude"
    assert list(two.left()) == ["openai"]
    assert two.winner() == "claude"


MAY_BE_THE_INPUTS = [
    TimeoutError("no answer within 60 s"),
    Refused(500),
    Refused(502),
    Refused(504),
    ConnectionResetError("gone"),
    KeyError("x"),
]


@pytest.mark.parametrize("error", MAY_BE_THE_INPUTS, ids=repr)
def test_b2_what_may_be_the_inputs_fault_needs_three_failures_within_five_minutes(
    two: Providers, error: Exception
) -> None:
    two.script["openai"] = error
    for _ in range(3):
        two.winner()
        assert two.left() == {}, "each comes 151 s after the last: two in any five minutes"
        two.clock.advance(151)
    two.winner()
    two.winner()
    assert list(two.left()) == ["openai"]
    assert two.winner() == "claude"


@each_row("error", MAY_BE_THE_INPUTS)
def test_b2_one_success_forgets_the_failures_before_it(two: Providers, error: Exception) -> None:
    for _ in range(4):
        two.script["openai"] = error
        two.winner()
        two.winner()
        two.script.clear()
        assert two.winner() == "openai"
    assert two.left() == {}
    assert two.store.notes("cooled:") == []


def test_b2_failures_at_one_moment_count_each() -> None:
    """Eight callers read the note before any of them fails; still three of them are enough."""
    store, together = MemoryStore(clock=ManualClock()), threading.Barrier(8)

    def fails() -> str:
        together.wait(60)
        raise TimeoutError

    ask = fallback(store=store, openai=fails, claude=lambda: "x")
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: ask().winner, range(8))) == ["claude"] * 8
    assert [note.expires_in for note in store.notes("pause:provider:")] == [30]


def test_b2_an_outage_without_words_leads_to_longer_cooldowns(two: Providers) -> None:
    two.script["openai"] = TimeoutError()
    seen: list[float | None] = []
    for _ in range(3):
        while not two.left():
            two.winner()
        seen.append(two.left()["openai"])
        two.clock.advance(seen[-1] or 0)
    assert seen == [30, 60, 120]


@pytest.mark.parametrize("error", [Refused(400), Refused(404, "model_not_found"), GiveUp("no")])
def test_b3_invalid_input_goes_on_up_as_it_is(two: Providers, error: Exception) -> None:
    two.script["openai"] = error
    with pytest.raises(type(error)) as caught:
        two.ask("cats")
    assert caught.value is error
    assert two.asked == ["openai"]


def test_b3_it_tells_who_failed_before(two: Providers) -> None:
    two.script = {"openai": Refused(429), "claude": Refused(422)}
    with pytest.raises(Refused) as caught:
        two.ask("cats")
    assert caught.value.__notes__ == ["redrive: failed before: openai: rate_limit, status 429"]


def test_b3_unless_on_says_so() -> None:
    two = Providers(on=["invalid"])
    two.script["openai"] = Refused(400)
    assert two.winner() == "openai claude"
    two.script["openai"] = Refused(503)
    with pytest.raises(Refused):
        two.ask("cats")


def test_b3_a_rule_in_on_makes_an_exception_and_says_what_it_is() -> None:
    two = Providers(on=[when(code="context_length_exceeded", then="invalid")])
    two.script["openai"] = Refused(400, "context_length_exceeded")
    assert two.winner() == "openai claude"
    two.script["claude"] = Refused(400, "context_length_exceeded")
    assert two.fails().redrive_category == "invalid"
    two.script["openai"] = Refused(400, "other")
    with pytest.raises(Refused):
        two.ask("cats")


@each_row("error", [Skip("done"), GiveUp("never"), KeyboardInterrupt()])
def test_what_a_provider_says_outright_goes_on_up_whatever_on_says(error: BaseException) -> None:
    two = Providers(on=Category)

    def says(text: str) -> str:
        raise error

    ask = fallback(openai=says, claude=two.provider("claude"), on=Category)
    with pytest.raises(type(error)):
        ask("cats")
    assert two.asked == []


def test_b4_one_error_carries_every_providers(two: Providers) -> None:
    two.script = {"openai": Refused(429, retry_after=90), "claude": Refused(529)}
    error = two.fails()
    assert error.exceptions == (two.script["openai"], two.script["claude"])
    assert {name: one.category for name, one in error.failures.items()} == {
        "openai": "rate_limit",
        "claude": "transient",
    }
    expected = "no provider answered: openai: rate_limit, status 429; claude: transient, status 529"
    assert str(error) == expected
    failure = classify(error)
    assert failure.category is Category.TRANSIENT, "that of the most hopeful"
    assert failure.why == "no provider answered; a retry may help claude: transient, status 529"
    assert failure.code == "openai:rate_limit/claude:transient"
    assert failure.hint == 30, "the earliest end of a cooldown"
    assert "Refused: status 529" in failure.traceback
    assert "Refused: status 429" in failure.traceback


@each_row(
    "openai, claude, category, hint",
    [
        (Refused(429, retry_after=90), Refused(429, retry_after=20), "rate_limit", 20),
        (Refused(429, "insufficient_quota"), Refused(401), "quota", 30),
        (Refused(401), Refused(403), "auth", None),
        (Refused(429, retry_after=20_000), Refused(400), "rate_limit", 20_000),
        (Refused(429, retry_after=20_000), KeyError("x"), "unknown", None),
        (Refused(400), Refused(404), "permanent", None),
    ],
)
def test_b4_the_most_hopeful_decides(
    openai: Exception, claude: Exception, category: str, hint: float | None
) -> None:
    two = Providers(on=Category)
    two.script = {"openai": openai, "claude": claude}
    failure = classify(two.fails())
    assert (failure.category, failure.hint) == (category, hint)


def test_b4_it_travels_between_processes() -> None:
    with pytest.raises(AllProvidersFailed) as caught:
        fallback(a=_down, b=_down)()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.was_asked) == (str(caught.value), True)
    assert (again.code, again.cooldown_time) == ("a:transient/b:transient", 30)


def _down() -> None:
    raise ConnectionRefusedError("down")


def test_all_paused_nobody_is_asked_and_the_error_says_until_when(two: Providers) -> None:
    two.script = {"openai": Refused(429, retry_after=100), "claude": Refused(429, retry_after=40)}
    two.fails()
    two.clock.advance(10)
    error = two.fails()
    assert two.asked == []
    assert not error.was_asked
    failure = classify(error)
    assert (failure.category, failure.hint) == ("rate_limit", 30)
    assert "claude: rate_limit, not asked, it is paused: rate_limit, status 429" in failure.message


def test_b5_the_winner_is_logged(two: Providers, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    two.script["openai"] = Refused(401)
    two.ask("cats")
    said = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert said == [
        ("ERROR", "openai is in cooldown for 30s: auth, status 401"),
        ("INFO", "claude answered, after openai: auth, status 401"),
    ]


def test_it_looks_like_the_first_provider_and_takes_its_arguments() -> None:
    def first(prompt: str, *, words: int = 7) -> str:
        """Ask it."""
        return prompt * words

    ask = fallback(first=first, second=lambda prompt, *, words=7: prompt)
    assert inspect.signature(ask) == inspect.signature(first)
    assert ask("a", words=3).value == "aaa"


def stream() -> Iterator[str]:
    yield "a"


@each_row(
    "make",
    [
        fallback,
        lambda: fallback(openai=7),  # type: ignore[arg-type]
        lambda: fallback(openai=stream),
        lambda: fallback(openai=_down, claude=_later),
        lambda: fallback(**{"no name": _down}),
        lambda: fallback(openai=_down, on=["sometimes"]),
        lambda: fallback(openai=_down, longest="soon"),
        fallback(openai=lambda: iter("abc")),
        fallback(openai=lambda: (part for part in "abc")),
    ],
)
def test_what_cannot_work_is_refused(make: Callable[[], object]) -> None:
    """A stream that may still break off is no answer."""
    with pytest.raises(UsageError):
        make()


async def _later() -> None:
    pass


class Broken(RetryStrategy):
    """A strategy of the user's own with a mistake in it."""

    def calculate_backoff(self, attempt: int) -> float:
        raise ZeroDivisionError


def test_b2_a_strategy_that_raises_is_replaced_and_the_next_provider_is_asked() -> None:
    two = Providers(cooldown=Broken())
    two.script["openai"] = Refused(503)
    assert two.winner() == "openai claude"
    assert two.left()["openai"] == 30
