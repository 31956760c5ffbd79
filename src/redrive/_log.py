"""The library's logger; it stays silent until the program sets up logging."""

import contextlib
import logging

log = logging.getLogger("redrive")
log.addHandler(logging.NullHandler())


def _handle(record: logging.LogRecord) -> None:
    # A filter may raise, and so does a handler whose stream was closed; that must not stop a worker.
    with contextlib.suppress(Exception):
        logging.Logger.handle(log, record)


log.handle = _handle  # type: ignore[method-assign]
