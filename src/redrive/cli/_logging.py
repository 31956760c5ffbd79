"""The library's log on standard error: escaped text, or JSON where it is asked for."""

from __future__ import annotations

import logging
import sys
import time

from redrive.jobs.logger import LastResort, LimitedStderr
from redrive.payloads.escaping import inert


class _Inert(logging.Formatter):
    """Escapes and masks a record, and indents its further lines, so that none looks like a new one."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        from redrive.payloads.masking import mask_text  # noqa: PLC0415 - most commands log nothing

        text = inert(mask_text(super().format(record)), keep_newlines=True)
        return text.rstrip("\n").replace("\n", "\n    ")


class _Stderr(LimitedStderr):
    """The handler of text."""


class _Json(logging.Handler):
    """The handler of --log-format json: it stays, even if the program sets up logging."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(self.format(record) + "\n")
        except Exception:  # noqa: BLE001 - logging never breaks the work
            self.handleError(record)


def warn_on_stderr(level: int = logging.WARNING, *, times: bool = False) -> None:
    """Send the library's log to standard error, unless the program already decided otherwise.

    A worker's log has times; the messages of a command have none.
    """
    log = logging.getLogger("redrive")
    decided = [*log.handlers, *logging.getLogger().handlers]
    if all(isinstance(handler, logging.NullHandler | LastResort) for handler in decided):
        handler = _Stderr()
        time_of = "%(asctime)s " if times else ""
        text = f"{time_of}%(levelname)s: %(message)s"
        handler.setFormatter(_Inert(text, "%Y-%m-%dT%H:%M:%SZ"))
        log.addHandler(handler)
    if level < logging.WARNING:
        log.setLevel(level)


def log_as_json(level: int) -> None:
    """Send the library's log to standard error as lines of JSON, whatever the program has set up."""
    from redrive.logs import JsonFormatter  # noqa: PLC0415 - only if it is asked for

    log = logging.getLogger("redrive")
    handler = _Json()
    handler.setFormatter(JsonFormatter())
    log.addHandler(handler)
    log.setLevel(level)
    log.propagate = False  # no line comes twice


def leave_log_to_program() -> None:
    """Remove our own handler if the program has set up logging since: no line comes twice."""
    log = logging.getLogger("redrive")
    ours = [known for known in log.handlers if type(known) is _Stderr]
    others = [known for known in log.handlers if known not in ours] + logging.getLogger().handlers
    if any(not isinstance(handler, logging.NullHandler | LastResort) for handler in others):
        for handler in ours:
            log.removeHandler(handler)
