"""A store's URL: where the server is, which schema, and how to show it without its secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from redrive.errors import UsageError

SCHEMA = "redrive"
"""Where the tables are unless the URL says `?schema=…`."""

_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_OURS = ("schema", "max_wait")
"""What the query of a URL says to us and not to libpq."""
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_DEFAULTS: dict[str, str | int | None] = {
    "connect_timeout": 10,
    "fallback_application_name": "redrive",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""What libpq is told unless the URL says otherwise: a host that is gone is noticed within a minute."""
MAX_WAIT = 15.0
"""Seconds to wait for locks of others, or a server that is away, unless the URL says `?max_wait=…`."""
_LONGEST_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class Address:
    """How to reach a store, read from its URL."""

    url: str
    """For people, and to open it again where the password comes from elsewhere."""
    schema: str
    conninfo: str = field(repr=False)
    """What libpq is given, secrets and all."""
    max_wait: float = MAX_WAIT

    @property
    def channel(self) -> str:
        """The name that hints of new work are sent under (`LISTEN redrive_<schema>`)."""
        return f"redrive_{self.schema}"


def read_url(url: str) -> Address:
    """Take a URL apart; what is wrong with it is said without repeating it."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        ours = {"schema": SCHEMA, "max_wait": f"{MAX_WAIT:g}"} | {
            name: value for name, value in query if name in _OURS
        }
        rest = [(name, value) for name, value in query if name not in _OURS]
        plain = _joined(parts.netloc, parts.path, rest)
        found = conninfo_to_dict(plain)
    except (ValueError, psycopg.Error):
        msg = (
            "this is not the URL of a PostgreSQL database; write "
            "postgresql://user@host:5432/database, with special characters as %XX"
        )
        raise UsageError(msg) from None
    schema, max_wait = ours["schema"], _seconds(ours["max_wait"])
    if not _IDENTIFIER.fullmatch(schema) or schema.startswith("pg_"):
        msg = (
            f"{schema!r} cannot be the schema of a store; use small letters, digits and _, "
            "at most 48, and do not start with pg_"
        )
        raise UsageError(msg)
    conninfo = make_conninfo("", **{**_DEFAULTS, **found})
    return Address(_shown(plain, schema, max_wait), schema, conninfo, max_wait)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_WAIT:
        msg = f"max_wait={text!r} in the URL is not a number of seconds from 0 to {_LONGEST_WAIT:g}"
        raise UsageError(msg)
    return seconds


def _joined(host: str, path: str, query: list[tuple[str, str]]) -> str:
    """Make a URL; the library's own function forgets the slashes of one without a host."""
    return f"postgresql://{host}{path}" + (
        "?" + urlencode(query, quote_via=quote, safe="/,:") if query else ""
    )


def _shown(url: str, schema: str, max_wait: float) -> str:
    """Return the URL without its secrets, wherever in it they are."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    query = [pair for pair in parse_qsl(parts.query) if pair[0] not in _SECRETS]
    if schema != SCHEMA:
        query.append(("schema", schema))
    if max_wait != MAX_WAIT:
        query.append(("max_wait", f"{max_wait:g}"))
    return _joined(user.partition(":")[0] + at + place, parts.path, query)
