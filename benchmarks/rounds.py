"""Rounds of tens of tasks by the thousand: engine `search` against HiGHS's proven optima, and the expected-cost rule.

    python benchmarks/rounds.py              both tables; some minutes, nearly all of them HiGHS's
    python benchmarks/rounds.py --rounds 2   rounds per seed that HiGHS proves

Gamma binds in half of the rounds. CPU milliseconds per round are of one thread and include prices and bounds. Seeds
0-9; the engine was tuned on seeds from 1000 on.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from mfcp.matching import MatchingProblem, SpeedUp, solve
from mfcp.matching.expected import Moments, cost_bound, expected_plans

SHAPES = ((3, 20), (3, 50), (5, 20))
LARGE = ((50, 1000), (100, 20000))
CONSOLE = Console(width=130)


def rounds(M: int, N: int, B: int, seed: int, family: str) -> MatchingProblem:
    """Times uniform in 1-10 s, or log-normal: sigma 1 between tasks, 0.3 between clusters and between pairs."""
    rng = np.random.default_rng([seed, M, N])
    T = rng.uniform(1, 10, (B, M, N))
    if family == "lognormal":
        T = rng.lognormal(0, 1, (B, 1, N)) * rng.lognormal(0, 0.3, (B, M, 1)) * rng.lognormal(0, 0.3, (B, M, N))
    A = rng.uniform(0.7, 1, (B, M, N))
    fast = np.take_along_axis(A, T.argmin(1)[:, None], 1)[:, 0].mean(1)
    gamma = np.where(np.arange(B) % 2 == 0, (fast + A.max(1).mean(1)) / 2, 0.0)
    return MatchingProblem(T, A, gamma)


def exact(each: int) -> None:
    table = Table(title="engine search: excess over HiGHS's proven optima, CPU ms per round")
    for column in ("M, N", "family", "rounds", "excess", "(worst)", "optimal", "proven", "ms", "HiGHS ms"):
        table.add_column(column, justify="right")
    for M, N in SHAPES:
        for family in ("uniform", "lognormal"):
            batches = [rounds(M, N, each, seed, family) for seed in range(10)]
            solve(batches[0], "search")
            spent, peer, excess, proven = 0.0, 0.0, [], []
            for batch in batches:
                begin = time.process_time()
                found = solve(batch, "search")
                middle = time.process_time()
                best = solve(batch, "milp")
                spent, peer = spent + middle - begin, peer + time.process_time() - middle
                known = best.status == "optimal"
                excess.append((found.objective / best.objective - 1)[known])
                proven.append(found.status == "optimal")
            over, count = np.concatenate(excess), 10 * each
            table.add_row(
                f"{M}, {N}",
                family,
                f"{len(over)}/{count}",
                f"{over.mean():.3%}",
                f"{over.max():.2%}",
                f"{np.mean(over <= 1e-6):.0%}",
                f"{np.mean(proven):.0%}",
                f"{1e3 * spent / count:.2f}",
                f"{1e3 * peer / count:.0f}",
            )
    CONSOLE.print(table)


def uncertain() -> None:
    table = Table(title="expected cost at price 4: gap to Jensen's bound, CPU per round")
    for column in ("M, N", "execution", "gap", "seconds"):
        table.add_column(column, justify="right")
    for M, N in (*SHAPES, *LARGE):
        for parallel in (False, True):
            gaps, spent = [], 0.0
            seeds = 10 if N < 1000 else 3 if N == 1000 else 1
            for seed in range(seeds):
                rng = np.random.default_rng([seed, M, N])
                point = rounds(M, N, 20 if N < 1000 else 1, seed, "lognormal")
                deviation = np.broadcast_to(rng.uniform(0.01, 0.1, (1, M, 1)), point.T.shape)
                zeta = SpeedUp().table(M, N) if parallel else None
                given = (point.T, (0.3 * point.T) ** 2, point.A, deviation**2, point.gamma, point.allowed, zeta)
                moments = Moments(*given)
                if seed == 0 and N < 1000:
                    expected_plans(moments, price=4.0)  # compiled by now
                begin = time.process_time()
                found = expected_plans(moments, price=4.0)
                spent += (time.process_time() - begin) / len(point.T)
                gaps.append((found.cost / cost_bound(moments, found.unit, price=4.0) - 1).mean())
            row = (f"{np.mean(gaps):.1%}", f"{spent / seeds:.4f}")
            table.add_row(f"{M}, {N}", "parallel" if parallel else "sequential", *row)
    CONSOLE.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4, help="rounds per seed")
    exact(parser.parse_args().rounds)
    uncertain()


if __name__ == "__main__":
    main()
