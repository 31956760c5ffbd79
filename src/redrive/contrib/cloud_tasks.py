"""Cloud Tasks instead of a worker: a Google queue calls back when a job is due.

    tasks = CloudTasks(app, project="shop", location="asia-northeast1", queue="sync-queue",
                       callback="https://shop.example.org/redrive", secret_env="SYNC_SECRET")
    status = tasks.handle(request.headers, request.body)  # in the callback

A task only wakes the program: the claim decides if a job runs, as everywhere, so a call that comes
twice, late or early does no harm. The name of a task has the job and the number of its wait. The
answer is 2xx only when that wait is over and the next one has a task; after a crash before that,
Cloud Tasks calls again. So attempts neither multiply nor stop.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

from redrive.app import Redrive
from redrive.delivery import signing
from redrive.errors import JobNotFound, TokenMissing, UsageError
from redrive.events import Event
from redrive.jobs.job import Job, State
from redrive.jobs.logger import log
from redrive.payloads.masking import error_text
from redrive.worker.passes import Pass

_SECONDS: Final = 10.0  # how long one call of Google's may take
_AHEAD: Final = 28 * 86400.0
"""What is due later has no task yet: a task may wait for 30 days at most."""
_SOON: Final = 3600.0  # `tend` makes tasks for what is due within this time
_REMEMBERED: Final = 10_000
_DONE, _WHO, _NOT_A_TASK, _AGAIN, _BROKEN = 200, 401, 403, 409, 500
"""Answers. Not 429 or 503: these would slow the whole queue down."""


class CloudTasks:
    """Creates a task for each waiting job of an app, and handles the calls of these tasks.

    `callback` is the address that calls `handle`; `secret_env` names the environment variables with
    signing secrets (two while one replaces the other). With `service_account` Google adds a token
    of that account, as Cloud Run requires. `client` is a `CloudTasksClient` to use.
    """

    def __init__(
        self,
        app: Redrive,
        *,
        project: str,
        location: str,
        queue: str,
        callback: str,
        secret_env: str | Sequence[str],
        service_account: str | None = None,
        client: Any = None,
    ) -> None:
        if urlsplit(callback).scheme not in {"http", "https"}:
            raise UsageError(f"callback must be the URL that calls `handle`; found {callback!r}")
        self.app = app
        self.queue = queue
        self.callback = callback
        self._place = f"projects/{project}/locations/{location}"
        self._path = f"{self._place}/queues/{queue}"
        self._secret_env = (secret_env,) if isinstance(secret_env, str) else tuple(secret_env)
        self._account = service_account
        self._client = client
        self._lock = threading.Lock()
        self._made: dict[str, None] = {}
        self.close = app.listen(self._heard)
        """Stop creating tasks."""

    def create_queue(self) -> None:
        """Create the queue unless it exists; you can change its retry settings there.

        Without this call it is created with the first task.
        """
        retries = {
            "max_attempts": -1,
            "min_backoff": timedelta(seconds=1),
            "max_backoff": timedelta(minutes=5),
        }
        queue = {"name": self._path, "retry_config": retries}
        try:
            self._google.create_queue(parent=self._place, queue=queue, timeout=_SECONDS)
        except self._errors.AlreadyExists:
            return
        log.info("queue %s created in %s", self.queue, self._place)

    def enqueue(self, job: Job) -> None:
        """Create a task that calls back when a waiting job is due, one for each wait."""
        wait = job.due - self.app.store.now()
        name = _name(job)
        if job.state is not State.PENDING or wait > _AHEAD or name in self._made:
            return
        is_new = self._create(job, name)
        with self._lock:
            self._made[name] = None
            if len(self._made) > _REMEMBERED:
                del self._made[next(iter(self._made))]
        if is_new:
            _tell(job, max(0, round(wait)))

    def handle(self, headers: Mapping[str, str], body: bytes) -> int:
        """Run the job of a task if it is due; return the HTTP status of the answer.

        2xx: nothing is left to do for this task. 409: call again later. 401, 403: not our task.
        """
        given = {name.lower(): value for name, value in headers.items()}
        task = given.get("x-cloudtasks-taskname", "")
        if not task or given.get("x-cloudtasks-queuename", "").rpartition("/")[2] != self.queue:
            return _NOT_A_TASK
        try:
            if given.get("webhook-id") != task or not self._is_signed(headers, body):
                return _WHO
            return self._answer(json.loads(body)["job"], task)
        except Exception:
            log.exception("task %s could not be handled; Cloud Tasks calls it again", task)
            return _BROKEN

    def tend(self) -> Pass:
        """Run due jobs, and create missing tasks; call it from cron every few minutes.

        It covers what has no task: jobs that were retried by the command line, or stored while
        Google did not answer; pauses that end, bulk runs, alerts.
        """
        done = self.app.run_due()
        soon, known = self.app.store.now() + _SOON, self.app.submitter.registry.names()
        for job in self.app.desk.jobs.each(state="pending"):
            if job.due <= soon and job.handler in known:
                self.enqueue(job)
        return done

    def _answer(self, ident: str, task: str) -> int:
        job = self._found(ident)
        if job is not None and (job.state is State.RUNNING or job.due <= self.app.store.now()):
            self.app.run_due(only=[ident])
            job = self._found(ident)
        if job is None or job.is_terminal:
            return _DONE
        if job.state is State.RUNNING or _name(job) == task:  # elsewhere; too early, or paused
            return _AGAIN
        self.enqueue(job)
        return _DONE

    def _found(self, ident: str) -> Job | None:
        try:
            return self.app.get(ident)
        except JobNotFound:  # purged, or its transaction was rolled back
            return None

    def _heard(self, event: Event) -> None:
        job = event.job
        if job is None or job.handler not in self.app.submitter.registry.names():
            return
        try:
            self.enqueue(job)
        except Exception as error:  # noqa: BLE001 - the job is stored; nobody's submit fails for this
            log.warning("no task for job %s; `tend` will create it: %s", job.id, error_text(error))

    def _create(self, job: Job, name: str) -> bool:
        """Create a task; return False if it exists."""
        body = json.dumps({"job": job.id, "attempt": job.attempts + 1}).encode()
        headers = signing.sign(name, body, self._secrets(), job.due)
        request: dict[str, Any] = {
            "http_method": "POST",
            "url": self.callback,
            "headers": {"Content-Type": "application/json", **headers},
            "body": body,
        }
        if self._account:
            request["oidc_token"] = {"service_account_email": self._account}
        task = {
            "name": f"{self._path}/tasks/{name}",
            "schedule_time": datetime.fromtimestamp(job.due, UTC),
            "http_request": request,
        }
        try:
            return self._send(task)
        except (self._errors.NotFound, self._errors.FailedPrecondition):
            self.create_queue()
            return self._send(task)

    def _send(self, task: dict[str, Any]) -> bool:
        try:
            self._google.create_task(parent=self._path, task=task, timeout=_SECONDS)
        except self._errors.AlreadyExists:
            return False
        return True

    def _is_signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Return True if we signed it, however old: a repeated call does nothing."""
        return signing.verify(headers, body, *self._secrets(), tolerance=float("inf"))

    def _secrets(self) -> list[str]:
        secrets = [os.environ.get(name, "").strip() for name in self._secret_env]
        if not all(map(signing.is_secret, secrets)):
            names = ", ".join(self._secret_env)
            raise TokenMissing(f"tasks cannot be signed: {names} must be set, to {signing.SECRET}")
        return secrets

    @cached_property
    def _google(self) -> Any:
        return self._client or _library("google.cloud.tasks_v2").CloudTasksClient()

    @cached_property
    def _errors(self) -> Any:
        return _library("google.api_core.exceptions")


def _name(job: Job) -> str:
    """Name one wait of one job. It begins with a hash, because queues are slow with sequential names."""
    wait = f"{job.id} {job.lease} {job.due:.3f}"
    return f"{hashlib.sha256(wait.encode()).hexdigest()[:16]}-{job.id}"


def _tell(job: Job, seconds: int) -> None:
    extra = {"event": "enqueued", "job": job.id, "attempt": job.attempts, "delay": seconds}
    if job.attempts:
        text = "Retry task enqueued. Attempt: %d, Delay: %ds"
        log.info(text, job.attempts, seconds, extra=extra)
    else:
        log.info("Task enqueued. Delay: %ds", seconds, extra=extra)


def _library(name: str) -> Any:
    import importlib  # noqa: PLC0415 - an extra, slow to load

    try:
        return importlib.import_module(name)
    except ImportError:
        msg = "Cloud Tasks needs Google's client: pip install 'redrive[cloudtasks]'"
        raise UsageError(msg) from None
