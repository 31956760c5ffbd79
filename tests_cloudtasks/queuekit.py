"""An emulator of Cloud Tasks on loopback, its real client, and the sync user's program between them."""

import base64
import itertools
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import grpc
from gcloud_tasks_emulator.cloudtasks_pb2_grpc import add_CloudTasksServicer_to_server
from gcloud_tasks_emulator.server import Greeter, Processor, QueueState
from google.api_core.exceptions import AlreadyExists
from google.cloud.tasks_v2 import CloudTasksClient
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

PLACE = "projects/shop/locations/asia-northeast1"
QUEUE = f"{PLACE}/queues/bigquery-sync-queue"
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


class Strict(QueueState):
    """Takes no name twice, as the real service does; the emulator forgets."""

    def create_queue(self, parent, queue):
        if queue.name in self._queues:
            raise AlreadyExists("Queue already exists")
        return super().create_queue(parent, queue)

    def create_task(self, queue, task):
        if task.name in self.__dict__.setdefault("seen", set()):
            raise AlreadyExists("Requested entity already exists")
        made = super().create_task(queue, task)
        self.seen.add(task.name)
        return made


@contextmanager
def emulator():
    """Start the emulator's parts ourselves: its own main listens on every address."""
    state = Strict("127.0.0.1", 1, -1)
    api = grpc.server(ThreadPoolExecutor(max_workers=4))
    add_CloudTasksServicer_to_server(Greeter(state), api)
    port = api.add_insecure_port("127.0.0.1:0")
    api.start()
    processor = Processor(state)
    processor.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        processor.join(timeout=5)
        for thread in processor._queue_threads.values():
            thread.join(timeout=5)
        api.stop(grace=0).wait()


@contextmanager
def client_of(address):
    with grpc.insecure_channel(address) as channel:
        yield CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))


@dataclass
class Warehouse:
    """Takes rows, unless it fails; may be slow."""

    fails: bool = False
    slow: float = 0.0
    calls: list = field(default_factory=list)
    rows: list = field(default_factory=list)

    def insert(self, table, row, key):
        self.calls.append(time.monotonic())
        time.sleep(self.slow)
        if self.fails:
            raise ConnectionError("the warehouse is down")
        self.rows.append(row["sessionId"])


@dataclass
class User:
    """The program, not yet connected to anything."""

    sync: object
    google: CloudTasksClient
    warehouse: Warehouse = field(default_factory=Warehouse)

    @contextmanager
    def running(self, *, google=None, **options):
        """Give its app, its handler and its adapter, with the callback being served."""
        options = {"alerts": None, **options}
        app, handler = self.sync.connect("sync.db", self.warehouse.insert, **options)
        with app, self.serving(self.sync.scheduler(app, google or self.google)) as tasks:
            yield app, handler, tasks

    @contextmanager
    def serving(self, tasks):
        server = self.sync.server(tasks, 0)
        tasks.callback = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield tasks
        finally:
            tasks.close()
            server.shutdown()
            thread.join()
            server.server_close()


_sessions = itertools.count(1)


def task(session=None):
    session = session or f"s-{next(_sessions)}"
    return {"userId": "u-1", "sessionId": session, "tableName": "events", "retryCount": 0}


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)
    return found


def call_of(made):
    """Give headers and body of the call that a task leads to."""
    name = made.name.rpartition("/")[2]
    headers = {"X-CloudTasks-QueueName": "bigquery-sync-queue", "X-CloudTasks-TaskName": name}
    return {**headers, **made.http_request.headers}, made.http_request.body


def job_of(made):
    return json.loads(made.http_request.body)["job"]


def is_empty(google):
    """Tell whether no task is left; one that is being called is in no list for a moment."""
    for _ in range(5):
        if list(google.list_tasks(parent=QUEUE)):
            return False
        time.sleep(0.03)
    return True


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]
