"""A server's word on when to come back holds for a durable job, across a restart too."""

from __future__ import annotations

from pathlib import Path

from redrive import Redrive
from redrive.submission import Options
from redrive.testing import ManualClock
from tablekit import each_row
from workkit import url_of

HOUR = 3600.0


class Answer:
    """A response of a web server, as client libraries hang it on their errors."""

    status_code = 429

    def __init__(self, after: str) -> None:
        self.headers = {"retry-after": after}


class TooMany(Exception):
    """What a client library would raise."""

    def __init__(self, after: str) -> None:
        super().__init__("429 Too Many Requests")
        self.response = Answer(after)


def open_app(url: str, clock: ManualClock, calls: list[float]) -> Redrive:
    """Open the store as a program that was just started does."""
    app = Redrive(url, clock=clock)

    @app.handler("ask")
    def ask() -> None:
        calls.append(clock.now())
        if len(calls) == 1:
            raise TooMany(str(int(6 * HOUR)))

    return app


@each_row("kind", ["sqlite", "jsonl"])
def test_six_hours_are_kept_across_a_restart(kind: str, tmp_path: Path) -> None:
    clock, calls, url = ManualClock(), list[float](), url_of(kind, tmp_path)
    with open_app(url, clock, calls) as app:
        job = app.submitter.submit(app.submitter.registry.need("ask"), "{}", Options())
        app.run_due()
        begun = calls[0]
    clock.advance(6 * HOUR - 1)
    with open_app(url, clock, calls) as app:
        waiting = app.get(job.id)
        assert waiting.state == "pending"
        assert 6 * HOUR <= waiting.due - begun <= 6 * HOUR + 30
        assert "asked for 6h" in waiting.detail
        app.run_due()
        assert len(calls) == 1
        clock.advance(40)
        app.run_due()
        assert app.get(job.id).state == "completed"
    assert len(calls) == 2
