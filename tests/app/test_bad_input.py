"""Bad input: a typed error that says what to do, and nothing stored."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any

import pytest

import redrive.stores.jsonl
import redrive.stores.sqlite  # noqa: F401 - a child that is not root may be unable to import it
from redrive import Policy, Redrive, RetryLater, constant, when
from redrive.errors import (
    BadPayload,
    JobNotFound,
    KeyConflict,
    Refused,
    StoreError,
    StoreForeign,
    StoreMissing,
    UsageError,
)
from redrive.strategies import ConstantBackoffStrategy
from tablekit import each_row


@pytest.fixture
def handler(app: Redrive) -> Any:
    @app.handler("any")
    def anything(value: Any = None, at: datetime | None = None) -> None: ...

    return anything


def as_nobody(action: Callable[[], object]) -> str:
    """Do something in a child that is not root; gives the error it raised, as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            action()
            said = "no error"
        except BaseException as error:  # noqa: BLE001 - told to the parent
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as pipe:
        return pipe.read()


CIRCULAR: list[object] = []
CIRCULAR.append(CIRCULAR)
DEEP: Any = "x"
for _ in range(70):
    DEEP = [DEEP]


@each_row(
    "value, says",
    [
        (float("nan"), r"\$\.value"),
        (float("inf"), r"\$\.value"),
        (CIRCULAR, r"\$\.value"),
        ("x" * 2 * 2**20, "1048576|1,048,576"),
        ("\ud800", r"\$\.value"),
        ("nul \0", r"\$\.value"),
        ({1: "a"}, "keys"),
        (object(), r"\$\.value"),
        ({"deep": b"bytes"}, r"\$\.value\.deep"),
        (DEEP, "64"),
        (10**5000, r"\$\.value"),
    ],
)
def test_a_payload_that_cannot_be_kept_names_the_field_and_stores_nothing(
    app: Redrive, handler: Any, value: object, says: str
) -> None:
    with pytest.raises(BadPayload, match=says):
        handler.submit(value)
    with pytest.raises(BadPayload, match=says):
        handler.try_now(value)
    assert app.desk.jobs.counts() == []


def test_a_naive_datetime_is_refused(app: Redrive, handler: Any) -> None:
    with pytest.raises(BadPayload, match="time zone"):
        handler.submit(at=datetime(2026, 1, 1))  # noqa: DTZ001 - naive on purpose
    assert app.desk.jobs.counts() == []


@each_row("delay", [-1, float("nan"), float("inf"), "soon", "-5m", None, True, 10**400])
def test_a_delay_that_makes_no_sense_is_refused(app: Redrive, handler: Any, delay: Any) -> None:
    with pytest.raises(UsageError, match="delay"):
        handler.options(delay=delay)


def test_a_delay_past_the_year_9999_is_cut_to_it(app: Redrive, handler: Any) -> None:
    """And the job can be listed and driven like any other."""
    job = handler.options(delay=10.0**15).submit(1)
    assert app.get(job.id).due_at.year == 9999
    assert app.run_due().taken == 0
    app.desk.retry(job.id)
    assert app.run_due().succeeded == 1


@each_row("key", ["", "a" * 256, "new\nline", "schlüssel", "with space", "tab\t"])
def test_a_key_must_be_visible_ascii(handler: Any, key: str) -> None:
    with pytest.raises(UsageError, match="key"):
        handler.options(key=key)


def test_the_same_key_with_another_payload_is_a_conflict(app: Redrive, handler: Any) -> None:
    first = handler.options(key="k").submit(1)
    again = handler.options(key="k").submit(1)
    assert (again.id, again.is_new) == (first.id, False)
    with pytest.raises(KeyConflict, match=first.id):
        handler.options(key="k").submit(2)
    assert sum(c.jobs for c in app.desk.jobs.counts()) == 1


def test_an_edit_takes_text_and_says_so(app: Redrive, handler: Any) -> None:
    job = handler.submit(1)
    with pytest.raises(UsageError, match=r"JSON text, such as json\.dumps returns; found dict"):
        app.desk.edit(job.id, {"value": 2})  # type: ignore[arg-type]
    assert app.get(job.id).edits == 0


@each_row(
    "call, says",
    [
        (lambda app: app.desk.jobs.find(5), "found 5"),
        (lambda app: app.desk.jobs.find(None), "found None"),
        (lambda app: list(app.desk.jobs.each(5)), "found 5"),
        (lambda app: app.desk.groups.find(5), "found 5"),
        (lambda app: app.desk.retry(5), "found 5"),
        (lambda app: app.desk.retry(b"01ABC"), "found b'01ABC'"),
        (lambda app: app.desk.runs.start(5), "found 5"),
        (lambda app: app.get(5), "found 5"),
        (lambda app: app.desk.edit(5, "{}"), "found 5"),
        (lambda app: app.desk.jobs.find(handler=5), "handler must be text; found 5"),
        (lambda app: app.desk.jobs.find(tag=["a"]), "tag must be text"),
        (lambda app: app.desk.jobs.find(state=5), "state must be a list"),
        (lambda app: app.desk.jobs.find(run="R1"), "run must be a whole number"),
        (
            lambda app: app.desk.jobs.find(limit=0),
            "limit must be a whole number, 1 or more; found 0",
        ),
        (lambda app: app.desk.jobs.find(limit="9"), "limit"),
        (lambda app: app.desk.log.actions(limit=-1), "limit"),
        (lambda app: app.desk.groups.find(limit=True), "limit"),
        (lambda app: app.desk.groups.get(2.5), "2.5 is not a group"),
        (lambda app: app.desk.groups.get(None), "None is not a group"),
        (lambda app: app.desk.groups.mark(True, resolved=True), "True is not a group"),
        (lambda app: app.listen(5), "a listener must be a function; found 5"),
        (lambda app: app.run_due(limit=-1), "limit must be a whole number, 0 or more"),
        (lambda app: app.run_due(only="01ABC"), "only must be a list"),
        (lambda app: app.desk.lanes.pause("mail", duration=0), "duration must be more than 0"),
        (lambda app: app.desk.lanes.pause("mail", reason=5), "reason must be text"),
        (lambda app: app.desk.lanes.pause("mail", actor=5), "actor must be text"),
        (lambda app: app.desk.discard("state:dead", reason=5), "reason must be text"),
        (lambda app: app.desk.jobs.move("retry", "01ABC"), "ids must be a list"),
        (lambda app: app.desk.jobs.purge("01ABC"), "ids must be a list"),
        (lambda app: app.desk.runs.start("state:dead", canary=True), "canary"),
        (lambda app: app.desk.runs.start("state:dead", stop_on=5), "stop_on"),
        (lambda app: app.worker(concurrency="8"), "concurrency"),
        (
            lambda app: app.desk.groups.deaths(None, 1, [1]),
            "span must be one of: 60, 3600; found None",
        ),
        (
            lambda app: app.desk.groups.deaths(60, 10**30, [1]),
            "number must be .* 1 to 1,440; found",
        ),
        (lambda app: app.desk.lanes.deaths(3600, 721), "number must be .* 1 to 720; found 721"),
        (lambda app: app.desk.groups.mark("G1", note=5), "note must be text"),
        (lambda app: app.desk.groups.mark("G1", reason=None), "reason must be text"),
        (lambda app: app.desk.jobs.find(cursor=5), "cursor must be text"),
        (lambda app: app.desk.jobs.find(limit=10**30), "limit"),
        (lambda app: app.desk.jobs.move("burn", []), "verb must be one of: .*; found 'burn'"),
        (lambda app: app.desk.jobs.move("retry", [], asked=5), "target must be text"),
        (lambda app: app.desk.jobs.check_payload([], "{}"), "handler must be text"),
        (lambda app: app.desk.jobs.check_payload("h", b"{}"), "payload must be text"),
        (lambda app: app.desk.log.actions(before=b""), "before must be a whole number"),
        (lambda app: app.desk.runs.get("R" + "9" * 5000), "is not a run"),
        (lambda app: app.desk.runs.pause(1, reason=5), "reason must be text"),
        (lambda app: list(app.desk.transfer.export_lines(None)), "found NoneType"),
        (lambda app: list(app.desk.transfer.export_lines([5])), "found int"),
        (lambda app: list(app.desk.transfer.import_lines(["{}"])), "must be bytes.*found str"),
        (lambda app: list(app.desk.transfer.import_rows([], 5)), "function; found int"),
        (lambda app: app.retry_here(None), "target must be text"),
        (lambda app: app.endpoint([], url="https://example.org/"), "name"),
        (lambda app: app.endpoint("e", policy=5, url="https://example.org/"), "Policy"),
        (lambda app: app.worker(batch=0), "batch"),
        (lambda app: app.capture("row", 5), "payload must be a mapping"),
        (lambda app: app.capture("row", {}, tags="abc"), "tags must be a list"),
        (lambda app: app.handler("h", timeout=0), "timeout must be more than 0"),
        (lambda app: app.handler("h", timeout=-1), "timeout"),
        (lambda app: app.handler("h", timeout=float("nan")), "timeout"),
        (lambda app: app.handler("h", timeout=True), "timeout"),
        (lambda app: app.handler("h", formerly=5), "formerly"),
        (lambda app: app.handler("h", policy=5), "Policy"),
        (lambda app: app.handler("h", lane="")(lambda: None), "lane"),
        (lambda app: app.handler("h")(5), "handler 'h' must be a function; found 5"),
        (lambda app: app.handler("h", already_done=5)(lambda: None), "already_done"),
        (lambda app: app.endpoint("e", url="https://example.org/", timeout=0), "timeout"),
        (lambda app: Redrive(5), "store must be a path"),
        (lambda app: Redrive("memory:", policy=5), "Policy"),
        (lambda app: Redrive("memory:", payload_limit=0), "payload_limit"),
        (lambda app: Redrive("memory:", lease=0), "lease"),
        (lambda app: Redrive("memory:", release=5), "release must be text; found 5"),
        (lambda app: Redrive("memory:", keep=5), "keep must be a Keep, .*; found 5"),
        (lambda app: Redrive("memory:", keep=0), "keep must be a Keep"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_value_found(
    app: Redrive, call: Callable[[Any], object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        call(app)
    assert (app.desk.jobs.counts(), app.desk.log.actions(), app.store.notes("pause:")) == (
        [],
        [],
        [],
    )


@each_row(
    "option, says",
    [
        ({"tags": "abc"}, r"tags must be a list of texts, such as .*; found 'abc'"),
        ({"tags": 5}, "tags must be a list of texts"),
        ({"tags": ["a", 5]}, "each of tags must be text; found 5"),
        ({"key": 5}, "a key must be text; found 5"),
        ({"attempts": "3"}, "attempts must be a whole number, 1 or more; found '3'"),
        ({"attempts": True}, "attempts"),
        ({"attempts": 0}, "attempts"),
    ],
)
def test_a_wrong_option_is_refused_with_the_value_found(
    handler: Any, option: dict[str, object], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        handler.options(**option)


def test_tags_may_come_from_any_iterable_of_texts(app: Redrive, handler: Any) -> None:
    job = handler.options(tags=(one for one in ("a", "b"))).submit(1)
    assert app.get(job.id).tags == ("a", "b")


def test_what_is_not_there_cannot_be_marked_or_resumed(app: Redrive) -> None:
    for unknown in ("G999", 999):
        with pytest.raises(JobNotFound, match="no group G999"):
            app.desk.groups.mark(unknown, resolved=True)
    with pytest.raises(Refused, match="lane 'mail' is not paused"):
        app.desk.lanes.resume("mail")
    assert (app.desk.log.actions(), app.desk.groups.records()) == ([], {})


def test_a_captured_failure_whose_key_is_taken_goes_up_itself(app: Redrive) -> None:
    """The program sees its own error; that it was not kept is noted on it."""
    with app.capture("row", {"n": 1}, key="row-1", reraise=False):
        raise ValueError("first")
    with (
        pytest.raises(ValueError, match="second") as raised,
        app.capture("row", {"n": 2}, key="row-1", reraise=False),
    ):
        raise ValueError("second")
    assert "the key 'row-1' already stands for job" in raised.value.__notes__[0]


def test_two_handlers_of_one_name_are_refused_and_say_which(app: Redrive) -> None:
    @app.handler("one", formerly="uno")
    def first() -> None: ...

    for name in ("one", "uno"):
        with pytest.raises(UsageError, match="first"):

            @app.handler(name)
            def second() -> None: ...


def test_a_positional_only_handler_is_refused_at_decoration(app: Redrive) -> None:
    with pytest.raises(UsageError, match="positional-only"):

        @app.handler("p")
        def function(a: int, /) -> None: ...


@each_row("number", [0, -1, 2.5, True, "3"])
def test_attempts_must_be_a_whole_number_from_one(number: Any) -> None:
    with pytest.raises(UsageError, match="1 or more"):
        Policy(attempts=number)


def test_a_rule_of_ones_own_needs_something_to_match_and_a_known_category() -> None:
    with pytest.raises(UsageError, match="transient"):
        when(ValueError, "temporary")
    with pytest.raises(UsageError, match="category"):
        when(ValueError)
    with pytest.raises(UsageError, match="match"):
        when(then="transient")


@each_row("url", ["redis://x", "http://a@b/c", "mysql:foo"])
def test_an_unknown_url_says_which_ones_there_are(url: str) -> None:
    with pytest.raises(UsageError, match="sqlite:PATH"):
        Redrive(url).desk.jobs.counts()


@pytest.mark.parametrize("scheme", ["sqlite:", "jsonl:"])
class TestPlaces:
    """Where a store may be (T6, F14, F15, F35)."""

    def test_a_directory_is_refused(self, tmp_path: Path, scheme: str) -> None:
        with pytest.raises(StoreError, match="directory"):
            Redrive(f"{scheme}{tmp_path}").desk.jobs.counts()

    def test_a_foreign_file_is_refused_and_left_as_it_was(
        self, tmp_path: Path, scheme: str
    ) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("dear diary\n" * 500)
        with pytest.raises(StoreForeign, match=r"notes\.txt"):
            Redrive(f"{scheme}{path}").desk.jobs.counts()
        assert path.read_text() == "dear diary\n" * 500

    def test_a_file_below_a_file_is_refused(self, tmp_path: Path, scheme: str) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreError, match="name a file"):
            Redrive(f"{scheme}{tmp_path}/file/store").desk.jobs.counts()

    def test_a_link_is_refused(self, tmp_path: Path, scheme: str) -> None:
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StoreError, match="link"):
            Redrive(f"{scheme}{tmp_path}/link").desk.jobs.counts()

    def test_nothing_is_created_without_leave(self, tmp_path: Path, scheme: str) -> None:
        with pytest.raises(StoreMissing, match="redrive init"):
            Redrive(f"{scheme}{tmp_path}/sub/store", create=False).desk.jobs.counts()
        assert list(tmp_path.iterdir()) == []

    def test_nothing_is_created_before_the_first_use(self, tmp_path: Path, scheme: str) -> None:
        app = Redrive(f"{scheme}{tmp_path}/store")
        app.handler("h")(lambda: None)
        assert list(tmp_path.iterdir()) == []

    def test_files_and_directories_are_private(self, tmp_path: Path, scheme: str) -> None:
        """Whatever the umask."""
        before = os.umask(0)
        try:
            with Redrive(f"{scheme}{tmp_path}/a/b/store") as app:
                app.desk.jobs.counts()
                app.handler("h")(lambda: None).submit()
                modes = {
                    p.name: stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "a").rglob("*")
                }
        finally:
            os.umask(before)
        assert modes.pop("b") == 0o700
        assert modes
        assert set(modes.values()) == {0o600}

    def test_a_read_only_directory_says_what_mode_is_needed(self, scheme: str) -> None:
        """Tried as somebody who is not root, whoever runs the tests."""
        with tempfile.TemporaryDirectory() as name:
            Path(name).chmod(0o555)
            said = as_nobody(Redrive(f"{scheme}{name}/store").desk.jobs.counts)
        assert said.startswith("StoreReadOnly")
        assert "mode 700" in said
        assert name in said

    def test_a_directory_that_cannot_be_made_is_not_called_a_file(self, scheme: str) -> None:
        with tempfile.TemporaryDirectory() as name:
            Path(name).chmod(0o555)
            said = as_nobody(Redrive(f"{scheme}{name}/missing/store").desk.jobs.counts)
        assert f"the directory {name} is read-only" in said
        assert "put the store into a directory of yours" in said

    @pytest.mark.parametrize(
        "name", ["with space", "quo'te\"s", "new\nline", "per%20cent", "-dash", "a?b#c", "ünï"]
    )
    def test_odd_names_work(self, tmp_path: Path, scheme: str, name: str) -> None:
        with Redrive(f"{scheme}{tmp_path}/{name}") as app:
            app.handler("h")(lambda: None).submit()
            assert app.run_due().succeeded == 1
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize("after", [float("nan"), float("inf"), -float("inf")])
def test_a_wait_that_is_no_number_is_not_stored(app: Redrive, after: float) -> None:
    """The attempt failed, and the policy says when the next one is."""

    @app.handler("later", policy=Policy(attempts=2, wait=constant(7.0)))
    def later() -> None:
        raise RetryLater("busy", after=after)

    class Odd(ConstantBackoffStrategy):
        def get_backoff_with_jitter(self, *_: object) -> float:
            return after

    @app.handler("odd", policy=Policy(attempts=2, wait=Odd(7.0)))
    def odd() -> None:
        raise ConnectionError("refused")

    jobs = [later.submit(), odd.submit()]
    assert app.run_due().failed == 2
    for job in map(app.get, (one.id for one in jobs)):
        assert (job.state, job.attempts) == ("pending", 1)
        assert isfinite(job.due)
