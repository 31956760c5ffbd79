"""The program of `rigs/evil.py`: handlers that do what no handler should, and the end each must have.

`ROWS` is the table. A row is one function; it runs in a thread, on the event loop and in a child. A
plain function is called from a coroutine on the loop, a coroutine function runs by `asyncio.run` in
a thread. Ends: `done`, `failed` (dead, by failures), `late` (dead, by its time limit), `crash` (dead,
three crashes), `waits` (its time is over, but a thread cannot be ended: it is not started again in
that process); `|` separates ends that are equally right.

Groups: `raise` and `tamper` leave the process alive, so jobs beside them run exactly once; `harm`,
`kill` and `freeze` cost the process, so jobs beside them may run again. `ruin` takes from the process
what it cannot work without; that is survived in a child only, so only there it is part of the rig
(`--only ruin` runs it everywhere).
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import collections
import contextlib
import contextvars
import ctypes
import decimal
import faulthandler
import gc
import inspect
import itertools
import locale
import logging
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

if broken := os.environ.get("CREW_BROKEN"):
    from broken import workers

    workers.sabotage(broken)

import redrive
from redrive import Policy, Redrive, constant

MODES = ("thread", "async", "child")
LEASE = 4.0
LIMIT = 0.5
"""Seconds: the time limit of handlers that would run for ever."""
FOR_EVER = 1_000_000
_ANY_END = "done|failed|crash"

_now, _write, _open = time.monotonic, os.write, os.open  # before a handler replaces them

Function = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """One evil handler."""

    function: Function
    group: str
    ends: dict[str, str]
    """The right end by mode."""
    limits: frozenset[str]
    """The modes in which it has a time limit."""
    fells: bool
    """True if it ends the supervisor too; the rig starts everything again, as systemd would."""


ROWS: dict[str, Row] = {}


def evil(
    group: str,
    end: str = "failed",
    *,
    limited: str = "",
    fells: bool = False,
    **ends: str,
) -> Callable[[Function], Function]:
    """Add a row; `on_loop`, `in_thread` and `in_child` replace the end in one mode."""
    words = {"thread": "in_thread", "async": "on_loop", "child": "in_child"}

    def add(function: Function) -> Function:
        ROWS[function.__name__] = Row(
            function,
            group,
            {mode: ends.get(word, end) for mode, word in words.items()},
            frozenset(limited.split()),
            fells,
        )
        return function

    return add


def note(word: str, number: int) -> None:
    """Append `word job attempt pid second number` to the file `ran`, if this process still can."""
    me = redrive.current()
    words = word, me.job_id, me.attempt, os.getpid(), _now(), number
    with contextlib.suppress(OSError, RecursionError):
        file = _open(f"{os.environ['CREW_DIRECTORY']}/ran", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        _write(file, (" ".join(map(str, words)) + "\n").encode())
        os.close(file)


# --- the innocent handlers


def plain(number: int) -> None:
    note("began", number)
    time.sleep(0.01)
    note("ended", number)


async def on_loop(number: int) -> None:
    note("began", number)
    await asyncio.sleep(0.01)
    note("ended", number)


def apart(number: int) -> None:
    note("began", number)
    if os.environ.get("EVIL_LOOK"):
        look()
    note("ended", number)


def look() -> None:
    """Fail unless a child is as a handler may expect it, whatever ran in it before."""
    mask = os.umask(0o022)
    os.umask(mask)
    for descriptor in range(3):
        os.fstat(descriptor)
    assert Path.cwd() == Path(os.environ["CREW_DIRECTORY"])
    assert mask == 0o022
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 3


# --- group raise: errors, and results that are none


class Strange(BaseException):
    """An error that `except Exception` does not catch."""


def error_with(base: type[BaseException] = Exception, **members: object) -> BaseException:
    """Make an error whose class has these members."""
    return type("Odd", (base,), members)()


def thrower(error: type[BaseException]) -> Callable[..., NoReturn]:
    def throw(*_: object, **__: object) -> NoReturn:
        raise error

    return throw


def raises(name: str, make: Callable[[], BaseException], end: str = "failed", **ends: str) -> None:
    """Add a row that raises what `make` returns."""

    def function() -> NoReturn:
        raise make()

    function.__name__ = name
    evil("raise", end, **ends)(function)


def cyclic() -> BaseException:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    first.__context__, second.__context__ = second, first
    return first


def chain(length: int = 10_000) -> BaseException:
    error: BaseException = ValueError("deepest")
    for number in range(length):
        outer = ValueError(number)
        outer.__cause__ = error
        error = outer
    return error


def noted(*notes: object) -> BaseException:
    error = ValueError("with notes")
    error.__notes__ = notes  # type: ignore[attr-defined]
    return error


class LyingText(str):
    """A text whose methods raise."""

    __slots__ = ()
    __len__ = encode = replace = splitlines = split = thrower(KeyboardInterrupt)  # type: ignore[assignment]


class LyingMeta(type):
    """A class of which nothing can be asked."""

    __getattribute__ = __instancecheck__ = thrower(KeyboardInterrupt)


raises("raises_keyboard_interrupt", KeyboardInterrupt)
raises("raises_system_exit", lambda: SystemExit(0))
raises("raises_generator_exit", GeneratorExit)
raises("raises_base_exception", Strange)
raises("raises_stop_iteration", StopIteration)
raises("raises_stop_async_iteration", StopAsyncIteration)
raises("raises_cancelled", asyncio.CancelledError)
raises("raises_memory_error", MemoryError)
raises(
    "raises_interrupt_group", lambda: BaseExceptionGroup("two", [KeyboardInterrupt(), Strange()])
)
raises("raises_skip", lambda: redrive.Skip("nothing to do"), "done")
raises("raises_give_up", lambda: redrive.GiveUp("never"))
raises("str_raises", lambda: error_with(__str__=thrower(RuntimeError), __repr__=thrower(OSError)))
raises("str_interrupts", lambda: error_with(__str__=thrower(KeyboardInterrupt)))
raises("str_exits", lambda: error_with(__str__=thrower(SystemExit)))
raises("str_is_cancelled", lambda: error_with(__str__=thrower(asyncio.CancelledError)))
raises("str_is_no_text", lambda: error_with(__str__=lambda _: 5))
raises("str_recurses", lambda: error_with(__str__=lambda self: f"{self}"))
raises("str_is_long", lambda: error_with(__str__=lambda _: "long " * (10 << 20)))
raises("str_is_half_characters", lambda: OSError("\udcff \ud800 \x00 \x1b[2J"))
raises("str_lies", lambda: error_with(__str__=lambda _: LyingText("x")))
raises("class_interrupts", lambda: error_with(__class__=property(thrower(KeyboardInterrupt))))
raises("attributes_interrupt", lambda: error_with(__getattribute__=thrower(KeyboardInterrupt)))
raises("reduce_interrupts", lambda: error_with(__reduce__=thrower(KeyboardInterrupt)))
raises("interrupt_cannot_be_read", lambda: error_with(KeyboardInterrupt, __str__=thrower(Strange)))
raises("metaclass_interrupts", lambda: LyingMeta("Odd", (Exception,), {})("lies"))
raises("causes_are_a_circle", cyclic)
raises("causes_are_10000", chain)
raises("notes_interrupt", lambda: noted(error_with(__str__=thrower(KeyboardInterrupt)), 5))


@evil("raise")
def recurses() -> None:
    recurses()


@evil("raise")
def returns_a_generator() -> object:
    return (one for one in "ab")


@evil("raise", on_loop="done|failed")
def returns_a_coroutine() -> object:
    return asyncio.sleep(0)


@evil("raise", "done|failed")
def returns_what_interrupts() -> object:
    return type("Odd", (), {"__class__": property(thrower(KeyboardInterrupt))})()


@evil("raise", "done")
def returns_much() -> object:
    return "x" * (50 << 20)


@evil("raise", "done|failed")
def dies_in_del() -> object:
    return type("Odd", (), {"__del__": thrower(KeyboardInterrupt)})()


@evil("raise", "done")
def prints_much() -> None:
    for _ in range(200):
        print("x" * 100_000)


@evil("raise", "done", on_loop="failed")
def runs_a_loop_inside() -> None:
    asyncio.run(asyncio.sleep(0.01))


# --- group raise, on the loop: cancellation and waits without end


@evil("raise")
async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


@evil("raise")
async def cancels_itself_and_returns_late() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(1)
    raise ValueError


@evil("raise")
async def awaits_a_cancelled_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(1))
    task.cancel()
    await task


@evil("raise", "late", in_thread="late|waits", limited="async child thread")
async def awaits_nothing() -> None:
    await asyncio.get_running_loop().create_future()


@evil("raise", "late", in_thread="late|waits", limited="async child thread")
async def shields_itself() -> None:
    await asyncio.shield(asyncio.sleep(FOR_EVER))


@evil("harm", "late|waits", in_child="late", limited="async child thread")
async def ignores_cancellation() -> None:
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(FOR_EVER)


@evil("raise", "done")
async def leaves_tasks() -> None:
    loop = asyncio.get_running_loop()
    loop.kept = [loop.create_task(asyncio.sleep(FOR_EVER)) for _ in range(100)]  # type: ignore[attr-defined]
    loop.call_soon(thrower(ValueError))


@evil("raise", "failed")
async def closes_the_loop() -> None:
    asyncio.get_running_loop().close()


# --- group harm, on the loop: the loop itself ends


@evil("harm", "crash|failed")
async def cancels_everything() -> None:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(5)


@evil("harm", "crash|failed")
async def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(5)


@evil("harm", "crash|failed")
async def interrupts_from_a_callback() -> None:
    asyncio.get_running_loop().call_soon(thrower(KeyboardInterrupt))
    await asyncio.sleep(5)


@evil("harm", "crash|failed")
async def exits_from_a_callback() -> None:
    asyncio.get_running_loop().call_soon(thrower(SystemExit))
    await asyncio.sleep(5)


@evil("harm", "crash|failed")
async def interrupts_from_a_task() -> None:
    async def interrupt() -> None:
        raise KeyboardInterrupt

    await asyncio.gather(asyncio.ensure_future(interrupt()), asyncio.sleep(5))


@evil("harm", _ANY_END)
async def exits_after_it_returned() -> None:
    asyncio.get_running_loop().call_later(0.3, thrower(SystemExit))


@evil("harm", _ANY_END)
async def breaks_task_creation() -> None:
    asyncio.get_running_loop().set_task_factory(thrower(RuntimeError))


@evil("ruin", _ANY_END)
async def breaks_the_loop_object() -> None:
    loop: Any = asyncio.get_running_loop()
    loop.call_soon_threadsafe = loop.call_later = thrower(RuntimeError)


# --- group tamper: the state of the process


@evil("tamper", "done")
def forgets_the_loop() -> None:
    asyncio.set_event_loop(None)
    asyncio.set_event_loop_policy(None)


@evil("tamper", "done")
def moves_to_a_removed_directory() -> None:
    place = tempfile.mkdtemp(prefix="redrive-rig-")
    os.chdir(place)
    Path(place).rmdir()


@evil("tamper", "done")
def sets_the_umask() -> None:
    os.umask(0o777)


@evil("tamper", in_child="done")
def takes_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


@evil("tamper", "done")
def takes_signals_in_c() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        ctypes.CDLL(None).signal(number, 1)


@evil("tamper", "done")
def blocks_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})


@evil("tamper", "done")
def stops_collecting() -> None:
    gc.disable()
    gc.freeze()


@evil("tamper", "done")
def sets_hooks() -> None:
    sys.excepthook = threading.excepthook = sys.unraisablehook = thrower(KeyboardInterrupt)


@evil("tamper", "done")
def leaves_failing_threads() -> None:
    for error in (ValueError, SystemExit, KeyboardInterrupt):
        threading.Thread(target=thrower(error), daemon=True).start()


@evil("tamper", "done")
def turns_warnings_into_errors() -> None:
    warnings.simplefilter("error")


@evil("tamper", "done")
def sets_the_locale() -> None:
    locale.setlocale(locale.LC_ALL, "C")
    decimal.getcontext().prec = 1
    decimal.DefaultContext.prec = 1
    random.seed(0)


@evil("tamper", "done")
def sets_socket_timeouts() -> None:
    socket.setdefaulttimeout(1e-9)


@evil("tamper", "done")
def silences_logging() -> None:
    logging.disable(logging.CRITICAL)
    logging.shutdown()
    logging.getLogger().handlers.clear()


@evil("harm", "failed|crash")
def breaks_logging() -> None:
    logging.getLogger("redrive").addFilter(thrower(ValueError))
    raise ValueError("the worker logs this")


@evil("tamper", "done")
def clears_the_environment() -> None:
    kept = os.environ["CREW_DIRECTORY"]
    os.environ.clear()
    os.environ["CREW_DIRECTORY"] = kept  # the rig's own note needs it


@evil("tamper", "done")
def replaces_standard_streams() -> None:
    sys.stdout = sys.stderr = sys.stdin = None  # type: ignore[assignment]


@evil("tamper", "done|failed")
def closes_standard_streams() -> None:
    sys.stdout.close()
    sys.stderr.close()


@evil("tamper", "done")
def closes_0_to_2() -> None:
    os.closerange(0, 3)


@evil("tamper", "done")
def traces_badly() -> None:
    threading.settrace(thrower(KeyboardInterrupt))
    threading.setprofile(thrower(KeyboardInterrupt))


@evil("tamper", "done|failed")
def traces_itself_badly() -> None:
    sys.settrace(thrower(KeyboardInterrupt))


@evil("tamper", "done")
def sets_context_variables() -> None:
    for variable in list(contextvars.copy_context()):
        variable.set(None)


@evil("tamper", "done")
def hangs_at_exit() -> None:
    atexit.register(time.sleep, FOR_EVER)


@evil("tamper", "done")
def leaves_a_stubborn_thread() -> None:
    threading.Thread(target=time.sleep, args=(FOR_EVER,)).start()


@evil("tamper", "done")
def leaves_a_spinning_thread() -> None:
    end = time.monotonic() + 5

    def spin() -> None:
        while _now() < end:
            pass

    threading.Thread(target=spin).start()


@evil("tamper", "done")
def sets_the_switch_interval() -> None:
    sys.setswitchinterval(100)
    end = _now() + 1
    while _now() < end:
        pass


@evil("tamper", "done")
def replaces_builtins() -> None:
    builtins.print = builtins.input = None  # type: ignore[assignment]


# --- group tamper: processes that should not survive


@evil("tamper", "done")
def forks_and_both_return() -> None:
    os.fork()


@evil("tamper")
def forks_and_both_raise() -> None:
    os.fork()
    raise ValueError


@evil("tamper", "done")
def leaves_a_process() -> None:
    if not os.fork():
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        time.sleep(FOR_EVER)


@evil("tamper", "done")
def leaves_an_orphan() -> None:
    if not os.fork():
        if not os.fork():
            time.sleep(FOR_EVER)
        os._exit(0)
    os.wait()


@evil("tamper", "done")
def leaves_a_subprocess() -> None:
    words = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(9**9)"
    subprocess.Popen([sys.executable, "-S", "-c", words])


# --- group harm: what the process cannot work without


@evil("harm", _ANY_END)
def closes_all_descriptors() -> None:
    os.closerange(3, 4096)


@evil("harm", _ANY_END)
def limits_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


@evil("harm", _ANY_END)
def limits_file_sizes() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))


@evil("harm", _ANY_END)
def limits_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))


@evil("harm", _ANY_END)
def limits_recursion() -> None:
    sys.setrecursionlimit(len(inspect.stack(0)) + 5)


@evil("ruin", _ANY_END)
def removes_modules() -> None:
    for name in (
        "sqlite3",
        "json",
        "asyncio",
        "redrive.worker.children",
        "redrive.worker.event_loop",
    ):
        sys.modules[name] = None  # type: ignore[assignment]
    sys.path.clear()


@evil("harm", _ANY_END)
def stops_the_clock() -> None:
    time.monotonic = time.perf_counter = lambda: 0.0


@evil("harm", _ANY_END)
def breaks_the_clock() -> None:
    time.time = time.monotonic = thrower(OSError)


@evil("harm", _ANY_END)
def skips_sleeping() -> None:
    time.sleep = lambda _: None


@evil("harm", _ANY_END)
def breaks_threads() -> None:
    threading.Thread.start = thrower(RuntimeError)  # type: ignore[method-assign]


@evil("harm", _ANY_END)
def interrupts_when_collected() -> None:
    odd = type("Odd", (), {"__del__": lambda _: os._exit(1)})()
    odd.me = odd


# --- group kill: the process ends


@evil("kill", "crash")
def exits_with_0() -> None:
    os._exit(0)


@evil("kill", "crash")
def exits_with_75() -> None:
    os._exit(75)


@evil("kill", "crash")
def aborts() -> None:
    os.abort()


@evil("kill", "crash")
def segfaults() -> None:
    ctypes.string_at(0)


@evil("kill", "crash")
def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@evil("kill", "crash")
def hangs_up() -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(5)


@evil("kill", "crash")
def uses_up_its_cpu_time() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (1, resource.RLIM_INFINITY))
    while True:
        pass


@evil("kill", "crash")
def becomes_another_program() -> None:
    os.execv("/bin/true", ["true"])  # noqa: S606 - no shell, by intention


@evil("kill", "done|failed")
def terminates_itself() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@evil("kill", "done|failed")
def interrupts_itself() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@evil("kill", _ANY_END)
def ends_a_second_later() -> None:
    faulthandler.dump_traceback_later(1, exit=True)


@evil("kill", "crash", fells=True)
def kills_its_group() -> None:
    os.killpg(0, signal.SIGKILL)


@evil("kill", "done|failed|crash", fells=True)
def terminates_its_group() -> None:
    os.killpg(0, signal.SIGTERM)


@evil("kill", "done|crash", fells=True)
def kills_its_parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1)


# --- group freeze: nothing in the process goes on


def sleep_with_the_gil() -> NoReturn:
    while True:  # a signal ends one call
        ctypes.PyDLL(None).sleep(FOR_EVER)


@evil("freeze", "crash", limited="child", in_child="late")
def matches_for_ever() -> None:
    re.fullmatch(r"(?:a|a?)+b", "a" * 40)


@evil("freeze", "crash", limited="child", in_child="late")
def holds_the_gil() -> None:
    sleep_with_the_gil()


@evil("freeze", "late", in_thread="late|waits", limited="thread child", on_loop="crash")
def blocks() -> None:
    time.sleep(FOR_EVER)


@evil("freeze", _ANY_END, limited="child", in_child="done|late|crash")
def leaves_a_thread_with_the_gil() -> None:
    threading.Thread(target=sleep_with_the_gil, daemon=True).start()


@evil("freeze", "late", in_thread="late|waits", limited="thread child", on_loop="crash")
def spins() -> None:
    while True:
        pass


@evil("freeze", "crash", limited="child", in_child="late|crash")
def becomes_a_program_that_sleeps() -> None:
    os.execv("/bin/sleep", ["sleep", str(FOR_EVER)])  # noqa: S606


@evil("freeze", "crash", limited="child", in_child="late")
def stops_itself() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@evil("freeze", "failed|crash")
def keeps_the_logging_lock() -> None:
    for handler in (*logging.getLogger().handlers, *logging.getLogger("redrive").handlers):
        handler.acquire()
    raise ValueError("the worker logs this")


@evil("freeze", _ANY_END)
async def blocks_after_it_returned() -> None:
    asyncio.get_running_loop().call_later(0.3, time.sleep, FOR_EVER)


@evil("freeze", "late", in_thread="late|waits", limited="thread child", on_loop="crash")
def str_blocks() -> None:
    raise error_with(__str__=lambda _: time.sleep(FOR_EVER))


@evil("freeze", "late|crash", limited="thread child async")
def holds_the_gil_past_its_limit() -> None:
    collections.deque(itertools.repeat(None), maxlen=0)


@evil("freeze", "late", in_thread="late|waits", limited="thread child async")
def blocks_past_its_limit() -> None:
    time.sleep(FOR_EVER)


# --- the program


def handler_of(row: Row, mode: str) -> Callable[..., object]:
    """Return what is registered for a row in a mode."""
    function, is_async = row.function, inspect.iscoroutinefunction(row.function)

    def call(number: int) -> object:
        note("began", number)
        return function()

    def run(number: int) -> object:
        note("began", number)
        return asyncio.run(function())

    async def wait(number: int) -> object:
        note("began", number)
        result = function()
        return await result if inspect.isawaitable(result) else result

    if mode == "async" or (mode == "child" and is_async):
        return wait
    return run if is_async else call


def build(url: str) -> Redrive:
    """Return the program on a store: a handler for every row in every mode, and the innocent ones."""
    app = Redrive(url, policy=Policy(attempts=3, alike=True, wait=constant(0)), lease=LEASE)
    for (name, row), mode in itertools.product(ROWS.items(), MODES):
        limit = LIMIT if mode in row.limits else None
        pinned = "thread" if mode == "thread" and limit else None
        isolation: Any = "process" if mode == "child" else pinned
        register = app.handler(f"{name}.{mode}", timeout=limit, isolation=isolation)
        register(handler_of(row, mode))
    patient = Policy(attempts=100, alike=True, wait=constant(0))
    for mode, function in zip(MODES, (plain, on_loop, apart), strict=True):
        register = app.handler(
            f"innocent.{mode}", policy=patient, isolation="process" if mode == "child" else None
        )
        register(function)
    return app


app = build(os.environ.get("CREW_URL", "memory:"))
