"""R-EVENTS: purge --older-than, prometheus --output and export --output REPORT, as people know them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from shopkit import HOUR, Shop, name


def test_export_to_a_json_file_is_the_report(shop: Shop) -> None:
    done = shop.run("export", "--output", "error_report.json")
    assert done.exit_code == 0, done.output
    place = Path("error_report.json")
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    report = json.loads(place.read_text("utf-8"))
    assert list(report) == [
        *("generated_at", "summary", "dead_letter_queue", "failed_events", "retry_candidates"),
    ]
    assert report["summary"] == {
        "failed_events": 1,
        "dead_letter_queue": 4,
        "retry_candidates": 3,
    }
    for part, number in report["summary"].items():
        assert len(report[part]) == number
    newest = report["dead_letter_queue"][0]
    assert (newest["status"], newest["job_id"]) == ("dead_letter", name(4))
    assert newest["error_info"]["type"] == "KeyError"
    assert newest["error_info"]["category"] == "unknown"
    assert newest["retry_info"]["count"] == 2
    again = shop.run("export", "--output", "error_report.json")
    assert (again.exit_code, "exists already" in again.stderr) == (4, True)
    assert shop.run("export", "--output", "error_report.json", "--force").exit_code == 0


def test_a_report_of_some_jobs_on_standard_output(shop: Shop) -> None:
    done = shop.run("export", "--format", "report", "G1")
    assert json.loads(done.stdout)["summary"]["dead_letter_queue"] == 2
    assert "no group G99" in shop.run("export", "--format", "report", "G99").stderr


def test_other_files_still_have_lines_to_import(shop: Shop) -> None:
    assert shop.run("export", "-o", "jobs.jsonl").exit_code == 0
    assert shop.run("export", "-o", "lines.json", "--format", "redrive").exit_code == 0
    assert Path("jobs.jsonl").read_bytes() == Path("lines.json").read_bytes()


@pytest.mark.parametrize(("age", "left"), [("1", 0), ("24h57m30s", 2), ("30", 4)])
def test_purge_older_than_removes_old_dead_letters_only(shop: Shop, age: str, left: int) -> None:
    shop.clock.advance(HOUR)
    done = shop.run("purge", "--older-than", age, "--yes", "--json")
    assert done.exit_code in {0, 3}, done.output
    assert len(shop.run("list", "--state", "dead", "--ids").stdout.split()) == left
    assert len(shop.run("list", "--state", "completed", "--ids").stdout.split()) > 0
    if left < 4:
        data = json.loads(done.stdout)["data"]
        assert (data["removed"], data["dead_letters_kept"]) == (4 - left, left)


def test_purge_older_than_narrows_what_is_selected(shop: Shop) -> None:
    done = shop.run("purge", "--handler", "pay.*", "--older-than", "30d", "--dry-run")
    assert done.exit_code == 3
    assert "nothing matched" in done.stderr
    assert shop.run("purge", "--older-than", "soon", "--yes").exit_code == 2


def test_prometheus_output_replaces_a_file(shop: Shop) -> None:
    place = Path("metrics.prom")
    place.write_text("old")
    done = shop.run("prometheus", "--output", "metrics.prom")
    assert (done.exit_code, done.stdout) == (0, "")
    assert str(place.absolute()) in done.stderr
    assert place.read_text() == shop.run("prometheus").stdout
    assert [path.name for path in Path().glob("metrics*")] == ["metrics.prom"]
    assert shop.run("prometheus", "--output", "no/such/place.prom").exit_code != 0
