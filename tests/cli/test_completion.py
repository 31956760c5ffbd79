"""What a shell completes: commands, options, ids, groups, lanes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shopkit import Shop, name


def completed(line: str) -> list[str]:
    """Give what bash is told for the last word of a line."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "redrive"],
        env={
            **os.environ,
            "_REDRIVE_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [one.partition(",")[2] for one in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("redrive dl", ["dlq"]),
        ("redrive re", ["retry", "resolve", "reopen", "resume"]),
        ("redrive dlq --li", ["--limit"]),
        ("redrive retry g", ["G1", "G2", "G3"]),
        ("redrive list G", ["G1", "G2", "G3"]),
        ("redrive show 01J9ZQ4B7V5X2C8D3E6F1G0001", [name(1)]),
        ("redrive show 01j9zq4b7v5x2c8d3e6f1g0006", [name(6)]),
        ("redrive pause pa", ["pay.charge"]),
        ("redrive list --lane ma", ["mail.send"]),
        ("redrive groups --group G", ["G1", "G2", "G3"]),
        ("redrive completion z", ["zsh"]),
        ("redrive list --state com", ["completed"]),
        ("redrive show --store nowhere.db 01", []),
    ],
)
def test_what_is_in_the_store_completes(shop: Shop, line: str, words: list[str]) -> None:
    found = completed(line)
    assert set(words) <= set(found)
    if line != "redrive re":
        assert found == words


def test_completion_says_nothing_of_what_is_wrong(empty: Shop) -> None:
    assert completed("redrive show 01") == []
    Path("redrive.toml").write_text("store = ")
    assert completed("redrive retry G") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(empty: Shop, shell: str) -> None:
    done = empty.run("completion", shell)
    assert done.exit_code == 0
    assert f"_REDRIVE_COMPLETE={shell}_complete" in done.stdout


def test_bash_completes_with_the_script(shop: Shop) -> None:
    script = shop.run("completion", "bash").stdout
    Path("bin").mkdir()
    program = Path("bin/redrive")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m redrive "$@"\n')
    program.chmod(0o755)
    asked = (
        f"{script}\nCOMP_WORDS=(redrive retry G); COMP_CWORD=2\n"
        '_redrive_completion redrive; echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", asked],
        env={**os.environ, "PATH": f"{Path('bin').absolute()}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["G1", "G2", "G3"]
