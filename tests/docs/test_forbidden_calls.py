"""What the library never does, read from the syntax tree and not from the text."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tablekit import each_row

SOURCE = Path(__file__).resolve().parents[2] / "src"

# A store may hold what a stranger wrote: nothing that is read may turn into code.
MODULES = {"dill", "cloudpickle", "marshal", "pickle", "shelve"}
CALLS = {"eval", "exec", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load"}


def offences(tree: ast.AST) -> list[tuple[int, str]]:
    """Find each forbidden thing in a module, under whatever name it was imported."""
    nodes = list(ast.walk(tree))
    names: dict[str, str] = {}
    found: list[tuple[int, str]] = []
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name, target in imported(node):
                names[name] = target
                if target.partition(".")[0] in MODULES:
                    found.append((node.lineno, f"imports {target}"))
                if isinstance(node, ast.ImportFrom) and is_from_the_front(target):
                    found.append((node.lineno, f"imports {target}, not the module that defines it"))
    for node in nodes:
        if isinstance(node, ast.Call):
            found += [(node.lineno, what) for what in offences_of_call(node, names)]
    return found


def imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Pair each name that the statement binds with what it stands for."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            root = alias.name.partition(".")[0]
            yield root, root


def is_from_the_front(target: str) -> bool:
    """Tell a name that only the package's front re-exports from one of its modules.

    The front imports nearly everything, so a module that leans on it goes round the layers.
    """
    package, _, name = target.rpartition(".")
    place = SOURCE / "redrive" / name
    return (
        package == "redrive"
        and name != "__version__"
        and not (place.is_dir() or place.with_suffix(".py").is_file())
    )


def offences_of_call(node: ast.Call, names: dict[str, str]) -> Iterator[str]:
    called = full_name(node.func, names)
    if called.removeprefix("builtins.") in CALLS:
        yield f"calls {called}"
    for keyword in node.keywords:
        if keyword.arg == "shell" and not is_false(keyword.value):
            yield f"passes shell= to {called or 'a call'}"


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """Spell a dotted expression with the imported names put back, or return an empty string."""
    match node:
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.Attribute(value=value, attr=attr):
            owner = full_name(value, names)
            return f"{owner}.{attr}" if owner else ""
        case _:
            return ""


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_the_library_runs_no_text_as_code_and_no_shell() -> None:
    found = [
        f"{path.relative_to(SOURCE.parent)}:{line}: {what}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line, what in offences(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "never in this library:\n" + "\n".join(found)


@each_row(
    "code",
    [
        "import pickle",
        "import pickle as json",
        "from marshal import loads",
        "from redrive import Job",
        "eval('1')",
        "exec('x = 1')",
        "import builtins\nbuiltins.eval('1')",
        "import os\nos.system('ls')",
        "import os as system\nsystem.system('ls')",
        "from os import system as call\ncall('ls')",
        "import yaml\nyaml.load(text)",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "subprocess.run('ls', shell=flag)",
    ],
)
def test_the_check_finds(code: str) -> None:
    assert offences(ast.parse(code))
