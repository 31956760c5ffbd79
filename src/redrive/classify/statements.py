"""The statement of the program that failed, in a form that survives reformatting.

Comments, white space, quotes, line breaks and parentheses do not matter, nor does the place of the
function in its file. Without its source a statement has no form; nor has it one if the file no longer
has that function at that line, because it was changed after it was loaded.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import stat
from functools import lru_cache
from itertools import islice
from types import CodeType, TracebackType
from typing import Any, Final

from redrive.classify.clues import guarded

_MOST_LINES, _MOST_BYTES = 10_000, 1_000_000
"""Of a file; parsing a larger one would hold the worker up."""
_MOST_KNOWN: Final = 2000
_KNOWN: Final[dict[tuple[int, int], tuple[CodeType, str]]] = {}
"""Forms of statements seen before, by the identity of their code, kept with it."""
_HEADS: Final[dict[type[ast.AST], tuple[str, ...]]] = {
    ast.If: ("test",),
    ast.While: ("test",),
    ast.For: ("target", "iter"),
    ast.AsyncFor: ("target", "iter"),
    ast.With: ("items",),
    ast.AsyncWith: ("items",),
    ast.Match: ("subject",),
    ast.match_case: ("pattern", "guard"),
    ast.Try: (),
    ast.TryStar: (),
    ast.ExceptHandler: ("type",),
    ast.FunctionDef: ("name", "decorator_list", "args"),
    ast.AsyncFunctionDef: ("name", "decorator_list", "args"),
    ast.ClassDef: ("name", "bases", "keywords", "decorator_list"),
}
"""What counts of a statement that has others inside it."""
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NESTED: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)
_FAR_RIGHT: Final = 1 << 30


def statement_at(place: TracebackType) -> str:
    """Return the form of the statement that a frame was at; empty without its source."""
    code = place.tb_frame.f_code
    known = _KNOWN.get((id(code), place.tb_lasti))
    if known is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        # Guarded: globals, loaders and files may be anything.
        known = _KNOWN[id(code), place.tb_lasti] = code, guarded(_form, place) or ""
    return known[1]


def _form(place: TracebackType) -> str:
    tree = _parsed(_source(place))
    scope, node = _innermost(tree, place.tb_frame.f_code, *_position(place))
    if node is None:
        return ""
    shape = _shape(node)
    earlier = 0 if scope is tree else sum(_is_earlier(one, node, shape) for one in ast.walk(scope))
    return f"{shape!r}#{earlier}" if earlier else repr(shape)


def _is_earlier(one: ast.AST, node: ast.AST, shape: object) -> bool:
    """Return True for a statement with the same text above: each of the two is a cause of its own."""
    return type(one) is type(node) and _start(one) < _start(node) and _shape(one) == shape


def _source(place: TracebackType) -> str:
    file = place.tb_frame.f_code.co_filename
    if file not in linecache.cache:
        try:
            found = os.stat(file)  # noqa: PTH116 - a name that no path need be
        except OSError:  # in an archive, or typed in
            linecache.lazycache(file, place.tb_frame.f_globals)
        else:
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
                return ""
    lines = linecache.getlines(file)
    return "".join(lines) if len(lines) <= _MOST_LINES else ""


@lru_cache(maxsize=4)
def _parsed(source: str) -> ast.Module:
    # Unknown escapes would print a warning; doubled, they mean the same.
    return ast.parse(_ESCAPE.sub(_doubled, source[:_MOST_BYTES]))


_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def _doubled(match: re.Match[str]) -> str:
    return match[0] if match[1] in "\\'\"\nabfnrtvxuUN01234567" else f"\\{match[0]}"


def _position(place: TracebackType) -> tuple[int, int]:
    code = place.tb_frame.f_code
    line = place.tb_lineno or code.co_firstlineno
    found = next(islice(code.co_positions(), place.tb_lasti // 2, None), None)
    if found is None or found[0] != line or found[2] is None:
        return line, _FAR_RIGHT
    return line, found[2]


def _innermost(
    tree: ast.Module, code: CodeType, line: int, column: int
) -> tuple[ast.AST, ast.AST | None]:
    """Find the statement at a position, on the way that the function's qualified name describes.

    Returns the function (or class, or module) and the statement in it.
    """
    wanted = [name for name in code.co_qualname.split(".") if name[0] != "<"]
    scope: ast.AST = tree
    found: ast.AST | None = None
    inside: ast.AST | None = tree
    while inside is not None:
        covering = (one for one in ast.iter_child_nodes(inside) if _covers(one, line, column))
        inside = max(covering, key=_start, default=None)
        found = inside or found
        if isinstance(inside, _SCOPES):
            if not wanted:  # its header, run by what is around it
                break
            scope = inside
            if inside.name != wanted.pop(0):
                return scope, None
            if not wanted and code.co_name[0] != "<" and _start(inside)[0] != code.co_firstlineno:
                return scope, None
    return scope, None if wanted else found


def _covers(node: ast.AST, line: int, column: int) -> bool:
    if not isinstance(node, _NESTED):
        return False
    last = node.body[-1] if isinstance(node, ast.match_case) else node
    if isinstance(node, (*_SCOPES, ast.match_case)):  # entering a function is at no column
        column = _FAR_RIGHT
    return _start(node) <= (line, column) and line <= (last.end_lineno or line)


def _start(node: Any) -> tuple[int, int]:
    first = node.pattern if isinstance(node, ast.match_case) else node
    decorators = getattr(node, "decorator_list", ())
    return min((one.lineno, one.col_offset) for one in (first, *decorators))


def _shape(node: Any) -> object:
    """Return types and values of a syntax tree; the same on every version of Python."""
    if issubclass(type(node), list):
        return tuple(map(_shape, node))
    if isinstance(node, str):
        return node.replace("\\\\", "\\")
    if not isinstance(node, ast.AST):
        return node
    fields = ((name, value) for name, value in _fields(node) if value not in (None, []))
    return (type(node).__name__, *((name, _shape(value)) for name, value in fields))


def _fields(node: ast.AST) -> list[tuple[str, Any]]:
    if isinstance(node, ast.JoinedStr):  # some versions have empty texts between the values
        return [("values", [one for one in node.values if getattr(one, "value", one) != ""])]
    names = _HEADS.get(type(node), node._fields)
    return [(name, getattr(node, name, None)) for name in names if name not in {"ctx", "kind"}]
