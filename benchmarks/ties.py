"""How many rounds have several plans of equal predicted cost, and what the choice between them is worth.

    python benchmarks/ties.py                 the default platform, two minutes
    python benchmarks/ties.py --data DIR      a folder in the log schema

Tuning settings and seeds; rounds are of validation tasks, whose labels stand for the truth. For predictions taken for
the truth at gamma (`point`) and at the metric's price (`priced`): the share of rounds with ties, and the mean penalised
excess of the plan that is taken (the most reliable, of these the shortest in total), of the first in lexicographic
order, and of the least, the mean and the worst of the tied plans. The last column is the difference of the plan taken
to the first, with its paired 95 % interval by a bootstrap over setting, seed and round.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from tuning import TuningLog

from mfcp.arrays import Floats
from mfcp.errors import guarded
from mfcp.evaluation.metrics import Reference, round_metrics
from mfcp.matching.integer.enumeration import all_plans, plan_values
from mfcp.matching.planning import FALLBACK_PRICE, solve, solve_or_fall_back
from mfcp.matching.problem import EQUAL, SLACK, MatchingProblem
from mfcp.methods.base import Method, Trained
from mfcp.progress import progress
from mfcp.study.setting import Setting

SEEDS = (1000, 1001, 1002, 1003, 1004)
ROUNDS, DRAWS = 200, 2000
ROWS = {
    "TSM": {"kind": "two_stage", "loss": "log_time"},
    "MFCP-AD": {"kind": "decision_focused"},
    "SPO+": {"kind": "plan_loss", "surrogate": "spo_plus"},
}


def costs(problem: MatchingProblem, price: float | None) -> Floats:
    """(B, P) predicted cost of every plan, as the rule `point` or `priced` has it."""
    value, mean = plan_values(problem)
    short = np.maximum(problem.gamma[:, None] - mean, 0.0)
    if price is not None:
        return value + price * solve_or_fall_back(problem).makespan[:, None] * short
    hard = np.where(short <= SLACK, value, np.inf)
    fallback = value + FALLBACK_PRICE * value.min(axis=1, keepdims=True) * short  # as `solve_or_fall_back` has it
    return np.where(np.isfinite(hard).any(axis=1, keepdims=True), hard, fallback)


def judged(setting: Setting, model: Trained, reference: Reference, price: float | None) -> pd.DataFrame:
    """A row per round: excess of the plan taken, the first, and the least, mean and worst of the tied ones."""
    plans, _ = all_plans(setting.clusters, setting.matching.tasks)

    def excess(plan: np.ndarray, part: slice) -> Floats:
        own = Reference(
            reference.rounds, reference.truth.take(part), reference.optimal[part], reference.makespan[part],
            reference.least_cost[part],
        )  # fmt: skip
        result: Floats = round_metrics(plan, own, price=setting.price)["penalised_excess"]
        return result

    rows = []
    for s, belief in enumerate(model.beliefs(setting, reference.rounds)):
        problem = belief.problem()
        cost = costs(problem, price)
        if price is None:
            taken = solve_or_fall_back(problem).assignment
        else:
            taken = solve(problem, price=price * solve_or_fall_back(problem).makespan).assignment
        least = cost.min(axis=1, keepdims=True)
        equal = cost <= least + EQUAL * np.abs(least)
        for r in range(len(cost)):
            part = slice(s * len(cost) + r, s * len(cost) + r + 1)
            tied = np.concatenate([excess(plan[None], part) for plan in plans[equal[r]]])
            rows.append(
                {
                    "setting": setting.name, "seed": s, "several": equal[r].sum() > 1,
                    "taken": excess(taken[r : r + 1], part)[0], "first": tied[0], "least": tied.min(),
                    "mean": tied.mean(), "worst": tied.max(),
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def difference(table: pd.DataFrame) -> str:
    """Mean of taken - first, with the 95 % interval of a bootstrap over blocks of setting and seed, then rounds."""
    rng = np.random.default_rng(0)
    blocks = [own.to_numpy() for _, own in (table["taken"] - table["first"]).groupby([table["setting"], table["seed"]])]
    means = []
    for _ in range(DRAWS):
        drawn = rng.integers(len(blocks), size=len(blocks))
        means.append(np.mean([rng.choice(blocks[k], len(blocks[k])).mean() for k in drawn]))
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{np.mean([block.mean() for block in blocks]):+.4f} [{low:+.4f}, {high:+.4f}]"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR")
    log = TuningLog(parser.parse_args().data, SEEDS)
    found: dict[tuple[str, str], list[pd.DataFrame]] = {}
    budget = log.settings.section("finetune")
    with progress("ties", len(log.names) * len(ROWS)) as advance:
        for setting in log.each(log.usual):
            start = log.start(setting)
            reference = Reference.of(setting, ROUNDS, "validation")
            for title, row in ROWS.items():
                model = Method.parse(row).fit(setting, start, budget)
                for rule, price in (("point", None), ("priced", setting.price)):
                    found.setdefault((title, rule), []).append(judged(setting, model, reference, price))
                advance()
    table = Table("predictors", "rule", "ties", "taken", "first", "least", "mean", "worst", "taken - first")
    for (title, rule), parts in found.items():
        whole = pd.concat(parts)
        cells = (f"{whole[name].mean():.3f}" for name in ("taken", "first", "least", "mean", "worst"))
        table.add_row(title, rule, f"{whole['several'].mean():.0%}", *cells, difference(whole))
    Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(guarded(main))
