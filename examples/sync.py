"""Send sessions to a data warehouse, and alert people about failures.

A task that fails is tried again after 1, 2, 4 … 256 seconds; at the tenth failure it is a dead letter,
and Slack and a mailbox hear of it, one message for each session. A refusal (400, 401, 403) is one at once:

    $ python examples/sync.py tasks.jsonl      # {"userId": …, "sessionId": …, "tableName": …} a line
    $ redrive work examples.sync:app           # tries again what is due
    $ redrive groups                           # after an alert: look at it, mend it,
    $ redrive retry G1                         # and drive one or all of them again

Instead of a worker that waits, Cloud Tasks can call back when something is due. It needs the address
of this program, which then only registers and answers:

    $ export SYNC_PROJECT=shop SYNC_CALLBACK=https://sync.example.org/ SYNC_SECRET=whsec_…
    $ python examples/sync.py --serve 8080

The channels of alerts are in `redrive.toml`, in `[alerts.channels]`: a webhook of Slack, and mail by
apprise (`mailto://`, needs `redrive[alerts]`). SYNC_STORE names the store, and
SYNC_DATASET the dataset. With SYNC_COLLECTION=bigquerySyncFailures each dead letter, and what becomes of
it, is also a document of that Firestore collection (needs `google-cloud-firestore`). Needs `google-cloud-bigquery`, and `redrive[cloudtasks]` for callbacks.
"""

from __future__ import annotations

import fileinput
import json
import logging
import os
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import redrive
from redrive import Group, Handler, Job, Redrive
from redrive.alerts import Alerts, Channel
from redrive.contrib.cloud_tasks import CloudTasks
from redrive.contrib.firestore import mirror
from redrive.errors import UsageError
from redrive.logs import JsonFormatter
from redrive.policies import presets

log = logging.getLogger("sync")
NAME = "bigquery.sync"
SECONDS = 30
MOST = 65536

Insert = Callable[[str, dict[str, str], str], None]
Sync = Handler[..., None]


class Rejected(Exception):
    """The warehouse took the request, but not the row."""

    def __init__(self, table: str, why: list[dict[str, Any]]) -> None:
        super().__init__(f"{table} does not take the row: {json.dumps(why)[:300]}")
        # A row that does not fit never will; everything else is a matter of time.
        self.status = 400 if any(one.get("reason") == "invalid" for one in why) else 503


def warehouse() -> Any:
    from google.cloud import bigquery  # noqa: PLC0415 - who only looks at dead letters needs none

    return bigquery.Client()


def collections() -> Any:
    from google.cloud import firestore  # noqa: PLC0415 - who has no collection needs none

    return firestore.Client()


def insert(table: str, row: dict[str, str], key: str) -> None:
    """Insert one row, once: `retry=None`, since it is the policy that retries.

    The warehouse drops a row whose key it has seen, so that an answer that was lost does no harm.
    """
    target = f"{os.environ.get('SYNC_DATASET', 'sessions')}.{table}"
    errors = warehouse().insert_rows_json(target, [row], row_ids=[key], retry=None, timeout=SECONDS)
    if errors:
        raise Rejected(table, errors[0]["errors"])


def said(_: Group | None, job: Job) -> str:
    """Word alerts for those who read them; of a task they see the session, nothing else."""
    session = json.loads(job.payload)["sessionId"]
    return f"BigQuery同期が{job.attempts}回失敗しました: session={session}"


def failure(group: Group | None, job: Job) -> dict[str, object]:
    """Make the whole body for a program: `webhook(url_env="SYNC_HOOK", text=failure)`."""
    data = {"sessionId": json.loads(job.payload)["sessionId"], "attempts": job.attempts}
    return {"type": "bigquery_sync_failure", "message": said(group, job), "data": data}


def alerts(*channels: Channel) -> Alerts:
    """Alert people about each session that does not arrive."""
    return Alerts(*channels, text=said, each=[NAME])


def connect(store: str, insert: Insert = insert, **options: Any) -> tuple[Redrive, Sync]:
    """Give the queue and the handler that sends one session."""
    app = Redrive(store, policy=presets.SYNC, **{"alerts": alerts(), **options})

    # Named as the tasks name them. They bring a count of their own; Redrive keeps the true one.
    @app.handler(NAME)
    def sync(userId: str, sessionId: str, tableName: str, retryCount: int = 0) -> None:  # noqa: ARG001, N803
        insert(tableName, {"userId": userId, "sessionId": sessionId}, redrive.current().key)

    return app, sync


# Made here, so that `redrive work examples.sync:app` finds it; the file is opened on first use.
app, sync = connect(os.environ.get("SYNC_STORE", "sync.db"))
if "SYNC_COLLECTION" in os.environ:
    mirror(app, collections(), os.environ["SYNC_COLLECTION"], handlers=[NAME])


def scheduler(app: Redrive, client: Any = None) -> CloudTasks:
    """Have a queue call us back for whatever waits in the app."""
    return CloudTasks(
        app,
        project=os.environ["SYNC_PROJECT"],
        location="asia-northeast1",
        queue="bigquery-sync-queue",
        callback=os.environ["SYNC_CALLBACK"],
        secret_env="SYNC_SECRET",  # noqa: S106 - the name of a variable
        client=client,
    )


def server(tasks: CloudTasks, port: int) -> ThreadingHTTPServer:
    """Give the server that the queue calls; in a web framework it is a route like this."""

    class Callback(BaseHTTPRequestHandler):
        timeout = SECONDS

        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers["Content-Length"] or 0), MOST))
            self.send_response(tasks.handle(dict(self.headers.items()), body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Leave the log to Redrive."""

    return ThreadingHTTPServer(("127.0.0.1", port), Callback)


def read(files: list[str]) -> list[dict[str, Any]]:
    """Read every task before the first is registered: a line that is no JSON stops us in time."""
    if not files:
        return []
    with fileinput.input(files, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def register(task: dict[str, Any]) -> bool:
    """Keep one task; one that Redrive refuses is logged and does not end the run."""
    try:
        sync.submit(**task)
    except UsageError as error:
        log.error("a task was not accepted: %s", error)  # noqa: TRY400
        return False
    return True


def log_json() -> None:
    """Log as Cloud Logging reads it: `ops/google/log-metric.json` counts the dead letters."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def main(words: list[str]) -> int:
    if words[:1] == ["--serve"]:
        log_json()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    tasks = scheduler(app) if "SYNC_CALLBACK" in os.environ else None
    if words[:1] == ["--serve"]:
        if tasks is None:
            print("name the address of this program with SYNC_CALLBACK=https://…", file=sys.stderr)
            return 2
        server(tasks, int(words[1])).serve_forever()
    given = read(words)
    with app:
        taken = [register(task) for task in given]
        done = tasks.tend() if tasks else app.run_due()
    print(json.dumps({"taken": done.taken, "synced": done.succeeded, "dead": done.died}))
    return 1 if done.died or done.returned or not all(taken) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
