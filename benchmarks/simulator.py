"""`python benchmarks/simulator.py`: what the clock of events costs, beside an honest Python loop on the same jobs.

Jobs are drawn: lognormal durations, powers of two of accelerators. CPU seconds are medians of five warm runs of one
process, and so are the loop's (`benchmarks/plain_simulator.py`), whose ends are checked against ours. With a queue on
6,000 accelerators it takes many minutes, and runs once: only with `--whole`. First in, first out also stands beside
what compiled code takes at the least (`benchmarks/bare_fifo.py`). Cold runs and memory are of processes of their own.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.bare_fifo import bare_fifo
from benchmarks.plain_simulator import plain_simulate
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Ordering, Policy
from mfcp.simulator.simulation import import_policies, simulate

POLICIES = ("fifo", "easy", "srsf", "las")
SIZES, LOADS, MILLION = ((10_000, 64), (100_000, 6000)), (0.9, 1.2), (1_000_000, 64, 1.05)


def drawn(n: int, accelerators: int, load: float, seed: int = 0) -> Jobs:
    """n jobs that ask for so much of the accelerators' time until the last is submitted."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8, 16], n, p=[0.6, 0.15, 0.12, 0.1, 0.03])
    duration = np.exp(rng.normal(7.5, 1.6, n))
    span = float((gpus * duration).sum()) / accelerators / load
    user = np.where(np.arange(n) % 2, "ann", "bob")
    return Jobs.simple(np.sort(rng.uniform(0, span, n)), gpus, duration, user=user)


def seconds(run: Callable[[], Any], times: int = 5) -> float:
    """Median CPU seconds, after one warm run."""
    run()
    took = []
    for _ in range(times):
        before = time.process_time()
        run()
        took.append(time.process_time() - before)
    return median(took)


def beside_the_loop(whole: bool) -> Table:
    """Ours and the loop's seconds, by policy, size and load."""
    titles = ("policy", "jobs", "accelerators", "load", "CPU s", "events", "looks", "loop, CPU s", "loop / ours",
              "ours / bare")  # fmt: skip
    table = Table(*titles)
    for (n, accelerators), load in [(size, load) for size in SIZES for load in LOADS]:
        jobs, cluster = drawn(n, accelerators, load), Cluster.parse(str(accelerators))
        for name in POLICIES:
            policy = Policy.build(name)
            assert isinstance(policy, Ordering)
            took = seconds(lambda p=policy, j=jobs, c=cluster: simulate(j, c, p))
            outcome, loop, bare = simulate(jobs, cluster, policy), "-", "-"
            if name == "fifo":
                assert np.allclose(bare_fifo(jobs, accelerators), outcome.finished)
                bare = f"{took / seconds(lambda j=jobs, a=accelerators: bare_fifo(j, a)):.1f}"
            if whole or n < 100_000 or load < 1 or name == "fifo":
                before = time.process_time()
                ends = plain_simulate(jobs, accelerators, policy, jobs.duration)
                other = time.process_time() - before
                assert np.allclose(ends, outcome.finished), f"{name}: the loop ends otherwise"
                if other < 10:
                    other = seconds(lambda j=jobs, a=accelerators, p=policy: plain_simulate(j, a, p, j.duration))
                loop = f"{other:.2f}"
            work = outcome.work
            table.add_row(
                name, f"{n:,}", f"{accelerators:,}", f"{load:g}", f"{took:.3f}", f"{work['events']:,}",
                f"{work['looks']:,}", loop, "-" if loop == "-" else f"{other / took:.1f}", bare,
            )  # fmt: skip
    return table


def alone(*arguments: str, **environment: str) -> tuple[float, float, str]:
    """Wall seconds, peak MiB and output of a command in a process of its own."""
    before = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - before, float(done.stdout.split()[-1]), done.stdout


PEAK = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
CLI = f"from mfcp.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n    {PEAK}\n    raise"


def in_processes() -> Table:
    """A million jobs, the command line on as many rows, and the first run of a machine."""
    table = Table("what", "seconds", "peak MiB")
    for name in POLICIES:
        _, peak, text = alone(__file__, "--million", name)
        table.add_row(
            f"{name}, {MILLION[0]:,} jobs on {MILLION[1]} at load {MILLION[2]}, CPU", text.split()[0], f"{peak:.0f}"
        )
    with tempfile.TemporaryDirectory() as folder:
        jobs = drawn(*MILLION)
        columns = {"job": jobs.id, "submit": jobs.submit, "duration": jobs.duration, "gpus": jobs.gpus}
        pd.DataFrame(columns).to_csv(f"{folder}/million.csv", index=False)
        pd.DataFrame(columns)[:1000].to_csv(f"{folder}/few.csv", index=False)
        both = ("simulate", "--cluster", "64", "--policy", "easy,srsf", "--compare", "--out", f"{folder}/out")
        took, peak, _ = alone("-c", CLI, *both, "--trace", f"{folder}/million.csv")
        table.add_row(
            f"mfcp simulate, easy and srsf, --compare, --out, {MILLION[0]:,} rows of CSV", f"{took:.1f}", f"{peak:.0f}"
        )
        for what, home in (("nothing compiled yet", {"XDG_CACHE_HOME": f"{folder}/cache"}), ("compiled before", {})):
            for name in ("fifo", "srsf"):
                few = ("simulate", "--cluster", "64", "--policy", name, "--trace", f"{folder}/few.csv")
                took, peak, _ = alone("-c", CLI, *few, **home)
                table.add_row(f"mfcp simulate, {name}, 1,000 jobs, {what}", f"{took:.1f}", f"{peak:.0f}")
    return table


def million(name: str) -> None:
    """CPU seconds of a warm run of the large trace, and the peak of the process."""
    jobs, cluster, policy = drawn(*MILLION), Cluster.parse(str(MILLION[1])), Policy.build(name)
    simulate(jobs.take(np.arange(1000)), cluster, policy)
    before = time.process_time()
    simulate(jobs, cluster, policy)
    print(f"{time.process_time() - before:.1f}", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="the loop with a queue on 6,000 accelerators as well")
    parser.add_argument("--million", metavar="POLICY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    import_policies()
    if options.million:
        million(options.million)
        return
    console = Console(width=140)
    console.print(in_processes())
    console.print(beside_the_loop(options.whole))


if __name__ == "__main__":
    main()
