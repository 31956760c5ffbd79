"""Route x token x Host x Origin x method without a hole.

The cases come from the table of routes, so a new route is in them by itself.
"""

from __future__ import annotations

from redrive import Redrive
from redrive.web.api import ROUTES, Route
from shopkit import name
from webkit import ACT, READ, Web

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
PATHS = {"job": name(1), "group": "G1", "run": "R1", "lane": "mail.send"}
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


def asked(web: Web, route: Route, token: str | None = ACT, headers: object = ()) -> int:
    """Ask with an empty body: it is wrong for most, so that nothing is done; but first they ask who."""
    body = {} if route.body is None else {"json": {}}
    answer = web.ask(route.method, route.path.format(**PATHS), token=token, headers=headers, **body)
    assert answer.status_code < 500 or answer.status_code == 503
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not [one for one in answer.headers if one.startswith("access-control")]
    return answer.status_code


def test_a_token_opens_what_its_right_includes_and_is_said_in_one_way(web: Web) -> None:
    for route in ROUTES:
        for token, good_for in TOKENS.items():
            status, case = asked(web, route, token), (route.name, token)
            if token is None and not route.right:
                assert status == 200, case
            elif not good_for:
                assert status == 401, case
            elif route.right == "act" and good_for == "read":
                assert status == 403, case
            else:
                assert status not in {401, 403}, case
        for said in (f"Bearer {ACT} ", f"Basic {ACT}", f"Bearer {ACT},{READ}", ACT, "Bearer"):
            assert asked(web, route, None, [("authorization", said)]) == 401, (route.name, said)
        twice = [("authorization", f"Bearer {ACT}"), ("authorization", f"Bearer {ACT}")]
        assert asked(web, route, None, twice) == 401, route.name
        path = f"{route.path.format(**PATHS)}?token={ACT}"
        answer = web.ask(route.method, path, token=None)
        assert answer.status_code == (401 if route.right else 400), route.name


def test_hosts_come_before_tokens_and_other_origins_change_nothing(web: Web) -> None:
    for route in ROUTES:
        for host, is_ours in HOSTS.items():
            for token in (None, READ, ACT):
                status = asked(web, route, token, [("host", host)])
                assert (status != 421) is is_ours, (route.name, host)
        for headers, is_ours in ORIGINS.items():
            status = asked(web, route, ACT, list(headers))
            refused = route.method == "POST" and not is_ours
            assert (status == 403) is refused, (route.name, headers)


def test_methods_and_paths_that_there_are_not(web: Web) -> None:
    for route in ROUTES:
        known = {one.method for one in ROUTES if one.path == route.path}
        allowed = known | ({"HEAD"} if "GET" in known else set())
        for method in METHODS:
            answer = web.ask(method, route.path.format(**PATHS))
            assert (answer.status_code == 405) is (method not in allowed), (route.name, method)
            if method not in allowed:
                assert set(answer.headers["allow"].split(", ")) == allowed
    for path in ("/api", "/api/v1/", "/healthz/", "/api/v1/jobs/", "/static/../x", "/%2e%2e/x"):
        assert web.ask("GET", path).status_code == 404, path
        assert web.ask("GET", path, headers={"host": "shop.example"}).status_code == 421, path


def test_without_auth_everybody_may_but_foreign_pages(app: Redrive) -> None:
    web = Web(app, auth=False)
    for route in ROUTES:
        assert asked(web, route, None) not in {401, 403}, route.name
        assert asked(web, route, None, {"host": "shop.example"}) == 421, route.name
        foreign = asked(web, route, None, {"origin": "http://shop.example"})
        assert (foreign == 403) is (route.method == "POST"), route.name
