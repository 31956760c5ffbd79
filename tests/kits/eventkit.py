"""What the tests of the event stream are made of: a stream without waits, actions that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from redrive.contrib.event_stream import ResilientEventStream
from redrive.strategies import LinearBackoffStrategy
from redrive.testing import ManualClock

LINEAR = LinearBackoffStrategy(1, 1, jitter_factor=0)


class Setting:
    """A stream on real files whose waits take no time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.waits: list[float] = []
        self.open: list[ResilientEventStream] = []

    def stream(self, **options: Any) -> ResilientEventStream:
        defaults = {
            "stream_path": self.folder / "events.jsonl",
            "dead_letter_path": self.folder / "dead.jsonl",
            "retry_strategy": LINEAR,
            "clock": self.clock,
            "sleep": self.sleep,
            "rand": lambda: 0.5,
        }
        self.open.append(ResilientEventStream(**{**defaults, **options}))
        return self.open[-1]

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(seconds)

    def lines(self) -> list[dict[str, Any]]:
        text = (self.folder / "events.jsonl").read_text("utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def statuses(self) -> list[str]:
        return [line["status"] for line in self.lines()]


class Failing:
    """An action that raises these errors, one a call, and then works."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
