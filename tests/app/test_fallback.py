"""Providers inside handlers: the winner on the attempt, cooldowns in the store, what is spent."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redrive import Policy, Redrive, Skip, State, constant, current, fallback, when
from redrive.errors import AllProvidersFailed, Kept
from redrive.policies import presets
from redrive.testing import ManualClock
from redrive.worker.passes import Pass
from workkit import url_of


class Busy(Exception):
    status_code = 503


class Odd(Exception):
    """An error that only a rule can explain."""


class Shop:
    """Two providers that fail as told, and an app whose handler asks them."""

    def __init__(self, url: str, clock: ManualClock, policy: Policy = presets.DEFAULT) -> None:
        self.down: dict[str, Exception] = {}
        self.asked: list[str] = []
        self.app = Redrive(url, clock=clock, policy=policy, rand=lambda: 0.0)
        ask = fallback(openai=self.provider("openai"), claude=self.provider("claude"))

        @self.app.handler("ask")
        def handle(after: str = "") -> str:
            answer = ask()
            assert current().provider == answer.winner
            if after:
                raise {"skip": Skip, "fail": ValueError}[after]("afterwards")
            return answer.value

        self.handle = handle

    def provider(self, name: str) -> Callable[[], str]:
        def answer() -> str:
            self.asked.append(name)
            if name in self.down:
                raise self.down[name]
            return name

        return answer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shop(tmp_path: Path, clock: ManualClock) -> Iterator[Shop]:
    made = Shop(url_of("sqlite", tmp_path), clock)
    with made.app:
        yield made


@pytest.fixture
def make_two(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., list[Shop]]]:
    made: list[Shop] = []

    def make(policy: Policy = presets.DEFAULT) -> list[Shop]:
        url = url_of("sqlite", tmp_path)
        made.extend(Shop(url, clock, policy) for _ in range(2))
        return made

    yield make
    for one in made:
        one.app.close()


@pytest.mark.parametrize(
    ("after", "outcome"), [("", "done"), ("skip", "skipped"), ("fail", "failed")]
)
def test_b5_the_winner_is_kept_on_the_attempt(
    shop: Shop, after: str, outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    shop.down["openai"] = Busy()
    job = shop.handle.submit(after)
    shop.app.run_due()
    (attempt,) = shop.app.get(job.id).history
    assert (attempt.outcome, attempt.provider) == (outcome, "claude")
    assert f"claude answered for job {job.id}, after openai: transient, status 503" in caplog.text


def test_b4_when_all_fail_nobody_won_and_the_policy_decides(shop: Shop) -> None:
    shop.down = {"openai": Busy(), "claude": Busy()}
    job = shop.handle.submit()
    assert shop.app.run_due().failed == 1
    job = shop.app.get(job.id)
    (attempt,) = job.history
    assert attempt.provider is None
    assert (job.state, job.spent) == (State.PENDING, {"transient": 1})
    assert job.due - job.updated == 30


def test_b3_who_refused_the_input_is_kept_on_the_attempt(shop: Shop) -> None:
    shop.down["openai"] = type("Bad", (Exception,), {"status_code": 422})()
    job = shop.handle.submit()
    assert shop.app.run_due().died == 1
    job = shop.app.get(job.id)
    assert (job.reason, job.history[0].provider) == ("permanent", "openai")
    assert shop.asked == ["openai"]


def test_b2_a_cool_down_holds_for_every_program_on_the_store(
    make_two: Callable[..., list[Shop]],
) -> None:
    one, other = make_two()
    one.down["openai"] = Busy()
    one.handle.submit()
    one.app.run_due()
    other.handle.submit()
    other.app.run_due()
    assert (one.asked, other.asked) == (["openai", "claude"], ["claude"])


def test_a_cool_down_is_a_pause_that_people_see_and_end(shop: Shop) -> None:
    shop.down["openai"] = Busy()
    shop.handle.submit()
    shop.app.run_due()
    (note,) = shop.app.store.notes("pause:")
    assert (note.name, note.expires_in) == ("pause:provider:openai", 30)
    assert json.loads(note.value)["reason"] == "transient, status 503"
    shop.app.desk.lanes.resume("provider:openai", reason="mended")
    shop.down.clear()
    shop.handle.submit()
    shop.app.run_due()
    assert shop.asked == ["openai", "claude", "openai"]


def test_people_pause_a_provider_and_no_failure_changes_that(
    shop: Shop, clock: ManualClock
) -> None:
    shop.app.desk.lanes.pause("provider:openai", reason="too dear")
    before = shop.app.store.notes("pause:")
    shop.down["claude"] = Busy()
    job = shop.handle.submit()
    shop.app.run_due()
    assert shop.asked == ["claude"]
    failure = shop.app.get(job.id).failure
    assert failure is not None
    assert "openai: transient, not asked, it is paused: too dear" in failure.message
    shop.app.run_due(ignore_backoff=True)
    assert shop.asked == ["claude", "openai"]
    assert before[0] in shop.app.store.notes("pause:")


def test_all_paused_spends_nothing(shop: Shop, clock: ManualClock) -> None:
    shop.down = {"openai": Busy(), "claude": Busy()}
    shop.handle.submit()
    shop.app.run_due()
    other = shop.handle.submit()
    assert shop.app.run_due() == Pass(returned=1)
    job = shop.app.get(other.id)
    assert (job.attempts, job.history, job.due - clock.now()) == (0, (), 30)
    shop.down.clear()
    clock.advance(30)
    assert shop.app.run_due().succeeded == 2


def test_paused_for_ever_it_is_looked_at_now_and_then(shop: Shop, clock: ManualClock) -> None:
    for name in ("openai", "claude"):
        shop.app.desk.lanes.pause(f"provider:{name}")
    job = shop.handle.submit()
    assert shop.app.run_due().returned == 1
    assert shop.app.get(job.id).due - clock.now() == 60


def test_all_paused_spends_nothing_whatever_the_policy(clock: ManualClock) -> None:
    shop = Shop("memory:", clock, presets.LLM)
    shop.down = {"openai": Busy(), "claude": Busy()}
    jobs = [shop.handle.submit() for _ in range(2)]
    assert shop.app.run_due() == Pass(taken=1, failed=1, returned=1)
    assert shop.asked == ["openai", "claude"]
    assert [shop.app.get(job.id).attempts for job in jobs] == [1, 0]
    assert [shop.app.get(job.id).due - clock.now() for job in jobs] == [300, 30]


def test_j6_whoever_wants_it_now_is_not_held_up_by_cool_downs(shop: Shop) -> None:
    shop.down = {"openai": Busy(), "claude": Busy()}
    shop.handle.submit()
    shop.app.run_due()
    shop.down = {"claude": Busy()}
    assert shop.app.run_due(ignore_backoff=True).succeeded == 1
    assert shop.asked[2:] == ["openai"]
    assert {note.name for note in shop.app.store.notes("pause:")} == {"pause:provider:claude"}


def test_the_rules_of_the_policy_say_what_a_providers_error_is(clock: ManualClock) -> None:
    rules = Policy(attempts=3, wait=constant(1), on=[when(Odd, "invalid")])
    shop = Shop("memory:", clock, rules)
    shop.down["openai"] = Odd("no such animal")
    job = shop.handle.submit()
    assert shop.app.run_due().died == 1
    assert shop.asked == ["openai"]
    assert shop.app.get(job.id).reason == "permanent"


def test_tried_now_and_failed_it_is_kept_with_every_providers_error(shop: Shop) -> None:
    shop.down = {"openai": Busy(), "claude": Busy()}
    tried = shop.handle.try_now()
    assert not tried.done
    assert tried.job is not None
    job = shop.app.get(tried.job.id)
    assert job.failure is not None
    assert job.failure.code == "openai:transient/claude:transient"
    later = shop.handle.try_now()
    assert later.job is not None, "all paused, it is kept as well"
    kept = shop.app.get(later.job.id)
    assert (kept.state, kept.attempts, kept.spent, kept.history) == ("pending", 0, {}, ())
    assert kept.due - kept.updated == 30
    assert "no provider could be asked: openai" in kept.detail
    with pytest.raises(Kept, match="no provider could be asked"):
        _ = later.value
    assert len(shop.asked) == 2


def test_called_plainly_it_needs_no_store(shop: Shop) -> None:
    shop.down = {"openai": Busy(), "claude": Busy()}
    ask: Any = fallback(openai=shop.provider("openai"))
    with pytest.raises(AllProvidersFailed):
        ask()
    assert shop.app.store.notes("pause:") == []
