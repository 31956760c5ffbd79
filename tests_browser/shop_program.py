"""The program of the stories: charges that die while there is an outage, and mails."""

from __future__ import annotations

import time
from pathlib import Path

from redrive import Policy, Redrive

OUTAGE, CARDS = "outage", "expired-cards"
app = Redrive("shop.db", policy=Policy(attempts=1))


@app.handler("billing.charge")
def charge(order: int, amount: float = 1, card_number: str = "") -> None:
    """Raise while the provider is down; some cards have expired then."""
    time.sleep(0.02)
    if Path(OUTAGE).exists():
        raise ConnectionError("api.pay.example refused the connection")
    if Path(CARDS).exists() and order % 2:
        raise ValueError("the card has expired")


@app.handler("mail.send")
def mail(to: str) -> None:
    """Raise for what is no address."""
    if "@" not in to:
        raise ValueError(f"{to} is no address")
