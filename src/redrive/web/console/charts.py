"""Charts as SVG: x in percent, y in pixels, so that text keeps its size; colours are classes (CSP)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

HATCHED = "v-wait"
_HATCH = (
    '<defs><pattern id="hatch" class="hatch" width="8" height="8" patternUnits="userSpaceOnUse">'
    '<path d="M-2 10 10-2M-2 2 2-2M6 10l4-4"/></pattern></defs>'
)
_STEPS = (1, 2, 5)


def _pct(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def _svg(
    kind: str, label: str, body: str, *, width: str = "100%", height: int | None = None
) -> Markup:
    tall = "" if height is None else f' height="{height}"'
    text = f'<svg class="{kind}" width="{width}"{tall} role="img" aria-label="{escape(label)}">'
    return Markup(f"{text}{body}</svg>")  # noqa: S704 - all that strangers wrote is escaped


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
    return _svg("spark", label, "".join(bars), width=str(width), height=height)


def mix(parts: Sequence[tuple[str, int]], label: str, *, least: float = 0.35) -> Markup:
    """Draw one bar of parts; each is a class and a number, and stays visible however small it is."""
    total = sum(number for _, number in parts) or 1
    widths = [max(least, 100 * number / total) if number else 0.0 for _, number in parts]
    if widths:
        widths[widths.index(max(widths))] -= max(0.0, sum(widths) - 100)
    at, bars = 0.0, [_HATCH if any(kind == HATCHED and n for kind, n in parts) else ""]
    for (kind, _), width in zip(parts, widths, strict=True):
        if width:
            place = f'x="{_pct(at)}" width="{_pct(max(0.05, width - 0.12))}" height="100%"'
            bars.append(f'<rect class="{kind}" {place}/>')
            bars.append(f'<rect fill="url(#hatch)" {place}/>' if kind == HATCHED else "")
        at += width
    return _svg("mix", label, "".join(bars))


def scale(top: float) -> list[int]:
    """Return two or three round numbers for the axis of a chart that reaches `top`."""
    size = 1
    while True:
        for step in _STEPS:
            if step * size * 3 >= top:
                count = 3 if step * size * 2 < top else 2
                return [step * size * n for n in range(1, count + 1)]
        size *= 10


def stacked(
    spans: Sequence[Sequence[int]],
    labels: Iterable[tuple[int, str]],
    label: str,
    *,
    height: int = 132,
    classes: Sequence[str] = ("v1", "v2", "v3", "v4", "v5", "v-grey"),
    marks: Iterable[tuple[float, str]] = (),
) -> Markup:
    """Draw stacked bars, one a span; `labels` and `marks` are texts at the number of a span."""
    ticks = scale(max(map(sum, spans), default=0) or 1)
    left, base, room = 5.0, height - 20, height - 28
    top, width = max(*map(sum, spans), ticks[-1]), (100 - left) / (len(spans) or 1)
    out: list[str] = []
    for tick in ticks:
        y = base - tick / top * room
        out.append(
            f'<line class="gridline" x1="{_pct(left)}" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_pct(left - 0.7)}" y="{y + 3.5:.1f}" text-anchor="end">{tick:,}</text>'
        )
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
    for at, text in labels:
        anchor = "start" if at == 0 else "end" if at >= len(spans) else "middle"
        x = _pct(left + at * width)
        out.append(f'<text x="{x}" y="{height - 4}" text-anchor="{anchor}">{escape(text)}</text>')
    for mark, text in marks:
        x, side = _pct(left + mark * width), (-5, "end") if mark * 2 > len(spans) else (5, "start")
        out.append(
            f'<line class="mark" x1="{x}" x2="{x}" y1="4" y2="{base}"/><text x="{x}" y="10" '
            f'dx="{side[0]}" text-anchor="{side[1]}">{escape(text)}</text>'
        )
    return _svg("chart", label, "".join(out), height=height)


def bars(
    numbers: Sequence[int], labels: Iterable[tuple[int, str]], label: str, kind: str
) -> Markup:
    """Draw bars of one series with an axis."""
    return stacked([[number] for number in numbers], labels, label, height=112, classes=[kind])


def share(percent: float, kind: str = "v-share", base: float | None = None) -> Markup:
    """Draw a thin bar of a share; `base` is a stroke to compare it with."""
    stroke = "" if base is None else f'<rect class="v-ink" x="{_pct(base)}" width="2" height="6"/>'
    bar = f'<rect class="{kind}" y="1" width="{_pct(percent)}" height="4" rx="2"/>{stroke}'
    return Markup(f'<svg class="bar100" width="100%" height="6" aria-hidden="true">{bar}</svg>')  # noqa: S704


def gauge(value: float, limit: float, label: str, texts: tuple[str, str]) -> Markup:
    """Draw how near a value is to a limit."""
    top = max(limit * 1.6, value)
    at = _pct(100 * limit / top)
    anchor = "middle" if limit * 4 > top else "start"
    place = 'x="0"' if value <= limit else 'x="100%" text-anchor="end"'  # beside the other text
    return _svg(
        "chart",
        label,
        '<rect class="v-faint" y="4" width="100%" height="8" rx="4"/>'
        f'<rect class="v-same" y="4" width="{_pct(100 * value / top)}" height="8" rx="4"/>'
        f'<rect class="v-ink" x="{at}" y="0" width="2" height="16"/>'
        f'<text x="{at}" y="27" text-anchor="{anchor}">{escape(texts[1])}</text>'
        f'<text {place} y="27">{escape(texts[0])}</text>',
        height=30,
    )


def lifeline(points: Sequence[dict[str, str]], label: str, kind: str) -> Markup:
    """Draw what a job went through, at even steps; the waits stand between the points."""
    height, y, count = 92, 44, len(points)
    step = 92 / max(1, count - 1)
    xs = [_pct(4 + at * step) for at in range(count)]
    middles = [_pct(4 + (at - 0.5) * step) for at in range(count)]
    out = [f'<line class="base" x1="{xs[0]}" x2="{xs[-1]}" y1="{y}" y2="{y}"/>']
    for x, middle, point in zip(xs, middles, points, strict=True):
        if wait := point.get("wait"):
            out.append(f'<text x="{middle}" y="{y - 9}" text-anchor="middle">{escape(wait)}</text>')
        if life := point.get("life"):
            out.append(f'<text class="life" x="{x}" y="11" dx="6">{escape(life)}</text>')
        out.append(_dot(point["kind"], x, y, height))
        for name, below in (("name", 22), ("at", 36)):
            text = escape(point.get(name, ""))
            shown = ' class="t"' if name == "name" else ""
            out.append(f'<text{shown} x="{x}" y="{y + below}" text-anchor="middle">{text}</text>')
    return _svg(f"lane {kind}", label, "".join(out), height=height)


def _dot(kind: str, x: str, y: int, height: int) -> str:
    if kind == "dead":
        inner = f'<circle class="bad" cx="{x}" cy="{y}" r="2.5"/>'
        return f'<circle class="end" cx="{x}" cy="{y}" r="6"/>{inner}'
    line = (
        f'<line class="turn" x1="{x}" x2="{x}" y1="4" y2="{height - 26}"/>' if kind == "go" else ""
    )
    return f'{line}<circle class="{kind}" cx="{x}" cy="{y}" r="5"/>'


def ramp(
    steps: Sequence[tuple[float, float, float, str]], label: str, *, height: int = 74
) -> Markup:
    """Draw how fast jobs are released: from and to a second, at a rate, in a class."""
    end, base = max(to for _, to, _, _ in steps), height - 18
    top = max(rate for _, _, rate, _ in steps) * 1.1
    out = [
        f'<rect class="{kind}" x="{_pct(100 * start / end)}" y="{base - rate / top * (base - 6):.1f}" '
        f'width="{_pct(max(0.6, 100 * (to - start) / end))}" height="{rate / top * (base - 6):.1f}"/>'
        for start, to, rate, kind in steps
    ]
    out.append(f'<line class="axis" x1="0" x2="100%" y1="{base}.5" y2="{base}.5"/>')
    return _svg("chart", label, "".join(out), height=height)
