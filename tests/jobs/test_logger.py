"""A log that cannot be written stops nobody."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from redrive.jobs.logger import log


def test_a_filter_that_raises_stops_nobody() -> None:
    def refuse(_: logging.LogRecord) -> bool:
        raise ValueError

    log.addFilter(refuse)
    try:
        log.warning("not shown")
    finally:
        log.removeFilter(refuse)


def test_a_closed_stream_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging itself then fails to complain on the closed standard error."""
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    handler = logging.StreamHandler(closed)
    log.addHandler(handler)
    try:
        log.warning("not shown")
    finally:
        log.removeHandler(handler)
