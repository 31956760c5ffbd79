"""The figures as bars: a panel a measure, each with a scale of its own."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from measure import Result
from report import figure

WIDTH, LEFT, BAR, GAP, HEAD = 760, 230, 18, 6, 44
LONGEST = WIDTH - LEFT - 130
STYLE = (
    "text{font:13px sans-serif;fill:#24292f}.title{font-weight:600}.figure{fill:#57606a}"
    ".ours{fill:#2563a8}.others{fill:#a9b4c0}.paper{fill:#fff}"
)


def svg(results: Iterable[Result]) -> str:
    """Draw all panels below each other."""
    parts: list[str] = []
    top = 8
    for result in results:
        if result.measure.plotted and result.figures:
            parts.append(_panel(result, top))
            top += HEAD + len(result.figures) * (BAR + GAP)
    frame = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top + 8}">'
    paper = f'<rect class="paper" width="{WIDTH}" height="{top + 8}"/>'
    return "\n".join([frame, f"<style>{STYLE}</style>", paper, *parts, "</svg>", ""])


def _panel(result: Result, top: int) -> str:
    unit = result.measure.unit
    better = "more is better" if unit == "/s" else "less is better"
    title = escape(f"{result.measure.title} ({unit}, {better})")
    lines = [f'<text class="title" x="8" y="{top + 24}">{title}</text>']
    medians = {name: result.median(name) or 0.0 for name in result.figures}
    longest = max(*medians.values(), 1e-9)
    durability = {one.name: one.durability for one in result.measure.contestants}
    for row, (name, median) in enumerate(medians.items()):
        y = top + HEAD - 8 + row * (BAR + GAP)
        length = max(1.0, LONGEST * median / longest)
        kind = "ours" if "redrive" in name.lower() else "others"
        words = escape(f"{name} {durability[name]}".strip())
        lines += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{words}</text>',
            f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}"/>',
            f'<text class="figure" x="{LEFT + length + 6:.1f}" y="{y + 14}">{figure(median)}</text>',
        ]
    return "\n".join(lines)
