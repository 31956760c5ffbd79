"""Whatever the document allows or forbids, the server answers by the document and never 5xx."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from redrive import Redrive
from redrive.testing import ManualClock
from redrive.web.api import ROUTES, Route
from shopkit import HOUR, name, shop_jobs
from webkit import ACT, START, Web

# One worker runs them all: reading the document takes longer than most of the tests.
pytestmark = pytest.mark.xdist_group("openapi")

EXAMPLES = 10
"""Requests of each kind for each operation."""
REAL = {"job": name(1), "group": "G1", "run": "R1", "lane": "mail.send"}
REAL["channel"] = "none"
TOKEN = {"authorization": f"Bearer {ACT}"}


def anything(**more: object) -> None:
    """Never runs here."""


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[schemathesis.BaseSchema]:
    place = tmp_path_factory.mktemp("api") / "jobs.db"
    with Redrive(place, clock=ManualClock(START + 24 * HOUR)) as app:
        app.store.add(shop_jobs())
        app.handler("mail.send")(anything)
        app.desk.runs.start(name(2))
        site = Web(app, hosts=["testserver"]).site
        yield schemathesis.openapi.from_asgi("/api/v1/openapi.json", site, headers=TOKEN)


def make_real(case: schemathesis.Case) -> None:
    """Mean something that is there: by chance alone no request would."""
    for name_of_it in case.path_parameters or {}:
        case.path_parameters[name_of_it] = REAL[name_of_it]
    if isinstance(case.body, dict) and "handler" in case.body:
        case.body["handler"] = "mail.send"
    if isinstance(case.query, dict) and "q" in case.query:
        case.query["q"] = "state:dead -tag:vip"


RIGHT = [(route, GenerationMode.POSITIVE) for route in ROUTES]
WRONG = [
    (route, GenerationMode.NEGATIVE)
    for route in ROUTES
    if route.params or route.query.__struct_fields__ or route.body is not None
]


@pytest.mark.parametrize(
    ("route", "mode"), RIGHT + WRONG, ids=lambda one: getattr(one, "name", str(one))
)
def test_every_operation_answers_by_the_document(
    api: schemathesis.BaseSchema, route: Route, mode: GenerationMode
) -> None:
    operation = api[route.path][route.method]

    fields = {name for kind in (route.query, route.body) if kind for name in kind.__struct_fields__}
    # Who may ask is asked of every route in test_authorization. Words have a grammar of their own, and payloads
    # rules that no schema can say.
    unasked = [ignored_auth, *([positive_data_acceptance] if fields & {"q", "payload"} else [])]

    @settings(max_examples=EXAMPLES)
    @given(case=operation.as_strategy(generation_mode=mode), real=st.booleans())
    def ask(case: schemathesis.Case, real: bool) -> None:
        case.headers = {**(case.headers or {}), **TOKEN}
        if mode is GenerationMode.POSITIVE and real:
            make_real(case)
        case.call_and_validate(excluded_checks=unasked)

    ask()
