"""From rounds and seeds to numbers with intervals: means, and paired ratios of any two methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Floats
from mfcp.errors import DataError
from mfcp.evaluation.metric_table import BASELINE, METRICS, RELATIVE

POOLED = "pooled"  # the row over all settings
RATIOS = {"vs_tsm": "penalised_excess", "regret_vs_tsm": "regret"}
Summary = dict[str, dict[str, dict[str, dict[str, Any]]]]

_CHUNK = 500  # resamples held in memory at once


def summarise(rounds: pd.DataFrame, seeds: pd.DataFrame, *, bootstrap: int) -> Summary:
    """The content of metrics.json: setting → method → metric → mean, std, 95 % interval, n.

    In a setting, means have t intervals over its seeds. In `pooled` they are over setting × seed, with intervals of
    the bootstrap clustered by setting (`resample`). `vs_tsm` and `regret_vs_tsm` are ratios of pooled means to the
    baseline's on the same rounds, with a two-sided bootstrap p-value; `minus_tsm` is the difference of the headline
    metric; all three are paired.

    Args:
        rounds, seeds: from `evaluate`, any number of settings.
        bootstrap: resamples.
    """
    result = {
        str(name): table(resample(own, bootstrap), seeds[seeds["setting"] == name])
        for name, own in rounds.groupby("setting", sort=False)
    }
    if len(result) > 1:
        result[POOLED] = table(resample(rounds, bootstrap), seeds)
    return result


def headline(summary: Summary) -> dict[str, float]:
    """Method → ratio of its penalised excess to that of the baseline, over all settings: what fits one line."""
    return {label: round(float(own["vs_tsm"]["mean"]), 4) for label, own in _whole(summary).items() if "vs_tsm" in own}


def leading(summary: Summary) -> dict[str, dict[str, float]]:
    """Method → the few numbers that tell which one wins, by how much, and within what interval, over all settings.

    `excess_vs_tsm` is the ratio of the penalised excess to the baseline's, with its interval and p-value; the others
    are means.
    """
    stats = {"mean": "", "ci_low": ".low", "ci_high": ".high", "p": ".p"}
    result = {}
    for label, own in _whole(summary).items():
        ratio = own.get("vs_tsm", {})
        numbers = {f"excess_vs_tsm{end}": ratio[stat] for stat, end in stats.items() if ratio.get(stat) is not None}
        means = {name: own[name]["mean"] for name in ("penalised_excess", "reliability", "utilization") if name in own}
        result[label] = {name: float(value) for name, value in (numbers | means).items()}
    return result


def _whole(summary: Summary) -> dict[str, dict[str, dict[str, Any]]]:
    """Method → metrics over all settings, or of the only one."""
    return summary.get(POOLED) or next(iter(summary.values()))


def table(sample: Resampled, seeds: pd.DataFrame) -> dict[str, dict[str, dict[str, Any]]]:
    """Method → metric → numbers, see `summarise`.

    Args:
        sample: of the rounds behind `seeds`.
        seeds: of one setting, or of several to pool.
    """
    several = seeds["setting"].nunique() > 1
    result = {}
    for method in sample.methods:
        own = seeds[seeds["method"] == method]
        means = {metric: _possible(metric, t_interval(own[metric].to_numpy())) for metric in sample.metrics}
        if several:
            means = {metric: value | sample.interval(method, metric) for metric, value in means.items()}
        result[method] = means | _against_baseline(sample, method)
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


def _possible(metric: str, interval: dict[str, Any]) -> dict[str, Any]:
    """The part of an interval in which the metric can lie: an excess is never below 0."""
    if interval["ci_low"] is None:
        return interval
    own = METRICS[metric]
    return interval | {"ci_low": max(interval["ci_low"], own.least), "ci_high": min(interval["ci_high"], own.most)}


def _against_baseline(sample: Resampled, method: str) -> dict[str, Any]:
    if BASELINE not in sample.methods:
        return {}
    ratios = {name: sample.ratio(method, BASELINE, metric) for name, metric in RATIOS.items()}
    difference = sample.difference(method, BASELINE, RATIOS["vs_tsm"])
    return {name: ratio for name, ratio in ratios.items() if ratio is not None} | {"minus_tsm": difference}


@dataclass(frozen=True)
class Resampled:
    """Means of every method and metric, and what they become when settings, seeds and rounds are drawn again.

    All methods and metrics share the draws, so that ratios and differences of any two are paired.

    Attributes:
        methods, metrics: labels of the axes.
        values: (count + 1, methods, metrics), first the estimate itself.
        n: settings × seeds.
    """

    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    values: Floats
    n: int

    def of(self, method: str, metric: str) -> Floats:
        """(count + 1,) means of one method's metric."""
        result: Floats = self.values[:, self.methods.index(method), self.metrics.index(metric)]
        return result

    def only(self, methods: Sequence[str]) -> Resampled:
        """Some of the methods."""
        return replace(self, methods=tuple(methods), values=self.values[:, [self.methods.index(m) for m in methods]])

    def interval(self, method: str, metric: str) -> dict[str, float]:
        """Mean and the ends of its 95 % interval."""
        samples = self.of(method, metric)
        low, high = np.quantile(samples[1:], [0.025, 0.975])
        return {"mean": float(samples[0]), "ci_low": float(low), "ci_high": float(high)}

    def ratio(self, method: str, base: str, metric: str) -> dict[str, Any] | None:
        """Ratio of the pooled means of two methods, its paired 95 % interval and two-sided p-value against 1.

        The p-value is twice the smaller share of resamples on either side of 1, at least 1 / count: a bootstrap
        cannot tell smaller ones apart. None where the base is not above zero or the method is below: regret is
        negative where plans break the constraint, and a ratio then says nothing.
        """
        top, bottom = self.of(method, metric), self.of(base, metric)
        if not (bottom[0] > 0 and top[0] >= 0):
            return None
        ratio = top / np.where(bottom > 0, bottom, np.nan)
        known = ratio[1:][np.isfinite(ratio[1:])]
        p = 2 * min((known <= 1).mean(), (known >= 1).mean())
        return _interval(ratio, self.n) | {"p": float(np.clip(p, 1 / len(known), 1.0))}

    def difference(self, method: str, base: str, metric: str, *, share: float = 1.0) -> dict[str, Any]:
        """Pooled mean of a method minus `share` of another's, its paired 95 % interval, and p-value against 0.

        Where regret is below zero this says what a ratio cannot.
        """
        values = self.of(method, metric) - share * self.of(base, metric)
        p = 2 * min((values[1:] <= 0).mean(), (values[1:] >= 0).mean())
        return _interval(values, self.n) | {"p": float(np.clip(p, 1 / len(values[1:]), 1.0))}


def resample(rounds: pd.DataFrame, count: int) -> Resampled:
    """Bootstrap of a table of rounds, clustered: settings are drawn, then seeds within each, then rounds within each.

    Where a table holds one setting, seeds are drawn and rounds within. A metric that is a ratio of sums
    (`RELATIVE`) is formed per seed and then averaged, as in the table of seeds.

    Args:
        rounds: from `evaluate`; every method has the same settings, seeds and rounds.
        count: resamples, always drawn from the same seed.

    Raises:
        DataError: a method lacks rounds that another has.
    """
    keys = ["method", "setting", "seed"]
    methods, settings, seeds = (tuple(rounds[key].unique()) for key in keys)
    sizes = rounds.groupby(keys).size()
    if sizes.nunique() != 1 or len(sizes) != len(methods) * len(settings) * len(seeds):
        raise DataError(
            "table of rounds: methods differ in settings, seeds or rounds; evaluate all of them on the same"
        )
    metrics = tuple(metric for metric in METRICS if RELATIVE.get(metric, metric) in rounds)
    columns = [RELATIVE.get(metric, metric) for metric in metrics]
    ranks = [
        pd.Categorical(rounds[key], order).codes for key, order in zip(keys, (methods, settings, seeds), strict=True)
    ]
    order = np.lexsort((rounds["round"], *reversed(ranks)))
    shape = (len(methods), len(settings), len(seeds), int(sizes.iloc[0]))
    values = rounds[[*columns, "optimal_makespan"]].to_numpy()[order]
    blocks = np.moveaxis(values.reshape(*shape, values.shape[1]), 0, 3)  # (settings, seeds, rounds, methods, columns)
    relative = [k for k, metric in enumerate(metrics) if metric in RELATIVE]

    def statistic(means: Floats) -> Floats:
        own = means.reshape(*means.shape[:2], len(methods), -1)
        result: Floats = own[..., : len(metrics)].mean(axis=1)
        result[..., relative] = (own[..., relative] / own[..., -1:] - 1.0).mean(axis=1)
        return result

    flat = blocks.reshape(*blocks.shape[:3], -1)
    rng = np.random.default_rng(0)
    parts = [statistic(flat.mean(axis=2).reshape(1, -1, flat.shape[3]))]
    for start in range(0, count, _CHUNK):
        parts.append(statistic(draw_blocks(flat, min(_CHUNK, count - start), rng)))
    return Resampled(methods, metrics, np.concatenate(parts), len(settings) * len(seeds))


def draw_blocks(values: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Means of resampled blocks, a block being the rounds of one seed in one setting.

    Each resample draws as many settings as there are, with replacement, then that many seeds within each draw, then
    rounds within each of these. Rounds enter by how often each was drawn (one matrix product a block), which is the
    same as gathering them.

    Args:
        values: (settings, seeds, rounds, k).
        count: resamples.
        rng: what is drawn from.

    Returns:
        (count, settings · seeds, k).
    """
    G, S, R, k = values.shape
    setting, seed = rng.integers(G, size=(count, G, 1)), rng.integers(S, size=(count, G, S))
    chosen = (setting * S + seed).ravel()
    means = np.empty((len(chosen), k))
    for block, own in enumerate(values.reshape(G * S, R, k)):
        slots = np.flatnonzero(chosen == block)
        drawn = rng.integers(R, size=(len(slots), R)) + R * np.arange(len(slots))[:, None]
        times = np.bincount(drawn.ravel(), minlength=R * len(slots)).reshape(-1, R)
        means[slots] = times @ own / R
    return means.reshape(count, G * S, k)


def _interval(samples: Floats, n: int) -> dict[str, Any]:
    low, high = np.nanquantile(samples[1:], [0.025, 0.975])
    return {
        "mean": float(samples[0]),
        "std": float(np.nanstd(samples[1:])),
        "ci_low": float(low),
        "ci_high": float(high),
        "n": n,
    }
