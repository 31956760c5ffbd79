"""Django decides who uses the console: by its sessions, users and permissions.

    console = asgi(jobs, who=who(act="shop.retry_jobs"), sign_in="/admin/login/", hosts=ALLOWED_HOSTS)
    application = Router([Mount("/redrive", console), Mount("/", get_asgi_application())])

Here: who asks. Not here: the mount itself (Starlette's, as above), and jobs.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from importlib import import_module
from io import BytesIO
from typing import Any

Scope = MutableMapping[str, Any]


def who(
    *, read: str = "", act: str = "", reveal: str = ""
) -> Callable[[Scope], tuple[str, str] | None]:
    """Return a function for `asgi(who=)`: the name and the right of the user of a request.

    Each argument names a permission, such as "shop.retry_jobs". Without them, staff may read, and
    superusers may act and reveal. None is returned for anybody else.
    """

    def person(scope: Scope) -> tuple[str, str] | None:
        close_old_connections = _named("django.db", "close_old_connections")
        close_old_connections()  # no request of Django's own does it on this thread
        try:
            return _person(_user(scope), read, act, reveal)
        finally:
            close_old_connections()

    return person


def _person(user: Any, read: str, act: str, reveal: str) -> tuple[str, str] | None:
    if not user.is_authenticated or not user.is_active:
        return None
    if user.has_perm(reveal) if reveal else user.is_superuser:
        return user.get_username(), "reveal"
    if user.has_perm(act) if act else user.is_superuser:
        return user.get_username(), "act"
    return (
        (user.get_username(), "read") if (user.has_perm(read) if read else user.is_staff) else None
    )


def _user(scope: Scope) -> Any:
    """Return the user whose session the cookie of a request names."""
    settings = _named("django.conf", "settings")
    request = _named("django.core.handlers.asgi", "ASGIRequest")(scope, BytesIO())
    sessions = _named(settings.SESSION_ENGINE, "SessionStore")
    request.session = sessions(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    return _named("django.contrib.auth", "get_user")(request)


def _named(module: str, name: str) -> Any:
    """Return a name of Django, which only the host program has installed."""
    return getattr(import_module(module), name)
