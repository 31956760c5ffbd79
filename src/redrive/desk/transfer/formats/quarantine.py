"""The file that what cannot be read goes to, so that it can be corrected and imported again."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Final

QUARANTINED: Final = {"line", "offset", "reason", "text"}
"""The fields of a line in it, by which `import` knows one that was corrected."""


@contextmanager
def private(place: Path) -> Generator[IO[bytes]]:
    """Write a file that only its owner may read; it appears whole and synced, or not at all."""
    part = place.with_name(f"{place.name}.part-{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(place)
    except OSError as error:
        if str(error.filename) != str(part):
            raise
        # The user knows nothing of the part.
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(error.errno, "no such directory", str(place.parent)) from None
        raise OSError(error.errno, error.strerror, str(place)) from None
    finally:
        with suppress(OSError):
            part.unlink()


class Quarantine(ExitStack):
    """A file of bad records, made when the first goes there."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._place = place
        self._file: IO[bytes] | None = None

    def put(self, line: int, offset: int, reason: str, raw: bytes) -> None:
        """Put a record aside: where it was, what is wrong with it, and every byte of it."""
        self._file = self._file or self.enter_context(private(self._place))
        text = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
        value = {"line": line, "offset": offset, "reason": reason, "text": text}
        self._file.write(json.dumps(value).encode() + b"\n")
