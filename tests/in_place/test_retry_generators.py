"""Generators in place: retried until their first item, then left alone (P7)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from redrive import retry
from redrive.errors import UsageError
from redrive.in_place.waiting import no_waiting

Items = Generator[Any, Any, Any]


def made(function: Callable[..., Items], *, is_async: bool, **options: Any) -> Callable[..., Items]:
    """Retry a generator; an async one that does the same is driven by a plain one around it."""
    if not is_async:
        return retry(**options)(function)
    retried = retry(**options)(async_twin(function))
    assert inspect.isasyncgenfunction(retried)
    return lambda *args: driven(retried(*args))


def async_twin(function: Callable[..., Items]) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def later(*args: Any) -> AsyncGenerator[Any, Any]:
        items = function(*args)
        try:
            item = next(items)
            while True:
                try:
                    sent = yield item
                except RuntimeError as error:
                    item = items.throw(error)
                else:
                    item = items.send(sent)
        except StopIteration:
            return
        finally:
            items.close()

    return later


def driven(items: AsyncGenerator[Any, Any]) -> Items:
    with asyncio.Runner() as runner:
        try:
            step = items.asend(None)
            while True:
                try:
                    sent = yield runner.run(_awaited(step))
                except RuntimeError as error:
                    step = items.athrow(error)
                else:
                    step = items.asend(sent)
        except StopAsyncIteration:
            return
        finally:
            runner.run(items.aclose())


async def _awaited(step: Any) -> Any:
    return await step


@pytest.mark.parametrize("is_async", [False, True])
class TestGenerators:
    def test_it_begins_again_until_its_first_item(self, is_async: bool) -> None:
        begun: list[int] = []

        def stream(number: int) -> Items:
            begun.append(number)
            if len(begun) < 3:
                raise ConnectionError
            yield number
            yield number + 1

        with no_waiting():
            assert list(made(stream, is_async=is_async)(7)) == [7, 8]
        assert begun == [7, 7, 7]

    def test_after_an_item_its_error_is_raised_untouched(self, is_async: bool) -> None:
        """No item comes twice."""
        error = ConnectionError("cut off")

        def stream() -> Items:
            yield 1
            raise error

        items = made(stream, is_async=is_async)()
        assert next(items) == 1
        with pytest.raises(ConnectionError) as caught:
            next(items)
        assert caught.value is error
        assert not hasattr(error, "__notes__")

    def test_the_last_error_has_a_note(self, is_async: bool) -> None:
        def stream() -> Items:
            raise ConnectionError
            yield

        with no_waiting(), pytest.raises(ConnectionError) as caught:
            next(made(stream, is_async=is_async, attempts=2)())
        assert "given up after 2 attempts" in caught.value.__notes__[0]

    def test_a_bug_is_raised_at_once_and_an_empty_stream_ends(self, is_async: bool) -> None:
        def wrong() -> Items:
            raise ZeroDivisionError
            yield

        def empty() -> Items:
            return
            yield

        with pytest.raises(ZeroDivisionError):
            next(made(wrong, is_async=is_async)())
        assert list(made(empty, is_async=is_async)()) == []

    def test_what_is_sent_thrown_and_closed_reaches_it(self, is_async: bool) -> None:
        seen: list[object] = []

        def stream() -> Items:
            try:
                seen.append((yield "first"))
                try:
                    yield "second"
                except RuntimeError as error:
                    seen.append(str(error))
                yield "third"
                yield "never"
            finally:
                seen.append("closed")

        items = made(stream, is_async=is_async)()
        assert (next(items), items.send("sent")) == ("first", "second")
        assert items.throw(RuntimeError("thrown")) == "third"
        items.close()
        assert seen == ["sent", "thrown", "closed"]


def test_the_result_of_a_generator_is_passed_on() -> None:
    @retry
    def stream() -> Items:
        yield 1
        return "end"

    def around() -> Items:
        yield (yield from stream())

    assert inspect.isgeneratorfunction(stream)
    assert list(around()) == [1, "end"]


@pytest.mark.parametrize("option", ["timeout", "on_result", "fallback"])
def test_options_about_one_result_are_refused(option: str) -> None:
    async def later() -> AsyncGenerator[int, None]:
        yield 1

    def stream() -> Items:
        yield 1

    values: dict[str, Any] = {"timeout": 1, "on_result": bool, "fallback": None}
    for function in (stream, later):
        with pytest.raises(
            UsageError, match=f"{option} is an option for functions; .* a generator"
        ):
            retry(**{option: values[option]})(function)  # type: ignore[misc]
