"""Draw `docs/images/states.svg` from TRANSITIONS: a state or an arrow without a place here is an error."""

from __future__ import annotations

from pathlib import Path

from redrive.jobs.job import TRANSITIONS, State

PICTURE = Path(__file__).resolve().parents[1] / "images" / "states.svg"
WIDE, HIGH = 150, 46

PLACES = {
    State.PENDING: (130, 110),
    State.RUNNING: (440, 110),
    State.COMPLETED: (750, 110),
    State.DEAD: (440, 300),
    State.RESOLVED: (750, 300),
}
COLOURS = {
    State.PENDING: "#b58900",
    State.RUNNING: "#268bd2",
    State.COMPLETED: "#2e8b57",
    State.DEAD: "#c0392b",
    State.RESOLVED: "#6c71c4",
}
# How each arrow runs, as an SVG path, and its words with their place.
ARROWS = {
    (State.PENDING, State.RUNNING): ("M205 98 H361", "claim", (283, 90)),
    (State.RUNNING, State.PENDING): ("M365 122 H209", "failed: retry later", (287, 140)),
    (State.RUNNING, State.COMPLETED): ("M515 110 H671", "done, skipped", (593, 102)),
    (State.RUNNING, State.DEAD): ("M452 133 V273", "hopeless, used up", (380, 190)),
    (State.RUNNING, State.RESOLVED): ("M515 128 L690 273", "closed meanwhile", (660, 184)),
    (State.PENDING, State.DEAD): ("M160 133 L372 283", "too old", (222, 212)),
    (State.PENDING, State.RESOLVED): (
        "M110 133 C110 420 560 420 700 327",
        "resolve, discard",
        (330, 402),
    ),
    (State.DEAD, State.PENDING): ("M365 308 C240 308 135 260 135 137", "retry", (250, 274)),
    (State.DEAD, State.RESOLVED): ("M515 292 H671", "resolve, discard", (593, 284)),
    (State.RESOLVED, State.DEAD): ("M675 310 H519", "reopen", (593, 328)),
    (State.RESOLVED, State.PENDING): ("M825 300 H866 V40 H130 V83", "retry", (440, 32)),
}
STYLE = (
    "text{font:14px sans-serif;text-anchor:middle;fill:#586069}"
    ".state{font-weight:bold;font-size:16px;fill:#fff}"
    "path{fill:none;stroke:#8a929a;stroke-width:1.6;marker-end:url(#tip)}"
)


def svg() -> str:
    """Give the picture."""
    edges = {(source, target) for source, targets in TRANSITIONS.items() for target in targets}
    if edges != ARROWS.keys() or PLACES.keys() != TRANSITIONS.keys():
        msg = f"draw anew: {sorted(edges ^ ARROWS.keys())}"
        raise SystemExit(msg)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 430" role="img">',
        "<title>The five states of a job and every change between them</title>",
        f"<style>{STYLE}</style>",
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z" '
            'style="fill:#8a929a;stroke:none;marker-end:none"/></marker></defs>'
        ),
    ]
    for path, words, (x, y) in ARROWS.values():
        parts += [f'<path d="{path}"/>', f'<text x="{x}" y="{y}">{words}</text>']
    for state, (x, y) in PLACES.items():
        parts += [
            (
                f'<rect x="{x - WIDE // 2}" y="{y - HIGH // 2}" width="{WIDE}" height="{HIGH}" rx="8" '
                f'fill="{COLOURS[state]}"/>'
            ),
            f'<text class="state" x="{x}" y="{y + 6}">{state.value}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(svg(), "utf-8")
