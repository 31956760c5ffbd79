"""A bad night as data: thousands of dead letters of five causes, a run, pauses and notes.

    fill("night.db")

For `redrive demo --web`, for screenshots and for tests that need much; times end now.
"""
# ruff: noqa: S311, PLR2004 - made-up data needs neither secrets nor names for its numbers

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Any

from redrive.app import Redrive
from redrive.classify import classify
from redrive.jobs.job import Attempt, Category, Failure, Job, Reason, State
from redrive.jobs.logger import log
from redrive.policies.policy import Policy
from redrive.strategies import exponential
from redrive.testing import ManualClock

MINUTE, HOUR = 60.0, 3600.0
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TRACE = """Traceback (most recent call last):
  File "/srv/shop/{file}", line {line}, in {name}
    {code}
  File "/srv/venv/lib/python3.12/site-packages/httpx/_client.py", line 1144, in post
    return self.request("POST", url)
  File "/srv/venv/lib/python3.12/site-packages/httpcore/_sync/connection.py", line 124, in connect
    raise exc
{end}
"""


class CardError(Exception):
    """The bank refuses a card."""


class RateLimitError(Exception):
    """The model has too much to do."""


def charge(charge_id: str, **_: object) -> None:
    """Charge a card; the number of the charge says if it has expired."""
    time.sleep(0.05)
    if charge_id.endswith("00"):
        raise CardError("Your card has expired.")


def render(vat_id: str = "", **_: object) -> None:
    """Make an invoice."""
    if not vat_id:
        raise KeyError("vat_id")


def summarize(**_: object) -> None:
    """Ask a model that is busy."""
    raise RateLimitError("429 Too Many Requests, gpt-5-mini in org-7f")


class Cause:
    """One cause of death; `live` raises the error with which jobs of `NightShop` join its group."""

    def __init__(
        self,
        handler: str,
        category: str,
        kind: str,
        message: str,
        place: str,
        *,
        live: Callable[[], None] = lambda: None,
    ) -> None:
        self.handler, self._live = handler, live
        name, _, line = place.partition(":")
        end = f"{kind}: {message}"
        trace = _TRACE.format(
            file=f"{handler.partition('.')[0]}.py",
            line=line,
            name=name,
            end=end,
            code="answer = client.post(address, json=body, headers=headers)",
        )
        self._failure = Failure(
            category=Category(category),
            why=f"type {kind}",
            type=kind,
            message=message,
            traceback=trace,
            fingerprint=f"{kind}{place}",
            title=f"{end} @ {place}",
        )

    @cached_property
    def failure(self) -> Failure:
        """The failure of each attempt."""
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - its kind does not matter
            found = classify(error, handler=self.handler)
            return replace(self._failure, fingerprint=found.fingerprint, title=found.title)
        return self._failure


CAUSES = (
    Cause(
        "billing.charge",
        "transient",
        "ConnectTimeout",
        "api.stripe.example:443 timed out after 10 s",
        "charge:88",
    ),
    Cause("billing.pdf", "unknown", "KeyError", "'vat_id'", "render:41", live=render),
    Cause(
        "summarize.email",
        "rate_limit",
        "RateLimitError",
        "429 Too Many Requests, gpt-5-mini in org-7f",
        "summarize:57",
        live=summarize,
    ),
    Cause("invoice.send", "unknown", "ValueError", "宛先が正しくありません: 田中5", "send:64"),
    Cause(
        "billing.charge",
        "invalid",
        "CardError",
        "Your card has expired.",
        "charge:91",
        live=partial(charge, "ch_00"),
    ),
    Cause("mail.he", "invalid", "UnicodeError", "הכתובת אינה תקינה: דוד@דוגמה.ישראל", "encode:12"),
    Cause(
        "warehouse.synchronise-inventory-levels-with-the-regional-distribution-centre",
        "timeout",
        "TimeoutError",
        "the_warehouse_management_system_did_not_answer_within_the_time_" * 4,
        "sync:9",
    ),
)


def ident(at: float, rand: random.Random) -> str:
    """Return an id like ours: the time, then chance."""
    number = int(at * 1000)
    head = "".join(_ALPHABET[(number >> shift) & 31] for shift in range(45, -1, -5))
    return head + "".join(rand.choices(_ALPHABET, k=16))


def _job(handler: str, at: float, rand: random.Random, **more: Any) -> Job:
    """Return a job that was submitted at that time and may be attempted three times."""
    fields: dict[str, Any] = {"id": ident(at, rand), "handler": handler, "lane": handler}
    fields |= dict.fromkeys(("created", "due", "since", "updated"), at)
    fields |= {"max_attempts": 3, **more}
    return Job(**fields)


def died(cause: Cause, at: float, rand: random.Random) -> Job:
    """Return a dead letter: three attempts, the last of them at that time."""
    created = at - 11 * MINUTE
    attempts = tuple(
        Attempt(
            ordinal=n,
            number=n,
            life=0,
            started=created + delay,
            duration=rand.uniform(0.5, 10),
            worker=f"w{rand.randint(1, 3)}:81{n}",
            outcome="failed",
            failure=cause.failure,
        )
        for n, delay in ((1, 5.0), (2, 65.0), (3, 640.0))
    )
    region = "eu" if rand.random() < 0.97 else "us"
    payload = (
        f'{{"charge_id": "ch_{rand.randint(1000, 9999)}", "customer": {{"id": 19706705982919{rand.randint(10000, 99999)}, '
        f'"email": "ada@example.org"}}, "amount": 10.10, "currency": "EUR", "region": "{region}", '
        f'"card_number": "4242424242424242"}}'
    )
    return _job(
        cause.handler,
        created,
        rand,
        payload=payload,
        updated=at,
        state=State.DEAD,
        reason=Reason.EXHAUSTED,
        attempts=3,
        spent={cause.failure.category: 3},
        finished=at,
        died_at=at,
        first_failed=created + 5,
        lease=3,
        release="1.8.2",
        failure=replace(cause.failure, traceback=""),
        tags=("checkout",),
        history=attempts,
        key=f"charge-{rand.getrandbits(60)}",
    )


def times(now: float, rand: random.Random, factor: float) -> list[tuple[float, Cause]]:
    """Return who died when."""
    outage = [now - rand.triangular(0.2, 5.5, 3) * HOUR for _ in range(int(4310 * factor))]
    steady = [now - rand.uniform(0.1, 24) * HOUR for _ in range(int(318 * factor) or 1)]
    fresh = [now - abs(rand.gauss(0, 12)) * MINUTE for _ in range(int(142 * factor) or 1)]
    old = [now - rand.uniform(12, 19) * HOUR for _ in range(int(36 * factor) or 1)]
    few = [now - rand.uniform(1, 50) * MINUTE for _ in range(6)]
    rare = [[now - rand.uniform(1, 9) * HOUR for _ in range(count)] for count in (4, 3)]
    pairs = zip(CAUSES, (outage, steady, fresh, old, few, *rare), strict=True)
    return sorted(((at, cause) for cause, some in pairs for at in some), key=lambda pair: pair[0])


def fill(path: Path | str, *, factor: float = 1.0, now: float | None = None) -> None:
    """Fill a store; each job is added at the time of its death, so that deaths are counted."""
    now = time.time() if now is None else now
    rand, clock = random.Random(7), ManualClock(now - 25 * HOUR)
    with Redrive(path, clock=clock, actor="deploy-bot") as app:
        app.store.add(
            [done(now - rand.uniform(0, 5) * HOUR, rand) for _ in range(int(300 * factor) + 1)]
        )
        for at, some in groupby(times(now, rand, factor), key=lambda pair: pair[0] // 30):
            clock.advance(max(0.0, at * 30 + 30 - clock.now()))
            app.store.add([died(cause, clock.now(), rand) for _, cause in some])
        app.store.fold()
        clock.advance(max(0.0, now - 30 * MINUTE - clock.now()))
        people(app, clock, now)


def done(at: float, rand: random.Random) -> Job:
    """Return a job that was completed."""
    ended = {"state": State.COMPLETED, "reason": Reason.DONE, "attempts": 1, "finished": at}
    return _job("billing.charge", at, rand, payload='{"region": "eu"}', **ended)


def people(app: Redrive, clock: ManualClock, now: float) -> None:
    """Let people write notes, pause lanes and start a run."""
    desk = app.desk
    groups = {group.title: group.name for group in desk.groups.find()}
    name = {title.partition(":")[0]: group for title, group in groups.items()}
    desk.groups.mark(
        name["ConnectTimeout"],
        actor="mira",
        note="Stripe incident 8841. They say it is over since 03:10. Canary before you retry everything.",
    )
    desk.groups.mark(
        name["KeyError"], note="Fixed in 1.8.3, which goes out on Monday.", actor="kenji"
    )
    desk.groups.mark(
        name["ValueError"],
        resolved=True,
        reason="fixed in 1.8.1",
        actor="kenji",
        at=now - 20 * HOUR,
    )
    desk.lanes.pause("payout.send", reason="bank maintenance", duration="2h", actor="mira")
    due = clock.now() - 22 * MINUTE
    app.store.add([_job("report.build", due, random.Random(8), payload="{}")])
    first = desk.jobs.find(name["ConnectTimeout"], state="dead", limit=1).jobs[0]
    desk.retry(first.id, reason="Stripe says it is back", actor="kenji")
    clock.advance(max(0.0, now - 120 - clock.now()))
    desk.runs.start(
        name["ConnectTimeout"],
        canary=3,
        rate=20,
        ramp=True,
        stop_on="5%",
        name="stripe outage",
        reason="Stripe incident 8841 is over",
        actor="mira",
    )


class NightShop:
    """The program of the night: the provider is back, two other causes are not fixed.

    An invoice without `vat_id` fails until somebody edits it; some cards have expired for good.
    """

    def __init__(self, path: Path | str) -> None:
        log.addHandler(logging.NullHandler())  # the pages show what dies
        policy = Policy(attempts=2, wait=exponential(0.3, cap=1))
        self.app = Redrive(path, actor="demo", policy=policy)
        self.charge = self.app.handler("billing.charge")(charge)
        self.pdf = self.app.handler("billing.pdf")(render)
        self.app.handler("summarize.email")(summarize)

    def arrive(self, stop: threading.Event, every: float = 4.0) -> None:
        """Submit a job now and then until it is stopped; each third dies."""
        for number in itertools.count(1001):
            if stop.wait(every):
                return
            handler = self.charge if number % 3 else self.pdf
            handler.submit(charge_id=f"ch_{number}", region="eu")
