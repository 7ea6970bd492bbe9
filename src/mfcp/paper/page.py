"""docs/results.md, made from docs/results/paper.json alone."""

from __future__ import annotations

from pathlib import Path


def publish(out: Path, docs: Path) -> None:
    """Copy results and figures to `docs/results` and write the page."""
    raise NotImplementedError


def write_page(docs: Path) -> None:
    """Write `docs/results.md` from `docs/results/paper.json`."""
    raise NotImplementedError
