"""Writes docs/api.md from the table of routes: `python -m redrive.web.api_page > docs/api.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, get_origin

from redrive.web import openapi
from redrive.web.routes import ROUTES, Route

_HEAD = """\
# Redrive over HTTP

<!-- Written by `python -m redrive.web.api_page > docs/api.md`; a test says when it is out of date. -->

```console
$ redrive serve shop.jobs:app --tokens ~/.redrive-tokens
```

serves health, metrics and a JSON API on port 9200 of this host, so that a service in any language can \
use Redrive. It needs `pip install 'redrive[web]'`. A program in Python can mount the same beside its \
own pages; `hosts` are the names it goes by:

```python
from redrive import Redrive
from redrive.web import asgi
from redrive.web.tokens import made

app = Redrive("memory:")
token = made("shop", "act", "a-token-of-20-or-more-characters")
site = asgi(app, tokens=[token], hosts=["shop.example"])  # any ASGI server serves or mounts it
```

**Tokens.** `Authorization: Bearer TOKEN`. One for `read` may look; one for `act` may also change; one for \
`reveal` may also see payloads whole (`GET /api/v1/jobs/{job}?reveal=true`, recorded in the audit log). They \
come from `REDRIVE_READ_TOKEN`, `REDRIVE_ACT_TOKEN` and `REDRIVE_REVEAL_TOKEN` (all named `api`), or from a \
file for its owner only, one a line: a name, a right, the token. A file that is missing is made with two. The name \
is who is held to have done it in `redrive log`. To take a token back, remove it and start the server \
again. `--no-auth` lets everybody in and is for loopback addresses only.

**Others.** A request for a name that the server does not go by is refused (421; `--allow-host NAME` adds \
one), and so is a change that a page of another origin asks for (403). There are no CORS headers. An \
address that others can reach needs tokens, and `--tls-cert` with `--tls-key`, or `--behind-proxy` if \
something in front of it does TLS: headers that a proxy adds are not believed. The proxy must also limit \
how many connections one client may hold open: the server takes 200 in all.

**Health.** `/healthz`: the process answers. `/readyz`: the store takes writes. `/api/v1/health`: the store \
answers; with a token also counts, ages, workers and pauses, at most two seconds old. However many dead \
letters there are, all three are green: a monitor for those is `redrive check`, or `/metrics`. Probes \
that ask by address, as those of Kubernetes do, must send the header `Host: localhost`.

**Limits.** Bodies are `application/json` of at most 1 MiB that arrive within 10 seconds, pages have at \
most 200 entries, a request may take 30 seconds, a search 5: then the page ends early, its `scope` says how \
many jobs were looked at, and `cursor` goes on from there. What is unknown, in a query or a body, is refused, \
never ignored.

**Errors** are `application/problem+json`: `status`, a `code` for machines, and a `detail` for people: what is
wrong and where, and the value that was found, unless it may be secret. Times are ISO 8601, UTC.

| status | when |
|---|---|
| 400 | what was sent is not understood; `detail` says what was expected |
| 401, 403 | no good token; it is not good for this, or the page is of another origin |
| 404 | there is no such job, group, run, plan, handler or route |
| 409 | the job's state does not allow it, somebody was faster, or the key stands for other work |
| 408, 413, 414, 415, 431 | too slow, too large, or not JSON |
| 421 | the server does not go by that name |
| 503 | the store does not answer |
| 504 | it took too long; what was asked for may still be done |

**Payloads** are masked: each hidden value is a mark such as `•••1•••`. Sent back in an edit, a mark stands \
for what it hid, in the same field; in another one it is refused. `edits` must be as it was when the job was \
looked at. Numbers keep their text. Selectors see what is shown: a word that names a masked field is refused, \
and text inside a mask is not found. A submit with a known key that differs from its job in masked values \
only is taken for the same.

**Many jobs at once** go by a plan. It freezes which jobs are meant, and says how many, of which handlers, \
and which cannot be taken and why. Carrying it out takes the plan's number of eligible jobs as `confirm`, \
and touches exactly these: those that have changed since are skipped and named, later ones stay out. A \
retry becomes a run, which workers drive; the other verbs are done at once. A repeat gives the same \
answer and does nothing more. A plan is kept for ten minutes by the server that made it, and holds \
100,000 jobs at most.

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
            rows += [(name, place, *found) for name, found in openapi.fields(kind).items()]
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
            fields = ", ".join(f"`{one}` {_kind(it)}" for one, it in shape["properties"].items())
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
