"""What a desk works on: the store, and what the program was set up with."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol

from redrive.errors import Refused
from redrive.stores import open_store

if TYPE_CHECKING:
    from redrive.attempts.runtime import Settings
    from redrive.events import Bus
    from redrive.jobs.clock import Clock
    from redrive.registry import Registry
    from redrive.stores.contract import Store


class Backend(Protocol):
    """The store of a desk, and the settings, handlers and listeners of its program."""

    @property
    def store(self) -> Store:
        """The open store."""
        ...

    @property
    def settings(self) -> Settings:
        """What the program was set up with."""
        ...

    @property
    def registry(self) -> Registry:
        """The handlers of the program."""
        ...

    @property
    def bus(self) -> Bus:
        """The listeners of the program."""
        ...

    @property
    def holder(self) -> str:
        """The name under which this process holds leases."""
        ...


class ReadOnly:
    """A store without a program: for commands that only read, so that they start fast."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self.store = open_store(url, create=False, read_only=True, clock=clock)

    def close(self) -> None:
        """Close files and connections."""
        self.store.close()

    settings: Settings
    registry: Registry
    bus: Bus
    holder: str

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse the rest of a backend: there is no program."""
        raise Refused("this desk is read-only: use the desk of a Redrive to change jobs")
