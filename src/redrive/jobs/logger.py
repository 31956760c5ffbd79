"""The library's logger, and the handler that writes dead letters to standard error if nobody else does."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from functools import partial
from itertools import takewhile

log = logging.getLogger("redrive")

MOST_LINES, MINUTE = 10, 60.0
"""So many lines about one group or lane are written a minute; the others are counted."""
LONGEST_LINE = 190  # characters of such a line after the first: 10,000 of them are less than 2 MB
_COUNTED = frozenset({"dead_letter", "failed", "unserved"})
_NEVER_SILENT = frozenset({"dead_letter", "unserved"})


class LineLimit:
    """Counts the lines of each event and group by the minute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: dict[tuple[str, str], float] = {}
        self._lines: dict[tuple[str, str], int] = {}

    def count(self, record: logging.LogRecord) -> int:
        """Return which line of its group in this minute a record is; 0 if it is of no such event."""
        event = getattr(record, "event", "")
        if event not in _COUNTED:
            return 0
        subject = getattr(record, "group", None) or getattr(record, "lane", None) or ""
        key = event, subject
        with self._lock:
            self._began.setdefault(key, time.monotonic())
            self._lines[key] = self._lines.get(key, 0) + 1
            return self._lines[key]

    def ended(self, *, at_once: bool = False) -> list[str]:
        """Return the counts of the minutes that are over, and forget them; with `at_once` of all."""
        now = time.monotonic()
        with self._lock:
            is_over = partial(self._is_over, now - (0.0 if at_once else MINUTE))
            over = list(takewhile(is_over, self._began))  # the oldest come first
            for key in over:
                del self._began[key]
            counts = {key: self._lines.pop(key) - MOST_LINES for key in over}
        return [
            f"{event} {subject}: {count:,} more, not shown"
            for (event, subject), count in counts.items()
            if count > 0
        ]

    def _is_over(self, latest: float, key: tuple[str, str]) -> bool:
        return self._began[key] <= latest


class LimitedStderr(logging.Handler):
    """Writes to what standard error is at that moment, at most MOST_LINES lines a minute and group."""

    def __init__(self) -> None:
        super().__init__()
        self._limit = LineLimit()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, and before it the counts of the last minute; an error is ignored."""
        self.write_counts()
        number = self._limit.count(record)
        if number <= MOST_LINES:
            line = self.format(record)
            is_long = number > 1 and len(line) > LONGEST_LINE
            self._write(line[: LONGEST_LINE - 1] + "…" if is_long else line)

    def write_counts(self, *, at_once: bool = False) -> None:
        """Write how many lines were left out in the minutes that are over; with `at_once` in all."""
        for line in self._limit.ended(at_once=at_once):
            record = {"msg": line, "levelno": logging.WARNING, "levelname": "WARNING"}
            self._write(self.format(logging.makeLogRecord(record)))

    def flush(self) -> None:
        """Write the counts; Python calls it when the program ends."""
        self.write_counts(at_once=True)

    def _write(self, line: str) -> None:
        with contextlib.suppress(Exception):  # closed, or none: logging never breaks the work
            sys.stderr.write(line + "\n")


class LastResort(LimitedStderr):
    """Writes dead letters and unserved lanes while the program has set up no logging.

    A program that wants silence adds a `logging.NullHandler` to the logger "redrive".
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("redrive: %(message)s"))

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record must not be lost and nobody else takes it."""
        others = [*log.handlers, *(logging.getLogger().handlers if log.propagate else ())]
        return getattr(record, "event", "") in _NEVER_SILENT and others == [self]


log.addHandler(LastResort())


def write_line_counts() -> None:
    """Write the counts of lines that were left out, where a minute is over."""
    for handler in log.handlers:
        if isinstance(handler, LimitedStderr):
            handler.write_counts()


_lines = [0]


def lines_logged() -> int:
    """Return how many lines were logged up to now, by all threads together."""
    return _lines[0]


def _handle(record: logging.LogRecord) -> None:
    _lines[0] += 1
    # A filter may raise, and so does a handler whose stream was closed; that must not stop a worker.
    with contextlib.suppress(Exception):
        logging.Logger.handle(log, record)


log.handle = _handle  # type: ignore[method-assign]
