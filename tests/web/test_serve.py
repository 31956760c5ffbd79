"""S1, S2, F86: `redrive serve` as a process: what it refuses, what it serves, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st

from redrive import Redrive
from redrive.web import tokens
from redrive.web.routes import ROUTES
from shopkit import Shop, name, shop_jobs
from webkit import ACT, READ

PROGRAM = """
from redrive import Redrive

app = Redrive("redrive.db")


@app.handler("mail.send")
def send(**anything: object) -> None:
    pass
"""


@contextmanager
def serving(*words: str, **environ: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server on a free port; gives where it is, and ends it."""
    command = [sys.executable, "-m", "redrive", "serve", "--port", "0", *words]
    env = {**os.environ, "REDRIVE_READ_TOKEN": READ, "REDRIVE_ACT_TOKEN": ACT, **environ}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"serving on (\S+)", line):
                yield found[1], process
                break
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A place with a store full of jobs, a program for it, and no tokens."""
    for variable in ("REDRIVE_STORE", *tokens.VARIABLES):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    Path("shop_program.py").write_text(PROGRAM)
    shop = Shop(tmp_path)
    shop.add(*shop_jobs())
    return shop


def test_it_serves_until_it_is_told_to_stop() -> None:
    with serving("shop_program:app") as (url, process):
        answer = httpx.get(f"{url}/api/v1/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert "server" not in answer.headers
        headers = {"authorization": f"Bearer {ACT}"}
        body = {"handler": "mail.send", "payload": {"to": "ada"}}
        made = httpx.post(f"{url}/api/v1/jobs", json=body, headers=headers)
        assert made.status_code == 200, made.text
        assert httpx.get(f"{url}/api/v1/jobs").status_code == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    with Redrive("redrive.db") as app:
        assert app.get(made.json()["id"]).handler == "mail.send"
        assert (app.desk.log.actions()[0].actor, app.desk.log.actions()[0].verb) == (
            "api-act",
            "submit",
        )


def test_every_operation_answers_by_the_document_over_a_socket() -> None:
    headers = {"authorization": f"Bearer {ACT}"}
    with serving("shop_program:app") as (url, _):
        api = schemathesis.openapi.from_url(f"{url}/api/v1/openapi.json", headers=headers)
        operations = st.one_of(*(api[one.path][one.method].as_strategy() for one in ROUTES))

        @settings(max_examples=80)
        @given(case=operations)
        def ask(case: schemathesis.Case) -> None:
            answer = case.call(headers=headers)
            assert answer.status_code < 500, answer.text
            case.operation.validate_response(answer)

        ask()


def test_raw_requests_that_no_client_sends() -> None:
    """F92."""
    import socket  # noqa: PLC0415

    attacks = [
        b"GET /api/v1/jobs HTTP/1.1\r\n\r\n",
        b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nHost: shop.example\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: x\r\n\r\n{}",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 30_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1_000_000,
        b"GET /healthz?" + b"a" * 30_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET http://shop.example/healthz HTTP/1.1\r\nHost: shop.example\r\n\r\n",
        b"NONSENSE\r\n\r\n",
    ]
    with serving() as (url, process):
        port = int(url.rpartition(":")[2])
        for attack in attacks:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(attack)
                answer = connection.recv(200)
            assert re.match(rb"HTTP/1.1 4\d\d", answer), (attack[:60], answer)
        assert httpx.get(f"{url}/healthz").status_code == 200
        assert process.poll() is None


def test_without_a_program_it_serves_the_store() -> None:
    with serving("--no-auth") as (url, _):
        assert len(httpx.get(f"{url}/api/v1/jobs").json()["jobs"]) == 7
        body = {"handler": "mail.send", "payload": {}}
        assert httpx.post(f"{url}/api/v1/jobs", json=body).status_code == 404
        assert httpx.post(f"{url}/api/v1/jobs/{name(1)}/retry", json={}).status_code == 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "add --tokens FILE (created if it is missing)"),
        ([], "allow everybody on this host with --no-auth"),
        (["--host", "0.0.0.0"], "clear text"),
        (["--host", "::"], "clear text"),
        (["--host", "192.0.2.1"], "clear text"),
        (["--host", "shop.example"], "clear text"),
        (["--host", "0.0.0.0", "--no-auth"], "loopback addresses only"),
        (["--host", "0.0.0.0", "--no-auth", "--behind-proxy"], "loopback addresses only"),
        (["--host", "0.0.0.0", "--behind-proxy"], "no token is set"),
        (["--tls-cert", "shop_program.py"], "belong together"),
        (["--tokens", "shop_program.py"], "only its owner may read"),
    ],
)
def test_what_would_be_open_to_others_does_not_start(
    shop: Shop, words: list[str], said: str
) -> None:
    done = shop.run("serve", "--port", "0", *words)
    assert done.exit_code == 2, done.output
    assert said in done.output


def test_a_port_that_is_taken_is_said(shop: Shop) -> None:
    with serving("--no-auth") as (url, _):
        done = shop.run("serve", "--no-auth", "--port", url.rpartition(":")[2])
    assert done.exit_code == 1
    assert "cannot listen" in done.output


def test_a_file_of_tokens_is_made_for_its_owner() -> None:
    blank = {"REDRIVE_READ_TOKEN": "", "REDRIVE_ACT_TOKEN": ""}
    with serving("--tokens", "tokens", **blank) as (url, _):
        assert Path("tokens").stat().st_mode & 0o777 == 0o600
        lines = [line.split() for line in Path("tokens").read_text().splitlines()[1:]]
        assert [line[:2] for line in lines] == [["reader", "read"], ["operator", "act"]]
        for _, right, token in lines:
            headers = {"authorization": f"Bearer {token}"}
            assert httpx.get(f"{url}/api/v1/jobs", headers=headers).status_code == 200
            retried = httpx.post(f"{url}/api/v1/jobs/{name(1)}/retry", json={}, headers=headers)
            assert retried.status_code == (200 if right == "act" else 403)
    with Redrive("redrive.db") as app:
        assert app.desk.log.actions()[0].actor == "operator"


@pytest.mark.parametrize(
    "text", ["a act short", f"a owner {ACT}", f"a act {ACT}\na read {READ}", f"a! act {ACT}", "x"]
)
def test_a_bad_file_of_tokens_is_refused(shop: Shop, text: str) -> None:
    Path("tokens").write_text(text)
    Path("tokens").chmod(0o600)
    done = shop.run("serve", "--tokens", "tokens")
    assert done.exit_code == 2
    assert ACT not in done.output


PROXY = ("--behind-proxy", "--user-header", "X-User", "--proxy-secret-file", "secret")


def private(path: str, text: str) -> str:
    Path(path).write_text(text)
    Path(path).chmod(0o600)
    return path


def test_a_proxy_names_people_who_have_a_right_in_the_file_of_tokens() -> None:
    private("secret", f"# shared with nginx\n{ACT}\n")
    file = private("tokens", "mira@shop.example act\n* read\n")
    with serving("--tokens", file, *PROXY) as (url, _):
        headers = {"x-user": "mira@shop.example", "accept": "text/html"}
        refused = httpx.get(f"{url}/groups", headers=headers)
        assert (refused.status_code, "Redrive-Proxy-Secret" in refused.text) == (401, True)
        page = httpx.get(f"{url}/groups", headers={**headers, "redrive-proxy-secret": ACT})
        assert (page.status_code, "mira@shop.example" in page.text) == (200, True)


def test_a_proxied_person_may_not_have_the_name_of_a_token() -> None:
    private("secret", ACT)
    file = private("tokens", f"Bot act {ACT}\n* read\n")
    with serving("--tokens", file, *PROXY) as (url, _):
        for name in ("Bot", "bot", "api-act", "API-Reveal", "anybody"):
            headers = {"x-user": name, "redrive-proxy-secret": ACT, "accept": "text/html"}
            refused = httpx.get(f"{url}/groups", headers=headers)
            assert (refused.status_code, "name of a token" in refused.text) == (403, True), name


@pytest.mark.parametrize(
    ("words", "file", "said"),
    [
        (PROXY[1:], "* read", "needs --behind-proxy"),
        ((*PROXY, "--open"), "* read", "without --open"),
        ((*PROXY, "--no-auth"), "* read", "without --open and --no-auth"),
        (PROXY[:3], "* read", "belong together"),
        (PROXY, f"mira act {ACT}", "no person is named"),
        (PROXY, "* owner", "read, act or reveal"),
        (PROXY, "* read\n* act", "used once"),
        (PROXY, f"mira act\nMira read {ACT}", "used once"),
        *[
            ((*PROXY[:2], name, *PROXY[3:]), "* read", "letters, digits and -")
            for name in ("", "X User", "X_User", "X-User:", "redrive-proxy-secret", "host")
        ],
        *[
            ((*PROXY[:2], name, *PROXY[3:]), "* read", f"found '{name}'")
            for name in ("Cookie", "AUTHORIZATION", "Origin")
        ],
        ((*PROXY[:-1], "absent"), "* read", "cannot read the secrets in absent"),
        ((*PROXY[:-1], "shop_program.py"), "* read", "only its owner may read"),
        ((*PROXY[:-1], "short"), "* read", "20 to 500"),
        ((), "mira act", "no token for mira"),
    ],
)
def test_a_proxy_that_cannot_be_trusted_does_not_start(
    shop: Shop, words: tuple[str, ...], file: str, said: str
) -> None:
    private("secret", ACT)
    private("short", "x" * 19)
    done = shop.run("serve", "--port", "0", "--tokens", private("tokens", file), *words)
    assert done.exit_code == 2, done.output
    assert said in done.output


CERTIFICATES = Path(__file__).parents[1] / "delivery" / "certificates"


def test_it_speaks_tls_and_goes_by_the_names_it_was_given() -> None:
    good = str(CERTIFICATES / "good.pem")
    words = ["--tls-cert", good, "--tls-key", good, "--allow-host", "hooks.example.org"]
    with serving(*words) as (url, _):
        assert url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(CERTIFICATES / "authority.pem"))
        with httpx.Client(verify=context, base_url=url) as client:
            assert client.get("/healthz").status_code == 200
            ours = client.get("/healthz", headers={"host": "hooks.example.org"})
            assert ours.status_code == 200
            other = client.get("/healthz", headers={"host": "other.example.org"})
            assert other.status_code == 421


def test_requests_are_logged_when_asked_without_their_tokens() -> None:
    with serving("-v") as (url, process):
        headers = {"authorization": f"Bearer {ACT}"}
        httpx.get(f"{url}/api/v1/jobs?q=state:dead%0aX", headers=headers)
        process.terminate()
        said = process.communicate(timeout=20)[1]
    (line,) = [one for one in said.splitlines() if "/api/v1/jobs" in one]
    assert "GET /api/v1/jobs?q=state:dead%0aX" in line
    assert "400" in line
    assert ACT not in said


def test_without_its_extra_it_says_what_to_install() -> None:
    hide = (
        "import sys; sys.modules.update(dict.fromkeys(['starlette', 'uvicorn']));"
        "sys.argv[1:] = ['serve', '--no-auth']; from redrive.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hide], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "pip install 'redrive[web]'" in done.stderr
