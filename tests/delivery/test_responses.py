"""What an answer means, and how little one can do to us."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import tracemalloc
from contextlib import suppress

from postkit import OK, Answer, answer, new_app, receiver
from redrive import Job, Policy, Redrive
from redrive.delivery.wire import KEPT
from redrive.policies import presets
from tablekit import each_row


def failed(app: Redrive, job: Job | None) -> Job:
    assert job is not None
    found = app.get(job.id)
    assert found.failure is not None
    return found


@each_row("status", [200, 201, 202, 204, 299], app=new_app)
def test_every_2xx_is_a_success(app: Redrive, status: int) -> None:
    with receiver(answer(status)) as there:
        assert there.endpoint(app).try_now({}).value.status == status


@each_row(
    "said, category, hint",
    [
        (answer(503), "transient", None),
        (answer(503, retry_after="21600"), "transient", 21600),
        (answer(429, retry_after="7"), "rate_limit", 7),
        (answer(429, '{"error":{"code":"insufficient_quota"}}'), "quota", None),
        (answer(402), "quota", None),
        (answer(401), "auth", None),
        (answer(403), "auth", None),
        (answer(400, "no"), "invalid", None),
        (answer(404), "permanent", None),
        (answer(500, x_should_retry="false"), "permanent", None),
        (answer(101), "unknown", None),
        (answer(999), "unknown", None),
    ],
    app=new_app,
)
def test_any_other_status_is_a_failure_of_its_category(
    app: Redrive, said: bytes, category: str, hint: float | None
) -> None:
    with receiver(said) as there:
        job = failed(app, there.endpoint(app).try_now({}, key="k").job)
    assert job.failure is not None
    assert (job.failure.category, job.failure.hint) == (category, hint)
    assert job.failure.message.startswith("railway answered ")


def hang_up(line: socket.socket) -> None:
    """Say nothing and close."""


def be_silent(line: socket.socket) -> None:
    with suppress(OSError):
        line.recv(1)


def garble(line: socket.socket) -> None:
    line.sendall(b"this is no HTTP\r\n\r\n")


NO_ANSWER = each_row("misdeed", [hang_up, be_silent, garble])


def limit_of(misdeed: Answer) -> float:
    """Return a time limit: only silence is waited for, and all must be sent before its end."""
    return 2.0 if misdeed is be_silent else 60.0


@NO_ANSWER
@each_row("policy", [presets.DEFAULT, presets.WEBHOOKS], app=new_app)
def test_sent_without_a_key_and_no_answer_is_the_end(
    app: Redrive, misdeed: Answer, policy: Policy
) -> None:
    """It may have been done, and doing it again may do harm; under every policy."""
    with receiver(misdeed, OK) as there:
        job = there.endpoint(app, timeout=limit_of(misdeed), policy=policy).send({"n": 1})
        app.run_due()
        app.run_due(ignore_backoff=True)
    dead = failed(app, job)
    assert (dead.state, dead.reason, dead.detail) == ("dead", "permanent", "sent, no answer")
    assert len(there.posts) == 1


@NO_ANSWER
@each_row("how", ["key", "idempotent"], app=new_app)
def test_with_a_key_or_idempotent_it_is_sent_again(app: Redrive, misdeed: Answer, how: str) -> None:
    """And the key is the same."""
    with receiver(misdeed, OK) as there:
        limit = limit_of(misdeed)
        endpoint = there.endpoint(app, timeout=limit, idempotent=how == "idempotent")
        job = endpoint.send({"n": 1}, key="order-7" if how == "key" else None)
        app.run_due()
        assert failed(app, job).failure.category == "transient"  # type: ignore[union-attr]
        app.run_due(ignore_backoff=True)
    assert app.get(job.id).state == "completed"
    keys = [post.headers.get("idempotency-key") for post in there.posts]
    assert keys == (["order-7"] * 2 if how == "key" else [None] * 2)


def test_what_was_never_sent_is_sent_again_without_a_key(app: Redrive) -> None:
    """A refused connection does no harm."""
    with receiver(OK) as there:
        endpoint = there.endpoint(app)
    job = endpoint.send({})
    app.run_due()
    assert failed(app, job).state == "pending"


def test_an_answer_before_all_was_sent_counts(app: Redrive) -> None:
    """A server that refuses a large body may hang up in the middle of it, but not without a word."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def refuse() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(1000)
            peer.sendall(answer(413))
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(65536):
                pass

    thread = threading.Thread(target=refuse)
    thread.start()
    allow = ["http", f":{port}", "127.0.0.1"]
    there = app.endpoint("there", url=f"http://127.0.0.1:{port}/", allow=allow)
    job = failed(app, there.try_now({"text": "x" * 900_000}).job)
    thread.join()
    listener.close()
    assert job.failure is not None
    assert (job.failure.status, job.failure.category) == (413, "invalid")


def endless(head: bytes, part: bytes, pause: float = 0.0) -> Answer:
    def say(line: socket.socket) -> None:
        with suppress(OSError):
            line.sendall(head)
            for _ in range(1_000_000):
                line.sendall(part)
                time.sleep(pause)

    return say


HEAD = b"HTTP/1.1 500 Said\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
BOMBS: dict[str, Answer] = {
    "a body without end": endless(HEAD + b"\r\n", b"x" * 65536),
    "chunks without end": endless(CHUNKED, b"10000\r\n" + b"x" * 65536 + b"\r\n"),
    "a chunk that is huge": endless(CHUNKED + b"FFFFFFFFFF\r\n", b"x" * 65536),
    "a length that is huge": endless(
        HEAD + b"content-length: 99999999999999\r\n\r\n", b"x" * 65536
    ),
    "a body byte by byte": endless(HEAD + b"\r\n", b"x", pause=0.01),
    "a packed bomb": answer(500, gzip.compress(b"0" * 10_000_000), content_encoding="gzip"),
    "headers of ten megabytes": endless(HEAD, b"a: " + b"x" * 60000 + b"\r\n"),
    "a header without end": endless(HEAD + b"a: ", b"x" * 65536),
    "a head byte by byte": endless(b"", b"H", pause=0.01),
    "a status line without end": endless(b"HTTP/1.1 200 ", b"x" * 65536),
    "interim answers without end": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@each_row("bomb", BOMBS, app=new_app)
def test_no_answer_takes_more_than_its_time_and_its_64_kib(app: Redrive, bomb: str) -> None:
    with receiver(BOMBS[bomb]) as there:
        endpoint = there.endpoint(app, timeout=0.5, idempotent=True)
        tracemalloc.start()
        tried = endpoint.try_now({})
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert failed(app, tried.job).failure.category == "transient"  # type: ignore[union-attr]
    assert most < 4_000_000


def test_64_kib_of_a_reply_are_kept_as_they_came(app: Redrive) -> None:
    with receiver(answer(200, b"x" * 200_000)) as there:
        assert there.endpoint(app).try_now({}).value.body == b"x" * KEPT
        assert there.posts[0].headers["accept-encoding"] == "identity"


@each_row(
    "rest",
    [
        b"content-length: 1000\r\n\r\nbegun",
        b"content-length: %s\r\n\r\nbegun" % (b"9" * 40),
        b"content-length: soon\r\n\r\nbegun",
        b"transfer-encoding: chunked\r\n\r\n5\r\nbegun\r\n-%s\r\n" % (b"9" * 40),
        b"transfer-encoding: chunked\r\n\r\n5\r\nbegun\r\nsoon\r\n",
    ],
    app=new_app,
)
def test_a_body_that_breaks_off_does_not_undo_the_status(app: Redrive, rest: bytes) -> None:
    with receiver(b"HTTP/1.1 200 OK\r\n" + rest) as there:
        assert there.endpoint(app).try_now({}).value.body == b"begun"


EARLY = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"


@each_row("key", [None, "k"])
@each_row(
    "before",
    [EARLY, b"HTTP/1.1 102 Processing\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", EARLY * 9],
    app=new_app,
)
def test_what_comes_before_the_answer_is_not_the_answer(
    app: Redrive, before: bytes, key: str | None
) -> None:
    with receiver(before + answer(200, "done", x_from="it")) as there:
        reply = there.endpoint(app).try_now({}, key=key).value
    assert (reply.status, reply.body, reply.headers["x-from"]) == (200, b"done", "it")
    assert "link" not in reply.headers


@each_row("said", [EARLY, EARLY * 10_000], app=new_app)
def test_only_the_promise_of_an_answer_is_no_answer(app: Redrive, said: bytes) -> None:
    with receiver(said) as there:
        job = failed(app, there.endpoint(app).try_now({}).job)
    assert job.failure is not None
    assert (job.state, job.failure.why) == ("dead", "sent, no answer")


def test_a_body_that_comes_after_its_head_is_read(app: Redrive) -> None:
    """A server closes, as we asked it to, but not before it has said all."""

    def slowly(line: socket.socket) -> None:
        for part in (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", b"do", b"ne"):
            line.sendall(part)
            time.sleep(0.05)

    with receiver(slowly) as there:
        assert there.endpoint(app).try_now({}).value.body == b"done"
