"""The SQL of the guide runs as printed, on the view that the command above it makes."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

from redrive import State
from summarykit import service_of

ROOT = Path(__file__).resolve().parents[2]
SECTION = re.compile(r"^## A service on PostgreSQL\n(.*?)^## ", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_statements_of_the_guide_find_a_dead_letter_and_drive_it_again() -> None:
    """R-SUMMARIES 7."""
    spec = importlib.util.spec_from_file_location("summaries", ROOT / "examples" / "summaries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = SECTION.search((ROOT / "docs" / "guide.md").read_text("utf-8"))
    assert found is not None
    blocks = dict(BLOCK.findall(found[1]))
    question, deed = blocks["sql"].strip().rstrip(";").split(";")
    with service_of(module) as service:
        service.sql("DROP VIEW redrive.summarize_job_queue")
        words = shlex.split(blocks["console"].removeprefix("$ redrive "))
        assert service.run(*words).exit_code == 0
        service.keep_dead("job1", "4711")
        service.keep_dead("job2", "4712")
        assert {row["article_id"] for row in service.sql(question)} == {"4711", "4712"}
        service.sql(deed)
        service.sql("DROP VIEW summarize_job_queue")
        states = [service.app.get(job).state for job in ("job1", "job2")]
    assert states == [State.PENDING, State.DEAD]
