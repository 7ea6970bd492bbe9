"""Slurm clusters on loopback under the platform's executors: faults, speed, and what its predictions are worth there.

    python benchmarks/executors.py chaos [--seeds 0,1,2,3,4] [--tasks 20] [--naive]
    python benchmarks/executors.py speed
    python benchmarks/executors.py loop [--rounds 7] [--keep DIR]

`chaos` kills every part of Slurm and, before and after each thing that it does, the platform's own process, and checks
that every task ends once or is reported; with `--naive` a plain executor runs under the same faults, and must fail.
`speed` takes from a round's commit to its jobs running, a thousand tasks handed in, and ten thousand watched.
`loop` runs training steps of the zoo on two unlike clusters and prints what releases make of them, as they learn.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.executors_chaos import PARTS, POINTS, Chaos, Outcome
from benchmarks.executors_loop import loop
from benchmarks.executors_speed import speed
from mfcp.errors import guarded


def chaos(seeds: list[int], tasks: int, *, naive: bool) -> int:
    """Every seed; exit code 1 where something was found that must not be."""
    points, total = Counter[str](), Counter[str]()
    wrong = 0
    print(f"{'seed':>4} {'tasks':>5} {'s':>5} {'kills':>5} {'faults':>6} {'attempts':>8} {'resumed':>7}  findings")
    for seed in seeds:
        own = POINTS[seed % PARTS :: PARTS]  # five seeds one after the other have killed at all of them
        root = Path(tempfile.mkdtemp(prefix="mfcp-chaos-"))
        try:
            outcome: Outcome = Chaos(seed, tasks, root / "c", own, naive).run()
            if outcome.findings and not naive:
                shutil.copy(root / "c" / "driver.log", f"chaos-{seed}.log")
        finally:
            shutil.rmtree(root, ignore_errors=True)
        print(
            f"{seed:4} {tasks:5} {outcome.took_s:5.0f} {sum(outcome.points.values()):5} "
            f"{sum(outcome.faults.values()):6} {sum(outcome.attempts.values()):8} {outcome.resumed:7}  "
            f"{len(outcome.findings)}",
            flush=True,
        )
        for finding in outcome.findings:
            print(f"       {finding}", flush=True)
        points += outcome.points
        total += outcome.faults
        wrong += len(outcome.findings)
    print(f"faults: {', '.join(f'{name} {count}' for name, count in sorted(total.items()))}")
    wanted = [point for seed in seeds for point in POINTS[seed % PARTS :: PARTS]]
    missed = [point for point in wanted if not points[point]]
    print(f"killed at {len(points)} of {len(wanted)} points{'; not on the way: ' if missed else ''}{', '.join(missed)}")
    print(f"{wrong} findings")
    return int(wrong > 0)


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("chaos", "speed", "loop"))
    parser.add_argument("--seeds", default="0,1,2,3,4", help="of chaos")
    parser.add_argument("--tasks", type=int, default=20, help="of each seed")
    parser.add_argument("--naive", action="store_true", help="a plain executor in place of the platform's")
    parser.add_argument("--rounds", type=int, default=7, help="of loop")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="of loop: where its runs are left, or were before")
    options = parser.parse_args()
    if options.what == "loop":
        return loop(options.rounds, 0, options.keep)
    if options.what == "speed":
        return speed()
    return chaos([int(seed) for seed in options.seeds.split(",")], options.tasks, naive=options.naive)


if __name__ == "__main__":
    sys.exit(guarded(lambda: sys.exit(main())))
