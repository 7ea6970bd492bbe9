"""`mfcp report`: a comparison as one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    report = commands.add_parser(
        "report",
        help="a comparison of methods as one HTML file: verdict, figures, rounds, data",
        description="Writes a page that needs no other file and no network, from a folder that `mfcp benchmark` or the "
        "pipeline (data/reports) has written.",
    )
    report.add_argument("folder", type=Path, metavar="DIR", help="holds metrics.json and rounds.parquet")
    report.add_argument("--out", type=Path, metavar="FILE", help="default: report.html in DIR")
    report.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the page."""
    from mfcp.evaluation.html_report import write_report

    out = options.out or options.folder / "report.html"
    write_report(options.folder, out)
    print(out)
