"""A stand-in for Firestore's client: the calls that the mirror makes, with the answers of the service."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


def _error(name: str, status: int) -> type[Exception]:
    """An error as Google's library names it."""
    fields = {"code": status, "__module__": "google.api_core.exceptions"}
    return type(name, (Exception,), fields)


AlreadyExists = _error("AlreadyExists", 409)
FailedPrecondition = _error("FailedPrecondition", 400)
InvalidArgument = _error("InvalidArgument", 400)
ServiceUnavailable = _error("ServiceUnavailable", 503)


@dataclass
class Snapshot:
    """A document as it was read."""

    value: dict[str, Any] | None
    update_time: int | None

    @property
    def exists(self) -> bool:
        return self.value is not None

    def to_dict(self) -> dict[str, Any] | None:
        return copy.deepcopy(self.value)


@dataclass
class Reference:
    """Where a document is, or will be."""

    client: Client
    path: str

    def get(self, *, timeout: float) -> Snapshot:
        self.client.called(timeout)
        return Snapshot(self.client.documents.get(self.path), self.client.times.get(self.path))

    def create(self, document: dict[str, Any], *, timeout: float) -> None:
        self.client.called(timeout)
        if self.path in self.client.documents:
            raise AlreadyExists(f"Document already exists: {self.path}")
        self._write(document)

    def update(self, changes: dict[str, Any], *, option: int, timeout: float) -> None:
        self.client.called(timeout)
        if self.client.times.get(self.path) != option:
            raise FailedPrecondition("the stored version does not match the required base version")
        self._write({**self.client.documents[self.path], **changes})

    def _write(self, document: dict[str, Any]) -> None:
        _check(document)
        self.client.documents[self.path] = copy.deepcopy(document)
        self.client.times[self.path] = self.client.calls
        if self.client.after_write:
            self.client.after_write()


def _check(value: object, *, in_list: bool = False) -> None:
    """Refuse what the service refuses."""
    if isinstance(value, dict):
        for one in value.values():
            _check(one)
    elif isinstance(value, list):
        if in_list:
            raise InvalidArgument("Nested arrays are not allowed")
        for one in value:
            _check(one, in_list=True)
    elif isinstance(value, int) and value.bit_length() > 63:
        raise ValueError(f"Value out of range: {value}")


@dataclass
class Client:
    """The service, with all its documents by path."""

    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    calls: int = 0
    is_down: bool = False
    after_write: Callable[[], None] | None = None

    def called(self, timeout: float) -> None:
        """Count a call; the service may be down."""
        assert timeout > 0
        self.calls += 1
        if self.is_down:
            raise ServiceUnavailable("The service is currently unavailable.")

    def collection(self, name: str) -> Collection:
        return Collection(self, name)

    def write_option(self, *, last_update_time: int) -> int:
        return last_update_time


@dataclass
class Collection:
    """Documents beneath one name."""

    client: Client
    name: str

    def document(self, document_id: str) -> Reference:
        return Reference(self.client, f"{self.name}/{document_id}")
