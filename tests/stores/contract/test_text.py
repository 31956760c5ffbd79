"""Stores keep text exactly as they are given it, and never take it for anything else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit import make_action, make_failure
from redrive.jobs.job import State
from redrive.stores.contract import Query, Store
from stores.contract.kinds import Place
from stores.contract.verbs import DEAD, add_one, claim_one, find, found, get, settle
from tablekit import each_row

PAYLOADS = [
    "{}",
    '{"price":10.10}',
    '{"price":10.1}',
    '{"n":9223372036854775809}',
    '{"n":-9223372036854775809}',
    '{"n":9007199254740993}',
    '{"n":1e2,"m":1E+2,"z":-0.0,"y":1.0}',
    '{"b":1,"a":2,"c":3}',
    '{"z":{"b":1,"a":[3,2,1]}}',
    '{"t":"\u2028\u2029"}',
    '{"t":"\x85\x7f\x9f"}',
    '{"t":"quote \\" back \\\\ slash \\/"}',
    '{"t":"\\n\\r\\t\\b\\f\\u0001\\u001f\\u001c"}',
    '{"t":"\\u00e9 is é"}',
    '{"t":"it\'s; DROP TABLE jobs; -- $1 ?1 :a %s {}"}',
    '{"t":"😀 \U0010ffff ﷽ \u202e\u200b\ufeff"}',
    '{"":"","é":1}',
    '{"t":"' + "x" * 100_000 + '"}',
    '{"d":' + "[" * 60 + "]" * 60 + "}",
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda text: ascii(text[:30]))
def test_a_payload_is_kept_letter_for_letter(place: Place, payload: str) -> None:
    store = place.open()
    add_one(store, "a", payload=payload)
    assert get(store, "a").payload == payload
    if place.kind.persistent:
        store = place.reopen()
    assert find(store).jobs[0].payload == payload
    taken = claim_one(store)
    assert taken.job.payload == payload
    settle(store, taken, DEAD, make_failure())
    store.amend("a", "{}", make_action("edit"), expected=0)
    store.amend("a", payload, make_action("edit"), expected=1)
    if place.kind.persistent:
        store = place.reopen()
    job = get(store, "a")
    assert (job.payload, job.original) == (payload, payload)


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)


@pytest.mark.needs("persistent")
def test_any_text_survives_closing_and_opening(place: Place) -> None:
    """What some would take for the end of a line is only a letter here."""
    seen: dict[str, dict[str, str]] = {}

    @settings(max_examples=60)
    @given(st.fixed_dictionaries(dict.fromkeys("pmtwkdo", words)))
    def try_it(text: dict[str, str]) -> None:
        job_id = f"j{len(seen)}"
        seen[job_id] = text
        add_one(
            store,
            job_id,
            payload=json.dumps({"t": text["p"]}, ensure_ascii=False),
            tags=(text["t"],),
            key=f"{job_id}{text['k']}",
            detail=text["d"],
            origin={"o": text["o"]},
        )
        failure = make_failure(
            message=text["m"], why=text["w"], title=text["t"], fingerprint=text["k"] or "f"
        )
        settle(store, claim_one(store, only=[job_id]), DEAD, failure)

    store = place.open()
    try_it()
    before = {job_id: get(store, job_id) for job_id in seen}
    store = place.reopen()
    assert store.verify().ok
    for job_id, text in seen.items():
        job = get(store, job_id)
        assert job == before[job_id]
        assert json.loads(job.payload) == {"t": text["p"]}
        assert (job.tags, job.key) == ((text["t"],), f"{job_id}{text['k']}")
        assert job.failure is not None
        assert (job.failure.message, job.failure.why) == (text["m"], text["w"])
        assert job.origin == {"o": text["o"]}


ODD_NAMES = [
    "../../x",
    "con",
    "a b",
    "é",
    "\u202egpj",
    "'; DROP TABLE jobs; --",
    "x" * 500,
    "*",
    "",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_names_are_only_text(store: Store, name: str) -> None:
    """Names are checked above; here none may become a path, a pattern or a statement."""
    add_one(store, "a", handler=name, lane=name, tags=(name,))
    add_one(store, "b", handler="other")
    assert store.note(f"pause:{name}", "x") is not None
    assert store.claim([name], limit=5, holder=name, lease_for=5) == []
    store.note(f"pause:{name}", None)
    (taken,) = store.claim([name], limit=5, holder=name or "w", lease_for=5)
    assert taken.job.id == "a"
    assert settle(store, taken, DEAD, make_failure()) is not None
    if name not in {"", "*"}:
        assert found(store, lane=name) == ["a"]
    assert {row.lane for row in store.counts() if row.state is State.DEAD} == {name}
    assert store.groups(Query())[0].handlers == (name,)


@each_row("job_id", ["a b", "é", "'; --", "%", "..", "x" * 300, "A"])
def test_ids_are_only_text(store: Store, job_id: str) -> None:
    add_one(store, job_id)
    add_one(store, "other")
    assert get(store, job_id).id == job_id
    assert found(store, ids=(job_id,)) == found(store, prefix=job_id) == [job_id]
    assert claim_one(store, only=[job_id]).job.id == job_id


def test_numbers_keep_every_digit(place: Place) -> None:
    """Times and durations too: a float that changes in the last digit is another instant."""
    store = place.open()
    odd = 1_750_000_000.1234567
    add_one(store, "a", due=odd, created=odd / 3, since=odd / 7, first_failed=0.1 + 0.2)
    before = get(store, "a")
    assert (before.due, before.created, before.since) == (odd, odd / 3, odd / 7)
    if place.kind.persistent:
        store = place.reopen()
    assert get(store, "a") == before
    assert get(store, "a").first_failed == 0.1 + 0.2
