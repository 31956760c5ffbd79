"""The benchmark's own machinery; no test asserts a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))  # scripts, not a package

import plot  # noqa: E402
import report  # noqa: E402
from measure import Contestant, Goal, Measure, Result, Round, Stage, measured  # noqa: E402

Given = list[int] | Exception


def contestant(name: str, given: Given, order: list[str]) -> Contestant:
    """One who gives these figures, round by round; `order` tells whose turn it was."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        if isinstance(given, Exception):
            raise given
        left = iter(given)

        def one_round() -> float:
            order.append(name)
            return next(left)

        yield one_round

    return Contestant(name, "P", prepare)


def a_measure(*given: Given, goals: tuple[Goal, ...] = ()) -> tuple[Measure, list[str]]:
    """A measure of contestants a, b and c, and whose turn it was when."""
    order: list[str] = []
    named = zip("abc"[: len(given)], given, strict=True)
    contestants = tuple(contestant(name, one, order) for name, one in named)
    return Measure("m", "Title", "/s", contestants, goals=goals, plotted=True), order


def result_of(measure: Measure, tries: int = 1) -> Result:
    return measured(measure, Stage(Path()), rounds=3, tries=tries)


def test_contestants_take_turns_and_the_median_counts() -> None:
    measure, order = a_measure([1, 50, 3], [10, 10, 10])
    result = result_of(measure)
    assert order == ["a", "b"] * 3
    assert result.median("a") == 3
    assert result.spread("b") == 0


def test_a_noisy_measure_is_repeated_and_the_calmest_kept() -> None:
    measure, order = a_measure([1, 50, 3, 4, 4, 4], [10] * 6)
    result = result_of(measure, tries=3)
    assert len(order) == 12
    assert result.figures["a"] == [4, 4, 4]


def test_a_page_names_the_noisy_the_missing_and_the_missed() -> None:
    measure, _ = a_measure(
        [1, 5, 3],
        [10, 10, 10],
        ModuleNotFoundError("x", name="huey"),
        goals=(
            Goal("a", "b", 1.0, 2.0),
            Goal("b", "a", 3.0, 4.0),
            Goal("b", "", 9.0, 5.0, at_most=True),
            Goal("a", "c", 1.0, 1.0),
        ),
    )
    page = report.page([result_of(measure)], {"cores": "2"}, rounds=3)
    assert "- cores: 2" in page
    assert "| a | P | 3 | 133%, measure again | 1.00 |" in page
    assert "| b | P | 10 | 0% | 3.33 |" in page
    assert "| c | P | – | did not run: huey is not installed | |" in page
    assert "| Title | a : b | 0.3 | ≥ 1 | ≥ 2 | **missed**, noisy |" in page
    assert "| Title | b : a | 3.33 | ≥ 3 | ≥ 4 | holds, noisy |" in page
    assert "| Title | b, /s | 10 | ≤ 9 | ≤ 5 | **missed** |" in page
    assert "| Title | a : c | – | ≥ 1 | ≥ 1 | not measured |" in page


def test_the_plot_has_a_bar_for_each_who_ran() -> None:
    measure, _ = a_measure([2, 2, 2], [8, 8, 8], ValueError("no"))
    drawn = ET.fromstring(plot.svg([result_of(measure)]))
    bars = drawn.findall("{*}rect[@class='others']")
    widths = [float(one.get("width", "")) for one in bars]
    assert len(widths) == 2
    assert widths[1] == pytest.approx(4 * widths[0], rel=0.01)


def test_a_new_page_keeps_the_figures_of_the_console() -> None:
    section = (BENCH / "console.md").read_text("utf-8")
    assert report.page([], {}, 1).endswith(section)
    assert (BENCH.parent / "docs" / "performance.md").read_text("utf-8").endswith(section)


def test_a_real_measure_runs_and_is_written(tmp_path: Path) -> None:
    words = ["--quick", "--rounds", "1", "--out", str(tmp_path), "sqlite-settle"]
    done = subprocess.run(
        [sys.executable, BENCH / "run.py", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "performance.md").read_text("utf-8")
    assert "## SQLite: claim 100 and settle 100" in page
    assert "Redrive : bare tables" in page
    assert "did not run" not in page
    assert "bare tables K" in (tmp_path / "performance.svg").read_text("utf-8")
