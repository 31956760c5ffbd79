"""Large files take little memory; `large.py` beside this measures two hundred thousand records."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from redrive import Redrive

spec = importlib.util.spec_from_file_location("large", Path(__file__).with_name("large.py"))
assert spec is not None
assert spec.loader is not None
large = importlib.util.module_from_spec(spec)
spec.loader.exec_module(large)


@pytest.mark.parametrize("name", ["hooks", "articles"])
def test_many_records_need_little_more_memory_than_few(name: str, tmp_path: Path) -> None:
    """Both ways of reading: lines that wait for each other on disk, and one document."""
    peaks: list[int] = []
    store = str(tmp_path / "jobs.db")
    with Redrive(store) as app:
        assert app.desk.jobs.counts() == []
    for number in (4_000, 12_000):
        place = tmp_path / f"{name}{number}"
        large.write(place, name, number)
        words = ("import", str(place), "--dry-run", "--assume-tz", "UTC", "--store", store)
        _, peak, told = large.run(*words)
        assert told["added"] == number
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 12


def test_a_long_table_needs_little_more_memory_than_a_short_one(tmp_path: Path) -> None:
    """By a mapping, from CSV: rows are read and checked some at a time."""
    peaks: list[int] = []
    store = str(tmp_path / "jobs.db")
    with Redrive(store) as app:
        assert app.desk.jobs.counts() == []
    for number in (4_000, 12_000):
        place = tmp_path / f"{number}.csv"
        rows = (f"{one},u{one}@example.org,{'x' * 500}\n" for one in range(number))
        place.write_text("id,to,text\n" + "".join(rows))
        rules = ("--map", "key=id", "--map", "payload=*", "--set", "state=dead", "--handler", "a")
        _, peak, told = large.run("import", str(place), *rules, "--dry-run", "--store", store)
        assert told["added"] == number
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 12
