"""`python benchmarks/conformance.py --data DIR`: their number, ours and the difference, per set of published results.

DIR holds a folder per set, each with its inputs and `expected.json`. A set whose folder is missing is skipped, and so
is a policy that `mfcp.simulator` does not have; both are told. Where a number is outside its bound, an experiment is
run: one thing that the published runs may have had otherwise is changed, or another draw of what they left free is
taken. If the published value lies among what comes of it, the difference is explained; otherwise the number is a miss,
and the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from benchmarks.published import elasticflow, fgd, gavel, muri, shockwave
from benchmarks.published.results import Number, summary

SETS: dict[str, Callable[[Path, float], list[Number]]] = {
    "muri": muri.numbers,
    "fgd": fgd.numbers,
    "gavel_sim": gavel.numbers,
    "elasticflow": elasticflow.numbers,
    "shockwave": shockwave.numbers,
}


def main() -> None:
    """Run the sets, print their tables and the count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the published sets")
    parser.add_argument("--only", help="one set")
    parser.add_argument("--rates", type=float, default=4.8, help="of gavel_sim: up to so many jobs an hour (4.8)")
    parser.add_argument(
        "--orders", action="store_true", help="of gavel_sim: max-min fairness by other solvers, instead"
    )
    options = parser.parse_args()
    console, found = Console(width=170), list[Number]()
    if options.orders:
        there = (options.data / "gavel_sim" / "expected.json").exists()
        console.print(
            orders(options.data / "gavel_sim", options.rates) if there else "gavel_sim: skipped, no such folder"
        )
        return
    for name, numbers in SETS.items():
        if options.only not in (None, name):
            continue
        if not (options.data / name / "expected.json").exists():
            console.print(f"{name}: skipped, no such folder")
            continue
        own = numbers(options.data / name, options.rates)
        found += own
        table = Table("number", "theirs", "ours", "difference", "bound", "", title=name)
        for each in own:
            table.add_row(*each.cells())
        console.print(table)
    console.print(summary(found))
    sys.exit(any(each.missed for each in found))


def orders(folder: Path, rates: float) -> Table:
    """Max-min fairness by other ways than a linear program, at each rate."""
    table = Table("jobs/h", "theirs", *(f"{way}, h" for way in gavel.WAYS), *(f"{way}, order" for way in gavel.WAYS))
    for each in gavel.orders(folder, rates):
        hours = [f"{each.ours[way]:.2f}" for way in gavel.WAYS]
        kept = [f"{each.kept[way]} of {each.others}" for way in gavel.WAYS]
        table.add_row(f"{each.rate:g}", f"{each.published:.2f}", *hours, *kept)
    return table


if __name__ == "__main__":
    main()
