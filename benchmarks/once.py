"""Predicted times of unseen model families with operators that run once a step counted once, and as often as samples.

    python benchmarks/once.py --data DIR [--seeds 0,1]

DIR is a folder in the log schema with `nodes`, `edges` and the batch size of every run. Five folds by model family. A
task's own error is what is left of its errors of log time when their mean over clusters is taken off; what a matching
can go wrong by. Ratios with marks to without have a paired bootstrap over families. Some three minutes a seed on two
cores, for a thousand tasks.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

from benchmarks.steps import FAMILIES, FOLDS, Log, read_log
from benchmarks.workers import run
from mfcp.arrays import Bools, Floats
from mfcp.errors import guarded
from mfcp.tasks.graphs.graph_arrays import GraphArrays
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs
from mfcp.tasks.timing.operator_times import OperatorTimes

LARGE = 0.05  # share of a graph's bytes
DRAWS = 2000
# What worker processes share with this one by being forked from it.
STATE: dict[str, Any] = {}


def errors(which: str, phase: str, seed: int, fold: int) -> Floats:
    """(M, n) errors of log time on the tasks of a fold, 0 elsewhere."""
    graphs: OperatorGraphs = STATE[which]
    log: Log = STATE["logs"][phase]
    test = log.folds(seed) == fold
    fitted = OperatorTimes.fit(graphs, log.accelerators, log.steps.select(~test), seed=seed)
    found = np.zeros(log.steps.seconds.shape)
    operators = graphs.distinct.take(log.steps.graph[test])
    found[:, test] = fitted.log_seconds(operators, log.steps.batch[:, test]) - np.log(log.steps.seconds[:, test])
    return found


def share_of_bytes(graphs: OperatorGraphs) -> Floats:
    """(G,) of the bytes that operators move, weights included, those that run once."""
    moved, size = graphs.read + graphs.written + 4 * graphs.params, len(graphs.graph_id)
    once = np.bincount(graphs.graph, moved * graphs.once, size)
    return once / np.maximum(np.bincount(graphs.graph, moved, size), 1)


def own(error: Floats) -> Floats:
    """(n,) mean square over clusters of errors (M, n) less their mean."""
    return np.nanmean((error - np.nanmean(error, axis=0)) ** 2, axis=0)


def mean_own(which: str, phase: str, seeds: list[int]) -> Floats:
    """(n,) `own` of every task, mean over seeds."""
    calls = [(s, f) for s in seeds for f in range(FOLDS)]
    found = np.zeros((len(seeds), *STATE["logs"][phase].steps.seconds.shape))
    answers = run(errors, [(which, phase, *call) for call in calls], 2, f"{phase}, {which}")
    for (seed, _), error in zip(calls, answers, strict=True):
        found[seeds.index(seed)] += error
    return np.mean([own(error) for error in found], axis=0)


def interval(new: Floats, old: Floats, families: np.ndarray, chosen: Bools) -> str:
    """Root mean squares of own errors and their ratio, with 95 % of the draws of families."""
    names, at = np.unique(families[chosen], return_inverse=True)
    sums = np.stack([np.bincount(at, values[chosen], len(names)) for values in (new, old)])
    drawn = np.random.default_rng(0).multinomial(len(names), np.full(len(names), 1 / len(names)), DRAWS) @ sums.T
    low, high = np.quantile(np.sqrt(drawn[:, 0] / drawn[:, 1]), [0.025, 0.975])
    a, b = (np.sqrt(values[chosen].mean()) for values in (new, old))
    return f"{b:7.3f} {a:7.3f}  {a / b:.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder in the log schema, with graphs and batch sizes of runs")
    parser.add_argument("--seeds", default="0,1")
    parser.add_argument("--families", choices=FAMILIES, default="models", help="what a fold keeps together")
    arguments = parser.parse_args()
    if arguments.data is None:
        print("skipped: no measured graphs here; give a folder with --data")
        return
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    marked, logs, _ = read_log(arguments.data, arguments.families)
    values = {field.name: getattr(marked, field.name) for field in fields(GraphArrays)}
    without = OperatorGraphs(**values | {"once": np.zeros_like(marked.once)})
    share = share_of_bytes(marked)
    some, many = (share > 0).mean(), (share > 0.1).mean()
    print(f"{some:.0%} of {len(share)} graphs have such operators, {many:.0%} with more than 10 % of the bytes")
    print(f"\n{'own error of log time':30} {'tasks':>5} {'without':>7} {'marked':>7}  ratio")
    STATE.update(marked=marked, without=without, logs=logs)
    for phase, log in logs.items():
        new, old = (mean_own(which, phase, seeds) for which in ("marked", "without"))
        known = np.isfinite(log.steps.seconds).all(axis=0)
        for name, chosen in (("all", known), (f"> {LARGE:.0%} of bytes", known & (share[log.steps.graph] > LARGE))):
            if chosen.sum() > 1:
                print(f"{phase + ', ' + name:30} {chosen.sum():5d} {interval(new, old, log.families, chosen)}")


if __name__ == "__main__":
    sys.exit(guarded(main))
