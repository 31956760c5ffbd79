"""`redrive serve` as a process: what it refuses, what it serves, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from redrive import Redrive
from redrive.cli._cli import Cli
from redrive.cli.serve import page
from redrive.web import asgi, auth
from redrive.web.api import ROUTES
from shopkit import Shop, name, shop_jobs
from webkit import ACT, READ

RETRY = {"verb": "retry", "q": name(1)}
PROGRAM = """
from redrive import Redrive

app = Redrive("redrive.db")


@app.handler("mail.send")
def send(**anything: object) -> None:
    pass
"""


@contextmanager
def serving(
    *words: str, said: str = "", after: str = "", **environ: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start a server on a free port that says this; gives where it is, and ends it."""
    command = [sys.executable, "-m", "redrive", "serve", "--port", "0", *words]
    env = {**os.environ, "REDRIVE_READ_TOKEN": READ, "REDRIVE_ACT_TOKEN": ACT, **environ}
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stderr is not None
    try:
        text = ""
        for line in process.stderr:
            text += line
            if found := re.search(r"serving on http://(?:0\.0\.0\.0|127\.0\.0\.1)(:\d+)", line):
                assert said in text
                assert after in (process.stderr.readline() if after else "")
                yield f"http://127.0.0.1{found[1]}", process
                break
        else:
            pytest.fail(text)
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A place with a store full of jobs, a program for it, and no tokens."""
    for variable in ("REDRIVE_STORE", *auth.VARIABLES):
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


def test_raw_requests_that_no_client_sends() -> None:
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
        assert httpx.post(f"{url}/api/v1/actions", json=RETRY).status_code == 200


def test_what_would_be_open_to_others_does_not_start(shop: Shop) -> None:
    for words, said in (
        ([], "add --tokens FILE (created if it is missing)"),
        ([], "allow everybody on this host with --no-auth"),
        (["--host", "0.0.0.0", "--no-auth"], "loopback addresses only"),
        (["--host", "::", "--no-auth"], "loopback addresses only"),
        (["--host", "shop.example", "--no-auth"], "loopback addresses only"),
        (["--host", "0.0.0.0", "--open", "--yes"], "loopback addresses only"),
        (["--tokens", "shop_program.py"], "only its owner may read"),
        (["--tokens", "."], "cannot read the tokens"),
    ):
        done = shop.run("serve", "--port", "0", *words)
        assert (done.exit_code, said in done.output) == (2, True), (words, done.output)


def test_without_tokens_other_hosts_get_health_checks_and_nothing_else() -> None:
    blank = {"REDRIVE_READ_TOKEN": "", "REDRIVE_ACT_TOKEN": ""}
    words = ["--host", "0.0.0.0", "--allow-host", "jobs.shop.example"]
    with serving(*words, said="no token is set: only health", **blank) as (url, _):
        for path in ("/healthz", "/readyz", "/api/v1/health"):
            assert httpx.get(url + path, timeout=60).json() == {"status": "ok"}
        for route in ROUTES:
            if route.right:
                answer = httpx.request(route.method, url + route.path, timeout=60)
                assert answer.status_code == 401, route
        page = httpx.get(f"{url}/groups", headers={"host": "jobs.shop.example"}, timeout=60)
        assert (page.status_code, page.headers["location"]) == (303, "/sign-in?next=%2Fgroups")
        signed = httpx.post(f"{url}/sign-in", data={"token": ""}, headers={"origin": url})
        assert signed.status_code == 401
    with serving("--host", "0.0.0.0", after="tokens are sent in clear text") as (url, _):
        headers = {"authorization": f"Bearer {READ}"}
        assert httpx.get(f"{url}/api/v1/jobs", headers=headers, timeout=60).status_code == 200
        assert httpx.get(url, headers={"host": "jobs.shop.example"}).status_code == 421


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
            retried = httpx.post(f"{url}/api/v1/actions", json=RETRY, headers=headers)
            assert retried.status_code == (200 if right == "act" else 403)
    with Redrive("redrive.db") as app:
        assert app.desk.log.actions()[0].actor == "operator"


def test_a_bad_file_of_tokens_is_refused(shop: Shop) -> None:
    Path("tokens").touch(0o600)
    for text in (
        "a act short",
        f"a owner {ACT}",
        f"a act {ACT}\na read {READ}",
        f"a! act {ACT}",
        "a act",
        "x",
    ):
        Path("tokens").write_text(text)
        done = shop.run("serve", "--tokens", "tokens")
        assert (done.exit_code, ACT in done.output) == (2, False), text


@contextmanager
def browser(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A screen and a browser; gives the text of the page that it was led to."""
    pages: list[str] = []

    def show(address: str) -> bool:
        file = Path(address.removeprefix("file://"))
        assert ("once" in address, file.stat().st_mode & 0o777) == (False, 0o600)
        pages.append(file.read_text())
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", show)
    yield pages


def test_open_shows_a_browser_a_file_with_a_link_that_signs_in(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    site = asgi(app, tokens=[auth.made("mira", "act", "t" * 30)])
    with browser(monkeypatch) as pages, page(Cli(), site, "http://localhost:9200"):
        assert "url=http://localhost:9200/sign-in?once=" in pages[0]
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    with page(Cli(), asgi(app, auth=False), "http://localhost:9200"):
        assert "open http://localhost:9200/\n" in capsys.readouterr().err


def test_open_makes_a_fresh_directory_a_signed_in_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = dict.fromkeys(("REDRIVE_READ_TOKEN", "REDRIVE_ACT_TOKEN", "DISPLAY"), "")
    blank |= {"XDG_CONFIG_HOME": str(tmp_path / "config"), "WAYLAND_DISPLAY": ""}
    (tmp_path / "fresh").mkdir()
    monkeypatch.chdir(tmp_path / "fresh")
    with serving("--open", "--yes", **blank) as (url, process):
        assert process.stderr is not None
        link = process.stderr.readline().split()[1]
        assert link.startswith(f"{url}/sign-in?once=")
        with httpx.Client(follow_redirects=True, timeout=60) as visitor:
            signed_in = visitor.get(link)
            assert (signed_in.status_code, signed_in.url) == (200, f"{url}/")
            assert httpx.get(link, timeout=60).status_code == 401  # the link works once
    assert Path("redrive.db").exists()
    assert (tmp_path / "config" / "redrive" / "tokens").stat().st_mode & 0o777 == 0o600


def test_open_creates_nothing_unasked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(Path("config").absolute()))
    for words, missing in (([], "config"), (["--store", "other.db"], "other.db")):
        done = shop.run(*words, "serve", "--open", "--port", "0")
        assert (done.exit_code, "there is no terminal to ask on" in done.output) == (2, True)
        assert not Path(missing).exists()


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
