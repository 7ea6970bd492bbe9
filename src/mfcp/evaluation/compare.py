"""From rounds and seeds to numbers with intervals: means over seeds, paired ratios to the baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mfcp.evaluation.metrics import BASELINE, METRICS
from mfcp.matching.problem import Floats

POOLED = "pooled"  # the row over all settings
RATIOS = {"vs_tsm": "penalised_excess", "regret_vs_tsm": "regret"}
Summary = dict[str, dict[str, dict[str, dict[str, Any]]]]


def summarise(rounds: pd.DataFrame, seeds: pd.DataFrame, *, bootstrap: int) -> Summary:
    """The content of metrics.json: setting → method → metric → mean, std, 95 % interval, n.

    Means and t intervals are over seeds (over setting × seed in `pooled`). `vs_tsm` and `regret_vs_tsm` are ratios of
    pooled means to the baseline's on the same rounds, `minus_tsm` the difference of the headline metric, all with
    paired two-level bootstrap intervals (seeds, then rounds within).

    Args:
        rounds, seeds: from `evaluate`, any number of settings.
        bootstrap: resamples.
    """
    result: Summary = {}
    settings = list(dict.fromkeys(seeds["setting"]))
    for name in [*settings, POOLED] if len(settings) > 1 else settings:
        own_seeds = seeds if name == POOLED else seeds[seeds["setting"] == name]
        own_rounds = rounds if name == POOLED else rounds[rounds["setting"] == name]
        result[name] = {}
        for method in dict.fromkeys(own_seeds["method"]):
            values = own_seeds[own_seeds["method"] == method]
            result[name][method] = {
                metric: t_interval(values[metric].to_numpy()) for metric in METRICS if metric in values
            }
            if BASELINE in set(own_rounds["method"]):
                result[name][method] |= _against_baseline(own_rounds, method, bootstrap)
    return result


def t_interval(values: Floats) -> dict[str, Any]:
    """Mean, standard deviation and 95 % t interval of independent values; no interval for a single one."""
    from scipy.stats import t

    n = len(values)
    mean = float(values.mean())
    if n < 2:
        return {"mean": mean, "std": None, "ci_low": None, "ci_high": None, "n": n}
    std = float(values.std(ddof=1))
    half = float(t.ppf(0.975, n - 1)) * std / n**0.5
    return {"mean": mean, "std": std, "ci_low": mean - half, "ci_high": mean + half, "n": n}


def _against_baseline(rounds: pd.DataFrame, method: str, bootstrap: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, metric in RATIOS.items():
        own, base = _blocks(rounds, method, metric), _blocks(rounds, BASELINE, metric)
        means = paired_bootstrap(np.stack([own, base], axis=-1), bootstrap)
        top, bottom = means[..., 0], means[..., 1]
        if bottom[0] > 0 and top[0] >= 0:  # below zero, where plans break the constraint, a ratio says nothing
            ratio = top / np.where(bottom > 0, bottom, np.nan)
            result[name] = _interval(ratio, len(own))
        if name == "vs_tsm":
            result["minus_tsm"] = _interval(top - bottom, len(own))
    return result


def _blocks(rounds: pd.DataFrame, method: str, metric: str) -> Floats:
    """(blocks, rounds) of one method's metric, a block per (setting, seed), in the order of the table."""
    own = rounds[rounds["method"] == method]
    blocks = own.groupby(["setting", "seed"], sort=False).ngroups
    result: Floats = own[metric].to_numpy().reshape(blocks, -1)
    return result


def paired_bootstrap(values: Floats, count: int) -> Floats:
    """Means of resampled blocks: first the estimate itself, then `count` resamples.

    Blocks (seeds) are drawn with replacement, then rounds within each; what is stacked on the last axis is drawn
    together, so differences and ratios stay paired.

    Args:
        values: (blocks, rounds, k).
        count: resamples, always drawn from the same seed.

    Returns:
        (count + 1, k).
    """
    rng = np.random.default_rng(0)
    blocks, rounds, _ = values.shape
    result = [values.mean(axis=(0, 1))]
    for _ in range(count):
        block = rng.integers(blocks, size=(blocks, 1))
        within = rng.integers(rounds, size=(blocks, rounds))
        result.append(values[block, within].mean(axis=(0, 1)))
    return np.stack(result)


def _interval(samples: Floats, n: int) -> dict[str, float | int]:
    low, high = np.nanquantile(samples[1:], [0.025, 0.975])
    return {
        "mean": float(samples[0]),
        "std": float(np.nanstd(samples[1:])),
        "ci_low": float(low),
        "ci_high": float(high),
        "n": n,
    }
