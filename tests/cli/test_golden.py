"""What scripts read stays as it is; REDRIVE_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from shopkit import Shop, name

ENDS = {"plain": "txt", "json": "json"}
GOLDEN = Path(__file__).parent / "golden"

COMMANDS = {
    "status": ["status"],
    "dlq": ["dlq"],
    "failed": ["failed"],
    "list": ["list"],
    "show-dead": ["show", name(1)],
    "groups": ["groups"],
    "group": ["group", "G1"],
    "metrics": ["metrics"],
    "explain-policy": ["explain", "SYNC"],
    "retry-preview": ["retry", "--all", "--dry-run"],
    "pause": ["pause", "mail.send", "--for", "2h", "--reason", "provider is down"],
}


@pytest.mark.parametrize("case", COMMANDS)
def test_the_output_is_what_it_was(shop: Shop, case: str) -> None:
    for output in ("plain", "json"):
        result = shop.run(*COMMANDS[case], f"--{output}")
        assert result.exit_code == 0, result.output
        compare(result.stdout, f"{case}.{ENDS[output]}", shop)
    assert set(json.loads(result.stdout)) == {"schema", "data", "page"}
    assert result.stdout.isascii()


def test_what_people_did_is_written_down_as_it_was_asked_for(shop: Shop) -> None:
    shop.run("pause", "mail.send", "--reason", "provider is down")
    shop.run("resolve", "G1", "--yes", "--reason", "sent by hand")
    shop.run("discard", "handler:pdf.* category:unknown", "--reason", "x", "--yes")
    for output in ("plain", "json"):
        compare(shop.run("log", f"--{output}").stdout, f"log.{ENDS[output]}", shop)


def compare(text: str, file_name: str, shop: Shop) -> None:
    found = text.replace(str(shop.folder), "PLACE")
    file = GOLDEN / file_name
    if os.environ.get("REDRIVE_UPDATE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")
