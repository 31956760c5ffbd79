"""The console under a prefix in FastAPI, Starlette and Django, served by a real server, in a real browser."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from conftest import TOKENS
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, Router

from redrive import Redrive
from redrive.contrib.django import console as redrive_django
from redrive.web import asgi
from redrive.web.auth import made

ROOT = "/ops/redrive"


@contextlib.contextmanager
def running(application: Any) -> Iterator[str]:
    """Serve an ASGI application on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        config = uvicorn.Config(application, log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            end = time.monotonic() + 60
            while not server.started:
                assert time.monotonic() < end
                time.sleep(0.02)
            yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)


def charge(order: int) -> None:
    raise ConnectionError(f"refused for order {order}")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Redrive]:
    with Redrive(tmp_path / "jobs.db") as app:
        handler = app.handler("billing.charge", attempts=1)(charge)
        for order in range(3):
            handler.submit(order=order)
        app.run_due()
        yield app


def in_starlette(site: Any) -> Any:
    async def home(_: object) -> PlainTextResponse:
        return PlainTextResponse("home")

    return Starlette(routes=[Route("/", home), Mount(ROOT, site)])


def in_fastapi(site: Any) -> Any:
    api = FastAPI()
    api.get("/")(lambda: {"home": True})
    api.mount(ROOT, site)
    return api


@pytest.fixture(scope="session")
def django_site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A Django project with its login and two users; it is set up once in a process."""
    import django  # noqa: PLC0415 - set up here, once
    from django.conf import settings  # noqa: PLC0415

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright's loop runs in this thread
    folder = tmp_path_factory.mktemp("django")
    settings.configure(
        SECRET_KEY="only for this test",
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF="django_urls",
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": folder / "site.db"}},
        INSTALLED_APPS=[
            "django.contrib.admin",
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.messages",
            "django.contrib.sessions",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        STATIC_URL="static/",
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()
    from django.contrib.auth.models import Permission, User  # noqa: PLC0415 - needs the set-up
    from django.core.asgi import get_asgi_application  # noqa: PLC0415
    from django.core.management import call_command  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    for name, is_staff in (("mira", True), ("wall", True), ("guest", False)):
        User.objects.create_user(name, password=f"{name}-password", is_staff=is_staff)
    User.objects.get(username="mira").user_permissions.add(
        Permission.objects.get(codename="change_session")
    )
    return get_asgi_application()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(20_000)
    yield page
    context.close()


@pytest.mark.parametrize("host", [in_starlette, in_fastapi])
def test_a_mounted_console_signs_in_refreshes_and_acts(
    app: Redrive, page: Page, host: Callable[[Any], Any]
) -> None:
    name, (right, text) = "mira", TOKENS["mira"]
    problems: list[str] = []
    with running(host(asgi(app, tokens=[made(name, right, text)]))) as url:
        assert "home" in page.goto(f"{url}/").text()  # which has no icon; ours has one
        page.wait_for_load_state("networkidle")
        page.on("console", lambda m: m.type in ("error", "warning") and problems.append(m.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"{url}{ROOT}/groups?sort=jobs")
        page.fill("#token", text)
        page.press("#token", "Enter")
        expect(page).to_have_url(f"{url}{ROOT}/groups?sort=jobs")
        page.wait_for_load_state("load")  # the scripts have run
        with page.expect_response(lambda r: f"{ROOT}/groups" in r.url) as refreshed:
            page.evaluate("htmx.trigger('#live', 'refresh')")
        assert refreshed.value.status == 200
        page.goto(f"{url}{ROOT}/")
        expect(page.locator("h1")).to_contain_text("3 dead letters")
        page.locator(".causes a.cut").first.click()
        page.get_by_role("button", name="Resolve…").click()
        page.get_by_role("button", name="Resolve 3 jobs").click()
        expect(page.locator(".head")).to_contain_text("Done: 3 of 3 jobs")
        assert page.url.startswith(f"{url}{ROOT}/")
    assert not problems
    assert app.desk.log.actions()[0].actor == "mira"


def signed_in(page: Page, url: str, name: str) -> None:
    """Ask for the console, and sign in where Django asks for it."""
    page.goto(f"{url}{ROOT}/groups")
    expect(page).to_have_url(f"{url}/admin/login/?next={ROOT}/groups")
    page.fill("#id_username", name)
    page.fill("#id_password", f"{name}-password")
    page.press("#id_password", "Enter")


def test_django_decides_by_its_login_and_permissions(
    app: Redrive, browser: Browser, django_site: Any
) -> None:
    who = redrive_django.who(act="sessions.change_session")
    site = asgi(app, who=who, tokens=(), sign_in="/admin/login/")
    with running(Router([Mount(ROOT, site), Mount("/", django_site)])) as url:
        mira, wall, guest = (browser.new_context().new_page() for _ in range(3))
        signed_in(mira, url, "mira")
        expect(mira).to_have_url(f"{url}{ROOT}/groups")
        expect(mira.locator(".me")).to_contain_text("may act")
        mira.get_by_role("button", name="Retry…").or_(
            mira.get_by_role("button", name="Retry G1: make a plan")
        ).first.click()
        mira.get_by_role("button", name="Start the run").click()
        expect(mira).to_have_url(f"{url}{ROOT}/runs/R1")
        assert [run.by for run in app.desk.runs.recent()] == ["mira"]

        signed_in(wall, url, "wall")
        expect(wall.locator(".me")).to_contain_text("may read")
        expect(wall.locator("main button:not([data-copy], [role=search] button)")).to_have_count(0)

        signed_in(guest, url, "guest")  # Django refuses: only staff may use its admin
        expect(guest.locator(".errornote")).to_be_visible()
        guest.goto(f"{url}{ROOT}/groups")
        expect(guest).to_have_url(f"{url}/admin/login/?next={ROOT}/groups")
        again = {"hx-request": "true"}
        assert guest.request.get(f"{url}{ROOT}/groups", headers=again).status == 401

        mira.context.clear_cookies()
        mira.goto(f"{url}{ROOT}/groups")
        expect(mira).to_have_url(f"{url}/admin/login/?next={ROOT}/groups")
        for page in (mira, wall, guest):
            page.context.close()
