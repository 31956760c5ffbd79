"""A program of a few lines that calls a job's handler here, for a debugger or a test.

It reads the arguments from the store when it runs, so its text contains no payload.
"""

from __future__ import annotations

from redrive.errors import UsageError
from redrive.jobs.job import Job

_TEXT = """\
# Calls the handler {handler} with the arguments of job {id}, as a plain function.
# Start it where the program can be imported. The handler really runs; Redrive records nothing.
import asyncio
import inspect

from {module} import {name}

job = {path}.get({id})
entry = {path}.submitter.registry.need(job.handler)
result = entry.function(**entry.arguments.load(job.payload))
if inspect.iscoroutine(result):
    result = asyncio.run(result)
print(result)
"""


_CALL = """\
# Calls {function}, as the event {event} did. Start it where the module can be imported.
# The function really runs; Redrive records nothing.
from {module} import {name}

print({path}())
"""


def repro(job: Job, app: str | None) -> str:
    """Return the text for a job and the program that knows its handler, as `module:attribute`.

    An event of a plain function needs no program: its function is called without arguments.
    """
    function = str((job.origin or {}).get("function") or "")
    module, _, path = function.partition(":")
    if all(name.isidentifier() for name in [*module.split("."), *path.split(".")]):
        known = {"function": function, "event": ascii(job.event), "name": path.partition(".")[0]}
        return _CALL.format(module=module, path=path, **known)
    module, _, path = (app or "").partition(":")
    names = [*module.split("."), *path.split(".")]
    if not all(name.isidentifier() for name in names):
        msg = "name the program with the handler: --app shop.jobs:app, or `app` in redrive.toml"
        raise UsageError(msg)
    name = path.partition(".")[0]
    known = {"handler": ascii(job.handler), "id": ascii(job.id)}
    return _TEXT.format(module=module, name=name, path=path, **known)
