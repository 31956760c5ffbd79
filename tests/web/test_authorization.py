"""F85, F87, F93, S3: route x token x Host x Origin x method without a hole.

The cases come from the table of routes, so a new route is in them by itself.
"""

from __future__ import annotations

import itertools

import pytest

from redrive import Redrive
from redrive.web.routes import ROUTES, Route
from shopkit import name
from webkit import ACT, READ, Web

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
PATHS = {"job": name(1), "group": "G1", "run": "R1", "plan": "none", "lane": "mail.send"}
PATHS["channel"] = "none"
TOKENS = {
    None: "",
    "": "",
    "wrong" * 8: "",
    READ[:-1]: "",
    READ + "x": "",
    READ.upper(): "",
    READ: "read",
    ACT: "act",
}
"""What may be said, and what it is good for."""
HOSTS = {
    "127.0.0.1:9200": True,
    "localhost": True,
    "LOCALHOST:9200": True,
    "[::1]:9200": True,
    "shop.example": False,
    "localhost.shop.example": False,
    "localhost.": False,
    "127.0.0.1.nip.example": False,
    "127.0.0.1@shop.example": False,
    "localhost:9200:80": False,
    "::1": False,
    "": False,
}
ORIGINS = {
    (): True,
    (("origin", "http://127.0.0.1:9200"), ("sec-fetch-site", "same-origin")): True,
    (("sec-fetch-site", "none"),): True,
    (("origin", "null"),): False,
    (("origin", "http://127.0.0.1:3000"),): False,
    (("origin", "http://127.0.0.1:9200.shop.example"),): False,
    (("origin", "http://shop.example"), ("sec-fetch-site", "cross-site")): False,
    (("sec-fetch-site", "same-site"),): False,
    (("origin", "http://127.0.0.1:9200"), ("origin", "http://shop.example")): False,
}


def path_of(route: Route) -> str:
    return route.path.format(**PATHS)


every_route = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)


def asked(web: Web, route: Route, token: str | None = ACT, headers: object = ()) -> int:
    """Ask with an empty body: it is wrong for most, so that nothing is done; but first they ask who."""
    body = {} if route.body is None else {"json": {}}
    answer = web.ask(route.method, path_of(route), token=token, headers=headers, **body)
    assert answer.status_code < 500 or answer.status_code == 503
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not [one for one in answer.headers if one.startswith("access-control")]
    return answer.status_code


@every_route
def test_tokens(web: Web, route: Route) -> None:
    for token, good_for in TOKENS.items():
        status = asked(web, route, token)
        if token is None and not route.right:
            assert status == 200
        elif not good_for:
            assert status == 401, token
        elif route.right == "act" and good_for == "read":
            assert status == 403, token
        else:
            assert status not in {401, 403}, token


@every_route
def test_a_token_is_said_in_one_way(web: Web, route: Route) -> None:
    bad = (
        f"bearer  {ACT}",
        f"Bearer {ACT} ",
        f"Basic {ACT}",
        f"Bearer {ACT},{READ}",
        ACT,
        "Bearer",
    )
    for said in bad:
        assert asked(web, route, None, [("authorization", said)]) == 401, said


@every_route
def test_a_token_said_twice_or_in_the_url_is_none(web: Web, route: Route) -> None:
    twice = [("authorization", f"Bearer {ACT}"), ("authorization", f"Bearer {ACT}")]
    assert asked(web, route, None, twice) == 401
    answer = web.ask(route.method, f"{path_of(route)}?token={ACT}", token=None)
    assert answer.status_code == (401 if route.right else 400)


@every_route
def test_hosts_come_before_tokens(web: Web, route: Route) -> None:
    for (host, is_ours), token in itertools.product(HOSTS.items(), [None, READ, ACT]):
        status = asked(web, route, token, [("host", host)])
        assert (status != 421) is is_ours, host


@every_route
def test_pages_of_other_origins_change_nothing(web: Web, route: Route) -> None:
    for headers, is_ours in ORIGINS.items():
        status = asked(web, route, ACT, list(headers))
        if route.method == "POST" and not is_ours:
            assert status == 403, headers
        else:
            assert status not in {401, 403}, headers


@every_route
def test_methods(web: Web, route: Route) -> None:
    known = {one.method for one in ROUTES if one.path == route.path}
    allowed = known | ({"HEAD"} if "GET" in known else set())
    for method in METHODS:
        answer = web.ask(method, path_of(route))
        if method in allowed:
            assert answer.status_code != 405, method
        else:
            assert answer.status_code == 405, method
            assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize("host", ["127.0.0.1", "shop.example"])
def test_what_is_not_in_the_table_is_not_there(web: Web, host: str) -> None:
    for path in (
        "/api",
        "/api/v1/",
        "/healthz/",
        "/api/v1/jobs/",
        "/static/../x",
        "/%2e%2e/x",
    ):
        status = web.ask("GET", path, headers={"host": host}).status_code
        assert status == (404 if host == "127.0.0.1" else 421), path


@every_route
def test_without_auth_everybody_may_but_foreign_pages(app: Redrive, route: Route) -> None:
    web = Web(app, auth=False)
    assert asked(web, route, None) not in {401, 403}
    assert asked(web, route, None, {"host": "shop.example"}) == 421
    foreign = asked(web, route, None, {"origin": "http://shop.example"})
    assert (foreign == 403) is (route.method == "POST")
