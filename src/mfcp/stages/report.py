"""Stage report: metrics.json and the training curves → tables and figures in data/reports."""

from __future__ import annotations

from mfcp.evaluation import plots
from mfcp.evaluation.report import write_figures, write_tables
from mfcp.files import read_json
from mfcp.methods.base import Trained
from mfcp.settings import Settings
from mfcp.stages.base import MODELS, REPORTS, main


def run(settings: Settings) -> None:
    """Draw what the evaluation found."""
    summary = read_json(REPORTS / "metrics.json")
    pool = read_json(REPORTS / "pool.json")
    notes = [f"Emulated, not measured: {', '.join(pool['emulated'])}."] if pool["emulated"] else []
    write_tables(summary, REPORTS / "comparison.md", notes)
    write_figures(summary, REPORTS)
    names = [name for name in summary if name != "pooled"]
    history = {f"{n}/{m}": Trained.load(MODELS / m, n).history for n in names for m in settings.methods}
    plots.curves(history, REPORTS / "training.png")
    print(f"tables and figures in {REPORTS}; `mfcp table {REPORTS / 'metrics.json'}` prints them")


if __name__ == "__main__":
    main(run)
