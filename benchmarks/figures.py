"""Plots of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def plot(path: Path, draw: Callable[[Any], None]) -> None:
    """Write an image of what `draw` puts on its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4), layout="constrained")
    draw(figure.subplots())
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    print(f"wrote {path}")
