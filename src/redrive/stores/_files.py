"""What the file stores share: where a store may live, how its files are made, and the lock.

The lock is a separate file that is never deleted: locking the data file itself would lose the lock
when any other descriptor of it is closed, and would not survive a compaction's rename.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from pathlib import Path

from redrive.errors import (
    StoreBusy,
    StoreError,
    StoreFull,
    StoreLost,
    StoreMissing,
    StoreReadOnly,
    UsageError,
)
from redrive.jobs import logger

log = logger.log.getChild("store")

PATIENCE = 30.0  # seconds to wait for another process's lock before giving up

_NETWORK = ("9p", "cifs", "fuse.sshfs", "nfs", "smb")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def size_of(*places: Path) -> int:
    """Return how many bytes these files take; one that is not there takes none."""
    total = 0
    for place in places:
        with contextlib.suppress(FileNotFoundError):
            total += place.stat().st_size
    return total


def prepare(path: Path, *, create: bool) -> Path:
    """Check that a store may live at `path` and give its absolute place; makes the directory.

    With `create=False` nothing is made and a missing file is StoreMissing.
    """
    try:
        place = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100 - must not follow links
    except RuntimeError as error:
        raise StoreError(f"{path} cannot be a store ({error}); write the path without ~") from error
    if "\0" in str(place):
        msg = f"{str(place)!r} cannot be the name of a file: it has a NUL in it; name another"
        raise UsageError(msg)
    try:
        found = place.lstat()
    except FileNotFoundError:
        if not create:
            msg = f"no store at {place}; `redrive init` creates one, or name another with --store"
            raise StoreMissing(msg) from None
        _make_directory(place)
    except OSError as error:
        raise failed(error, place) from error
    else:
        _check_regular(place, found)
    _warn_of_filesystem(place)
    return place


def _check_regular(place: Path, found: os.stat_result) -> None:
    if stat.S_ISREG(found.st_mode):
        if found.st_mode & 0o077:
            log.warning(
                "%s can be read by others (mode %o); chmod 600 it", place, found.st_mode & 0o777
            )
        return
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "a device or socket")
    msg = f"{place} is {kind}; a store needs a regular file: name a file in a directory you own"
    raise StoreError(msg)


def _make_directory(place: Path) -> None:
    """Make the directory and what is missing above it, all private and all synced."""
    missing: list[Path] = []
    for directory in place.parents:
        if directory.exists():
            break
        missing.append(directory)
    try:
        for directory in reversed(missing):
            directory.mkdir(mode=0o700, exist_ok=True)
            sync_directory(directory.parent)
    except OSError as error:
        raise failed(error, place.parent) from error


def _warn_of_filesystem(place: Path) -> None:
    kind = filesystem_of(place.parent)
    if kind.startswith(_NETWORK):
        log.warning(
            "%s is on a network file system (%s), where locks and syncs cannot be trusted; "
            "use a local disk or PostgreSQL",
            place,
            kind,
        )
    if kind == "overlay":
        log.warning("%s is on a container's own layer: ephemeral, gone with the container", place)


def filesystem_of(directory: Path) -> str:
    """Name the type of file system that holds a directory; empty where the system does not tell."""
    best, kind = "", ""
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    where = str(directory)
    for line in lines:
        left, _, right = line.partition(" - ")
        mount = left.split()[4].replace("\\040", " ")
        inside = mount in {"/", where} or where.startswith(mount + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, right.split()[0]
    return kind


def open_private(place: Path, flags: int) -> int:
    """Open a file that only its owner may read, refusing links; a new file's directory is synced."""
    existed = place.exists()
    try:
        descriptor = os.open(place, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise failed(error, place) from error
    if not existed and flags & os.O_CREAT:
        try:
            sync_directory(place.parent)
        except OSError as error:
            os.close(descriptor)
            raise failed(error, place) from error
    return descriptor


def sync_directory(directory: Path) -> None:
    """Make a new or renamed name in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte; a short write is followed by the rest, or by the error that cut it short."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def sync_data(descriptor: int) -> None:
    """Make the bytes of a file, and its length, survive a power cut."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        fcntl.fcntl(descriptor, getattr(fcntl, "F_FULLFSYNC", 51))  # macOS: fsync is not enough


def failed(error: OSError, place: Path) -> StoreError:
    """Turn a system error into one of ours that says what to do."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return StoreFull(f"no room to write {place} ({reason}); free some space, then repeat")
    if error.errno in _FORBIDDEN:
        return forbidden(place, reason)
    if error.errno == errno.ELOOP:
        return StoreError(f"{place} is a symbolic link; name the file itself")
    if error.errno in {errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}:
        return StoreError(
            f"{place} cannot be a store ({reason}); name a file in a directory you own"
        )
    return StoreLost(
        f"reading or writing {place} failed ({reason}); check the disk, then open it again"
    )


def forbidden(place: Path, reason: object) -> StoreReadOnly:
    """Return the error for a store that may not be written, with what would help."""
    directory = place.parent
    if _is_mounted_read_only(directory, reason):
        return StoreReadOnly(
            f"{directory} is on a read-only file system ({reason}); put the store elsewhere. A "
            "systemd unit with ProtectSystem=strict may write to its StateDirectory"
        )
    if directory.is_dir() and not os.access(directory, os.W_OK | os.X_OK):
        return StoreReadOnly(
            f"the directory {directory} is read-only for this user ({reason}); put the store into a "
            "directory of yours, with mode 700 and its files with mode 600"
        )
    return StoreReadOnly(
        f"not allowed to use {place} ({reason}); its directory must be yours with mode 700, "
        "the file with mode 600"
    )


def _is_mounted_read_only(directory: Path, reason: object) -> bool:
    if str(reason) == os.strerror(errno.EROFS):
        return True
    try:
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def identity_of(descriptor: int) -> tuple[int, int]:
    """Return the device and inode of a descriptor's file."""
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def is_still(descriptor: int, identity: tuple[int, int]) -> bool:
    """Return True if a descriptor is of that file.

    A program that closes all descriptors, as daemons do, may have given its number to a file of its
    own, which is not ours to write to, to lock or to close.
    """
    try:
        found = os.fstat(descriptor)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == identity


class FileLock:
    """An exclusive lock among processes. Not for threads: their turn is settled before."""

    def __init__(self, place: Path, patience: float = PATIENCE) -> None:
        self.place = place
        self._patience = patience
        self._descriptor = -1
        self._identity = (0, 0)
        self._pid = 0

    def held(self) -> FileLock:
        """Hold the lock for the length of a `with`; StoreBusy if another process holds it too long."""
        return self

    def __enter__(self) -> None:
        pid = os.getpid()
        if self._pid != pid or not is_still(self._descriptor, self._identity):
            # A forked child shares the parent's lock: unlocking here would unlock there.
            self._descriptor = open_private(self.place, os.O_RDWR | os.O_CREAT)
            self._identity = identity_of(self._descriptor)
            self._pid = pid
        if not self._try():
            self._wait()

    def __exit__(self, *_: object) -> None:
        if is_still(self._descriptor, self._identity):
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the file. It stays on disk: deleting it could split the lock in two."""
        if self._pid == os.getpid() and is_still(self._descriptor, self._identity):
            os.close(self._descriptor)
        self._descriptor = -1

    def forget(self) -> None:
        """Let go in a forked child.

        Not unlocked, which would unlock the parent; but closed, or the lock of a parent that is
        killed would live on here.
        """
        if self._pid != os.getpid() and is_still(self._descriptor, self._identity):
            os.close(self._descriptor)
        self._descriptor = -1
        self._pid = 0

    def _try(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise failed(error, self.place) from error
        return True

    def _wait(self) -> None:
        end = time.monotonic() + self._patience
        pause = 0.0002
        while not self._try():
            if time.monotonic() > end:
                raise StoreBusy(
                    f"another process has held {self.place} for over {self._patience:g} s; it may be "
                    "stopped or hang: find it with `lslocks` or `lsof`, let it finish or end it, then repeat. "
                    "Redrive never breaks a lock"
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.01)
