"""One grammar says which jobs, whatever the verb and the store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from kit import START, make_action, make_failure, make_job
from redrive import Redrive, State
from redrive.desk import search
from redrive.desk.search import read
from redrive.desk.selectors import Filters
from redrive.errors import UsageError
from redrive.jobs.job import Category, Job, Reason
from redrive.stores.memory import MemoryStore
from redrive.testing import ManualClock
from stores.contract.kinds import KINDS, Place

TIMEOUT = make_failure(
    "transient", cause="t", type="httpx.ConnectTimeout", message="host", status=503
)
KEY = make_failure("invalid", cause="k", type="KeyError", message="'vat_id' [x] 5 * 3", code="E1")


def jobs() -> list[Job]:
    plain = [
        make_job("JOB1", handler="billing.pdf", release="1.10.0", payload='{"n":{"id":42}}'),
        make_job("JOB2", handler="billing.charge", release="1.9.3", payload='{"n":{"id":"42"}}'),
        make_job(
            "JOB3", handler="mail", release="1.9.3", payload='{"list":[{"sku":"a,b"}],"x":null}'
        ),
        make_job("JOB4", handler="mail", lane="slow", payload='{"n":1970670598291982291,"f":1.50}'),
        make_job("JOB5", handler="mail", key="k*5", tags=("vip", "eu"), payload="not JSON"),
    ]
    dead = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "spent": {"transient": 3}}
    return [
        replace(plain[0], failure=TIMEOUT, attempts=5, updated=START - 7200, **dead),
        replace(plain[1], failure=KEY, attempts=2, updated=START - 3600, **dead),
        replace(plain[2], state=State.COMPLETED, reason=Reason.DONE, run=12),
        replace(plain[3], run=-12, redrives=1),
        plain[4],
    ]


@pytest.fixture(scope="module")
def app() -> Redrive:
    app = Redrive(MemoryStore(clock=ManualClock(START)), clock=ManualClock(START))
    app.store.add(jobs())
    app.store.move(["JOB5"], "retry", make_action("retry"))
    return app


FOUND = [
    ("state:dead", "21"),
    ("state:dead,completed", "321"),
    ("state:dead state:completed", "321"),
    ("-state:dead -state:pending", "3"),
    ("handler:billing.*", "21"),
    ("handler:billing.*,mail -handler:*pdf", "5432"),
    ("handler:mail handler:m*l lane:mail", "53"),
    ("lane:s*", "4"),
    ("-lane:mail", "421"),
    ("category:transient", "1"),
    ("category:transient,invalid", "21"),
    ("error:connect*", "1"),
    ("error:ConnectTimeout", "1"),
    ("error:httpx.*", "1"),
    ("error:Timeout", ""),
    ("error:*vat_id*", "2"),
    ("-error:*", "543"),
    ("status:5*", "1"),
    ("code:E1", "2"),
    ("reason:exhausted", "21"),
    ("age:>2h", "1"),
    ("age:>=30m age:<90m", "2"),
    ("state:dead -age:>90m", "2"),
    ("attempts:>=5", "1"),
    ("attempts:0", "543"),
    ("-attempts:<3", "1"),
    ("redrives:>0", "4"),
    ("release:1.9.3", "32"),
    ("release:1.9.*,1.10*", "321"),
    ("tag:vip tag:eu", "5"),
    ("tag:v*", "5"),
    ("-tag:vip handler:mail", "43"),
    ('key:"k*5"', "5"),
    ("key:k*", "5"),
    ("run:R12", "43"),
    ("R12 state:pending", "4"),
    ("-R12 handler:mail", "5"),
    ("action:A1", "5"),
    ("action:a1,7", "5"),
    ("-action:A1 handler:mail", "43"),
    ("action:A2", ""),
    ("G1", "1"),
    ("G1 G2", "21"),
    ("group:1,2 -G2", "1"),
    ("payload.n.id:42", "21"),
    ('payload.n.id:"42"', "21"),
    ("payload.n.id:>41", "21"),
    ("payload.list.0.sku:>a payload.list.0.sku:<b", "3"),
    ("payload.x:>1", ""),
    ("payload.n:1970670598291982291", "4"),
    ("payload.n:1970670598291982290", ""),
    ("payload.f:1.5", "4"),
    ('payload.list.0.sku:"a,b"', "3"),
    ("payload.list.0.sku:a,c", ""),
    ("payload.x:null", "3"),
    ("payload.n.id:*", "21"),
    ("-payload.n.id:42 state:dead", ""),
    ('"VAT_ID"', "2"),
    ('text:host "host"', "1"),
    ('-"host" state:dead', "2"),
    (r'error:"\'vat_id\' [x] 5 * 3"', "2"),
    ("JOB1 JOB4", "14"),
    ("-JOB1 state:dead", "2"),
]


def test_words_find_jobs(app: Redrive) -> None:
    """By the page and by the walk, which must agree."""
    for words, found in FOUND:
        ids = [f"JOB{digit}" for digit in found]
        assert [job.id for job in app.desk.jobs.find(words).jobs] == ids, words
        split = words.split(" ") if '"' not in words else [words]
        assert [job.id for job in app.desk.jobs.each(*split)] == ids, words
        if "JOB1 " not in words:
            grouped = app.desk.groups.find(words, state=list(State))
            assert sum(group.jobs for group in grouped) <= len(ids), words


def test_filters_are_the_same_terms(app: Redrive) -> None:
    filters: list[tuple[Filters, str]] = [
        ({"state": "dead", "handler": "billing.*"}, "state:dead handler:billing.*"),
        ({"state": [State.DEAD, "pending"], "lane": "mail"}, 'state:dead,pending lane:"mail"'),
        ({"category": Category.INVALID, "older_than": "30m"}, "category:invalid age:>30m"),
        ({"group": "G1", "newer_than": 7200}, "G1 age:<=2h"),
        ({"group": 2}, "G2"),
        ({"tag": "vip", "key": "k*5"}, 'tag:vip key:"k*5"'),
        ({"run": 12, "text": "A,B"}, 'R12 "a,b"'),
    ]
    for given, words in filters:
        by_words = [job.id for job in app.desk.jobs.find(words).jobs]
        assert [job.id for job in app.desk.jobs.find(**given).jobs] == by_words != []
    with pytest.raises(UsageError, match="leave no state"):
        app.desk.jobs.find("state:dead", state="pending")
    assert app.desk.jobs.find(failed=True, handler="mail").jobs == []


def test_the_walk_means_what_the_index_means() -> None:
    """A name that looks like a number is still a name."""
    app = Redrive(MemoryStore(clock=ManualClock(START)), clock=ManualClock(START))
    fields = {"key": "007", "tags": ("007",), "lane": "007"}
    app.store.add([make_job("job1", payload='{"zip":"007","big":1e20}', **fields)])
    for name, value in product(["key", "tag", "lane"], ["007", "7", "7.0", "07"]):
        by_index = [job.id for job in app.desk.jobs.find(f"{name}:{value}").jobs]
        assert by_index == [job.id for job in app.desk.jobs.find(f"{name}:{value},x").jobs]
        assert by_index == [job.id for job in app.desk.jobs.find(f"payload.zip:{value}").jobs]
        assert by_index != [job.id for job in app.desk.jobs.find(f"-{name}:{value}").jobs]
    assert [job.id for job in app.desk.jobs.find("payload.big:>5 payload.zip:>6").jobs] == ["job1"]
    assert app.desk.jobs.find("-job1 lane:007").jobs == []


SAID = [
    ("stat:dead", "did you mean state:"),
    ("colour:red", "payload.FIELD"),
    ("run:99999999999999999999", "is not a run"),
    ("group:9999999999", "is not a group"),
    ("state:failed", "pending, running"),
    ("state:dead,", "is empty"),
    ("category:bad", "rate_limit"),
    ("reason:bad", "exhausted"),
    ("handler:", "is empty"),
    ('handler:""', "is empty"),
    ("payload.:1", "is empty"),
    ("age:2h", "age:>2h"),
    ("age:>soon", "age:>2h"),
    ("attempts:many", "attempts:>=5"),
    ("group:seven", "like G7"),
    ("run:x", "like R12"),
    ("action:A17.2", "like A17"),
    ('"open', "a quote is not closed"),
    ('"a"b', "inside a word"),
    ("hi!", "double quotes"),
    ('""', "double quotes"),
    ("JOB1 state:dead", "not both"),
    ("JOB1 G7", "not both"),
    ("release:<1.10", "cannot be compared by <"),
    ("state:dead -state:dead", "leave no state"),
]


def test_what_cannot_be_understood_is_refused_by_name(app: Redrive) -> None:
    for words, said in SAID:
        with pytest.raises(UsageError, match=re.escape(said)):
            app.desk.jobs.find(words)


def test_what_is_looked_through_is_bounded_and_said(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where it stopped one can go on; a deed has no bound."""
    monkeypatch.setattr(search, "SEARCHED", 2)
    page = app.desk.jobs.find("-error:*", limit=9)
    assert [job.id for job in page.jobs] == ["JOB5", "JOB4"]
    assert page.scope is not None
    assert (page.scope.looked, page.scope.of) == (2, 5)
    rest = app.desk.jobs.find("-error:*", limit=9, cursor=page.cursor)
    assert [job.id for job in rest.jobs] == ["JOB3"]
    assert rest.scope is not None
    assert app.desk.jobs.find("state:dead", limit=1).scope is None
    groups, scope = app.desk.groups.page("attempts:>0")
    assert [(group.name, group.jobs, group.category) for group in groups] == [
        ("G1", 1, Category.TRANSIENT),
        ("G2", 1, Category.INVALID),
    ]
    assert scope is not None
    assert scope.looked == 2
    assert len(list(app.desk.jobs.ids("-payload.zzz:1"))) == 5


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def many(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Redrive]:
    """Dead jobs of two groups in a store of each kind; every eleventh has the tag and the word."""
    place = Place(request.param, tmp_path)
    with Redrive(place.open(), clock=place.clock) as app:
        app.store.add([dead(n) for n in range(MANY)])
        yield app
    place.remove()


def dead(number: int) -> Job:
    is_rare = number % 11 == 0
    return make_job(
        f"job{number:05d}",
        state=State.DEAD,
        reason=Reason.EXHAUSTED,
        finished=1.0,
        updated=float(number),
        failure=make_failure(cause=str(number % 2), message="Zoë" if is_rare else "x\0"),
        tags=("vip",) if is_rare else (),
        payload='{"word":"needle"}' if is_rare else '{"password":"zebra"}',
    )


MANY = 40
RARE = ["job00033", "job00022", "job00011", "job00000"]


def test_a_search_looks_through_the_newest_and_goes_on(
    many: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alike in every store; who may not reveal is told the same of a masked word as of none."""
    monkeypatch.setattr(search, "SEARCHED", 15)
    texts = ["tag:vip", '"needle"', '"ZOË"', "G1 G2 tag:vip", '"needle" handler:mail -tag:x']
    for words, reveal, by_change in product(texts, [False, True], [False, True]):
        asked = {"reveal": reveal, "by_change": by_change, "limit": 2}
        pages = [many.desk.jobs.find(words, **asked)]  # type: ignore[arg-type]
        while (cursor := pages[-1].cursor) is not None:
            pages.append(many.desk.jobs.find(words, cursor=cursor, **asked))  # type: ignore[arg-type]
        assert [job.id for page in pages for job in page.jobs] == RARE
        assert all(page.scope and page.scope.looked <= 15 for page in pages)
        assert pages[0].scope is not None
        assert pages[0].scope.of == MANY
    masked, absent = (many.desk.jobs.find(f'"{word}"', limit=1) for word in ("zebra", "nowhere"))
    assert masked == absent
    assert (masked.jobs, masked.scope) == ([], (15, MANY))


def test_an_action_looks_through_all(many: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCHED", 15)
    for words in ("tag:vip", '"needle"', "G1 G2 tag:vip"):
        assert many.desk.plan("retry", words).ids == RARE
        assert list(many.desk.jobs.ids(words)) == RARE
    groups, scope = many.desk.groups.page('"needle"')
    assert (sum(group.jobs for group in groups), scope) == (1, (15, MANY))


def test_several_groups_come_in_one_order_with_one_cursor(app: Redrive) -> None:
    first = app.desk.jobs.find("G1 G2", limit=1)
    assert [job.id for job in first.jobs] == ["JOB2"]
    assert [job.id for job in app.desk.jobs.find("G1 G2", cursor=first.cursor).jobs] == ["JOB1"]
    page = app.desk.jobs.find("G1 G2", by_change=True)
    assert [job.id for job in page.jobs] == ["JOB2", "JOB1"]


def test_a_deed_takes_the_same_words(app: Redrive) -> None:
    assert [job.id for job in app.desk.resolve("error:Conn*").done] == ["JOB1"]
    assert read(["G1", "g1", "G2"], {}).groups == [1, 2]
    with pytest.raises(UsageError, match="name the jobs"):
        app.desk.retry()
