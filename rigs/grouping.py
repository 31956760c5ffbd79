"""Group failures whose causes are known, before and after edits of the program that change no cause.

    python rigs/grouping.py            24,000 failures
    python rigs/grouping.py --short    3,200 failures
    python rigs/grouping.py --control  builds that group badly: each must be found out

A generated program has 60 faults. It runs as it is and after each of 15 edits (formatted, commented,
moved, wrapped …), every time from files of its own in a fresh interpreter. Ids, hosts, times, SQL, paths
and the language of messages vary. Some faults are met by two handlers: one cause if it lies outside (an
outage, a limit, an account, a crash) or the error names its group, else two. Of all pairs of failures,
precision is the share of those in one group that have one cause, recall the share of those with one
cause that are in one group. Both must reach 0.97.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import importlib
import inspect
import io
import json
import random
import re
import subprocess
import sys
import tempfile
import tokenize
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, Self
from unittest import mock

from redrive.classify import classify, fingerprint
from redrive.jobs.job import Category

NEEDED = 0.97

HEAD = """
import asyncio
import json


class ShopError(Exception):
    pass


class HttpError(Exception):
    def __init__(self, message, status):
        super().__init__(message)
        self.status_code = status


class DbError(Exception):
    __module__ = "psycopg.errors"

    def __init__(self, message, sqlstate):
        super().__init__(message)
        self.sqlstate = sqlstate


class Grouped(Exception):
    redrive_group = "ledger closed"
"""

# Functions of the program. `pick` chooses among the faults of one function, `v` holds what varies.
FUNCTIONS = {
    "check": (
        "own",
        8,
        """
def check(v, pick):
    if pick == 0:
        raise ShopError(f"order {v.id} has no lines")
    if pick == 1:
        raise ShopError(f"order {v.id} has no customer {v.uuid}")
    if pick == 2:
        raise ShopError(v.text("currency unknown", "Währung unbekannt", "通貨が不明です"))
    if pick == 3:
        total = int(v.word)
        return total
    if pick == 4:
        return {"net": 1}[v.word]
    if pick == 5:
        return v.missing_field
    if pick == 6:
        return v.id / 0
    return len(v.id)
""",
    ),
    "Invoice.send": (
        "own",
        4,
        """
class Invoice:
    def send(self, v, pick):
        lines = [v.id, v.uuid]
        match pick:
            case 0:
                return [row["price"] for row in ({}, lines)]
            case 1:
                return json.loads("{" + v.word + str(v.id))
            case 2 if self.render(v, "html") == 0:
                return None
        return self.render(v, "text", copies=2)

    def render(self, v, form, copies=1):
        if form == "html":
            raise ShopError("template " + v.path + " not found")
        raise ShopError("cannot print " + v.path)
""",
    ),
    "call": (
        "status",
        10,
        """
def call(v, pick):
    status = (400, 404, 410, 422, 451, 401, 402, 429, 500, 503)[pick]
    words = v.text("request failed", "Anfrage fehlgeschlagen", "リクエストに失敗しました")
    raise HttpError(f"{status} {words}: https://{v.host}/v1/{v.uuid}?at={v.time}", status)
""",
    ),
    "query": (
        "own",
        6,
        """
def query(v, pick):
    key = v.text("duplicate key value", "doppelter Schlüsselwert", "重複したキー値")
    if pick == 0:
        raise DbError(f"{key} ({v.id}): INSERT INTO users VALUES ({v.id}, '{v.uuid}')", "23505")
    if pick == 1:
        raise DbError(f"null value in {v.word}: UPDATE orders SET total = {v.id}", "23502")
    if pick == 2:
        raise DbError(f"syntax error at {v.id}: SELECT {v.id}", "42601")
    if pick == 3:
        raise DbError(f"{key}: INSERT INTO events VALUES ('{v.time}')", "23503")
    with v.quiet() as cursor:
        if pick == 4:
            cursor.execute(f"SELECT * FROM t{v.id}", {"id": v.id})
        return (lambda rows: rows[v.id])([])
""",
    ),
    "connect": (
        "outside",
        7,
        """
def connect(v, pick):
    refused = v.text("Connection refused", "Verbindungsaufbau abgelehnt", "接続が拒否されました")
    if pick == 0:
        raise ConnectionRefusedError(111, f"{refused}: {v.host}:443")
    if pick == 1:
        raise ConnectionResetError(104, f"{v.host} reset {v.uuid}")
    if pick == 2:
        raise BrokenPipeError(32, f"pipe to {v.host}")
    if pick == 3:
        raise DbError(f"deadlock detected by process {v.id}", "40P01")
    if pick == 4:
        raise DbError(f"too many connections for {v.host}", "53300")
    if pick == 5:
        raise DbError(f"could not serialize access ({v.time})", "40001")
    raise HttpError(f"{v.host} is overloaded", 503)
""",
    ),
    "convert": (
        "own",
        5,
        """
def convert(v, pick):
    def rate(code):
        if code == "usd":
            raise ShopError(f"no rate at {v.time}")
        return {"eur": 1}[code + v.word]

    try:
        if pick == 0:
            return rate("usd")
        if pick == 1:
            return rate("gbp")
        if pick == 2:
            return max(
                float(v.word),  # the amount
                v.id,
            )
    except (ShopError, KeyError, ValueError) as error:
        raise ShopError(f"conversion {v.uuid} failed") from error
    if pick == 3:
        return sum(int(part) for part in (v.word, "1"))
    return list(map(lambda part: part["net"], [v.id]))
""",
    ),
    "fetch": (
        "own",
        4,
        """
async def fetch(v, pick):
    await asyncio.sleep(0)
    async with v.aquiet():
        if pick == 0:
            raise ShopError(f"bad checksum of {v.path}")
        async for part in v.parts():
            if pick == 1:
                raise ShopError(f"part {part} of {v.path} is empty")
    if pick == 2:
        assert v.id < 0, f"size {v.id}"
    return await v.nothing
""",
    ),
    "account": (
        "outside",
        3,
        """
def account(v, pick):
    if pick == 0:
        raise HttpError(v.text("not allowed", "Keine Berechtigung", "権限がありません"), 401)
    if pick == 1:
        raise HttpError(f"key of {v.word} revoked at {v.time}", 401)
    raise HttpError(f"quota of {v.id} requests used up", 429)
""",
    ),
    "close": (
        "outside",
        1,
        """
def close(v, pick):
    raise Grouped(f"period {v.id} is closed since {v.time}")
""",
    ),
}
UNREADABLE = (
    "def gone(v, pick):\n"
    "    if pick == 0: raise ValueError(f'user {v.id} not found on {v.host}')\n"
    "    if pick == 1: raise ValueError(f'order {v.uuid} expired at {v.time}')\n"
    "    if pick == 2: raise ValueError(f'cannot open {v.temporary}')\n"
    "    if pick == 3: raise KeyError('vat_id')\n"
    "    if pick == 4: raise ValueError(f'SELECT * FROM t WHERE name = {v.word!r}: no rows')\n"
    "    raise RuntimeError(f'lost {v.host}:443 after {v.id % 90}.5 s')\n"
)
"""Code without source, as it comes from a package of bytecode."""
CRASHES = (
    "the worker on {v.host} (process {v.id}) vanished",
    "its process ended with exit code -9 after {v.id} s",
    "its process answered nonsense ({v.uuid})",
    "the machine {v.host} was restarted at {v.time}",
    "out of memory at {v.id} MB",
    "stopped by signal {v.id} while it wrote /tmp/{v.uuid}",
)
OUTSIDE_STATUS = frozenset((5, 6, 7, 8, 9))
"""Of `call`: an account, a quota, a limit and outages."""
TWO_HANDLERS = ("call", "connect", "account", "close", "check", "gone", "crash")


class Values:
    """What differs between failures of one cause."""

    def __init__(self, rng: random.Random) -> None:
        self.id = rng.randrange(1, 10_000_000)
        self.uuid = uuid.UUID(int=rng.getrandbits(128))
        kind = rng.choice(("pay-{}.internal", "db{}.eu.example.com", "10.0.3.{}", "api{}.local"))
        self.host = kind.format(rng.randrange(1, 250))
        self.time = f"2026-{rng.randrange(1, 13):02}-07T{rng.randrange(24):02}:41:07.{self.id}Z"
        self.path = f"/srv/data/{self.id}/{rng.choice(('a', 'b'))}.html"
        self.temporary = f"/tmp/tmp{rng.getrandbits(40):x}/x"  # noqa: S108 - only a text
        self.word = rng.choice(("eins", "zwei", "drei")) + "x" * rng.randrange(20)
        self.nothing = None
        self._language = rng.randrange(3)

    def text(self, *translations: str) -> str:
        """Return one of these."""
        return translations[self._language]

    def quiet(self) -> Self:
        """Return what a `with` statement can use."""
        return self

    aquiet = quiet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def parts(self) -> AsyncIterator[int]:
        """Yield something."""
        yield self.id


# Edits: each gets the source of a module and returns another one with the same faults.
def unparsed(change: Callable[[ast.Module], object]) -> Callable[[str], str]:
    def edit(source: str) -> str:
        tree = ast.parse(source)
        change(tree)
        return ast.unparse(ast.fix_missing_locations(tree))

    return edit


def functions(tree: ast.AST) -> Iterable[Any]:
    return (
        one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def each_body(code: str) -> Callable[[ast.Module], None]:
    """Put statements before what each function does."""

    def change(tree: ast.Module) -> None:
        for one in functions(tree):
            one.body[:0] = ast.parse(code).body

    return change


def wrapped(tree: ast.Module) -> None:
    for one in functions(tree):
        block: Any = ast.parse("try:\n    pass\nfinally:\n    done = True").body[0]
        block.body = one.body
        one.body = [block]


def annotated(tree: ast.Module) -> None:
    for one in functions(tree):
        one.returns = ast.Constant("object")
        for argument in one.args.args:
            argument.annotation = ast.Constant("object")


def decorated(tree: ast.Module) -> None:
    for one in functions(tree):
        one.decorator_list = [ast.Name("traced", ast.Load())]
    traced = "def traced(work):\n    return lambda *a, **k: work(*a, **k)"
    tree.body[:0] = ast.parse(traced).body


def reordered(tree: ast.Module) -> None:
    tree.body.sort(key=lambda one: not isinstance(one, ast.Import))
    first = [one for one in tree.body if isinstance(one, ast.Import | ast.ClassDef)]
    tree.body = first + [one for one in reversed(tree.body) if one not in first]


def commented(source: str) -> str:
    lines = source.split("\n")
    starts = {one.lineno for one in ast.walk(ast.parse(source)) if isinstance(one, ast.stmt)}
    for number in sorted(starts, reverse=True):
        lines[number - 1 : number - 1] = ["", f"  # note {number}"]
    return "\n".join(line + "  # seen" if line.strip() else line for line in lines)


def inserted(source: str, places: Iterable[tuple[int, int, str]]) -> str:
    """Insert texts at positions (line, column in bytes)."""
    lines = [line.encode() for line in source.split("\n")]
    for line, column, text in sorted(places, reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[:column] + text.encode() + old[column:]
    return "\n".join(line.decode() for line in lines)


def trailing_commas(source: str) -> str:
    source = unparsed(bool)(source)
    calls = [
        one
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.Call) and one.args and not isinstance(one.args[0], ast.GeneratorExp)
    ]
    ends = [(one.end_lineno or 0, (one.end_col_offset or 1) - 1, ",") for one in calls]
    return inserted(source, ends)


def parentheses(source: str) -> str:
    values = [
        one.value
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.Return | ast.Assign) and one.value
    ]
    ends = [(one.end_lineno or 0, one.end_col_offset or 0, "\n)") for one in values]
    return inserted(source, ends + [(one.lineno, one.col_offset, "(\n") for one in values])


def broken_lines(source: str) -> str:
    """Break lines after commas inside brackets."""
    depth, places = 0, []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string == "," and depth:
                column = len(token.line[: token.end[1]].encode())
                places.append((token.end[0], column, "\n      "))
    return inserted(source, places)


def other_quotes(source: str) -> str:
    lines = source.split("\n")
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        if token.type == tokenize.STRING and re.fullmatch(r'"[^"\'\\]*"', token.string):
            row, line = token.start[0] - 1, lines[token.start[0] - 1]
            text = f"'{token.string[1:-1]}'"
            lines[row] = line[: token.start[1]] + text + line[token.end[1] :]
    return "\n".join(lines)


def indented(source: str) -> str:
    return re.sub(
        r"^ +",
        lambda match: "\t" * (len(match[0]) // 4),
        unparsed(bool)(source),
        flags=re.MULTILINE,
    )


EDITS: dict[str, Callable[[str], str]] = {
    "as written": str,
    "formatted": unparsed(bool),
    "commented": commented,
    "lines broken": broken_lines,
    "parentheses": parentheses,
    "trailing commas": trailing_commas,
    "other quotes": other_quotes,
    "tabs": indented,
    "functions in another order": unparsed(reordered),
    "code added above": lambda source: (
        "import os\n\n\ndef unused():\n    return os.name\n\n" + source
    ),
    "statement added": unparsed(each_body("seen = True")),
    "branch added": unparsed(each_body("if 0 > 1:\n    raise ValueError('never')")),
    "docstrings": unparsed(each_body("'What it does.'")),
    "wrapped in try": unparsed(wrapped),
    "annotated": unparsed(annotated),
    "decorated": unparsed(decorated),
}
MOVED = {"commented": "one", "formatted": "package", "statement added": "renamed"}
"""Edits that also move functions: into one file, into a package, into files of other names."""


def write(folder: Path, edit: str) -> list[str]:
    """Write the program after an edit; returns the names of its modules."""
    parts = {name.partition(".")[0].lower(): text for name, (_, _, text) in FUNCTIONS.items()}
    how = MOVED.get(edit, "")
    if how == "one":
        parts = {"everything": "".join(parts.values())}
    prefix = "new_" if how == "renamed" else ""
    place = folder / "app" / "core" if how == "package" else folder
    place.mkdir(parents=True)
    for name, text in parts.items():
        (place / f"{prefix}{name}.py").write_text(EDITS[edit](HEAD + text), "utf-8")
    package = "app.core." if how == "package" else ""
    return [f"{package}{prefix}{name}" for name in parts]


def faults() -> list[tuple[str, int, bool]]:
    """List the faults: function, which of its faults, whether its cause lies outside."""
    found = [
        (name, pick, kind == "outside" or (kind == "status" and pick in OUTSIDE_STATUS))
        for name, (kind, count, _) in FUNCTIONS.items()
        for pick in range(count)
    ]
    found += [("gone", pick, False) for pick in range(6)]
    return found + [("crash", pick, True) for pick in range(len(CRASHES))]


def raised(work: Callable[..., Any], v: Values, pick: int) -> BaseException:
    try:
        result = work(v, pick)
        if inspect.isawaitable(result):
            asyncio.run(result)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - made to fail
        return error
    sys.exit(f"{work} did not fail for {pick}")


def child(folder: str, modules: list[str], rng: random.Random, times: int, broken: str) -> None:
    """Run every fault and print its cause with its fingerprint, one line each."""
    sys.path.insert(0, folder)
    names: dict[str, Any] = {}
    for module in modules:
        names |= vars(importlib.import_module(module))
    exec(compile(UNREADABLE, "/opt/app/gone.py", "exec"), names)  # noqa: S102 - the text above
    names["Invoice.send"] = lambda v, pick: names["Invoice"]().send(v, pick)
    with BROKEN[broken]():
        for name, pick, outside in faults() * times:
            for handler in ("shop", "mail")[: 1 + (name in TWO_HANDLERS)]:
                v = Values(rng)
                if name == "crash":
                    text = CRASHES[pick].format(v=v)
                    found = fingerprint.of_text("Crash", text, handler=handler, outside=True)
                else:
                    found = classify(raised(names[name], v, pick), handler=handler)
                label = f"{name} {pick}" + ("" if outside else f" in {handler}")
                print(json.dumps([label, found.fingerprint]))


def any_statement(_: object) -> str:
    """Take all statements for one."""
    return "statement"


BROKEN: dict[str, Callable[[], Any]] = {
    "": contextlib.nullcontext,
    "messages as they are": lambda: mock.patch.object(fingerprint, "normalise", str),
    "functions without statements": lambda: mock.patch.object(
        fingerprint, "statement_at", any_statement
    ),
    "always the handler": lambda: mock.patch("redrive.classify.OUTSIDE", frozenset[Category]()),
}
"""Builds that group badly; the first is as it should be."""


def pairs(counts: Iterable[int]) -> int:
    return sum(count * (count - 1) // 2 for count in counts)


def score(found: list[tuple[str, str]]) -> tuple[float, float]:
    """Return precision and recall over all pairs of failures."""
    both = pairs(Counter(found).values())
    grouped = pairs(Counter(group for _, group in found).values())
    alike = pairs(Counter(cause for cause, _ in found).values())
    return both / max(1, grouped), both / max(1, alike)


def run(seed: int, times: int, broken: str = "") -> bool:
    """Run the program after every edit; returns True if it was grouped well."""
    found: list[tuple[str, str]] = []
    for number, edit in enumerate(EDITS):
        with tempfile.TemporaryDirectory() as folder:
            modules = write(Path(folder) / "release", edit)
            given = [str(Path(folder) / "release"), ",".join(modules), str(seed + number)]
            words = [sys.executable, "-B", __file__, "--child", *given, str(times), broken]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{edit}: {done.stderr[-2000:]}")
        found += [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    precision, recall = score(found)
    groups, causes = len({group for _, group in found}), len({cause for cause, _ in found})
    print(
        f"{broken or 'as built'}: {len(found)} failures of {len(faults())} faults, {len(EDITS) - 1} edits, "
        f"{causes} causes, {groups} groups: precision {precision:.4f}, recall {recall:.4f}",
        flush=True,
    )
    if not broken:
        tell(found)
    return precision >= NEEDED and recall >= NEEDED


def tell(found: list[tuple[str, str]]) -> None:
    """Print which causes were split and which groups mixed."""
    for title, one, other in (("split", 0, 1), ("mixed", 1, 0)):
        seen: dict[str, set[str]] = {}
        for pair in found:
            seen.setdefault(pair[one], set()).add(pair[other])
        for name, into in sorted(seen.items()):
            if len(into) > 1:
                print(f"  {title}: {name}: {', '.join(sorted(into))}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true", help="3,200 failures")
    parser.add_argument("--control", action="store_true", help="builds that group badly")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        folder, modules, seed, times, broken = given.child
        child(folder, modules.split(","), random.Random(int(seed)), int(times), broken)
        return 0
    print(f"seed {given.seed}")
    if not given.control:
        return 0 if run(given.seed, 2 if given.short else 15) else 1
    held = True
    for broken in filter(None, BROKEN):
        passed = run(given.seed, 1, broken)
        print("  NOT FOUND OUT" if passed else "  found out", flush=True)
        held &= not passed
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
