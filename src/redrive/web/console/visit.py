"""One request for a page: who asks, in which language, and what is shown again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from redrive.desk.desk import Desk
from redrive.web.call import Call
from redrive.web.console.sessions import Session
from redrive.web.console.texts import Texts
from redrive.web.shared import Shared
from redrive.web.tokens import RIGHTS


class Place(NamedTuple):
    """What the console says about where it is."""

    name: str
    environment: str = ""
    who: Callable[[MutableMapping[str, Any]], tuple[str, str] | None] | None = None
    """Returns who sends a request, if the host program knows; then nobody signs in here."""
    sign_in: str = ""
    """The page of the host program where people sign in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit(Call):
    """What every page's function is given."""

    session: Session
    texts: Texts
    shared: Shared
    place: Place
    query: Any = None
    """What the query says, by the page's type."""
    is_part: bool = False
    """True if a part was asked for by itself: then it is worth waiting for."""
    address: str = "/"
    """The path and query of the page, without the root."""
    form: Mapping[str, str] | None = None
    """What was typed into a form that is shown again, with its error."""
    error: str = ""
    notice: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What was done just now."""
    cookie: str = ""
    """The name of the session's cookie."""

    def with_query(self, query: Any, path: Mapping[str, str] | None = None) -> Visit:
        """Return the visit with what its query says, and the names in its path."""
        return replace(self, query=query, path=self.path if path is None else path)

    def refused(self, error: str) -> Visit:
        """Return the visit with the error of a form that is shown again."""
        return replace(self, error=error)

    def at(self, page: str) -> Visit:
        """Return the visit with the address of a page that can be asked for, unlike that of a form."""
        return replace(self, address=page.format(**self.path))

    @property
    def desk(self) -> Desk:
        """Where jobs are read, masked."""
        return self.app.desk

    @property
    def right(self) -> str:
        """What the visitor may do."""
        return self.session.token.right

    def may(self, right: str) -> bool:
        """Return True if the visitor's right includes this one."""
        return RIGHTS.index(right) <= RIGHTS.index(self.right)
