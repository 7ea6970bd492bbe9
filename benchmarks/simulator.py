"""`python benchmarks/simulator.py`: seconds of the compiled clocks, beside a plain Python loop on the same jobs.

Medians of five after one warm run, except for the loop, which runs once. Jobs are drawn: lognormal durations, powers of
two of accelerators, a load of 0.9.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.plain_simulator import plain_simulate
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Ordering, Policy
from mfcp.simulator.simulation import import_policies, simulate

LOAD = 0.9


def drawn(n: int, accelerators: int, seed: int = 0) -> Jobs:
    """n jobs that keep so many accelerators busy for a share `LOAD` of the time."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4, 8, 16], n, p=[0.6, 0.15, 0.12, 0.1, 0.03])
    duration = np.exp(rng.normal(7.5, 1.6, n))
    span = float((gpus * duration).sum()) / accelerators / LOAD
    return Jobs.simple(np.sort(rng.uniform(0, span, n)), gpus, duration)


def seconds(run: Callable[[], object], times: int = 5) -> float:
    """The median after one warm run."""
    run()
    took = []
    for _ in range(times):
        before = time.perf_counter()
        run()
        took.append(time.perf_counter() - before)
    return median(took)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", type=int, default=2000, help="jobs of the plain loop (2000)")
    parser.add_argument("--lp", type=int, default=5000, help="jobs of the shares (5000)")
    options = parser.parse_args()
    import_policies()
    table = Table("policy", "jobs", "accelerators", "seconds", "events", "plain loop / ours, same jobs")
    for name, n, accelerators in (
        ("srsf", 10_000, 64), ("srsf", 100_000, 6000), ("las", 100_000, 6000), ("easy", 100_000, 6000),
    ):  # fmt: skip
        policy, cluster = Policy.build(name), Cluster.parse(str(accelerators))
        assert isinstance(policy, Ordering)
        jobs = drawn(n, accelerators)
        took = seconds(lambda p=policy, j=jobs, c=cluster: simulate(j, c, p))
        few = drawn(options.loop, accelerators)
        ours = seconds(lambda p=policy, j=few, c=cluster: simulate(j, c, p))
        before = time.perf_counter()
        ends = plain_simulate(few, accelerators, policy, few.duration)
        loop = time.perf_counter() - before
        assert np.allclose(ends, simulate(few, cluster, policy).finished)
        work = simulate(jobs, cluster, policy).work
        table.add_row(name, f"{n:,}", str(accelerators), f"{took:.2f}", f"{work['events']:,}", f"{loop / ours:,.0f}")
    jobs = drawn(options.lp, 108)
    jobs = Jobs.simple(jobs.submit, np.ones(options.lp), jobs.duration)
    speed = np.random.default_rng(1).uniform(0.2, 1.0, (options.lp, 3))
    before = time.perf_counter()
    work = simulate(jobs, Cluster.parse("a:36,b:36,c:36"), Policy.build("max_min"), speed=speed).work
    table.add_row(
        "max_min", f"{options.lp:,}", "108", f"{time.perf_counter() - before:.2f}", f"{work['resets']:,}", "-"
    )
    Console().print(table)


if __name__ == "__main__":
    main()
