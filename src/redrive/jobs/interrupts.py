"""Telling Ctrl-C from a KeyboardInterrupt that user code raised."""

from __future__ import annotations

import threading


def may_be_ctrl_c(error: BaseException) -> bool:
    """Return True if an error may be Ctrl-C: Python raises that in the main thread only.

    In every other thread user code raised it, and it is an error like any other. The type itself is
    looked at: isinstance() asks the error, which may raise or lie.
    """
    is_interrupt = issubclass(type(error), KeyboardInterrupt)
    return is_interrupt and threading.current_thread() is threading.main_thread()
