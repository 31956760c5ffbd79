"""A store's URL: where the server is, which schema, and how to show it without its secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from redrive.errors import UsageError

SCHEMES = ("postgresql", "postgres")
SCHEMA = "redrive"
"""Where the tables are unless the URL says `?schema=…`."""

_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_DEFAULTS: dict[str, str | int | None] = {
    "connect_timeout": 10,
    "fallback_application_name": "redrive",
}


@dataclass(frozen=True, slots=True)
class Address:
    """How to reach a store, read from its URL."""

    url: str
    """For people, and to open it again where the password comes from elsewhere."""
    schema: str
    conninfo: str = field(repr=False)
    """What libpq is given, secrets and all."""

    @property
    def channel(self) -> str:
        """The name that hints of new work are sent under (`LISTEN redrive_<schema>`)."""
        return f"redrive_{self.schema}"


def read_url(url: str) -> Address:
    """Take a URL apart; what is wrong with it is said without repeating it."""
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        schema = dict(query).get("schema", SCHEMA)
        rest = [(name, value) for name, value in query if name != "schema"]
        plain = _joined(parts.netloc, parts.path, rest)
        found = conninfo_to_dict(plain)
    except (ValueError, psycopg.Error):
        msg = (
            "this is no URL of a PostgreSQL database; write "
            "postgresql://user@host:5432/database, with anything odd in it as %XX"
        )
        raise UsageError(msg) from None
    if not _IDENTIFIER.fullmatch(schema) or schema.startswith("pg_"):
        msg = (
            f"{schema!r} cannot be the schema of a store; use small letters, digits and _, "
            "at most 48, and no pg_ in front"
        )
        raise UsageError(msg)
    return Address(_shown(plain, schema), schema, make_conninfo("", **{**_DEFAULTS, **found}))


def _joined(host: str, path: str, query: list[tuple[str, str]]) -> str:
    """Make a URL; the library's own function forgets the slashes of one without a host."""
    return f"postgresql://{host}{path}" + (
        "?" + urlencode(query, quote_via=quote, safe="/,:") if query else ""
    )


def _shown(url: str, schema: str) -> str:
    """Give the URL without what must not be seen, wherever in it that stands."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    query = [pair for pair in parse_qsl(parts.query) if pair[0] not in _SECRETS]
    if schema != SCHEMA:
        query.append(("schema", schema))
    return _joined(user.partition(":")[0] + at + place, parts.path, query)
