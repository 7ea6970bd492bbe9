"""`mfcp calibrate`: what a log's step times and co-located pairs say about its accelerators, for the emulator.

Imports nothing heavy until the command runs, as `mfcp --help` reads the options here.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.commands.json_output import add_json, aside, print_json
from mfcp.commands.reading import whole_number
from mfcp.errors import DataError
from mfcp.files import output_file
from mfcp.progress import console

if TYPE_CHECKING:
    from mfcp.data.emulator_calibration import Calibrated
    from mfcp.data.log.tables import Tables


def add_parser(commands: Any) -> None:
    """The sub-command and its options."""
    parser = commands.add_parser(
        "calibrate",
        help="fit the emulator's efficiencies and co-location to a folder of logs",
        description="Fits how much of its published figures every accelerator of a log reaches, by class of operator, "
        "and says how far the times of model families are off that the fit has not seen. The log needs graphs, batch "
        "sizes, step times and the figures of its clusters. With a table colocation, zeta is fitted, too.",
    )
    parser.add_argument("data", type=Path, metavar="DIR", help="folder in the log schema")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="efficiencies of training steps, CSV, for the emulator"
    )
    parser.add_argument("--seed", type=whole_number(0), default=0, help="of the folds by family (default: 0)")
    add_json(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Fit, judge and print; write with --out."""
    from mfcp.data.emulator_calibration import calibrate, step_logs
    from mfcp.data.log.tables import read_tables
    from mfcp.data.log.validation import validate
    from mfcp.progress import progress

    if options.out:
        output_file(options.out)
    with aside(options):
        with progress(f"read and validate {options.data}"):
            validated = validate(read_tables(options.data), max_bad_share=1.0)
        _print_left_out(validated.report)
    tables = validated.tables
    logs = step_logs(tables)
    found = []
    with aside(options), progress("calibrate", len(logs)) as advance:
        for log in logs:
            found.append(calibrate(log, seed=options.seed))
            advance()
    zeta = _zeta(tables) if "colocation" in tables else []
    if options.json:
        print_json({"step_times": [_record(one) for one in found], "zeta": zeta})
    else:
        _print(found)
        for one in zeta:
            told = "{cluster}: zeta(2) = {zeta:.3f} from {pairs} pairs, floor {floor:.3f} at decay {decay:g}"
            print(told.format(**one))
    if options.out:
        with aside(options):
            _write(found, options.out)


def _write(found: list[Calibrated], path: Path) -> None:
    """Efficiencies of training steps by accelerator; where several clusters have one, of that with most tasks."""
    from mfcp.emulator.efficiency import save

    training = sorted((one for one in found if one.log.phase == "train"), key=lambda one: len(one.log.seconds))
    if not training:
        raise DataError(f"{path}: not written, since the log times no training steps, which the emulator needs")
    best = {one.log.accelerator: one for one in training}
    sources = {name: f"{one.log.cluster_id}: {len(one.log.seconds)} tasks" for name, one in best.items()}
    save({name: one.efficiency for name, one in best.items()}, path, sources)
    print(f"{path}: {', '.join(best)}; give it to the emulator as ingest.source.calibration")


def _print_left_out(report: dict[str, Any]) -> None:
    """What validation took out of each table, and by which constraints."""
    for name, entry in report["tables"].items():
        if entry["bad_rows"]:
            why = [
                f"{constraint['bad']} by {constraint['constraint']}, expected {constraint['expected']}"
                for constraint in entry["constraints"]
                if constraint["bad"]
            ]
            print(f"{name}: {entry['bad_rows']} of {entry['rows']} rows are left out: {'; '.join(why)}")
    for warning in report["warnings"]:
        print(warning)


def _print(found: list[Calibrated]) -> None:
    from rich.table import Table

    table = Table(title="step times of model families that the fit has not seen")
    for title in ("cluster", "accelerator", "phase", "tasks", "MAPE", "log R²"):
        table.add_column(title, justify="right" if title in ("tasks", "MAPE", "log R²") else "left")
    for one in found:
        log = one.log
        errors = ("-", "-") if one.mape != one.mape else (f"{100 * one.mape:.1f} %", f"{one.r2:.3f}")
        table.add_row(log.cluster_id, log.accelerator, log.phase, str(len(log.seconds)), *errors)
    console(None if sys.stdout.isatty() else 140).print(table)


def _record(one: Calibrated) -> dict[str, Any]:
    """A row of the table."""
    log = one.log
    names = {"cluster": log.cluster_id, "accelerator": log.accelerator, "phase": log.phase}
    return {**names, "tasks": len(log.seconds), "mape": one.mape, "r2_log": one.r2}


def _zeta(tables: Tables) -> list[dict[str, Any]]:
    """What is fitted to co-location, a row a cluster."""
    from mfcp.data.emulator_calibration import DECAY, fit_speedup, multipliers

    names, curve = fit_speedup(tables["colocation"])
    counts = multipliers(tables["colocation"]).groupby(level=0).size()
    factors = curve.table(len(names), 2)[:, 2]
    return [
        {"cluster": str(name), "zeta": float(zeta), "pairs": int(counts[name]), "floor": float(floor), "decay": DECAY}
        for name, zeta, floor in zip(names, factors, curve.floor, strict=True)
    ]
