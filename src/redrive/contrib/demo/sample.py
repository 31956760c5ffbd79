"""A small sample store: a shop after an outage of its payment service, for `redrive demo --web`."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from redrive.app import Redrive
from redrive.errors import GiveUp
from redrive.jobs.logger import log
from redrive.policies.policy import Policy
from redrive.strategies import exponential
from redrive.testing import ManualClock

STEP, STEPS = 600.0, 36
"""Six hours, in steps of ten minutes; in the last nine steps the payment service is down."""


def shop(path: Path | str, clock: ManualClock | None = None, *, down_from: float = 0.0) -> Redrive:
    """Return the program: without a clock the payment service is back, the other causes are not fixed."""
    log.addHandler(logging.NullHandler())
    app = Redrive(path, clock=clock, actor="demo", policy=Policy(attempts=2, wait=exponential(0.3)))

    @app.handler("billing.charge")
    def charge(charge_id: str, region: str, **_: str) -> None:
        if clock is None:
            time.sleep(0.1)
        elif region == "eu" and clock.now() > down_from:
            raise ConnectionError("api.stripe.example:443 refused the connection")
        if charge_id.endswith("50"):
            raise GiveUp("Your card has expired.")

    @app.handler("billing.pdf")
    def pdf(order: int, vat_id: str = "") -> None:
        if not vat_id and order % 3 == 0:
            raise KeyError("vat_id")

    @app.handler("invoice.send")
    def send(order: int, to: str) -> None:
        if order % 5 == 0:
            raise ValueError(f"宛先が正しくありません: {to}")

    @app.handler("payout.send")
    def pay(month: int) -> None: ...

    return app


def fill(path: Path | str) -> None:
    """Play the last six hours; then people write notes, pause a lane and start a run."""
    now = time.time()
    clock = ManualClock(now - STEPS * STEP)
    with shop(path, clock, down_from=now - 9 * STEP) as app:
        for step in range(STEPS):
            for order in range(step * 12, step * 12 + 12):
                person = {"email": "ada@example.org", "region": "us" if order % 8 == 1 else "eu"}
                card = {"charge_id": f"ch_{order}", "card_number": "4242424242424242"}
                app.submit("billing.charge", {**card, **person})
            app.submit("billing.pdf", {"order": step})
            app.submit("invoice.send", {"order": step, "to": f"田中{step}"})
            for wait in (STEP - 1.0, 1.0):
                clock.advance(wait)
                app.run_due()
        desk = app.desk
        name = {group.title.partition(":")[0]: group.name for group in desk.groups.find()}
        outage, pdf = name["ConnectionError"], name["KeyError"]
        note = "Stripe incident 8841. They say it is over. Canary before you retry everything."
        desk.groups.mark(outage, note=note, actor="mira")
        desk.groups.mark(pdf, note="Fixed in 1.8.3, which goes out on Monday.", actor="kenji")
        app.submit("payout.send", {"month": 10})
        desk.lanes.pause("payout.send", reason="bank maintenance", duration="2h", actor="mira")
        desk.runs.start(
            outage,
            canary=3,
            rate="5/s",
            ramp=True,
            stop_on="20%",
            name="stripe outage",
            reason="Stripe incident 8841 is over",
            actor="mira",
        )
