"""Submitting many calls at once, and calls by the name of a handler that the program does not have."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from redrive import Policy, Redrive, State
from redrive.errors import BadPayload, KeyConflict, StoreFull, UsageError
from redrive.handler import Handler
from redrive.jobs.job import Job
from redrive.stores.contract import Store
from redrive.testing import ManualClock
from tablekit import each_row


@pytest.fixture
def send(app: Redrive) -> Handler[..., None]:
    """A handler with two arguments."""

    @app.handler("mail.send")
    def send(to: str, times: int = 1) -> None: ...

    return send


def receivers(jobs: list[Job]) -> list[object]:
    """The first argument of each job."""
    return [json.loads(job.payload)["to"] for job in jobs]


def count_writes(monkeypatch: pytest.MonkeyPatch, store: Store) -> list[int]:
    """Note how many jobs each write of the store adds."""
    real, writes = store.add, list[int]()

    def add(jobs: list[Job], *, within: object = None) -> list[Job]:
        writes.append(len(jobs))
        return real(jobs, within=within)

    monkeypatch.setattr(store, "add", add)
    return writes


def test_many_are_stored_in_order_by_one_write_a_chunk(
    app: Redrive, send: Handler[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = count_writes(monkeypatch, app.store)
    names = [f"user{number}" for number in range(2100)]
    jobs = send.submit_many({"to": name} for name in names)
    assert receivers(jobs) == names
    assert writes == [1000, 1000, 100]
    assert app.desk.jobs.counts()[0].jobs == 2100
    assert send.submit_many([]) == []


def test_large_payloads_make_small_chunks(
    app: Redrive, send: Handler[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = count_writes(monkeypatch, app.store)
    send.submit_many({"to": "x" * 900_000} for _ in range(7))
    assert writes == [5, 2]


def test_each_item_has_its_own_key_delay_and_tags(
    app: Redrive, send: Handler[..., None], clock: ManualClock
) -> None:
    tagged = send.options(tags=["batch"], delay=5)
    plain, own = tagged.submit_many(
        [{"to": "ada"}, send.options(key="k", delay=60, tags=["vip"], attempts=3).item("bob")]
    )
    assert (plain.tags, plain.key, plain.due) == (("batch",), None, clock.now() + 5)
    assert (own.tags, own.key, own.due) == (("vip",), "k", clock.now() + 60)
    assert app.get(own.id).max_attempts == 3


def test_duplicates_come_back_as_not_new(app: Redrive, send: Handler[..., None]) -> None:
    first = send.options(key="a").submit("ada")
    again, new, twice = send.submit_many(
        [send.options(key=key).item(to) for key, to in (("a", "ada"), ("b", "bob"), ("b", "bob"))]
    )
    assert (again.id, again.is_new) == (first.id, False)
    assert new.is_new
    assert (twice.id, twice.is_new) == (new.id, False)


def test_a_conflict_names_its_item_and_the_chunks_before_it_stay_stored(
    app: Redrive, send: Handler[..., None]
) -> None:
    send.options(key="k1500").submit("somebody")
    items = [send.options(key=f"k{number}").item(f"user{number}") for number in range(2500)]
    with pytest.raises(KeyConflict, match=r"items\[1500\]: .*'k1500'.* first 1000 are stored"):
        send.submit_many(items)
    assert app.desk.jobs.counts()[0].jobs == 1001


def test_a_conflict_of_two_items_names_the_second(app: Redrive, send: Handler[..., None]) -> None:
    keyed = send.options(key="k")
    with pytest.raises(KeyConflict, match=r"items\[2\]: .* first 0 are stored"):
        send.submit_many([{"to": "ada"}, keyed.item("bob"), keyed.item("cy")])
    assert app.desk.jobs.counts() == []


@each_row(
    "wrong, message",
    [
        ({"two": "ada"}, "do not fit the handler"),
        ({"to": object()}, "object"),
        (("ada",), "found tuple"),
        ("ada", "found str"),
    ],
)
def test_a_wrong_item_is_named(send: Handler[..., None], wrong: object, message: str) -> None:
    with pytest.raises(UsageError, match=rf"items\[1\]: .*{message}.* first 0 are stored"):
        send.submit_many([{"to": "ada"}, wrong])  # type: ignore[list-item]


def test_a_wrong_payload_keeps_its_type_and_field(send: Handler[..., None]) -> None:
    with pytest.raises(BadPayload) as caught:
        send.submit_many([{"to": object()}])
    assert caught.value.field == "$.to"


def test_items_of_another_handler_and_options_of_one_job_are_refused(
    app: Redrive, send: Handler[..., None]
) -> None:
    other = app.handler("other")(lambda to: None)
    with pytest.raises(UsageError, match=r"items\[0\]: this is an item of 'other'"):
        send.submit_many([other.item("ada")])
    with pytest.raises(UsageError, match="`key` and `durable` are not for many"):
        send.options(key="k").submit_many([{"to": "ada"}])
    with pytest.raises(UsageError, match=r"items\[0\]: `durable` is for try_now"):
        send.submit_many([send.options(durable=True).item("ada")])
    with pytest.raises(UsageError, match="give `within` to submit_many"):
        send.submit_many([send.options(within=object()).item("ada")])


def test_within_names_postgresql_on_other_stores(send: Handler[..., None]) -> None:
    with pytest.raises(UsageError, match="`within` needs PostgreSQL"):
        send.options(within=object()).submit_many([{"to": "ada"}])


def test_a_full_store_says_how_many_are_stored(
    app: Redrive, send: Handler[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = app.store.add, iter([True, False])

    def add(jobs: list[Job], *, within: object = None) -> list[Job]:
        if next(calls):
            return real(jobs, within=within)
        raise StoreFull("no room")

    monkeypatch.setattr(app.store, "add", add)
    with pytest.raises(StoreFull, match="no room; of the items, the first 1000 are stored"):
        send.submit_many({"to": "ada"} for _ in range(1200))


def test_items_are_taken_as_they_are_stored(app: Redrive, send: Handler[..., None]) -> None:
    """A generator of millions needs no more memory than two chunks and the answers."""
    seen: list[int] = []

    def items() -> Iterator[dict[str, object]]:
        for number in range(2500):
            if number == 2001:
                seen.append(sum(count.jobs for count in app.desk.jobs.counts()))
            yield {"to": str(number)}

    send.submit_many(items())
    assert seen[0] in {1000, 2000}  # the second chunk is being written


def test_listeners_hear_of_each_new_job(app: Redrive, send: Handler[..., None]) -> None:
    heard: list[str] = []
    app.listen(lambda event: heard.append(f"{event.kind} {event.job.id if event.job else ''}"))
    jobs = send.submit_many([{"to": "ada"}, {"to": "bob"}])
    assert heard == [f"submitted {job.id}" for job in jobs]


def test_the_async_forms_do_the_same(app: Redrive, send: Handler[..., None]) -> None:
    async def main() -> list[Job]:
        many = await send.asubmit_many({"to": name} for name in ("ada", "bob"))
        return [*many, await app.asubmit("mail.send", {"to": "cy"}, key="k")]

    jobs = asyncio.run(main())
    assert receivers(jobs) == ["ada", "bob", "cy"]
    assert app.get(jobs[2].id).key == "k"


def test_a_call_by_name_waits_for_a_program_with_the_handler(
    app: Redrive, clock: ManualClock
) -> None:
    job = app.submit("mail.send", {"to": "ada", "from": "bob"}, delay=5, tags=["x"], key="k")
    assert (job.handler, job.state, job.tags, job.key) == (
        "mail.send",
        State.PENDING,
        ("x",),
        "k",
    )
    assert app.submit("mail.send", {"to": "ada", "from": "bob"}, key="k").id == job.id
    clock.advance(5)
    assert app.run_due().taken == 0
    ran: list[dict[str, object]] = []
    app.handler("mail.send", attempts=2)(lambda **given: ran.append(given))
    app.run_due()
    assert ran == [{"to": "ada", "from": "bob"}]
    assert app.get(job.id).state is State.COMPLETED


def test_the_limits_of_a_call_by_name_are_the_handlers_own(app: Redrive) -> None:
    job, limited = app.submit("shaky", {}), app.submit("shaky", {}, attempts=1)

    @app.handler("shaky", policy=Policy(attempts=2))
    def shaky() -> None:
        raise ConnectionError

    for _ in range(3):
        app.run_due(ignore_backoff=True)
    dead = app.get(job.id)
    assert (dead.state, dead.attempts, dead.max_attempts) == (State.DEAD, 2, 2)
    assert app.get(limited.id).attempts == 1


def test_a_call_by_name_goes_to_the_lane_of_its_handler_when_a_worker_takes_it(
    app: Redrive,
) -> None:
    """So a pause of that lane stops it, and no attempt is spent on the way."""
    jobs = [app.submit("mail.send", {}), app.submit("mail.send", {})]
    ran: list[str] = []
    app.handler("mail.send", lane="mail")(lambda: ran.append("mail"))
    app.desk.lanes.pause("mail")
    app.run_due()
    waiting = app.get(jobs[0].id)
    assert (waiting.lane, waiting.state, waiting.attempts) == ("mail", State.PENDING, 0)
    assert ran == []
    app.desk.lanes.resume("mail")
    app.run_due()
    assert ran == ["mail", "mail"]
    done = app.get(jobs[1].id)
    assert (done.lane, done.state, done.attempts) == ("mail", State.COMPLETED, 1)


def test_a_call_by_name_may_use_the_former_name_of_a_parameter(app: Redrive) -> None:
    calls: list[str] = []

    @app.handler("greet", renamed={"name": "who"})
    def greet(who: str) -> None:
        calls.append(who)

    first = app.submit("greet", {"name": "ada"}, key="ada")
    assert json.loads(first.payload) == {"who": "ada"}
    assert app.submit("greet", {"who": "ada"}, key="ada").id == first.id
    assert asyncio.run(app.asubmit("greet", {"name": "ada"}, key="ada")).id == first.id
    app.run_due()
    assert calls == ["ada"]


def test_a_call_by_name_of_a_known_handler_is_checked_at_once(
    app: Redrive, send: Handler[..., None]
) -> None:
    with pytest.raises(UsageError, match="do not fit the handler"):
        app.submit("mail.send", {"two": "ada"})
    with pytest.raises(UsageError, match="mapping"):
        app.submit("mail.send", ["ada"])  # type: ignore[arg-type]
    with pytest.raises(BadPayload):
        app.submit("unknown", {"to": object()})
