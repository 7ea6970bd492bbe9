"""What the parts of the ADMM core are worth on matching: iterations to a certified gap of fractions, by variant.

Each variant changes one thing: restarts from averages, over-relaxation, when the penalty may follow the residuals, and
a start ten times too small or too large with and without that. The gap is that of the best fractional plan to the best
bound so far, both looked at every tenth iteration.
Usage: python -m benchmarks.dede.variants [--first SEED]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from unittest import mock

import numpy as np

from benchmarks.dede.study import show, spread
from mfcp.matching.decomposition import alternating_directions
from mfcp.matching.decomposition.fractional import RelaxedMatching
from mfcp.matching.problem import MatchingProblem
from mfcp.progress import progress

SIZES = ((10, 100), (20, 400))
GAPS = (0.01, 0.001)
MOST = 2000
NEVER = {"RESTART_AFTER": 10**9}
FIXED = {"BALANCE_AT": (0,)}
VARIANTS = {  # constants of the alternating_directions, relaxation, factor on the first penalty
    "as it is": ({}, alternating_directions.RELAXATION, 1.0),
    "no restarts": (NEVER, alternating_directions.RELAXATION, 1.0),
    "no over-relaxation": ({}, 1.0, 1.0),
    "rho fixed": (FIXED, alternating_directions.RELAXATION, 1.0),
    "rho balanced every 10th iteration": ({"BALANCE_AT": range(10, MOST, 10)}, alternating_directions.RELAXATION, 1.0),
    "rho starts ten times too small": ({}, alternating_directions.RELAXATION, 0.1),
    "the same, fixed": (FIXED, alternating_directions.RELAXATION, 0.1),
    "rho starts ten times too large": ({}, alternating_directions.RELAXATION, 10.0),
    "the same, fixed ": (FIXED, alternating_directions.RELAXATION, 10.0),
}


def drawn(M: int, N: int, seed: int) -> MatchingProblem:
    """Log-normal tasks on clusters of unequal speed; gamma binds."""
    rng = np.random.default_rng([seed, M, N])
    T = rng.lognormal(0, 0.8, N) / rng.lognormal(0, 0.4, (M, 1)) * np.exp(0.4 * rng.standard_normal((M, N)))
    A = 0.99 - 0.3 * rng.random((M, N)) - 0.1 * rng.random((M, 1))
    fast, best = A[T.argmin(0), np.arange(N)].mean(), A.max(0).mean()
    return MatchingProblem(T, A, fast + 0.6 * (best - fast))


@contextmanager
def constants(changed: dict[str, object]) -> Iterator[None]:
    """The core with other constants."""
    with (
        mock.patch.multiple(alternating_directions, **changed)
        if changed
        else mock.patch.multiple(alternating_directions, TINY=alternating_directions.TINY)
    ):
        yield


def iterations(problem: MatchingProblem, relaxation: float, factor: float) -> list[int]:
    """Iterations to each of `GAPS`, at most `MOST`."""
    blocks, bound, value, reached = RelaxedMatching(problem, []), -np.inf, np.inf, []
    cold = blocks.cold()
    states = alternating_directions.iterate(blocks, replace(cold, rho=factor * cold.rho), relaxation=relaxation)
    for state in islice(states, 9, MOST, 10):
        for candidate in (state, state.average()):
            bound = max(bound, blocks.bound(blocks.multipliers(candidate)))
            value = min(value, blocks.value(candidate))
        while len(reached) < len(GAPS) and value <= bound * (1.0 + GAPS[len(reached)]):
            reached.append(state.iteration)
        if len(reached) == len(GAPS):
            break
    return reached + [MOST] * (len(GAPS) - len(reached))


def main(argv: list[str] | None = None) -> None:
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first of five seeds")
    first = parser.parse_args(argv).first
    table = Table(title=f"Iterations to a gap, at most {MOST}, seeds {first}-{first + 4}: median (range)")
    columns = [f"({M},{N}), {gap:.1%}" for M, N in SIZES for gap in GAPS]
    for column in ("variant", *columns):
        table.add_column(column, justify="left" if column == "variant" else "right")
    with progress("variants of the ADMM core", len(VARIANTS) * len(SIZES)) as advance:
        for name, (changed, relaxation, factor) in VARIANTS.items():
            cells = []
            for M, N in SIZES:
                with constants(changed):
                    found = [iterations(drawn(M, N, first + k), relaxation, factor) for k in range(5)]
                cells += [spread([float(each) for each in counts], "{:.0f}") for counts in zip(*found, strict=True)]
                advance()
            table.add_row(name.strip(), *cells)
    show(table)


if __name__ == "__main__":
    main()
