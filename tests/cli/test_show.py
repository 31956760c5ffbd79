"""`redrive show`: the payload alone, and the run of a job."""

from __future__ import annotations

import json
from dataclasses import replace

from shopkit import Shop, dead_letter, name
from tablekit import each_row


def test_the_payload_alone_is_masked_json(shop: Shop) -> None:
    shown = json.loads(shop.run("show", name(1), "--payload").stdout)
    assert shown == {"to": "ada@example.com", "password": "•••"}


@each_row("run", [12, -12])
def test_a_job_says_which_run_it_belongs_to(empty: Shop, run: int) -> None:
    empty.add(replace(dead_letter(1), run=run))
    assert "\nrun\tR12\n" in empty.run("show", name(1)).stdout
    assert json.loads(empty.run("list", "R12", "--json").stdout)["data"][0]["run"] == "R12"
