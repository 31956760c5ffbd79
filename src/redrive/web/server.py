"""The ASGI application: checks, the router over the table of routes, and answers.

Verbs of the app are sync, so they run on threads; probes have threads of their own, so that no slow
question makes a live process look dead.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from redrive.app import Redrive
from redrive.desk.shapes import WholeJob
from redrive.errors import RedriveError, StoreError
from redrive.jobs.logger import log
from redrive.jobs.threads import Threads, hop
from redrive.payloads import editing
from redrive.web import auth, health
from redrive.web.api import ROUTES, Route
from redrive.web.auth import Tokens
from redrive.web.call import Call, Document, Problem, Reply, problem_of
from redrive.web.console.requests import Place
from redrive.web.console.site import Console, Handler, failure_page
from redrive.web.messages import Request
from redrive.web.reads import body_of, checked, query_of, read

Do = Callable[[], Document | Reply]


class Server:
    """Redrive as an ASGI application; see `redrive.web.asgi`."""

    def __init__(
        self,
        app: Redrive,
        tokens: Tokens | None,
        hosts: Collection[str],
        deadline: float,
        place: Place,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._place = place
        self._hosts = frozenset(host.lower().strip("[]") for host in hosts)
        self._deadline = deadline
        self._health = health.Health(app)
        self._threads, self._probes = Threads(), Threads()
        by_path: dict[str, dict[str, Route]] = defaultdict(dict)
        for route in ROUTES:
            by_path[route.path][route.method] = route
        self.console = Console(app, tokens, self._health, self._run, place)
        handlers = self.console.paths() | {
            path: {method: partial(self._answer, route) for method, route in routes.items()}
            for path, routes in by_path.items()
        }
        # A name may have a slash in it.
        paths = [
            Path(re.sub(r"{(lane|channel)}", r"{\1:path}", path), _Place(methods))
            for path, methods in handlers.items()
        ]
        self._router = Router(paths, redirect_slashes=False, default=self._nowhere)

    def close(self) -> None:
        """End the threads; the app stays open."""
        for threads in (self._threads, self._probes):
            threads.close(wait=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens."""
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        out = _Out(send)
        try:
            headers = Headers(scope=scope)
            auth.check_size(headers, scope["path"].encode() + scope["query_string"])
            auth.check_host(headers, self._hosts)
            async with asyncio.timeout(self._deadline):
                await self._router(scope, receive, out)
        except ClientDisconnect:
            return
        except Exception as error:
            if out.begun:
                raise
            problem = _problem(scope, error)
            page = failure_page(HttpRequest(scope), problem, self._place)
            await (page or _explained(problem))(scope, receive, out)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer lifespan events, and close websockets."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] == "lifespan":
            for word in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{word}.complete"})

    async def _run(self, does: Callable[[], Response]) -> Response:
        """Answer a request for a page on a thread."""
        return await hop(self._threads, does)

    async def _nowhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "text/html" in Headers(scope=scope).get("accept", "") and scope["method"] == "GET":
            response = await self.console.nowhere(HttpRequest(scope, receive))
            await response(scope, receive, send)
            return
        msg = "there is no such route; /api/v1/openapi.json lists the routes"
        raise Problem(404, "no_route", msg)

    async def _answer(self, route: Route, request: HttpRequest) -> Response:
        """Check a request by its route's line in the table, and do what it asks."""
        if route.method not in auth.SAFE:
            auth.check_origin(request.headers)
        token = auth.who(request.headers, self._tokens, route.right)
        path = dict(request.path_params)
        for name, kind in route.params.items():
            checked(path[name], kind, f"path.{name}")
        asked = query_of(request.scope["query_string"])
        query = checked(asked, route.query, "query", strict=False)
        given = [] if route.query is Request else [query]
        text = ""
        if route.body is not None:
            text = await read(request)
            given.append(checked(body_of(text), route.body, "body"))
        call = Call(
            app=self._app,
            health=self._health,
            actor=token.name if token else "",
            known=token is not None,
            may_reveal=token is not None and token.allows("reveal"),
            root=str(request.scope.get("root_path", "")),
            path=path,
            text=text,
        )
        return _response(route, await self._done(route, partial(route.does, call, *given)))

    async def _done(self, route: Route, do: Do) -> Document | Reply:
        if route.at_once:
            return do()
        if not route.may_fail:
            return await hop(self._threads, do)
        try:
            async with asyncio.timeout(health.PATIENCE):
                return await hop(self._probes, do)
        except TimeoutError:
            log.warning("the store has not answered for %g s", health.PATIENCE)
            return Reply(health.UNAVAILABLE, 503)


class _Place:
    """One path: finds the function by the method."""

    def __init__(self, methods: Mapping[str, Handler]) -> None:
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive)
        handler = self._methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            allowed = [*self._methods, *(["HEAD"] if "GET" in self._methods else [])]
            names = ", ".join(allowed)
            raise Problem(405, "no_method", f"use one of: {names}", {"allow": names})
        response = await handler(request)
        await response(scope, receive, send)


class _Out:
    """Adds our headers to an answer, and knows if it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in auth.HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)


def _response(route: Route, result: Document | Reply) -> Response:
    reply = result if isinstance(result, Reply) else Reply(result)
    if isinstance(reply.document, str):
        return Response(reply.document, reply.status, media_type=reply.kind)
    # The numbers of a payload keep their text.
    write = editing.written if route.answers == (WholeJob,) else json.dumps
    return Response(write(reply.document), reply.status, media_type=reply.kind)


def _problem(scope: Scope, error: Exception) -> Problem:
    """Return the problem that an error is; an error of the server is logged."""
    where = f"{scope['method']} {scope['path']}"
    match error:
        case Problem():
            return error
        case RedriveError():
            if isinstance(error, StoreError):
                log.warning("%s: %s", where, error)
            return problem_of(error)
        case TimeoutError():
            msg = "the request took too long; its changes may still happen"
            return Problem(504, "too_long", msg)
        case _:
            log.error("%s failed", where, exc_info=error)
            return Problem(500, "failed", "this is a bug in Redrive; see the log of the server")


def _explained(problem: Problem) -> Response:
    """Return a problem document."""
    document = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "code": problem.code,
        "detail": problem.detail,
    }
    kind = "application/problem+json"
    headers = dict(problem.headers)
    return Response(json.dumps(document), problem.status, headers, media_type=kind)
