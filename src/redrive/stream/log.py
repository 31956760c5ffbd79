"""The stream file: lines are added at the end, by any number of threads and processes.

One line is one write to a file opened for appending, so lines never mix. Writing never raises: the
log must not take down what it tells about. A line cut short by a full disk or a crash spoils no other:
the next one starts on a line of its own.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

from redrive import redact
from redrive.errors import StoreError
from redrive.stores import _files
from redrive.stream.event import Line

log = logging.getLogger("redrive.stream")

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
"""Not blocking, so that a pipe nobody reads cannot hold an emitter up."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class EventLog:
    """An append-only file of lines, readable by its owner only."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.place = Path(os.path.abspath(Path(path).expanduser()))  # noqa: PTH100 - must not follow links
        # Looked at only once: a line that another process is just writing looks torn, too.
        self._torn = _is_torn(self.place)

    def write(self, line: Line) -> bool:
        """Add one line, secrets masked; says whether it is there. Never raises."""
        try:
            masked = redact.mask_payload(cast("dict[str, Any]", line))
            self._append(_encode(masked).encode() + b"\n")
        except (StoreError, OSError, ValueError) as error:
            log.error(  # noqa: TRY400 - the cause is the disk, a traceback says nothing more
                "the line %s of %s was not written to the event log: %s",
                line["status"],
                line["event_id"],
                redact.inert(redact.safe_text(error)),
            )
            return False
        return True

    def lines(self) -> Generator[dict[str, Any]]:
        """Give the lines that can be read, oldest first; damaged ones are passed over."""
        if not self.place.is_file():
            return
        try:
            with self.place.open("rb") as file:
                for raw in file:
                    found = _parsed(raw)
                    if isinstance(found.get("event_id"), str):
                        yield found
        except OSError as error:
            raise _files.failed(error, self.place) from error

    def _append(self, data: bytes) -> None:
        self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _files.open_private(self.place, _FLAGS)
        try:
            data = b"\n" + data if self._torn else data
            written = os.write(descriptor, data)
            self._torn = written < len(data)
            if self._torn:
                msg = f"only {written} of {len(data)} bytes fitted"
                raise OSError(msg)
        finally:
            os.close(descriptor)


def _is_torn(place: Path) -> bool:
    """Whether the last line of a file has no end."""
    try:
        if not place.is_file() or not place.stat().st_size:
            return False
        with place.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:  # writing will say what is wrong
        return False


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        found: object = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
