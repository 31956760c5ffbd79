"""A child process that runs handlers, and the messages between it and its worker.

The child has a session of its own, so that it can be ended with everything it started. Its `lifeline` is a
pipe that only the worker holds open: when the worker dies, however suddenly, the kernel kills that
session's group, even one that is stuck in C code. A message is one JSON object a line, over a socket.

To the child:  {"path": [...]}                     where to look for modules; the first message
               {"job": ..., "payload": ..., "module": ..., "hurried": ...}   run this; the handler
                                                   is found in that module
               {"lost": ID}                        that job's lease is gone
               {"end": true}                       stop what runs
               {"bye": true}                       no more work
From it:       {"ready": true} or {"broken": WHY}  once, after the program was imported
               {"unknown": true}                   the program has no such handler
               {"began": WHEN}                     from here on a death is the job's
               {"beat": true}                      the event loop of an async handler moves, or
                                                   other threads beside a plain one
               {"outcome": ..., "provider": ..., "took": SECONDS, "spoiled": WHAT}   its end:
                                                   done, skipped, failed or returned unspent;
                                                   `spoiled` names what the handler left changed
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any, cast

from redrive.errors import ChildFailed
from redrive.jobs.job import Job
from redrive.jobs.outcomes import Done, Failed, Interrupted, Outcome, Returned, Skipped
from redrive.stores._codec import failure_from_dict, head_to_dict, job_from_dict, record_to_dict

Message = dict[str, Any]

KEPT = 64 * 1024  # bytes of output of one attempt that are passed on
_CHUNK = 64 * 1024
_TICK = 1.0
_BLIND_TICK = 0.05  # seconds between two checks of a process whose end the kernel cannot announce


class Process:
    """A child and the descriptors to it; `wake` is one more that ends a `listen`."""

    def __init__(self, program: str, wake: int) -> None:
        if is_child():
            raise ChildFailed(
                "a child process tried to start children: the program starts its work when "
                "it is imported; put that code under `if __name__ == '__main__':`"
            )
        self._open = contextlib.ExitStack()
        with self._open, contextlib.ExitStack() as theirs:
            self._popen = self._start(program, theirs)
            self._wake = wake
            self._ended = _pidfd(self._popen.pid)
            if self._ended is not None:
                self._open.callback(os.close, self._ended)
            self._open = self._open.pop_all()
        self._heard = self._unsent = b""
        self.exited = False
        self.deaf = False
        """True if it can no longer answer: it is ending, or a handler closed its connection."""
        self.output = Output(self._popen.stdout.fileno() if self._popen.stdout else -1)
        self._poll = select.poll()
        for descriptor in (self._line.fileno(), self.output.fd, wake, self._ended):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)

    def _start(self, program: str, theirs: contextlib.ExitStack) -> subprocess.Popen[bytes]:
        self._line, line = socket.socketpair()
        self._open.callback(self._line.close)
        theirs.callback(line.close)
        lifeline, held = os.pipe()
        self._open.callback(os.close, held)
        theirs.callback(os.close, lifeline)
        self._line.setblocking(False)
        numbers = (line.fileno(), lifeline)
        # -P: a file in the current directory must not be taken for a module of ours.
        command = [sys.executable, "-P", "-m", "redrive.cli.child", program, *map(str, numbers)]
        try:
            popen = subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
                command,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=numbers,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            msg = f"no process could be started with {sys.executable!r}: {error}"
            raise ChildFailed(msg) from error
        if popen.stdout is not None:
            self._open.callback(popen.stdout.close)
            os.set_blocking(popen.stdout.fileno(), False)
        return popen

    @property
    def gone(self) -> bool:
        """True if no more messages will come."""
        return self.exited or self.deaf

    def tell(self, message: Message) -> None:
        """Send a message, now or as soon as the child takes it."""
        self._unsent += encode(message)
        self._send()

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._unsent and not self.deaf:
                self._unsent = self._unsent[self._line.send(self._unsent) :]
        if not self.deaf:
            wanted = select.POLLIN | (select.POLLOUT if self._unsent else 0)
            self._poll.modify(self._line.fileno(), wanted)

    def listen(self, seconds: float) -> list[Message]:
        """Wait until something happens, at most so long; return the messages that came."""
        tick = _BLIND_TICK if self._ended is None else _TICK
        ready = dict(self._poll.poll(max(0.0, min(seconds, tick)) * 1000))
        if self._wake in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, _CHUNK)
        if self.output.fd in ready and not self.output.drain():
            self._poll.unregister(self.output.fd)
        messages: list[Message] = []
        if self._line.fileno() in ready:
            self._send()
            messages = self._receive()
        # Checked last: by then its last messages have been read.
        self.exited |= self._ended in ready or (
            self._ended is None and self._popen.poll() is not None
        )
        return messages

    def _receive(self) -> list[Message]:
        with contextlib.suppress(BlockingIOError):
            while not self.deaf:
                try:
                    data = self._line.recv(_CHUNK)
                except ConnectionResetError:
                    data = b""
                self._heard += data
                if not data:
                    self.deaf = True
                    self._poll.unregister(self._line.fileno())
        *lines, self._heard = self._heard.split(b"\n")
        return [decode(line) for line in lines]

    def signal(self, number: int) -> None:
        """Send a signal to the process and all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, number)

    def end(self, patience: float = 0.0) -> str:
        """Wait for its end, kill what is left of its group, and return how it ended."""
        until = time.monotonic() + patience
        while not self.exited and (left := until - time.monotonic()) > 0:
            self.listen(left)
        forced = not self.exited
        # Before it is reaped: until then nobody else can have the group's number.
        self.signal(signal.SIGKILL)
        code = self._popen.wait()
        self.output.finish()
        self._open.close()
        return "closed its connection to the worker" if forced else _ending(code)

    def forget(self) -> None:
        """Close our copies of its descriptors in a fork of the worker: it is the parent's."""
        self._popen.returncode = 0
        self._open.close()


class Output:
    """Passes on what handlers print, to standard error; of one attempt only `KEPT` bytes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.begin("")

    def begin(self, job_id: str) -> None:
        """Start counting the output of a job."""
        self._job_id = job_id
        self._left = KEPT
        self._dropped = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def drain(self) -> bool:
        """Read what is there, within bounds; return False at the end."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(64):
                data = os.read(self.fd, _CHUNK)
                if not data:
                    return False
                kept = data[: self._left]
                self._left -= len(kept)
                self._dropped += len(data) - len(kept)
                _show(self._decoder.decode(kept))
        return True

    def finish(self) -> None:
        """Pass on what was printed before the answer came, and print how much was dropped."""
        self.drain()
        if self._dropped:
            _show(
                f"\nredrive: {self._dropped:,} more bytes of output of job {self._job_id} were dropped\n"
            )
        self._dropped = 0


def _show(text: str) -> None:
    stream = sys.stderr
    if text and stream is not None:  # a program without a terminal may have none
        with contextlib.suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()


def is_child() -> bool:
    """Return True if this process is a child."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return getattr(spec, "name", None) == "redrive.cli.child"


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that becomes readable at a process's end, where the system has such."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def encode(message: Message) -> bytes:
    """Return a message as one line of ASCII: an error's text may hold halves of characters."""
    return json.dumps(message).encode("ascii") + b"\n"


def decode(line: bytes) -> Message:
    """Return the message of a line; empty if it is none (a handler may write anywhere)."""
    try:
        value: object = json.loads(line)
    except ValueError:
        return {}
    return cast("Message", value) if isinstance(value, dict) else {}


def run_message(job: Job, module: str, *, hurried: bool) -> Message:
    """Return the message that has a job run."""
    record = {"job": head_to_dict(job), "payload": job.payload}
    return {**record, "module": module, "hurried": hurried}


def job_in(message: Message) -> Job:
    """Return the job of a `run_message`."""
    return job_from_dict(message["job"], message["payload"])


def outcome_message(outcome: Outcome) -> Message:
    """Return the message of an outcome; a child knows no other outcomes than these four."""
    match outcome:
        case Failed(failure, _, provider):
            record = record_to_dict(failure)
            return {"outcome": "failed", "provider": provider, "failure": record}
        case Returned(why, wait, missing):
            return {"outcome": "returned", "why": why, "wait": wait, "missing": missing}
        case Skipped(reason, provider):
            return {"outcome": "skipped", "provider": provider, "reason": reason}
        case Done(provider):
            return {"outcome": "done", "provider": provider}
        case _:
            return {"outcome": "done"}


def outcome_in(message: Message) -> Outcome:
    """Return the outcome of an `outcome_message`."""
    provider = message.get("provider")
    match message.get("outcome"):
        case "done":
            return Done(provider)
        case "skipped":
            return Skipped(str(message.get("reason", "")), provider)
        case "failed":
            return Failed(failure_from_dict(message["failure"]), provider=provider)
        case "returned":
            return Returned(message["why"], message["wait"], message["missing"])
        case _:
            return Interrupted()
