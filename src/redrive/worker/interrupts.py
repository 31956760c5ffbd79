"""Whether somebody pressed Ctrl-C, or a handler raised KeyboardInterrupt by itself.

The first means the program: the job is given back unspent. The second means the job: it failed, and
giving it back would only let it stop the next pass too.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self


class Interrupts:
    """Notes inside `with` whether the interrupt signal came; it still raises as before."""

    def __init__(self) -> None:
        self.seen = False
        self._watching = False

    def __enter__(self) -> Self:
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if usual and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._note)
            self._watching = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._watching:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._watching = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        signal.default_int_handler(number, frame)
