"""Ends processes that handlers started and that outlived their worker (Linux only).

The supervisor asks the kernel to become the parent of every descendant whose own parent died. Those
that a handler started carry the mark of their worker in their environment, also in a session of
their own. Elsewhere only the worker's process group is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import sys
from collections.abc import Collection
from pathlib import Path

MARK = "REDRIVE_WORKER_MARK"
"""The environment variable that names the worker which a process belongs to."""
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


def adopt() -> None:
    """Make this process the parent of orphaned descendants, where the system can."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def end(workers: Collection[int], marks: Collection[str]) -> int:
    """Kill and reap orphans of workers that ended; return how many still live.

    `workers` are our own children and `marks` theirs. An orphan without a mark cleared its
    environment: it is killed once no worker lives that could have started it.
    """
    left = 0
    for pid in _children():
        if pid not in workers and not _is_reaped(pid):
            mark = _mark_of(pid)
            if mark not in marks and (mark or not workers):
                left += 1
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
    return left


def _children() -> list[int]:
    me = os.getpid()
    try:
        return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]
    except OSError:
        return []


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _mark_of(pid: int) -> str:
    """Return the mark of the worker that a process belongs to; empty if it has none."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    found = re.search(rb"(?:^|\0)" + MARK.encode() + rb"=([^\0]*)", environment)
    return found[1].decode("ascii", "replace") if found else ""
