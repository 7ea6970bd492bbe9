"""Stage report: data/reports and the training curves → tables, figures and report.html, which MLflow gets as well."""

from __future__ import annotations

import sys

from mfcp.border.json_text import read_json
from mfcp.errors import MfcpError
from mfcp.evaluation import plots
from mfcp.evaluation.compare import POOLED
from mfcp.evaluation.html_report import write_report
from mfcp.evaluation.report import write_figures, write_tables
from mfcp.methods.training_curves import read_curves
from mfcp.settings import Settings
from mfcp.stages.base import MODELS, REPORTS, main
from mfcp.tracking import PIPELINE, attach


def run(settings: Settings) -> None:
    """Draw what the evaluation found."""
    summary = read_json(REPORTS / "metrics.json")
    pool = read_json(REPORTS / "pool.json")
    notes = [f"Emulated, not measured: {', '.join(pool['emulated'])}."] if pool["emulated"] else []
    write_tables(summary, REPORTS / "comparison.md", notes)
    write_figures(summary, REPORTS)
    runs = [(name, method) for name, methods in summary.items() if name != POOLED for method in methods]
    history = {f"{name}/{method}": read_curves(MODELS / method, name) for name, method in runs}
    plots.curves(history, REPORTS / "training.png")
    write_report(REPORTS, REPORTS / "report.html")
    try:
        attach(PIPELINE, REPORTS / "report.html")
    except MfcpError as error:
        print(f"warning: the report is not in MLflow: {error}", file=sys.stderr)
    print(f"tables and figures in {REPORTS}, all of it in {REPORTS / 'report.html'}")


if __name__ == "__main__":
    main(run)
