"""`mfcp table`: the comparison table of a metrics.json."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mfcp.errors import DataError


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    table = commands.add_parser("table", help="print the comparison table of a metrics.json")
    table.add_argument("metrics", type=Path, metavar="FILE")
    table.add_argument("--all", action="store_true", help="every setting, not the pooled table alone")
    table.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the table."""
    from mfcp.evaluation.table import show
    from mfcp.files import read_json

    try:
        show(read_json(options.metrics), everything=options.all)
    except (KeyError, TypeError, AttributeError, StopIteration):
        raise DataError(f"{options.metrics}: not a metrics.json of this project") from None
