"""Draws docs/architecture.svg from the layers of tests/test_layers.py: `python tests/architecture.py` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "architecture.svg"

# The way of a log row: the units that it passes, by package and unit. Numbers are those of docs/architecture.md.
WAY = {
    ("mfcp.data", "sources"): 1, ("mfcp.data", "log"): 2, ("mfcp.data", "pool"): 3, ("mfcp", "study"): 4,
    ("mfcp.tasks", "features"): 4, ("mfcp", "predictors"): 5, ("mfcp", "methods"): 5, ("mfcp", "evaluation"): 6,
    ("mfcp", "release"): 7, ("mfcp.platform", "deciding"): 8, ("mfcp", "rules"): 8, ("mfcp.matching", "planning"): 8,
    ("mfcp.platform", "intake"): 9,
}  # fmt: skip

# What a line of mfcp is for, by one of its units.
CAPTIONS = {
    "cli": "the command mfcp", "commands": "one file per sub-command", "stages": "one file per DVC stage",
    "paper": "the study; measured training runs", "platform": "a platform that trains, decides and promotes",
    "simulator": "jobs inside a cluster", "release": "one trained method on all clusters",
    "settings": "params.yaml; MLflow",
    "evaluation": "metrics, comparisons, figures", "methods": "how predictors are trained",
    "rules": "predictions, decisions, settings and splits", "data": "logs, and the task pool made of them",
    "emulator": "a platform that writes logs", "matching": "the solvers; graphs, features, seconds",
}  # fmt: skip

Layers = Mapping[str, Sequence[set[str]]]

_HEIGHT, _GAP, _CHARACTER, _PAD, _MARGIN, _TOP = 26, 8, 7.2, 18, 16, 40.0
_ARROWHEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="4" refY="4" markerWidth="5" markerHeight="5" orient="auto">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#7b93ad"/></marker></defs>'
)


def picture(layers: Layers) -> str:
    """The SVG: the layers of mfcp on the left, those inside its layered packages on the right.

    Args:
        layers: package → its units by layer, lowest first, as `LAYERS` of tests/test_layers.py.
    """
    boxes = [_ARROWHEAD]
    right, lowest = _stack(boxes, "mfcp", layers["mfcp"], _MARGIN + 28, _TOP)
    boxes.append(_imports(_MARGIN + 8, _TOP, lowest))
    boxes.append(_legend(_MARGIN + 28, lowest + 30))
    x, y, bottom = right + 50, _TOP, lowest + 40
    for package in (name for name in layers if name != "mfcp"):
        if y > _TOP and y + len(layers[package]) * (_HEIGHT + _GAP) > bottom:  # the next column
            x, y = right + 40, _TOP
        end, low = _stack(boxes, package, layers[package], x, y)
        right, lowest, y = max(right, end), max(lowest, low), low + 40
    width, height = right + _MARGIN, max(lowest, bottom) + _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="13">'
    )
    return "\n".join([head, f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>', *boxes, "</svg>", ""])


def _imports(x: float, top: float, bottom: float) -> str:
    """The arrow beside the first stack: which way imports go."""
    middle = (top + bottom) / 2
    return (
        f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom - 6:.1f}" stroke="#7b93ad" stroke-width="2" '
        'marker-end="url(#head)"/>'
        f'<text x="{x - 6}" y="{middle:.1f}" fill="#666" font-size="12" text-anchor="middle" '
        f'transform="rotate(-90 {x - 6} {middle:.1f})">imports</text>'
    )


def _legend(x: float, y: float) -> str:
    """What the numbers are."""
    return (
        f'<circle cx="{x + 9}" cy="{y - 5}" r="8.5" fill="#d9822b"/>'
        f'<text x="{x + 9}" y="{y - 1}" text-anchor="middle" fill="white" font-size="11">1</text>'
        f'<text x="{x + 26}" y="{y}" fill="#666">the way of a log row, step by step</text>'
    )


def _stack(boxes: list[str], package: str, layers: Sequence[set[str]], x: float, y: float) -> tuple[float, float]:
    """Add a package's layers, highest first; the right end and the lower end of what was drawn."""
    boxes.append(f'<text x="{x}" y="{y - 14}" font-weight="bold">{package}</text>')
    widest = x
    for units in reversed(layers):
        end = x
        for unit in sorted(units - {"__main__"}):
            width = len(unit) * _CHARACTER + _PAD
            boxes.append(_box(unit, WAY.get((package, unit)), end, y, width))
            end += width + _GAP
        caption = next((CAPTIONS[unit] for unit in units if package == "mfcp" and unit in CAPTIONS), "")
        if caption:
            boxes.append(
                f'<text x="{end + 6:.1f}" y="{y + 17:.1f}" fill="#666" font-size="12">{escape(caption)}</text>'
            )
            end += 6 + 6.2 * len(caption)
        widest, y = max(widest, end - _GAP), y + _HEIGHT + _GAP
    return widest, y - _GAP


def _box(unit: str, number: int | None, x: float, y: float, width: float) -> str:
    """One unit, with its number on the way of a log row where it has one."""
    fill, stroke = ("#fff1de", "#d9822b") if number else ("#eef3f8", "#7b93ad")
    box = (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_HEIGHT}" rx="5" fill="{fill}" stroke="{stroke}"/>'
        f'<text x="{x + width / 2:.1f}" y="{y + 17.5:.1f}" text-anchor="middle">{unit}</text>'
    )
    if number is None:
        return box
    return box + (
        f'<circle cx="{x + width - 1:.1f}" cy="{y + 1:.1f}" r="8.5" fill="#d9822b"/>'
        f'<text x="{x + width - 1:.1f}" y="{y + 5:.1f}" text-anchor="middle" fill="white" font-size="11">'
        f"{number}</text>"
    )


if __name__ == "__main__":
    from test_layers import LAYERS

    PICTURE.write_text(picture(LAYERS), encoding="utf-8")
