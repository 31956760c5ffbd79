"""The statement of the program that failed, in a form that survives reformatting.

Comments, white space, quotes, line breaks and parentheses do not matter, nor does the place of the
function in its file. Without its source a statement has no form.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, TracebackType
from typing import Any, Final

_LARGEST_FILE: Final = 20_000
"""Lines; parsing a larger file would hold the worker up."""
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
    ast.ExceptHandler: ("type",),
    ast.FunctionDef: ("name", "decorator_list", "args"),
    ast.AsyncFunctionDef: ("name", "decorator_list", "args"),
    ast.ClassDef: ("name", "bases", "decorator_list"),
}
"""What counts of a statement that has others inside it."""
_NESTED: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)


def statement_at(place: TracebackType) -> str:
    """Return the form of the statement that a frame was at; empty without its source."""
    code, line = place.tb_frame.f_code, place.tb_lineno or place.tb_frame.f_code.co_firstlineno
    known = _KNOWN.get((id(code), line))
    if known is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        linecache.lazycache(code.co_filename, place.tb_frame.f_globals)
        known = _KNOWN[id(code), line] = code, _form(code, line)
    return known[1]


def _form(code: CodeType, line: int) -> str:
    lines = linecache.getlines(code.co_filename)
    if not 0 < line <= len(lines) <= _LARGEST_FILE:
        return ""
    try:
        node = _innermost(_parsed("".join(lines)), line)
        return "" if node is None else repr(_shape(node))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # not the source of this code
        return ""


@lru_cache(maxsize=4)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _innermost(node: ast.AST, line: int) -> ast.AST | None:
    found: ast.AST | None = None
    children: Iterator[ast.AST] | None = ast.iter_child_nodes(node)
    while children is not None:
        inside = next((one for one in children if _covers(one, line)), None)
        found = inside or found
        children = None if inside is None else ast.iter_child_nodes(inside)
    return found


def _covers(node: ast.AST, line: int) -> bool:
    if isinstance(node, ast.match_case):
        return node.pattern.lineno <= line <= (node.body[-1].end_lineno or line)
    return isinstance(node, _NESTED) and _first_line(node) <= line <= (node.end_lineno or line)


def _first_line(node: ast.stmt | ast.ExceptHandler) -> int:
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(one.lineno for one in decorators)])


def _shape(node: Any) -> object:
    """Return types and values of a syntax tree; the same on every version of Python."""
    if isinstance(node, list):
        return tuple(map(_shape, node))
    if not isinstance(node, ast.AST):
        return node
    names = _HEADS.get(type(node), node._fields)
    values = ((name, getattr(node, name, None)) for name in names if name not in {"ctx", "kind"})
    fields = tuple((name, _shape(value)) for name, value in values if value not in (None, []))
    return (type(node).__name__, *fields)
