"""How values are shown: times, ids, tracebacks as frames, payloads in colour."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from markupsafe import Markup, escape

from redrive.jobs.clock import iso
from redrive.payloads.masking import MASK
from redrive.web.console.texts import Texts

_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)$')
_LIBRARY = re.compile(r"(?:^|/)(?:site-packages|dist-packages|lib/python[\d.]+|redrive)/|^<frozen")
_PACKAGE = re.compile(r".*(?:site-packages|dist-packages)/([\w.-]+)|.*(?:^|/)(redrive)/")
_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<text>"(?:[^"\\]|\\.)*"?)|(?P<number>[-\w.+]+)'
)
KINDS = {"dead": "dead", "pending": "wait", "running": "go", "completed": "ok", "resolved": "shut"}
"""The shape and colour of each state of a job."""
PHASES = {"live": "go", "freezing": "go", "paused": "wait", "stopped": "dead", "done": "ok"}
"""The same for the phases of a run; the others are shut."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Writes values for one language, as seen at one time, under one root."""

    texts: Texts
    now: float
    root: str

    def url(self, path: str) -> str:
        """Return the address of a page."""
        return self.root + path

    def moment(self, at: float | None) -> Markup:
        """Return a time: only the clock if it was today."""
        if at is None:
            return Markup("–")
        when, today = _moment(at), _moment(self.now)
        if when is None or today is None:
            return _time(at, str(iso(at)))
        clock = f"{when:%H:%M:%S}"
        if when.date() == today.date():
            return _time(at, clock)
        day = self.texts("date", day=when.day, month=self.texts(f"month.{when.month}"))
        return _time(at, f"{day}, {clock}")

    def ago(self, at: float | None) -> Markup:
        """Return how long ago something was."""
        if at is None:
            return Markup("–")
        key, seconds = ("in", at - self.now) if at > self.now + 1 else ("ago", self.now - at)
        return _time(at, self.texts(key, span=self.texts.span(max(0.0, seconds), units=1)))

    def since(self, at: float | None) -> str:
        """Return the seconds that have passed as a duration."""
        return "–" if at is None else self.texts.span(max(0.0, self.now - at))


def _moment(at: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):  # somebody else's file said so
        return None


def _time(at: float, text: str) -> Markup:
    moment = str(iso(at))
    shown = Markup('<time datetime="{}" title="{}">{}</time>')
    return shown.format(moment, moment.replace("T", " ").replace("Z", " UTC"), text)


class Frame(NamedTuple):
    """One line of a traceback."""

    file: str
    line: str
    name: str
    code: str

    @property
    def is_library(self) -> bool:
        """True if it is of an installed package, of Python, or of Redrive."""
        return bool(_LIBRARY.search(self.file))

    @property
    def package(self) -> str:
        """The package that it is of."""
        found = _PACKAGE.match(self.file)
        return (found[1] or found[2]).removesuffix(".py") if found else "python"


class Frames(NamedTuple):
    """Frames that follow each other: those of the program one by one, those of libraries folded."""

    is_library: bool
    frames: list[Frame]

    @property
    def packages(self) -> str:
        """The packages that they are of, each once."""
        return ", ".join(dict.fromkeys(frame.package for frame in self.frames))


class Trace(NamedTuple):
    """One error of a traceback: its frames, and the line that names it."""

    blocks: list[Frames]
    end: str


def traces(text: str) -> list[Trace]:
    """Return the errors of a traceback, the one that was raised last first; none if it has no frames."""
    found: list[Trace] = []
    frames: list[Frame] = []
    end: list[str] = []
    for line in [*text.splitlines(), "Traceback "]:
        if match := _FRAME.match(line):
            frames.append(Frame(match["file"], match["line"], match["name"], ""))
        elif line.startswith("Traceback "):
            if frames:
                found.append(Trace(list(_blocks(frames)), "\n".join(end).strip()))
            frames, end = [], []
        elif line.startswith("    ") and frames and not end:
            code = f"{frames[-1].code}\n{line.strip()}".strip()
            if line.strip(" ^~"):
                frames[-1] = frames[-1]._replace(code=code)
        elif frames and line.strip() and not line.startswith(("The above exc", "During handling")):
            end.append(line)
    return found[::-1]


def _blocks(frames: list[Frame]) -> Iterator[Frames]:
    for is_library, some in groupby(frames, key=lambda frame: frame.is_library):
        yield Frames(is_library, list(some))


def coloured(payload: str) -> Markup:
    """Return the text of a payload with its names, values and marks in colours."""
    out, at = Markup(), 0
    for match in _TOKEN.finditer(payload):
        out += payload[at : match.start()]
        kind = {"key": "k", "text": "s", "number": "d"}[match.lastgroup or "number"]
        kind = "m" if MASK in match[0] and kind != "k" else kind
        out += Markup('<span class="{}">{}</span>').format(kind, match[0])
        at = match.end()
    return out + escape(payload[at:])
