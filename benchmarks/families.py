"""Every family of performance models on the same data, with what an answer costs.

    python benchmarks/families.py --data DIR                         all columns
    python benchmarks/families.py --data DIR --columns C,E           some of them
    python benchmarks/families.py --data DIR --json FILE             the table for programs, too
    python benchmarks/families.py --memory DIR                       peak memory, on a folder of `mfcp profile`
    python benchmarks/families.py --steps DIR                        column A, on a folder of `mfcp profile`
    python benchmarks/families.py --page                             write docs/families.md from the kept numbers

DIR holds `timm` (and `qoredl`, `neusight`, `gavel`, `schedulers/elasticflow`; a column whose folder is missing is left
out). All rows of a part have the same folds. MAPE is the mean of |predicted / measured - 1|, over clusters alike; R² is
of log seconds per sample. Ratios are to the best of our rows, with a paired bootstrap over families, devices, jobs or
configurations. Held-back files of the same columns are scored by naming their folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import families_graphs, families_tables
from benchmarks.families_judged import Part, records
from benchmarks.families_page import NUMBERS, write_page
from benchmarks.records import folder_of, names_of, whole, wholes, write_records
from mfcp.border.json_text import read_json
from mfcp.errors import guarded
from mfcp.files import write_json

COLUMNS = ("A", "B", "C", "D", "E", "R")


def parts_of(column: str, data: Path, options: argparse.Namespace) -> list[Part]:
    """A column's comparisons; none where its folder is missing."""
    seeds = options.seeds
    folder = {"A": "timm", "B": "timm", "C": "neusight", "D": "qoredl", "E": ".", "R": "neusight"}[column]
    if not (data / folder).is_dir():
        print(f"{column}: no folder {data / folder}", file=sys.stderr)
        return []
    if column == "A":
        families_graphs.prepare(data / folder)
        parts = [families_graphs.column_a(phase, seeds, options.processes) for phase in families_graphs.STATE["logs"]]
        whole = parts[0].rows[families_graphs.OPERATORS]
        families_graphs.keep_out_of_fold(whole, seeds)
        return parts
    if column == "B":
        parts = families_graphs.column_b(seeds, options.processes)
        if (data / "gavel").is_dir():
            parts += families_tables.column_b(data / "gavel", options.draws)
        return parts
    if column == "C":
        return families_tables.column_c(data / folder)
    if column == "R":
        return families_tables.column_r(data / folder)
    if column == "D":
        return families_tables.column_d(data / folder, options.draws)
    found = []
    for name, path, read in (
        ("ElasticFlow", "schedulers/elasticflow", families_tables.elastic_jobs),
        ("Gavel", "gavel", families_tables.placed_jobs),
    ):
        if (data / path).is_dir():
            found += families_tables.column_e(name, *read(data / path), options.draws)
    return found


def chosen(text: str) -> list[str]:
    """Columns by letter; B after A, which tells what errors have in common."""
    columns = names_of(text, known=COLUMNS)
    return columns if "A" in columns or "B" not in columns else ["A", *columns]


def print_part(judged: dict[str, Any]) -> None:
    """One comparison as a table of 80 columns."""
    print(f"\n{judged['title']}: {judged['n']} runs, {judged['groups']} groups, {judged['draws']} draws")
    print(f"{'':34} {'MAPE %':>7} {'median':>7} {'R²':>6}  MAPE over that of ours")
    for name, row in sorted(judged["rows"].items(), key=lambda item: -item[1]["mape"]):
        ratio = row["ratio"]
        beside = "" if name == judged["best"] or not ratio else f"{ratio[0]:.2f} [{ratio[1]:.2f}, {ratio[2]:.2f}]"
        some = "" if row["n"] == judged["n"] else f" ({row['n']} runs)"
        print(f"{name + some:34} {row['mape']:7.1f} {row['median']:7.1f} {row['r2']:6.3f}  {beside}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=folder_of, help="folder of folders")
    parser.add_argument("--columns", type=chosen, default=list(COLUMNS), metavar="A,B,…", help="some of them")
    parser.add_argument(
        "--memory", type=Path, action="append", default=[], metavar="DIR",
        help="a folder of `mfcp profile`, for peak memory; again for another device",
    )  # fmt: skip
    parser.add_argument(
        "--steps", type=Path, action="append", default=[], metavar="DIR",
        help="a folder of `mfcp profile`, for unseen families on its device; again for another one",
    )  # fmt: skip
    parser.add_argument("--seeds", type=wholes, default=[0], metavar="N,…", help="of folds and networks in A and B")
    parser.add_argument("--draws", type=whole, default=5, metavar="N", help="of folds in D, E and of memory")
    parser.add_argument("--processes", type=whole, default=2, metavar="N")
    parser.add_argument("--page", action="store_true", help="write the page, after a run or without one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="gets a row for each number, after every column")
    options = parser.parse_args()
    kept: dict[str, Any] = dict(read_json(NUMBERS)) if NUMBERS.exists() else {}
    if options.data is None and not (options.page or options.memory or options.steps):
        print("skipped: no measured times here; give a folder with --data")
        return
    columns = options.columns if options.data is not None else []
    found = list[dict[str, Any]]()
    for column in columns:
        for part in parts_of(column, options.data, options):
            judged = part.judged()
            print_part(judged)
            kept[part.column] = judged
            found += records(part.column, judged)
        if options.json:
            write_records(options.json, found)
    for folder in options.steps:
        families_graphs.prepare(folder, profiled=True)
        for phase in families_graphs.STATE["logs"]:
            part = families_graphs.column_a(phase, options.seeds, options.processes)
            kept[part.column] = part.judged()
            print_part(kept[part.column])
            found += records(part.column, kept[part.column])
    for folder in options.memory:
        part, limited = families_tables.column_m(folder, options.draws)
        kept[part.column] = part.judged() | {"limited": limited}
        print_part(kept[part.column])
        found += records(part.column, kept[part.column])
        for name, said in limited.items():
            print(f"{name:34} foreseen {said['foreseen']:.1%}, false alarms {said['false']:.1%}")
    if options.json:
        write_records(options.json, found)
    if options.page:
        if columns or options.memory or options.steps:
            write_json(NUMBERS, kept)
        write_page(kept)


if __name__ == "__main__":
    sys.exit(guarded(main))
