"""The pytest plugin, in projects of their own: their suites run in a subprocess, as users run them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tablekit import each_row

pytest_plugins = ["pytester"]

SHOP = """
import asyncio
from redrive import Redrive

app = Redrive("shop.db")


@app.handler("mail.send", attempts=3)
def send(to: str, text: str = "") -> None:
    deliver(to)


@app.handler("order.place")
async def place(order: int) -> None:
    await asyncio.sleep(0)
    await send.asubmit(f"customer-{order}")


def deliver(to: str) -> None:
    raise ConnectionError("the mail server is down")
"""

TESTS = """
import asyncio
import shop
import pytest


@pytest.mark.parametrize("number", range(6))
def test_each_test_begins_with_an_empty_store(redrive_jobs, number):
    assert redrive_jobs.submitted() == []
    shop.send.submit("ada")
    assert redrive_jobs.submitted("mail.send").one().attempts == 0


def test_an_order_sends_a_mail(redrive_jobs, monkeypatch):
    sent = []
    monkeypatch.setattr(shop, "deliver", sent.append)
    shop.place.submit(7)
    redrive_jobs.run_all()
    assert redrive_jobs.submitted("mail.send", to="customer-7")
    assert sent == ["customer-7"]
    assert redrive_jobs.dead() == []


def test_async(redrive_jobs, monkeypatch):
    monkeypatch.setattr(shop, "deliver", print)

    async def run():
        await shop.place.asubmit(7)
        assert (await redrive_jobs.arun_all()).succeeded == 2

    asyncio.run(run())


def test_the_mail_server_is_down(redrive_jobs):
    shop.send.submit("ada")
    assert redrive_jobs.run_all(advance=True).died == 1
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run a suite, without the plugins of this one but xdist, in a process of its own."""
    return pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", *options)


@each_row("options", [("-n", "2"), ("--import-mode=importlib",)])
def test_the_suite_of_a_project_passes_and_writes_no_store(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(shop=SHOP, test_shop=TESTS)
    pytester.makeini("[pytest]\npythonpath = .\n")
    run(pytester, *options).assert_outcomes(passed=9)
    assert not list(pytester.path.glob("*.db*"))


def test_a_wrong_expectation_is_explained(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        shop=SHOP,
        test_shop="""
        from shop import send

        def test_found(redrive_jobs):
            send.submit("ada")
            assert redrive_jobs.submitted("mail.send", to="bob")

        def test_dead(redrive_jobs):
            send.submit("ada", text="hello")
            redrive_jobs.run_all(advance=True)
            assert redrive_jobs.dead() == []

        def test_one(redrive_jobs):
            redrive_jobs.submitted("mail.send").one()
        """,
    )
    result = run(pytester)
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        [
            "E*assert <no job mail.send(to='bob'); stored jobs that do not match: mail.send(to='ada') pending>",
            "E*assert jobs == [[]], but these were found:",
            "E*  mail.send(to='ada', text='hello') dead after 3 attempts (exhausted): ConnectionError: the mail server is down",
            "E*expected one job mail.send(), found 0",
            "E*no jobs are stored",
        ]
    )


def test_tests_that_do_not_ask_for_it_see_nothing_of_it(pytester: pytest.Pytester) -> None:
    """Their apps use their own stores, and nothing of Redrive is imported for them."""
    pytester.makepyfile(
        shop=SHOP,
        test_shop="""
        import sys
        from pathlib import Path

        def test_nothing_is_loaded():
            loaded = {name for name in sys.modules if name.startswith("redrive")}
            assert loaded == {"redrive", "redrive.contrib", "redrive.contrib.pytest_plugin"}

        def test_own_store():
            from shop import send
            send.submit("ada")
            assert Path("shop.db").is_file()
            assert [1, 2] == [1, 2]
        """,
    )
    run(pytester).assert_outcomes(passed=2)
    assert (pytester.path / "shop.db").is_file()


def test_it_can_be_switched_off(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(redrive_jobs): ...")
    result = run(pytester, "-p", "no:redrive")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines("*fixture 'redrive_jobs' not found*")


def test_a_project_without_pytest_can_use_the_harness() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from redrive import Redrive\n"
        "from redrive.testing import in_memory\n"
        "app = Redrive('x.db')\n"
        "send = app.handler('mail.send')(lambda to: print('to', to))\n"
        "with in_memory() as jobs:\n"
        "    send.submit('ada')\n"
        "    jobs.run_all()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "to ada\n"
