"""Writes docs/api.md from the table of routes: `python -m redrive.web.api_page > docs/api.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, get_origin

from redrive.web import openapi
from redrive.web.routes import ROUTES, Route

_HEAD = """\
# HTTP API

<!-- Written by `python -m redrive.web.api_page > docs/api.md`; a test fails if it is out of date. -->

This page is for developers who use Redrive from another language, and for operators who run its server.

```console
$ redrive serve shop.jobs:app --tokens ~/.redrive-tokens
```

serves health checks, metrics, a JSON API and the [console](console.md) on port 9200 of this host. It needs \
`pip install 'redrive[web]'`. A Python program can mount the same application; `hosts` are the host names \
that it answers to:

```python
from redrive import Redrive
from redrive.web import asgi
from redrive.web.tokens import made

app = Redrive("memory:")
token = made("shop", "act", "a-token-of-20-or-more-characters")
site = asgi(app, tokens=[token], hosts=["shop.example"])  # any ASGI server serves or mounts it
```

**Tokens.** Send `Authorization: Bearer TOKEN`. The right `read` may read, `act` may also make changes, and \
`reveal` may also see unmasked payloads (`GET /api/v1/jobs/{job}?reveal=true`, recorded in the audit log). \
Tokens come from `REDRIVE_READ_TOKEN`, `REDRIVE_ACT_TOKEN` and `REDRIVE_REVEAL_TOKEN` (named `api-read`, `api-act` and `api-reveal`), or \
from a file that only its owner may read, one token a line: a name, a right, the token. If the file does not \
exist, it is created with two tokens. The name is the actor in `redrive log`. To revoke a token, remove it \
and restart the server. `--no-auth` turns tokens off; it works on loopback addresses only.

**Hosts and origins.** A request for an unknown host name is refused (421; `--allow-host NAME` adds a name), \
and so is a change that comes from a page of another origin (403). There are no CORS headers. An address \
that other hosts can reach needs tokens, and `--tls-cert` with `--tls-key`, or `--behind-proxy` if a proxy \
does TLS; the API ignores headers that a proxy adds. The proxy must also limit the connections of each client: \
the server accepts 200 in all.

**Health checks.** `/healthz`: the process answers. `/readyz`: the store accepts writes. `/api/v1/health`: \
the store answers; with a token also counts, ages, workers and pauses, at most two seconds old. Dead letters \
do not make any of them fail: monitor those with `redrive check` or `/metrics`. Probes that use an IP \
address, such as those of Kubernetes, must send the header `Host: localhost`.

**Limits.** Bodies are `application/json` of at most 1 MiB that arrive within 10 seconds. Pages have at most \
200 entries. A request may take 30 seconds, a plan 20, a search 5: then the page ends early, its `scope` has the number \
of jobs that were searched, and `cursor` continues from there. Unknown names in a query or a body are \
refused, never ignored.

**Errors** are `application/problem+json`: `status`, a `code` for programs, and a `detail` for people: what \
is wrong and where, and the value, unless it may be secret. Times are ISO 8601, UTC.

| status | when |
|---|---|
| 400 | the request is not valid; `detail` says what was expected |
| 401, 403 | the token is missing or unknown; its right is not enough, or the page is of another origin |
| 404 | there is no such job, group, run, plan, handler or route |
| 409 | the job's state does not allow it, the job was changed meanwhile, or the key belongs to another job |
| 408, 413, 414, 415, 431 | too slow, too large, or not JSON |
| 421 | the server does not answer to that host name |
| 503 | the store does not answer |
| 504 | the request took too long; its changes may still happen |

**Payloads** are masked: each hidden value is a mark such as `•••1•••`. In an edit, a mark keeps the value \
that it hides, in the same field; in another field it is refused. `edits` must be the number that the job had \
when you read it. Numbers keep their text. Selectors see what is shown: a word that names a masked field is \
refused, and text inside a mask does not match. A submit with a known key that differs from its job only in \
masked values counts as the same job.

**Actions on many jobs** need a plan. It freezes the set of jobs, and returns how many there are, of which \
handlers, and which cannot be taken and why. To carry it out, send the number of eligible jobs as `confirm`. \
Exactly these jobs are changed: jobs that changed since are skipped and listed, later ones are left out. A \
retry becomes a run, which workers drive; the other verbs take effect at once. A repeat returns the same \
answer and changes nothing. A plan is kept in the store for ten minutes, so that any server can carry it out; \
it holds at most 100,000 jobs. The newest 20 plans are kept. JSON Lines and memory stores keep plans in the process.

```text
POST /api/v1/plans
{"verb": "retry", "q": "G7 age:<2h"}
-> {"plan": "hlvuqO8kdUnOW4G_OVLc6A", "verb": "retry", "matched": 4664, "eligible": 4655, …}

POST /api/v1/plans/hlvuqO8kdUnOW4G_OVLc6A/carry-out
{"confirm": 4655, "canary": 3, "rate": "20/s"}
-> {"plan": "hlvuqO8kdUnOW4G_OVLc6A", "verb": "retry", "planned": 4655, "done": 4655, "run": "R12", …}
```

`/api/v1/openapi.json` describes all of this for machines (OpenAPI 3.1).

## Routes
"""


def page() -> str:
    """Return the whole page."""
    return "\n".join([_HEAD, *map("".join, map(_route, ROUTES)), "## Documents\n", *_documents()])


def _route(route: Route) -> Iterator[str]:
    right = f"token: {route.right}" if route.right else "no token needed"
    yield f"### {route.method} {route.path}\n\n{route.summary} ({right})\n"
    rows = [(name, "path", openapi.schema(kind), True) for name, kind in route.params.items()]
    for place, kind in (("query", route.query), ("body", route.body)):
        if kind is not None:
            rows += [(name, place, *field) for name, field in openapi.fields(kind).items()]
    if rows:
        yield "\n| | in | | |\n|---|---|---|---|\n"
    for name, place, shape, needed in rows:
        must = "" if needed else "optional; "
        yield f"| `{name}` | {place} | {must}{_kind(shape)} | {shape.get('description', '')} |\n"
    if names := [kind.__name__ for kind in route.answers if get_origin(kind) is None]:
        yield f"\nReturns {' or '.join(names)}.\n"


def _documents() -> Iterator[str]:
    asked = {route.body.__name__ for route in ROUTES if route.body}
    for name, shape in openapi.components().items():
        if "properties" in shape and name not in asked:
            fields = ", ".join(
                f"`{key}` {_kind(inner)}" for key, inner in shape["properties"].items()
            )
            yield f"**{name}**: {shape.get('description', '')} {fields}.\n"
        elif "enum" in shape:
            yield f"**{name}**: {_kind(shape)}.\n"


def _kind(shape: dict[str, Any]) -> str:
    """Return a shape in a few words."""
    if "anyOf" in shape:
        return " or ".join(map(_kind, shape["anyOf"]))
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    if "enum" in shape:
        return " \\| ".join(shape["enum"])
    kind = shape.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(shape['items'])}"
    if kind == "object" and "additionalProperties" in shape:
        return f"object of {_kind(shape['additionalProperties'])}"
    least, most = shape.get("minimum"), shape.get("maximum")
    return f"{kind}" if most is None else f"{kind}, {least:,} to {most:,.0f}"


if __name__ == "__main__":
    sys.stdout.write(page())
