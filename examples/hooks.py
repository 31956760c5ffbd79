"""Post hooks to an API from a scheduled script, without a database.

Each run first tries again what failed before and is due, then posts the new hooks; a POST that fails
is kept with its hook and endpoint and tried after about 1, 2, 4 and 8 minutes. At the fifth failure it
is a dead letter, for people to look at:

    $ HOOKS_ENDPOINT=https://api.example.org/hooks python examples/hooks.py new-hooks.jsonl
    {"total": 2, "resolved": 2}
    $ redrive dlq --store "jsonl:~/.openclaw/dlq/trend-hunter-hooks.jsonl"

Hooks are JSON objects, one a line, from the files named (`-` is standard input). The token comes from
the environment, ANICCA_AGENT_TOKEN, and is read when a hook is sent: it is never stored.
"""

from __future__ import annotations

import fileinput
import json
import logging
import os
import secrets
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from typing import Any

import redrive
from redrive import Handler, Redrive, Skip
from redrive.errors import UsageError
from redrive.policies import presets

log = logging.getLogger("hooks")
STORE = "jsonl:~/.openclaw/dlq/trend-hunter-hooks.jsonl"
SECONDS = 15
MOST = 65536
BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"

Hook = dict[str, Any]
Post = Handler[..., None]


class Refused(Exception):
    """The API answered, but not with 2xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"the API answered {status}: {body[:300]}")
        self.status = status


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Take a redirect for what it is here, a failure: it would carry the token elsewhere."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


browser = urllib.request.build_opener(NoRedirect)


def deliver(hook: Hook, endpoint: str) -> None:
    """Post one hook; the same key goes out with the first try and with every later one."""
    job = redrive.current()
    is_first = job.attempt == 1 and job.life == 0
    if not is_first and is_saved(endpoint, job.key):
        raise Skip("the API has saved this hook already")
    body = json.dumps({**hook, "idempotencyKey": job.key}, ensure_ascii=False).encode()
    send("POST", endpoint, job.key, body)


def is_saved(endpoint: str, key: str) -> bool:
    """Ask whether an earlier try got through after all; an API that cannot tell means no."""
    question = f"{endpoint}?{urllib.parse.urlencode({'idempotencyKey': key})}"
    try:
        answer = json.loads(send("GET", question, key))
    except (OSError, ValueError, Refused):
        return False
    return isinstance(answer, dict) and answer.get("saved") is True


def send(method: str, url: str, key: str, body: bytes | None = None) -> bytes:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"an endpoint is an http or https URL; found {url!r}")
    token = os.environ["ANICCA_AGENT_TOKEN"]
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Idempotency-Key": key,
    }
    request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 - see above
    try:
        with browser.open(request, timeout=SECONDS) as answer:
            read: bytes = answer.read(MOST)
            return read
    except urllib.error.HTTPError as error:
        with error:
            said = error.read(MOST).decode(errors="replace")
        # What is raised is stored: an API that repeats the token in its answer must not leak it.
        raise Refused(error.code, said.replace(token, "•••")) from None


def connect(store: str, **options: Any) -> tuple[Redrive, Post]:
    """Give the queue of failed hooks and the way to post one."""
    app = Redrive(store, policy=presets.WEBHOOKS, **options)
    return app, app.handler("hook.post")(deliver)


# Made here, so that `redrive work examples.hooks:app` finds it; the file is opened on first use.
app, post = connect(os.environ.get("HOOKS_STORE", STORE))


def new_key() -> str:
    tail = "".join(secrets.choice(BASE36) for _ in range(6))
    return f"hook-{time.time_ns() // 1_000_000}-{tail}"


def take(post: Post, hook: Hook, endpoint: str) -> bool:
    """Post one hook; one that Redrive refuses is logged and does not end the run."""
    try:
        return post.options(key=new_key()).try_now(hook=hook, endpoint=endpoint).done
    except UsageError as error:
        log.error("a hook was not accepted: %s", error)  # noqa: TRY400
        return False


def run(app: Redrive, post: Post, hooks: Iterable[Hook], endpoint: str) -> bool:
    """Try what is due, post what is new, clean up; says whether all new hooks got through."""
    done = app.run_due()
    print(json.dumps({"total": done.taken, "resolved": done.succeeded}), flush=True)
    taken = [take(post, hook, endpoint) for hook in hooks]
    app.cleanup()
    return all(taken)


def read(files: list[str]) -> list[Hook]:
    """Read every hook before the first is posted: a line that is no JSON stops the run in time."""
    if not files:
        return []
    with fileinput.input(files, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def main(files: list[str]) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    endpoint = os.environ.get("HOOKS_ENDPOINT", "")
    if files and not endpoint:
        print("name the API with HOOKS_ENDPOINT=https://…", file=sys.stderr)
        return 2
    hooks = read(files)
    with app:
        return 0 if run(app, post, hooks, endpoint) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
