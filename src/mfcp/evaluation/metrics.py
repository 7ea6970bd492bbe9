"""What a plan is worth under the truth: one definition of each metric, per round, then per seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from mfcp.data.study import Setting
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.matching.problem import SLACK, Floats, Ints, MatchingProblem, busy, reliability
from mfcp.matching.regret import penalised_cost, regret
from mfcp.methods.base import Trained

BASELINE = "tsm"  # the method that ratios are taken to


class EvaluateRules(BaseModel):
    """Section `evaluate` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rounds: int = Field(200, ge=1, description="test rounds per seed")
    shortfall_price: float = Field(4.0, ge=0, description="makespans per unit of missing reliability")
    bootstrap: int = Field(2000, ge=100, description="resamples of the paired intervals")
    margins: tuple[float, ...] = Field(
        tuple(round(0.005 * k, 4) for k in range(-20, 21)),
        description="margins on gamma among which methods are brought to equal violation",
    )


@dataclass(frozen=True)
class Metric:
    """A row of the metric table.

    Attributes:
        unit: as printed.
        better: which direction is better.
        meaning: one line for documents and figures.
    """

    unit: str
    better: Literal["low", "high"]
    meaning: str


METRICS = {
    "penalised_excess": Metric("-", "low", "cost of the plan over the least cost of any plan (headline)"),
    "regret": Metric("s/task", "low", "extra makespan per task over the exact optimum, Eq. (6)"),
    "relative_regret": Metric("-", "low", "extra makespan over optimal makespan, summed over rounds"),
    "regret_equal_violation": Metric("-", "low", "relative regret at the baseline's violation rate"),
    "regret_equal_shortfall": Metric("-", "low", "relative regret at the baseline's mean shortfall"),
    "reliability": Metric("-", "high", "mean true success probability of the plan"),
    "violation_rate": Metric("-", "low", "share of rounds below gamma"),
    "shortfall": Metric("-", "low", "mean missing reliability"),
    "utilization": Metric("-", "high", "busy time over M times the makespan"),
}
# Metrics that are ratios of sums over a seed's rounds, by the makespan that is held against the optimal one.
RELATIVE = {
    "relative_regret": "makespan",
    "regret_equal_violation": "makespan_equal_violation",
    "regret_equal_shortfall": "makespan_equal_shortfall",
}


@dataclass(frozen=True)
class Reference:
    """Rounds of a setting that methods are judged on, with their optima; the same for every method.

    Attributes:
        rounds: (S, R, N) tasks.
        truth: the S·R rounds as one batch, for test rounds under the truth and else under the labels.
        optimal: (S·R, N) exact plans.
        makespan: (S·R,) their seconds.
        least_cost: (S·R,) the least penalised cost of any plan.
    """

    rounds: Ints
    truth: MatchingProblem
    optimal: Ints
    makespan: Floats
    least_cost: Floats

    @staticmethod
    def of(setting: Setting, count: int, part: str = "test") -> Reference:
        """Draw `count` rounds per seed from one part and solve them exactly."""
        rounds = setting.rounds(part, count)
        truth = setting.problem(rounds, truth=part == "test")
        best = solve_or_fall_back(truth)
        soft = solve(truth, price=setting.price * best.makespan)
        least = penalised_cost(soft.assignment, truth, price=setting.price, unit=best.makespan)
        return Reference(rounds, truth, best.assignment, best.makespan, least)


def round_metrics(plan: Ints, reference: Reference, *, price: float) -> dict[str, Floats]:
    """Metrics of (S·R, N) plans, per round: each (S·R,).

    `relative_regret` is kept as extra and optimal makespan, because it is a ratio of sums.
    """
    truth = reference.truth
    occupied = busy(plan, truth.T, truth.zeta)
    span = occupied.max(axis=-1)
    reached = reliability(plan, truth.A)
    missing = np.maximum(truth.gamma - reached, 0.0)
    missing = np.where(missing > SLACK, missing, 0.0)
    cost = penalised_cost(plan, truth, price=price, unit=reference.makespan)
    return {
        "makespan": span,
        "optimal_makespan": reference.makespan,
        "penalised_excess": np.maximum(cost - reference.least_cost, 0.0),  # a MILP at its limit may leave -1e-9
        "regret": regret(plan, reference.optimal, truth.T, truth.zeta),
        "reliability": reached,
        "violation_rate": (missing > 0).astype(np.float64),
        "shortfall": missing,
        "utilization": occupied.sum(axis=-1) / (truth.clusters * span),
    }


def evaluate(setting: Setting, trained: dict[str, Trained], rules: EvaluateRules) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judge every method on the same test rounds.

    Args:
        setting: one setting with its truth.
        trained: label → what the method learned; `BASELINE` among them for the fair comparisons.
        rules: how many rounds, which margins; without any margin there are no fair comparisons.

    Returns:
        rounds: one row per (setting, method, seed, round) with the metrics of `round_metrics`, and the makespans at
            the baseline's violation rate and shortfall.
        seeds: one row per (setting, method, seed) with every metric of `METRICS`.
    """
    reference = Reference.of(setting, rules.rounds)
    fair = BASELINE in trained and rules.margins
    targets = _levels(trained[BASELINE], setting, [0.0]) if fair else {}
    tables = []
    for label, model in trained.items():
        table = pd.DataFrame(round_metrics(model.plan(setting, reference.rounds), reference, price=setting.price))
        table.insert(0, "round", np.tile(np.arange(rules.rounds), len(setting.seeds)))
        table.insert(0, "seed", np.repeat(setting.seeds, rules.rounds))
        table.insert(0, "method", label)
        table.insert(0, "setting", setting.name)
        for name, margin in _equalising_margins(model, setting, rules.margins, targets, label == BASELINE).items():
            plan = model.plan(setting, reference.rounds, margin=margin)
            table[RELATIVE[name]] = busy(plan, reference.truth.T, reference.truth.zeta).max(axis=-1)
        tables.append(table)
    rounds = pd.concat(tables, ignore_index=True)
    return rounds, per_seed(rounds)


def per_seed(rounds: pd.DataFrame) -> pd.DataFrame:
    """One row per (setting, method, seed) with every metric of `METRICS` that the rounds allow."""
    means = rounds.groupby(["setting", "method", "seed"], sort=False).mean().reset_index()
    for name, makespan in RELATIVE.items():
        if makespan in means:
            means[name] = means[makespan] / means["optimal_makespan"] - 1.0
    return means.drop(columns=["round", "optimal_makespan", *(set(RELATIVE.values()) & set(means.columns))])


def validation_excess(setting: Setting, trained: dict[str, Trained]) -> pd.DataFrame:
    """The headline metric on validation rounds under the labels: what the choice among methods is made on.

    Returns:
        One row per (setting, method, seed) with `penalised_excess`.
    """
    reference = Reference.of(setting, setting.rules.validation_rounds, "validation")
    tables = []
    for label, model in trained.items():
        values = round_metrics(model.plan(setting, reference.rounds), reference, price=setting.price)
        excess = values["penalised_excess"].reshape(len(setting.seeds), -1).mean(axis=1)
        columns = {"setting": setting.name, "method": label, "seed": setting.seeds, "penalised_excess": excess}
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _levels(model: Trained, setting: Setting, margins: list[float]) -> dict[str, Floats]:
    """Violation rate and mean shortfall (margins, S) on the validation rounds, under the labels."""
    rounds = setting.rounds("validation", setting.rules.validation_rounds)
    problem = setting.problem(rounds)
    missing = []
    for margin in margins:
        reached = reliability(model.plan(setting, rounds, margin=margin), problem.A)
        missing.append(np.maximum(problem.gamma - reached, 0.0).reshape(len(setting.seeds), -1))
    short = np.stack(missing)
    return {
        "regret_equal_violation": (short > SLACK).mean(axis=2),
        "regret_equal_shortfall": short.mean(axis=2),
    }


def _equalising_margins(
    model: Trained, setting: Setting, margins: tuple[float, ...], targets: dict[str, Floats], is_baseline: bool
) -> dict[str, Floats]:
    """Per metric of `targets`, the (S,) margins that bring a method closest to it on validation rounds."""
    if is_baseline or not targets:
        return {name: np.zeros(len(setting.seeds)) for name in targets}
    grid = np.array(sorted(margins, key=abs))  # ties go to the smallest change
    levels = _levels(model, setting, list(grid))
    return {name: grid[np.abs(levels[name] - target).argmin(axis=0)] for name, target in targets.items()}
