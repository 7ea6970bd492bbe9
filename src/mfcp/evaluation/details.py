"""What lies behind a comparison: errors of the predictions, rounds decided differently, how the optima were found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Floats
from mfcp.evaluation.metric_table import BASELINE
from mfcp.matching.planning import solve_or_fall_back
from mfcp.methods.base import Trained
from mfcp.rules.base import WIDTH
from mfcp.study.setting import Setting

BINS = 10  # of predicted probabilities, equally full
_GAINS, _LOSSES = 2, 1  # examples of rounds, for each method
_SOLVED = 50  # rounds of each seed whose optima are looked at


def details(setting: Setting, trained: dict[str, Trained], rounds: pd.DataFrame) -> dict[str, Any]:
    """Everything of one setting, as JSON has it.

    Args:
        setting: with its truth.
        trained: label → what the method learned.
        rounds: of `metrics.evaluate`, for these methods.

    Returns:
        `clusters`: their names; `predictions`: label → see `prediction_errors`; `examples`: label → see `examples`;
        `solver`: see `solved`.
    """
    count = int(rounds["round"].max()) + 1
    compared = [label for label in trained if label != BASELINE] if BASELINE in trained else []
    return {
        "clusters": list(setting.cluster_id),
        "predictions": {label: prediction_errors(setting, model) for label, model in trained.items()},
        "examples": {label: examples(setting, trained, rounds, label, count) for label in compared},
        "solver": solved(setting, count),
    }


def prediction_errors(setting: Setting, model: Trained) -> dict[str, Any]:
    """How far predictions of test tasks are from the truth, over pairs that exist and all seeds.

    Returns:
        `factor` and `factor_95`: median and 95th percentile of max(t̂ / t, t / t̂). `inside`: share of true times in
        the stated 95 % interval, None where the method states none. `reliability_rms`: root mean square error of the
        probabilities. `calibration`: mean predicted and mean true probability of equally full bins.
    """
    known = setting.mask("test")
    T, A = model.predict(setting)
    log_t, a = (np.broadcast_to(values, known.shape) for values in (np.log(setting.T_true), setting.A_true))
    off = np.abs(np.log(T[known]) - log_t[known])
    deviation = np.broadcast_to(model.calibration.log_sd[:, :, None], known.shape)[known]
    predicted, true = A[known], a[known]
    return {
        "factor": float(np.exp(np.median(off))),
        "factor_95": float(np.exp(np.quantile(off, 0.95))),
        "inside": float((off <= WIDTH * deviation).mean()) if deviation.any() else None,
        "reliability_rms": float(np.sqrt(((predicted - true) ** 2).mean())),
        "calibration": calibration(predicted, true),
    }


def calibration(predicted: Floats, true: Floats) -> list[tuple[float, float]]:
    """Mean predicted and mean true value of bins that are equally full, in order of the prediction."""
    order = np.argsort(predicted, kind="stable")
    parts = [part for part in np.array_split(order, BINS) if len(part)]
    return [(float(predicted[part].mean()), float(true[part].mean())) for part in parts]


def examples(
    setting: Setting, trained: dict[str, Trained], rounds: pd.DataFrame, label: str, count: int
) -> list[dict[str, Any]]:
    """Rounds in which a method's plan costs much less than the baseline's, and one in which it costs more.

    A plan is made again from the predictions; a round whose plan then is another one than the one that was judged,
    since a search may end elsewhere for a round alone, is left out.

    Returns:
        Of each `seed`, `round`, `gain` (excess of the baseline less that of the method), `gamma`, and of `baseline` and
        `method` the `cluster` of every task, its true `seconds` there, and the plan's `reliability`.
    """
    excess, spans = (
        rounds.pivot_table(index=["seed", "round"], columns="method", values=name)
        for name in ("penalised_excess", "makespan")
    )
    gain = (excess[BASELINE] - excess[label]).sort_values(ascending=False, kind="stable")
    chosen = pd.concat([gain[gain > 0].head(_GAINS), gain[gain < 0].tail(_LOSSES)])
    drawn, found = setting.rounds("test", count), []
    at = {key: k for k, key in enumerate(spans.index)}
    for key, value in chosen.items():
        seed, number = (int(part) for part in key)  # type: ignore[attr-defined]
        s, tasks = setting.seeds.index(seed), drawn[:, [number]]
        plans = {}
        for role, name in (("baseline", BASELINE), ("method", label)):
            model = trained[name]
            plan = model.decide(setting, s, model.beliefs(setting, tasks)[s])[0]
            seconds, success = (own[plan, tasks[s, 0]] for own in (setting.T_true, setting.A_true))
            plans[role] = {"cluster": plan.tolist(), "seconds": seconds.tolist(), "reliability": float(success.mean())}
        if setting.zeta is None and all(
            np.isclose(_span(plans[role]), spans[name].to_numpy()[at[key]])
            for role, name in (("baseline", BASELINE), ("method", label))
        ):
            gamma = float(setting.gamma[s])
            found.append({"seed": seed, "round": number, "gain": float(value), "gamma": gamma, **plans})
    return found


def _span(plan: dict[str, Any]) -> float:
    return float(np.bincount(plan["cluster"], plan["seconds"]).max())


def solved(setting: Setting, count: int) -> dict[str, Any]:
    """How the optima that plans are judged by are found: `engine`, `rounds` looked at, and the shares of them that are
    `proven` and that no plan can bring to gamma (`short`).
    """
    drawn = setting.rounds("test", min(count, _SOLVED))
    solution = solve_or_fall_back(setting.problem(drawn, truth=True))
    status = solution.status
    return {
        "engine": solution.engine,
        "rounds": int(status.size),
        "proven": float((status == "optimal").mean()),
        "short": float((status == "fallback").mean()),
    }
