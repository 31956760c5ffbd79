"""A program whose payment service is down until somebody mends it."""

import os
from pathlib import Path

from redrive import Policy, Redrive

app = Redrive(os.environ["CREW_URL"], policy=Policy(attempts=1))


@app.handler("billing.charge")
def charge(customer: int, region: str) -> None:
    if not Path(os.environ["CREW_DIRECTORY"], "mended").exists():
        raise ConnectionError(f"api.stripe.example:443 timed out for customer {customer}")


@app.handler("billing.pdf")
def pdf(invoice: dict[str, str]) -> None:
    invoice["vat_id"]
