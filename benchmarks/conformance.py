"""Published numbers of schedulers, ours and the difference, per set of results.

    python benchmarks/conformance.py --data DIR                          every set
    python benchmarks/conformance.py --data DIR --set muri,fgd           some of them
    python benchmarks/conformance.py --data DIR --json FILE              the table for programs, too
    python benchmarks/conformance.py --data DIR --orders                 gavel_sim: max-min fairness by other solvers

DIR, or `schedulers` in it, holds a folder per set, each with its inputs and `expected.json`. A set whose folder or
inputs are missing is skipped, and so is a policy that `mfcp.simulator` does not have; both are told. Where a number is
outside its bound, an experiment is run: one thing that the published runs may have had otherwise is changed, or another
draw of what they left free is taken. If the published value lies among what comes of it, the difference is explained;
otherwise the number is a miss, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from benchmarks.published import elasticflow, fgd, gavel, muri, shockwave
from benchmarks.published.results import Number, summary
from benchmarks.records import folder_of, names_of, write_records

SETS: dict[str, Callable[[Path, float], Iterator[Number]]] = {
    "muri": muri.numbers,
    "fgd": fgd.numbers,
    "gavel_sim": gavel.numbers,
    "elasticflow": elasticflow.numbers,
    "shockwave": shockwave.numbers,
}


def main() -> None:
    """Run the sets, print their tables and the count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=folder_of, required=True, help="folder of the published sets")
    parser.add_argument(
        "--set", type=functools.partial(names_of, known=SETS), default=list(SETS), metavar="NAME,…",
        dest="sets", help=f"some of {', '.join(SETS)}",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="gets a row for each number, one after the other")
    parser.add_argument("--rates", type=float, default=4.8, help="of gavel_sim: up to so many jobs an hour (4.8)")
    parser.add_argument(
        "--orders", action="store_true", help="of gavel_sim: max-min fairness by other solvers, instead"
    )
    options = parser.parse_args()
    data = options.data / "schedulers" if (options.data / "schedulers").is_dir() else options.data
    console, found, rows = Console(width=170), list[Number](), list[dict[str, Any]]()
    if options.orders:
        there = (data / "gavel_sim" / "expected.json").exists()
        console.print(orders(data / "gavel_sim", options.rates) if there else "gavel_sim: skipped, no such folder")
        return
    for name in options.sets:
        if not (data / name / "expected.json").exists():
            console.print(f"{name}: skipped, no {data / name / 'expected.json'}")
            continue
        own = list[Number]()
        try:
            for number in SETS[name](data / name, options.rates):
                own.append(number)
                rows.append(number.record(name))
                if options.json:
                    write_records(options.json, rows)
        except FileNotFoundError as error:
            console.print(f"{name}: {f'the rest is skipped after {len(own)} numbers' if own else 'skipped'}, "
                          f"no {error.filename or error}")  # fmt: skip
        if not own:
            continue
        found += own
        table = Table("number", "theirs", "ours", "difference", "bound", "", title=name)
        for each in own:
            table.add_row(*each.cells())
        console.print(table)
    if options.json:
        write_records(options.json, rows)  # also where there is none
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
