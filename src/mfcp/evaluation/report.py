"""The files of a comparison: metrics.json, rounds.parquet, the tables as Markdown and the figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mfcp.evaluation import plots
from mfcp.evaluation.html_report import write_report
from mfcp.evaluation.table import markdown
from mfcp.files import replacing, write_json

if TYPE_CHECKING:
    from mfcp.evaluation.benchmark import BenchmarkResult
    from mfcp.evaluation.compare import Summary


def write_outcome(outcome: BenchmarkResult, folder: Path) -> None:
    """Everything about an in-memory benchmark in one folder."""
    write_json(folder / "metrics.json", outcome.summary)
    write_json(folder / "pool.json", outcome.data)
    write_json(folder / "details.json", outcome.details)
    with replacing(folder / "rounds.parquet") as path:
        outcome.rounds.to_parquet(path, index=False)
    notes = [f"Emulated, not measured: {', '.join(outcome.pool.emulated)}."] if outcome.pool.emulated else []
    write_tables(outcome.summary, folder / "comparison.md", notes)
    write_figures(outcome.summary, folder)
    plots.curves(outcome.history, folder / "training.png")
    write_report(folder, folder / "report.html")


def write_tables(summary: Summary, path: Path, notes: list[str]) -> None:
    """The comparison tables as Markdown, with what a reader must know beside them."""
    with replacing(path) as temporary:
        temporary.write_text(
            "\n".join(["# Comparison of methods", "", *notes, "", markdown(summary)]), encoding="utf-8"
        )


def write_figures(summary: Summary, folder: Path) -> None:
    """metrics.png and, where there is a baseline, ratios.png."""
    plots.metrics(summary, folder / "metrics.png")
    if any("vs_tsm" in metrics for methods in summary.values() for metrics in methods.values()):
        plots.ratios(summary, folder / "ratios.png")
