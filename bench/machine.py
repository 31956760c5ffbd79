"""What the figures were taken on: without it they mean nothing."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from pathlib import Path

from measure import seconds


def facts(directory: Path) -> dict[str, str]:
    """Name the machine, the versions, the disk and the day."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cores": str(os.cpu_count()),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "SQLite": sqlite3.sqlite_version,
        "system": f"{platform.system()} {platform.machine()}",
        "file system": file_system(directory),
        "fdatasync of 1 KiB": f"{fdatasync_cost(directory) * 1e6:,.0f} µs (median of 500)",
    }


def file_system(directory: Path) -> str:
    """Give the kind of file system a directory is on, where the system tells."""
    try:
        lines = Path("/proc/mounts").read_text("utf-8").splitlines()
    except OSError:
        return "unknown"
    mounts = [line.split()[1:3] for line in lines]
    place = str(directory.resolve())
    above = [(len(at), kind) for at, kind in mounts if f"{place}/".startswith(at.rstrip("/") + "/")]
    return max(above, default=(0, "unknown"))[1]


def fdatasync_cost(directory: Path, number: int = 500) -> float:
    """Give the seconds that it takes to append a kibibyte and sync it."""
    descriptor = os.open(directory / "synced", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        costs = [seconds(lambda: _append(descriptor)) for _ in range(number)]
    finally:
        os.close(descriptor)
    return statistics.median(costs)


def _append(descriptor: int) -> None:
    os.write(descriptor, b"x" * 1024)
    os.fdatasync(descriptor)
