"""What a plan is worth under the truth: one definition of each metric, per round, then per seed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Floats, Ints
from mfcp.evaluation.metric_table import BASELINE, LEVELS, RELATIVE
from mfcp.matching.planning import solve, solve_or_fall_back
from mfcp.matching.problem import SLACK, MatchingProblem, busy, reliability
from mfcp.matching.regret import PRICE, penalised_cost, regret
from mfcp.methods.base import Trained
from mfcp.predictors.calibration import own_deviation
from mfcp.study.setting import Setting

if TYPE_CHECKING:
    import pandas as pd  # 0.4 s: every stage that reads params.yaml imports this module


class EvaluateSettings(BaseModel):
    """Section `evaluate` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rounds: int = Field(200, ge=1, description="test rounds per seed")
    shortfall_price: float = Field(PRICE, ge=0, description="makespans per unit of missing reliability")
    bootstrap: int = Field(2000, ge=100, description="resamples of the paired intervals")
    margins: tuple[float, ...] = Field(
        tuple(round(0.005 * k, 4) for k in range(-20, 21)),
        description="margins on gamma among which methods are brought to equal violation",
    )


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
        return Reference.solved(rounds, truth, price=setting.price)

    @staticmethod
    def solved(rounds: Ints, truth: MatchingProblem, *, price: float, engine: str = "auto") -> Reference:
        """Solve the rounds of a problem, with the constraint on reliability and with its price instead.

        Args:
            rounds: tasks of each round, kept for the caller.
            truth: the rounds as one batch.
            price: makespans per unit of missing reliability.
            engine: of `mfcp.matching.planning.solve`.
        """
        best = solve_or_fall_back(truth, engine)
        soft = solve(truth, engine, price=price * best.makespan)
        least = penalised_cost(soft.assignment, truth, price=price, unit=best.makespan)
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


def evaluate(
    setting: Setting, trained: dict[str, Trained], settings: EvaluateSettings
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judge every method on the same test rounds.

    Args:
        setting: one setting with its truth.
        trained: label → what the method learned; `BASELINE` among them for the fair comparisons.
        settings: how many rounds, which margins; without any margin there are no fair comparisons.

    Returns:
        rounds: one row per (setting, method, seed, round) with the metrics of `round_metrics`, and the makespans at
            the baseline's violation rate and shortfall.
        seeds: one row per (setting, method, seed) with every metric of `metric_table.METRICS`.
    """
    import pandas as pd

    reference = Reference.of(setting, settings.rounds)
    fair = BASELINE in trained and settings.margins
    missing = {label: _missing(model, setting) for label, model in trained.items()} if fair else {}
    wanted = [own(0.0) for own in missing[BASELINE]] if fair else []
    tables = []
    for label, model in trained.items():
        plans = _Plans(model, setting, reference.rounds)
        table = pd.DataFrame(round_metrics(plans.at(), reference, price=setting.price))
        table.insert(0, "round", np.tile(np.arange(settings.rounds), len(setting.seeds)))
        table.insert(0, "seed", np.repeat(setting.seeds, settings.rounds))
        table.insert(0, "method", label)
        table.insert(0, "setting", setting.name)
        each = list(zip(missing[label], wanted, strict=True)) if fair else []
        for name, level in LEVELS.items() if fair else ():
            margins = [equalising_margin(own, level, level(target), settings.margins) for own, target in each]
            table[RELATIVE[name]] = busy(plans.at(margins), reference.truth.T, reference.truth.zeta).max(axis=-1)
        tables.append(table)
    rounds = pd.concat(tables, ignore_index=True)
    return rounds, per_seed(rounds)


def per_seed(rounds: pd.DataFrame) -> pd.DataFrame:
    """One row per (setting, method, seed) with every metric of `metric_table.METRICS` that the rounds allow."""
    means = rounds.groupby(["setting", "method", "seed"], sort=False).mean().reset_index()
    for name, makespan in RELATIVE.items():
        if makespan in means:
            means[name] = means[makespan] / means["optimal_makespan"] - 1.0
    return means.drop(columns=["round", "optimal_makespan", *(set(RELATIVE.values()) & set(means.columns))])


def log_time_errors(setting: Setting, trained: dict[str, Trained]) -> pd.DataFrame:
    """How far predicted times of test tasks are from the truth.

    Returns:
        One row per (setting, method, seed): `log_time_rms`, root mean square error of log time over pairs that exist,
        and `log_time_own`, that of what a task's clusters do not share (error less its mean over them).
    """
    import pandas as pd

    known = setting.mask("test")
    label = np.log(np.where(setting.allowed, setting.T_true, 1.0))
    tables = []
    for name, model in trained.items():
        error = np.where(known, np.log(model.predict(setting)[0]) - label, 0.0)
        columns = {
            "setting": setting.name,
            "method": name,
            "seed": setting.seeds,
            "log_time_rms": np.sqrt((error**2).sum(axis=(1, 2)) / known.sum(axis=(1, 2))),
            "log_time_own": np.nan_to_num(own_deviation(error, known)),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


class _Plans:
    """The plans of one method for some rounds (S, R, N), by seed and margin; each is made once."""

    def __init__(self, model: Trained, setting: Setting, rounds: Ints) -> None:
        beliefs = model.beliefs(setting, rounds)
        self.seeds = range(len(beliefs))
        self.of = cache(lambda s, margin: model.decide(setting, s, beliefs[s], margin))

    def at(self, margins: Sequence[float] | None = None) -> Ints:
        """(S·R, N) at a margin per seed, none: 0."""
        return np.concatenate([self.of(s, 0.0 if margins is None else margins[s]) for s in self.seeds])


def _missing(model: Trained, setting: Setting) -> list[Callable[[float], Floats]]:
    """Of each seed, margin → missing reliability (R,) of its plans for the validation rounds, under the labels."""
    rounds = setting.rounds("validation", setting.matching.validation_rounds)
    truth, count = setting.problem(rounds), rounds.shape[1]
    plans = _Plans(model, setting, rounds)

    def missing(s: int, margin: float) -> Floats:
        own = truth.take(np.arange(s * count, (s + 1) * count))
        short: Floats = np.maximum(own.gamma - reliability(plans.of(s, margin), own.A), 0.0)
        return np.where(short > SLACK, short, 0.0)

    return [partial(missing, s) for s in plans.seeds]


def equalising_margin(
    missing: Callable[[float], Floats], level: Callable[[Floats], float], target: float, margins: Iterable[float]
) -> float:
    """The margin, of 0 and some others, at which a level is closest to a target.

    By bisection, since a margin takes many plans: the level falls with it. Where it rises in places, the best of those
    looked at; 0 is among them.

    Args:
        missing: margin → (R,) missing reliability.
        level: of that.
        target: level of the method to compare with.
        margins: on gamma.
    """
    start = level(missing(0.0))
    found = {0.0: start}

    def passed(margin: float) -> bool:
        found[margin] = level(missing(margin))
        return found[margin] <= target if start > target else found[margin] >= target

    if start != target:
        bisect_left(sorted((m for m in margins if (m > 0 if start > target else m < 0)), key=abs), True, key=passed)
    return min(found, key=lambda margin: (abs(found[margin] - target), abs(margin)))
