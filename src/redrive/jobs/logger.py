"""The library's logger; it stays silent until the program sets up logging."""

import contextlib
import logging

log = logging.getLogger("redrive")
log.addHandler(logging.NullHandler())


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
