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
    table.add_argument("--wide", action="store_true", help="every column; without it, those that fit 80 characters")
    table.add_argument("--json", action="store_true", help="the numbers of the table as JSON")
    table.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the table."""
    import json

    from mfcp.border.json_text import read_json
    from mfcp.evaluation.table import show

    try:
        summary = read_json(options.metrics)
        if options.json:
            whole = summary if options.all or "pooled" not in summary else summary["pooled"]
            print(json.dumps(whole))
            return
        _tell_origin(options.metrics)
        show(summary, everything=options.all, wide=options.wide)
    except (KeyError, IndexError, TypeError, AttributeError, StopIteration):
        raise DataError(f"{options.metrics}: not a metrics.json of this project") from None


def _tell_origin(metrics: Path) -> None:
    """What of the log never took place, if the file beside the metrics says so."""
    from mfcp.border.json_text import read_json

    pool = metrics.parent / "pool.json"
    emulated = read_json(pool).get("emulated", []) if pool.is_file() else []
    if emulated:
        print(f"EMULATED LOG: its {', '.join(emulated)} never took place.")
