"""Runs a command on a terminal of its own, and reads what reached it byte by byte."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass

import pyte

HIDE_RICH = "import sys; sys.modules['rich'] = None; from redrive.cli import main; main()"


@dataclass(frozen=True)
class Shown:
    """What a terminal was sent, and what the command ended with."""

    raw: bytes
    code: int
    width: int

    @property
    def text(self) -> str:
        """What a person would see, line by line."""
        screen = pyte.Screen(self.width, 400)
        pyte.ByteStream(screen).feed(self.raw)
        return "\n".join(line.rstrip() for line in screen.display).rstrip()


def on_terminal(
    *words: str,
    width: int = 130,
    typed: bytes = b"",
    when: bytes = b": ",
    rich: bool = True,
    env: dict[str, str] | None = None,
) -> Shown:
    """Run `redrive` with a terminal; `typed` is typed once its output ends with `when`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 400, width, 0, 0))
    start = ["-m", "redrive"] if rich else ["-c", HIDE_RICH]
    inherited = {
        k: v for k, v in os.environ.items() if k not in {"CI", "NO_COLOR", "COLUMNS", "LINES"}
    }
    process = subprocess.Popen(
        [sys.executable, *start, *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=lambda: _own_terminal(slave),  # noqa: PLW1509 - nothing else runs in here
        env={**inherited, "TERM": "xterm-256color", **(env or {})},
    )
    os.close(slave)
    raw, asked = b"", False
    while True:
        # A Ctrl-C between the question and the read is lost, for people too: they press it again.
        if typed and asked and not select.select([master], [], [], 0.5)[0]:
            os.write(master, typed)
            continue
        part = _read(master)
        if not part:
            break
        raw += part
        if typed and not asked and raw.endswith(when):
            asked = True
            os.write(master, typed)
    os.close(master)
    return Shown(raw, process.wait(timeout=60), width)


def _own_terminal(slave: int) -> None:
    """Make the terminal this process's own, so that Ctrl-C reaches it."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)


def _read(master: int) -> bytes:
    try:
        return os.read(master, 65536)
    except OSError as error:
        if error.errno == errno.EIO:  # the other side is closed: Linux says it so
            return b""
        raise
