"""Rules about the files of the repository, whatever they hold."""

import ast
import re
import subprocess
from pathlib import Path

from tablekit import each_row

ROOT = Path(__file__).resolve().parents[2]

# Each pattern is put together from pieces, so that this file does not match itself.
FORBIDDEN = {
    "the host of a package registry": re.compile(
        r"\b(?:"
        + "|".join(
            host + r"\." + domain
            for host, domain in (
                ("pypi", "org"),
                ("pypi", "python"),
                ("pythonhosted", "org"),
                ("npmjs", "(?:org|com)"),
                ("yarnpkg", "com"),
                ("anaconda", "org"),
                ("jfrog", "io"),
                ("pkg", "dev"),
            )
        )
        + r")\b"
    ),
    "an option that names a package index": re.compile(
        "--(?:extra-)?" + "index-url[ =]|--" + "trusted-host[ =]|--" + "find-links[ =]"
    ),
    "a folder of one developer's machine": re.compile(
        r"(?<![\w.$~}/-])/(?:"
        + "|".join(("ho" + r"me/\w", "Use" + r"rs/\w", "ro" + "ot/", "wo" + "rk/"))
        + r")|\b[A-Z]:\\"
        + "Use"
        + r"rs\\"
    ),
}


def tracked_files() -> list[Path]:
    """Every file git knows; in an unpacked source archive, every file but what tools left there."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        tops = [
            top for top in ROOT.iterdir() if not top.name.startswith(".") and top.name != "dist"
        ]
        paths = [path for top in tops for path in (top, *top.rglob("*"))]
    else:
        paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def test_no_tracked_file_names_what_does_not_belong_there() -> None:
    found: list[str] = []
    for path in tracked_files():
        text = text_of(path) or ""
        for what, pattern in FORBIDDEN.items():
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: {what}: {match[0]}")
    assert not found, "\n".join(found)


FACES = ("cli", "web", "alerts", "metrics.py")
OF_A_STORE = {"url", "durability", "now", "verify", "note", "notes", "startswith"}
"""What the faces may ask a store itself; `startswith` is of a setting named `store`."""


def asked_of_stores(source: str) -> set[str]:
    """The members of anything called `store` that a module uses."""
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and "store" in {getattr(node.value, "attr", ""), getattr(node.value, "id", "")}
    }


def test_the_faces_reach_jobs_through_the_desk() -> None:
    paths = [ROOT / "src" / "redrive" / face for face in FACES]
    files = [file for path in paths for file in (path.rglob("*.py") if path.is_dir() else [path])]
    assert len(files) > 40
    found = {
        f"{file.relative_to(ROOT)}: store.{name}"
        for file in files
        for name in asked_of_stores(file.read_text("utf-8")) - OF_A_STORE
    }
    assert not found, "ask app.desk instead:\n" + "\n".join(sorted(found))


@each_row("dialect", ["sqlite", "postgres"])
def test_no_two_statements_have_one_name(dialect: str) -> None:
    """The loader would take one of them, which one depending on the directory's order."""
    files = (ROOT / "src" / "redrive" / "stores" / "sql" / dialect).glob("*.sql")
    names = [
        name
        for file in files
        for name in re.findall(r"^-- name: (\w+)$", file.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(names) == sorted(set(names))
