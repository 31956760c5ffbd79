"""Processes that a rig starts and ends, and the pipes on which they tell what they were told.

A child is forked from the rig, in which everything is loaded and no store is open: it is at work
within milliseconds, and shares nothing with its siblings but the store under test. What it has
written to its pipe is the rig's, whatever becomes of the child.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG

Hear = Callable[[list[str]], None]


class Line:
    """A child's end: it tells lines, and waits for a word."""

    def __init__(self, out: int, word: int) -> None:
        self._out, self._word = out, word

    def tell(self, *words: object) -> None:
        """Tell one line at once, or not at all: so short a write to a pipe is never torn."""
        os.write(self._out, (" ".join(map(str, words)) + "\n").encode())

    def complain(self, error: BaseException) -> None:
        """Tell of an error that must not be: what it is, and where it came from."""
        calls = [f"{one.name}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)]
        words = f"{type(error).__name__} {' '.join(str(error).split())[:500]}"
        self.tell("error", words, "in", *calls[-8:])

    def wait(self) -> None:
        """Wait until the rig says go."""
        os.read(self._word, 1)


class Child:
    """The rig's end."""

    def __init__(self, work: Callable[[Line], object]) -> None:
        self.out, told = os.pipe()
        waits, self._word = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            _live(work, Line(told, waits))
        os.close(told)
        os.close(waits)
        self._rest = b""
        self.ended = False
        self.code: int | None = None

    def go(self) -> None:
        """Give the word it waits for."""
        if not self.ended:
            os.write(self._word, b".")

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        if not self.ended:  # else the number may be another's by now
            os.kill(self.pid, signal.SIGKILL)

    def lines(self) -> Iterator[list[str]]:
        """Give the words of each whole line that is there to be read."""
        data = os.read(self.out, 1 << 16)
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            yield line.decode().split(" ")
        if not data:
            self._bury()

    def _bury(self) -> None:
        self.ended = True
        os.close(self.out)
        os.close(self._word)
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Crew:
    """Children at work, and who hears what they tell."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self.children: list[Child] = []
        self._ready: set[int] = set()

    def start(self, work: Callable[[Line], object]) -> Child:
        """Start one more."""
        child = Child(work)
        self.children.append(child)
        return child

    def listen(self, seconds: float = 0.0) -> None:
        """Hear what all have to tell, for so long."""
        end = time.monotonic() + seconds
        while self.children:
            left = max(0.0, end - time.monotonic())
            found, _, _ = select.select([child.out for child in self.children], [], [], left)
            if not found:
                return
            for child in [child for child in self.children if child.out in found]:
                self._read(child)

    def _read(self, child: Child) -> None:
        for words in child.lines():
            if words == ["ready"]:
                self._ready.add(child.pid)
            else:
                self._hear(words)
        if child.ended:
            self.children.remove(child)
            if child.code not in {0, -signal.SIGKILL}:
                self._hear(["error", f"a child ended with code {child.code}"])

    def until_ready(self, child: Child, seconds: float = 60.0) -> None:
        """Wait until a child has said so, or has ended."""
        self._until(lambda: child.pid in self._ready or child.ended, seconds)

    def kill(self, child: Child) -> None:
        """End a child now, and hear what it had told until then."""
        child.kill()
        self.join(child)

    def join(self, *children: Child, seconds: float = 300.0) -> None:
        """Wait until these (all, if none is named) have ended."""
        awaited = children or tuple(self.children)
        self._until(lambda: all(child.ended for child in awaited), seconds)

    def close(self) -> None:
        """End whoever is left."""
        for child in list(self.children):
            self.kill(child)

    def _until(self, is_so: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > end:
                self._hear(["error", f"a child hung for {seconds:.0f} s"])
                self.close()
                return
            self.listen(0.05)


def _live(work: Callable[[Line], object], line: Line) -> NoReturn:
    """Be the child: nothing of the rig's own ending (its server, its directories) is ours to do."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        logging.disable()
        work(line)
        code = 0
    except BaseException as error:  # noqa: BLE001 - told to the rig
        with contextlib.suppress(OSError):
            line.complain(error)
    finally:
        os._exit(code)
