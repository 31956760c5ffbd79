"""The file that what cannot be read goes to, so that it can be corrected and imported again."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, Self

from redrive.errors import UsageError
from redrive.stores import place_of

QUARANTINED: Final = {"line", "offset", "reason", "text"}
"""The fields of a line in it, by which `import` knows one that was corrected."""


@contextmanager
def private(place: Path, *, append: Callable[[Path], Path] | None = None) -> Generator[IO[bytes]]:
    """Write a file that only its owner may read; it appears whole and synced, or not at all.

    With `append`, what a killed process wrote stays, and what was written appears in any case,
    under the name that this function returns for it.
    """
    part = _part_of(place)
    try:
        with os.fdopen(_locked(part), "r+b") as file:
            is_whole = False
            try:
                file.truncate(file.seek(0, os.SEEK_END) if append else 0)
                yield file
                is_whole = True
            finally:
                file.flush()
                os.fsync(file.fileno())
                if file.seek(0, os.SEEK_END) if append else is_whole:
                    part.replace(append(part) if append else place)
                else:
                    part.unlink()
    except OSError as error:
        if str(error.filename) != str(part):
            raise
        # The user knows nothing of the part.
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(error.errno, "no such directory", str(place.parent)) from None
        if not append:
            with suppress(OSError):
                part.unlink()
        raise OSError(error.errno, error.strerror, str(place)) from None


def _part_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.part")


def check_place(place: Path, source: str | None, store: str) -> None:
    """Refuse a place for bad records that is the source or the store, or cannot be written."""
    if trouble := _trouble_at(place, {"the source": source, "the store": place_of(store)}):
        raise UsageError(
            f"the quarantine file {place} {trouble}; name another with --quarantine FILE"
        )


def _trouble_at(place: Path, taken: dict[str, str | Path | None]) -> str:
    if os.path.lexists(place) and not _is_regular(place):
        return "is not a regular file"
    paths = {os.path.realpath(place), os.path.realpath(_part_of(place))}
    for what, path in taken.items():
        if path is not None and os.path.realpath(path) in paths:
            return f"would overwrite {what}"
    try:
        TemporaryFile(dir=place.parent).close()
    except OSError as error:
        return f"cannot be written: {error.strerror}"
    return ""


def _is_regular(place: Path) -> bool:
    return place.is_file() and not place.is_symlink()


def _begins_with(file: Path, start: Path) -> bool:
    """Return True if a file holds all that another holds, and perhaps more after it."""
    with suppress(PermissionError), file.open("rb") as whole, start.open("rb") as first:
        chunks = iter(partial(first.read, 1 << 18), b"")
        return all(chunk == whole.read(len(chunk)) for chunk in chunks)
    return False


def _locked(part: Path) -> int:
    """Open the part of a file and lock it; that of a process that was killed is taken over."""
    import fcntl  # noqa: PLC0415 - not on every system

    while True:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise UsageError(f"{part} can be read by others; remove it, and try again")
            if part.exists() and os.path.samestat(status, part.stat()):
                return os.dup(descriptor)
        except BlockingIOError:
            raise UsageError(
                f"another process is writing {part}; wait for it, or name another file"
            ) from None
        finally:
            os.close(descriptor)


class Quarantine(ExitStack):
    """A file of bad records, made when the first goes there."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place
        """Where the bad records are; at the end perhaps another name, since none is replaced."""
        self.file: IO[bytes] | None = None
        """None as long as there is no bad record."""
        self._before: set[bytes] = set()

    def __enter__(self) -> Self:
        """Take over what an import wrote that was killed."""
        if _part_of(self.place).exists():
            self._opened()
        return self

    def put(self, line: int, offset: int, reason: str, raw: bytes) -> None:
        """Put a record aside: where it was, what is wrong with it, and every byte of it."""
        text = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
        value = {"line": line, "offset": offset, "reason": reason, "text": text}
        written = _UNSAFE.sub(_escaped, json.dumps(value, ensure_ascii=False)).encode() + b"\n"
        file = self._opened()
        if not self._before or hashlib.sha256(written).digest() not in self._before:
            file.write(written)

    def _opened(self) -> IO[bytes]:
        """Return the file; a last line that was not written whole is cut off."""
        if self.file is None:
            self.file = self.enter_context(private(self.place, append=self._free_name))
            end = self.file.seek(0)
            for line in self.file:
                if line.endswith(b"\n"):
                    self._before.add(hashlib.sha256(line).digest())
                    end += len(line)
            self.file.truncate(self.file.seek(end))
        return self.file

    def _free_name(self, part: Path) -> Path:
        """Return the first name that is free, or whose file the part repeats whole."""
        names = (f"{self.place.name}{f'-{number}' if number else ''}" for number in count())
        self.place = next(
            place
            for place in map(self.place.with_name, names)
            if not os.path.lexists(place) or (_is_regular(place) and _begins_with(part, place))
        )
        return self.place


_UNSAFE = re.compile(r"[^\x20-\x7e]")


def _escaped(match: re.Match[str]) -> str:
    """Leave letters of all languages as they are, and escape what could drive a terminal."""
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]
