"""R-SYNC 2: the mirror with Firestore's own client, against a server that answers as the service does.

The server speaks gRPC and knows the two calls that the client makes for single documents, with their
preconditions. What the mirror writes is in `tests/contrib/test_firestore.py`.
"""

import threading
from concurrent import futures
from datetime import UTC, datetime

import grpc
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import firestore
from google.cloud.firestore_v1 import types
from google.protobuf.timestamp_pb2 import Timestamp

from redrive import GiveUp, Redrive
from redrive.contrib.firestore import mirror
from redrive.testing import ManualClock

NAME = "bigquerySyncFailures"
TASK = {"userId": "u-1", "sessionId": "s-1", "n": [1, 2.5, None, {"a.b": "ü"}]}


class Server:
    """Documents by name, in the messages of the service."""

    def __init__(self):
        self.documents, self.ticks, self.lock = {}, 0, threading.Lock()
        self.before_commit, self.is_too_large = lambda: None, False

    def now(self):
        self.ticks += 1
        return Timestamp(seconds=1_700_000_000 + self.ticks)

    def get(self, request, _):
        for name in request.documents:
            found = self.documents.get(name)
            known = {"missing": name} if found is None else {"found": found}
            yield types.BatchGetDocumentsResponse(read_time=self.now(), **known)

    def commit(self, request, context):
        self.before_commit()
        if self.is_too_large:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Document exceeds 1 MiB")
        with self.lock:
            for write in request.writes:
                self.check(write, context)
            results = [self.write(write) for write in request.writes]
        return types.CommitResponse(write_results=results, commit_time=self.now())

    def check(self, write, context):
        stored, needed = self.documents.get(write.update.name), write.current_document
        if "exists" in needed and needed.exists != (stored is not None):
            kind = "ALREADY_EXISTS" if stored is not None else "NOT_FOUND"
            context.abort(getattr(grpc.StatusCode, kind), f"Document: {write.update.name}")
        if "update_time" in needed and (stored is None or stored.update_time != needed.update_time):
            words = "the stored version does not match the required base version"
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, words)

    def write(self, write):
        now, name = self.now(), write.update.name
        stored = self.documents.get(name)
        fields = dict(stored.fields) if stored is not None and write.update_mask else {}
        for path in write.update_mask.field_paths:
            fields.pop(path, None)
        fields.update(write.update.fields)
        created = now if stored is None else stored.create_time
        self.documents[name] = types.Document(
            name=name, fields=fields, create_time=created, update_time=now
        )
        return types.WriteResult(update_time=now)


@pytest.fixture
def server():
    made = Server()
    calls = {
        "BatchGetDocuments": grpc.unary_stream_rpc_method_handler(
            made.get,
            types.BatchGetDocumentsRequest.deserialize,
            types.BatchGetDocumentsResponse.serialize,
        ),
        "Commit": grpc.unary_unary_rpc_method_handler(
            made.commit, types.CommitRequest.deserialize, types.CommitResponse.serialize
        ),
    }
    running = grpc.server(futures.ThreadPoolExecutor(4))
    running.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("google.firestore.v1.Firestore", calls),)
    )
    made.port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    yield made
    running.stop(None).wait()


@pytest.fixture
def client(server, monkeypatch):
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", f"127.0.0.1:{server.port}")
    made = firestore.Client(project="shop", credentials=AnonymousCredentials())
    yield made
    made.close()


@pytest.fixture
def user(client):
    clock, broken = ManualClock(), [True]
    with Redrive("memory:", clock=clock) as app:
        mirror(app, client, NAME)

        @app.handler("bigquery.sync")
        def sync(**task):
            if broken:
                raise GiveUp(f"no table for {task['sessionId']}")

        yield app, sync, clock, broken


def test_failed_retrying_resolved(user, client):
    app, sync, clock, broken = user
    job = sync.submit(**TASK)
    app.run_due()

    def document():
        return client.collection(NAME).document(job.id).get().to_dict()

    failed = document()
    assert failed["originalData"] == TASK
    assert failed["error"]["message"] == "no table for s-1"
    assert "raise GiveUp" in failed["error"]["stack"]
    assert (failed["status"], failed["retryCount"], failed["resolvedAt"]) == ("failed", 1, None)
    assert failed["createdAt"] == datetime.fromtimestamp(app.get(job.id).died_at, UTC)
    app.desk.retry(job.id)
    app.run_due(only=[])
    assert document()["status"] == "retrying"
    broken.clear()
    clock.advance(60)
    app.run_due()
    resolved = document()
    assert resolved["resolvedAt"] == datetime.fromtimestamp(clock.now(), UTC)
    for name in ("originalData", "error", "retryCount", "createdAt"):
        assert resolved[name] == failed[name]
    assert resolved["status"] == "resolved"


@pytest.mark.parametrize("state", ["new", "stored"])
def test_a_write_of_another_process_in_between_is_seen_and_the_event_retried(
    user, server, client, state
):
    """By the errors that the client really raises."""
    app, sync, clock, _ = user
    job = sync.submit(**TASK)
    if state == "stored":
        app.run_due()
        app.desk.resolve(job.id)

    def interfere():
        server.before_commit = lambda: None
        client.collection(NAME).document(job.id).set({"status": "theirs"}, merge=True)

    server.before_commit = interfere
    app.run_due()
    assert client.collection(NAME).document(job.id).get().get("status") == "theirs"
    assert app.store.waiting_events()["firestore"].number == 1
    clock.advance(10)
    app.run_due()
    expected = "failed" if state == "new" else "resolved"
    assert client.collection(NAME).document(job.id).get().get("status") == expected
    assert app.desk.jobs.find(handler="redrive.on.firestore").jobs == []


def test_what_the_service_refuses_is_a_dead_letter_at_once(user, server):
    app, sync, *_ = user
    server.is_too_large = True
    sync.submit(**TASK)
    app.run_due()
    (dead,) = app.desk.jobs.find(handler="redrive.on.firestore").jobs
    assert (dead.state, dead.reason, dead.attempts) == ("dead", "permanent", 1)
