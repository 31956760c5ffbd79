"""Charts as SVG: x in percent, y in pixels, so that text keeps its size; colours are classes (CSP)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape


def _pct(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def spark(values: Sequence[int], label: str, *, width: int = 120, hot: int = 0) -> Markup:
    """Draw bars of one series; the last `hot` of them are marked."""
    height, top, step = 26, max(values, default=0) or 1, width / (len(values) or 1)
    bars: list[str] = []
    for at, value in enumerate(values):
        tall = 1 if not value else max(2, round(value / top * (height - 1), 1))
        mark = "z" if not value else "hot" if at >= len(values) - hot else ""
        bars.append(
            f'<rect class="{mark}" x="{at * step:.1f}" y="{height - tall:g}" '
            f'width="{max(1.0, step - 1.5):.1f}" height="{tall:g}" rx=".5"/>'
        )
    return _svg("spark", label, bars, width=str(width), height=height)


def stacked(
    spans: Sequence[Sequence[int]],
    labels: Iterable[tuple[float, str]],
    label: str,
    *,
    height: int = 132,
    classes: Sequence[str] = ("v1", "v2", "v3", "v4", "v5", "v-grey"),
    marks: Iterable[tuple[float, str]] = (),
) -> Markup:
    """Draw stacked bars, one a span; `labels` and `marks` are texts at the number of a span."""
    top = max(map(sum, spans), default=0) or 1
    left, base, room = 5.0, height - 20, height - 28
    width = (100 - left) / (len(spans) or 1)
    out = [
        f'<line class="gridline" x1="{_pct(left)}" x2="100%" y1="{base - room}" y2="{base - room}"/>',
        f'<text x="{_pct(left - 0.7)}" y="{base - room + 3.5}" text-anchor="end">{top:,}</text>',
    ]
    for at, span in enumerate(spans):
        y = float(base)
        for kind, value in zip(classes, span, strict=False):
            if value:
                tall = max(1.5, value / top * room)
                y -= tall
                x = _pct(left + at * width + width * 0.1)
                out.append(
                    f'<rect class="{kind}" x="{x}" y="{y:.1f}" width="{_pct(width * 0.8)}" '
                    f'height="{tall:.1f}"/>'
                )
    out.append(f'<line class="axis" x1="{_pct(left)}" x2="100%" y1="{base}.5" y2="{base}.5"/>')
    for place, text in labels:
        anchor = "start" if place == 0 else "end" if place >= len(spans) else "middle"
        x = _pct(left + place * width)
        out.append(f'<text x="{x}" y="{height - 4}" text-anchor="{anchor}">{escape(text)}</text>')
    for mark, text in marks:
        x, side = _pct(left + mark * width), (-5, "end") if mark * 2 > len(spans) else (5, "start")
        out.append(
            f'<line class="mark" x1="{x}" x2="{x}" y1="4" y2="{base}"/><text x="{x}" y="10" '
            f'dx="{side[0]}" text-anchor="{side[1]}">{escape(text)}</text>'
        )
    return _svg("chart", label, out, height=height)


def _svg(
    kind: str, label: str, parts: Iterable[str], *, width: str = "100%", height: int
) -> Markup:
    text = f'<svg class="{kind}" width="{width}" height="{height}" role="img" aria-label="{escape(label)}">'
    return Markup(f"{text}{''.join(parts)}</svg>")  # noqa: S704 - all that strangers wrote is escaped
