"""Rules about the files of the repository, whatever they hold."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

import redrive
from redrive.desk.desk import Desk
from redrive.desk.groups import Groups
from redrive.desk.jobs import Jobs
from redrive.desk.lanes import Lanes
from redrive.desk.log import Log
from redrive.desk.runs import Runs
from redrive.desk.transfer.lines import Transfer

ROOT = Path(__file__).resolve().parents[2]
LONGEST_MODULE = 400

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


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_file_names(what: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked_files()
        for number, line in enumerate((text_of(path) or "").splitlines(), start=1)
        if FORBIDDEN[what].search(line)
    ]
    assert not found, f"{what} does not belong in the tree:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("the host of a package registry", "url = https://files.python" + "hosted.org/x"),
        ("the host of a package registry", "https://py" + "pi.org/simple"),
        ("an option that names a package index", "--index" + "-url https://example.com"),
        ("a folder of one developer's machine", "see /ro" + "ot/notes.txt"),
        ("a folder of one developer's machine", "'/ho" + "me/ada/redrive'"),
        ("a folder of one developer's machine", "C:\\Us" + "ers\\ada"),
    ],
)
def test_the_patterns_find_what_they_are_for(what: str, line: str) -> None:
    assert FORBIDDEN[what].search(line)


@pytest.mark.parametrize(
    "line", ["https://example.com/wo" + "rk/1", "tests/wo" + "rk/x", "--no-emit-index" + "-url "]
)
def test_the_patterns_leave_other_text_alone(line: str) -> None:
    assert not any(pattern.search(line) for pattern in FORBIDDEN.values())


PARTS = {
    Jobs: 12,
    Groups: 12,
    Runs: 12,
    Lanes: 12,
    Log: 12,
    Transfer: 12,
    Desk: 12,
    redrive.Redrive: 20,
}
"""How many public members each class of the API may have."""


def members(kind: type) -> set[str]:
    """The public names of a class, and what its `__init__` sets on `self`."""
    source = Path(str(kind.__module__).replace(".", "/")).with_suffix(".py")
    tree = ast.parse((ROOT / "src" / source).read_text("utf-8"))
    (body,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.__name__)
    stored = {
        node.attr
        for node in ast.walk(body)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return {name for name in {*dir(kind), *stored} if not name.startswith("_")}


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_the_classes_of_the_api_stay_small(kind: type) -> None:
    assert len(members(kind)) <= PARTS[kind], sorted(members(kind))


FACES = ("cli", "web", "alerts", "metrics.py")
OF_A_STORE = {"url", "durability", "now", "verify", "migrate", "note", "notes", "startswith"}
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


def test_a_face_that_asks_the_store_for_jobs_is_found() -> None:
    assert asked_of_stores("def f(app): return app.store.find(1), store.get(2)") == {"find", "get"}


def test_modules_stay_short_enough_to_read_in_one_go() -> None:
    long = [
        f"{path.relative_to(ROOT)} has {lines} lines"
        for path in sorted((ROOT / "src").rglob("*.py"))
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_MODULE
    ]
    assert not long, f"split by idea what is over {LONGEST_MODULE} lines:\n" + "\n".join(long)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_no_two_statements_have_one_name(dialect: str) -> None:
    """The loader would take one of them, which one depending on the directory's order."""
    files = (ROOT / "src" / "redrive" / "stores" / "sql" / dialect).glob("*.sql")
    names = [
        name
        for file in files
        for name in re.findall(r"^-- name: (\w+)$", file.read_text("utf-8"), re.MULTILINE)
    ]
    assert sorted(names) == sorted(set(names))


PACKAGE = ROOT / "src" / "redrive"
PACKAGES = sorted(str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.rglob("__init__.py"))[
    1:
]


def faults_of(docstring: str) -> list[str]:
    """Return what is missing in a package's docstring: what lives here, what does not, and where."""
    here, marker, elsewhere = " ".join(docstring.split()).partition("Not here: ")
    places = [PACKAGE / name.replace(".", "/") for name in re.findall(r"`([\w.]+)`", elsewhere)]
    return [
        *(["it does not say what lives here"] if len(here.split()) < 5 else []),
        *([] if marker else ["it does not say what is not here"]),
        *([] if places else ["it does not say where the rest lives"]),
        *(
            f"{place.relative_to(PACKAGE)} does not exist"
            for place in places
            if not place.is_dir() and not place.with_suffix(".py").is_file()
        ),
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_lives_here_and_what_does_not(package: str) -> None:
    tree = ast.parse((PACKAGE / package / "__init__.py").read_text("utf-8"))
    assert faults_of(ast.get_docstring(tree) or "") == []


@pytest.mark.parametrize(
    ("docstring", "fault"),
    [
        ("Jobs in a file, for small programs.", "it does not say what is not here"),
        ("Jobs. Not here: SQL (`stores.sql`).", "it does not say what lives here"),
        ("Jobs in a file of lines. Not here: SQL.", "it does not say where the rest lives"),
        ("Jobs in a file of lines. Not here: SQL (`shops`).", "shops does not exist"),
    ],
)
def test_a_docstring_with_a_missing_part_is_found(docstring: str, fault: str) -> None:
    assert fault in faults_of(docstring)
