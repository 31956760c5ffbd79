"""An event loop for async peers: the quick one, where it is installed."""

from __future__ import annotations

import asyncio


def runner() -> asyncio.Runner:
    """Give what runs coroutines, one after the other, on one loop."""
    try:
        import uvloop  # noqa: PLC0415 - a peer brings it along
    except ModuleNotFoundError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
