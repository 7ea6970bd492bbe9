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

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from benchmarks.tuning import TuningLog
from mfcp.arrays import Floats
from mfcp.errors import guarded
from mfcp.evaluation.compare import resample
from mfcp.evaluation.metrics import Reference
from mfcp.matching.integer.enumeration import plan_values
from mfcp.matching.planning import FALLBACK_PRICE, solve_or_fall_back
from mfcp.matching.problem import EQUAL, SLACK, MatchingProblem
from mfcp.methods.base import Method, Trained
from mfcp.progress import progress
from mfcp.rules.base import Rule
from mfcp.rules.point import Point
from mfcp.rules.priced import Priced
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


def true_excess(reference: Reference, price: float) -> Floats:
    """(B, P) penalised excess of every plan, as `round_metrics` has it for one."""
    value, mean = plan_values(reference.truth)
    short = np.maximum(reference.truth.gamma[:, None] - mean, 0.0)
    cost = value / reference.makespan[:, None] + price * np.where(short > SLACK, short, 0.0)
    excess: Floats = np.maximum(cost - reference.least_cost[:, None], 0.0)
    return excess


def judged(setting: Setting, model: Trained, reference: Reference, rule: Rule) -> tuple[pd.DataFrame, float]:
    """A row per round and choice, the choice as `method`: the plan taken, the first of the tied ones, and their least,
    mean and worst excess; and the share of rounds with several."""
    rounds = reference.rounds.shape[1]
    excess = true_excess(reference, setting.price)
    beliefs = model.beliefs(setting, reference.rounds)
    price = setting.price if rule.name == Priced.name else None
    cost = np.concatenate([costs(belief.problem(), price) for belief in beliefs])
    plans = np.concatenate([rule.plan(belief, parameter=0.0, price=setting.price) for belief in beliefs])
    place = setting.clusters ** np.arange(setting.matching.tasks)[::-1]  # of a plan among all, as `all_plans` has them
    least = cost.min(axis=1, keepdims=True)
    equal = cost <= least + EQUAL * np.abs(least)
    tied = np.where(equal, excess, np.nan)
    found = {
        "taken": np.take_along_axis(excess, (plans @ place)[:, None], axis=1)[:, 0],
        "first": np.take_along_axis(excess, equal.argmax(axis=1)[:, None], axis=1)[:, 0],
        "least": np.nanmin(tied, axis=1),
        "mean": np.nanmean(tied, axis=1),
        "worst": np.nanmax(tied, axis=1),
    }
    common = {
        "setting": setting.name,
        "seed": np.repeat(setting.seeds, rounds),
        "round": np.tile(np.arange(rounds), len(setting.seeds)),
        "optimal_makespan": reference.makespan,
    }
    tables = [pd.DataFrame({"method": name, "penalised_excess": own, **common}) for name, own in found.items()]
    return pd.concat(tables, ignore_index=True), float((equal.sum(axis=1) > 1).mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR")
    log = TuningLog(parser.parse_args().data, SEEDS)
    found: dict[tuple[str, str], list[tuple[pd.DataFrame, float]]] = {}
    budget = log.settings.section("finetune")
    with progress("ties", len(log.names) * len(ROWS)) as advance:
        for setting in log.each(log.usual):
            start = log.start(setting)
            reference = Reference.of(setting, ROUNDS, "validation")
            for title, row in ROWS.items():
                model = Method.parse(row).fit(setting, start, budget)
                for rule in (Point(), Priced()):
                    found.setdefault((title, rule.name), []).append(judged(setting, model, reference, rule))
                advance()
    table = Table("predictors", "rule", "ties", "taken", "first", "least", "mean", "worst", "taken - first")
    for (title, name), parts in found.items():
        sample = resample(pd.concat([own for own, _ in parts], ignore_index=True), DRAWS)
        cells = (f"{sample.of(choice, 'penalised_excess')[0]:.3f}" for choice in sample.methods)
        gain = sample.difference("taken", "first", "penalised_excess")
        text = f"{gain['mean']:+.4f} [{gain['ci_low']:+.4f}, {gain['ci_high']:+.4f}]"
        table.add_row(title, name, f"{np.mean([share for _, share in parts]):.0%}", *cells, text)
    Console(width=110).print(table)


if __name__ == "__main__":
    sys.exit(guarded(main))
