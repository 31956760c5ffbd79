"""C1, C2: what scripts read stays as it is; REDRIVE_UPDATE_GOLDEN=1 writes the files anew."""

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
    "dlq-limit": ["dlq", "--limit", "2"],
    "failed": ["failed"],
    "list": ["list"],
    "list-filters": ["list", "--state", "dead", "--handler", "mail.*", "--age", ">1h"],
    "list-group": ["list", "G1"],
    "list-ids": ["list", "--state", "dead", "--ids"],
    "show-dead": ["show", name(1)],
    "show-waiting": ["show", name(6)],
    "show-payload": ["show", name(1), "--payload"],
    "groups": ["groups"],
    "groups-growth": ["groups", "--new", "--since", "7d", "--sort", "growth"],
    "group": ["group", "G1"],
    "group-note": ["group", "G1", "note", "ticket 4711"],
    "group-resolve": ["group", "G1", "resolve", "--dry-run"],
    "metrics": ["metrics"],
    "list-scan": ["list", "state:dead payload.to:ada* -tag:vip"],
    "explain": ["explain", "503"],
    "explain-policy": ["explain", "SYNC"],
    "retry-preview": ["retry", "--all", "--dry-run"],
    "retry-skipped": ["retry", name(1), name(7), "--yes"],
    "pause": ["pause", "mail.send", "--for", "2h", "--reason", "provider is down"],
}


@pytest.mark.parametrize("output", ["plain", "json"])
@pytest.mark.parametrize("case", COMMANDS)
def test_the_output_is_what_it_was(shop: Shop, case: str, output: str) -> None:
    result = shop.run(*COMMANDS[case], f"--{output}")
    assert result.exit_code == 0, result.output
    compare(result.stdout, f"{case}.{ENDS[output]}", shop)


@pytest.mark.parametrize("output", ["plain", "json"])
def test_what_people_did_is_written_down_as_it_was_asked_for(shop: Shop, output: str) -> None:
    shop.run("pause", "mail.send", "--reason", "provider is down")
    shop.run("resolve", "G1", "--yes", "--reason", "sent by hand")
    shop.run("discard", "--handler", "pdf.*", "--category", "unknown", "--reason", "x", "--yes")
    compare(shop.run("log", f"--{output}").stdout, f"log.{ENDS[output]}", shop)
    compare(shop.run("status", f"--{output}").stdout, f"status-after.{ENDS[output]}", shop)


@pytest.mark.parametrize("case", COMMANDS)
def test_json_is_one_ascii_document_with_a_schema_version(shop: Shop, case: str) -> None:
    text = shop.run("--json", *COMMANDS[case]).stdout
    document = json.loads(text)
    assert set(document) == {"schema", "data", "page"}
    assert document["schema"] == 1
    assert text.isascii()


def compare(text: str, file_name: str, shop: Shop) -> None:
    found = text.replace(str(shop.folder), "PLACE")
    file = GOLDEN / file_name
    if os.environ.get("REDRIVE_UPDATE_GOLDEN"):
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")
