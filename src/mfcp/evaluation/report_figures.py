"""The figures of the report, as inline SVG that reads on light and on dark."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from mfcp.evaluation.compare import POOLED, Summary
from mfcp.evaluation.metric_table import BASELINE
from mfcp.evaluation.plots import shown

POINTS = 400  # of a figure over all rounds
LEAST_SHOWN = 0.01  # ratio: the axis is logarithmic, and the best plans have no excess at all
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
FACTORS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
GREY, GOOD, BAD, BLUE, LIGHT = "#777777", "#228833", "#bb5566", "#4477aa", "#aaaaaa"


def ratio_of(metrics: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Ratio of the excess to the baseline's, and its interval, which is the ratio itself where there is none.

    None where the baseline has no excess.
    """
    own = metrics.get("vs_tsm")
    if own is None or own["mean"] is None:
        return None
    low, high = (own["mean"] if own[key] is None else own[key] for key in ("ci_low", "ci_high"))
    return own["mean"], low, high


def paired(rounds: pd.DataFrame, best: str) -> pd.DataFrame:
    """A row a round: excess, makespan and reliability of the baseline and of the best method."""
    key = ["setting", "seed", "round"]
    columns = ["penalised_excess", "makespan", "reliability"]
    one, other = (
        rounds[rounds["method"] == label].set_index(key)[columns].add_suffix(suffix)
        for label, suffix in ((BASELINE, "_base"), (best, "_best"))
    )
    return one.join(other).assign(gain=lambda table: table["penalised_excess_base"] - table["penalised_excess_best"])


def ratio_figure(summary: Summary, whole: str) -> str:
    """Ratios to the baseline with their intervals, the best on top; dots are the single settings.

    Left out are methods without a ratio, and settings in which the baseline has no excess.
    """
    ratios = {label: own for label, metrics in summary[whole].items() if (own := ratio_of(metrics)) is not None}
    methods = sorted(ratios.keys() - {BASELINE}, key=lambda label: (-ratios[label][0], label))
    figure, axis = _axes(0.42 * len(methods) + 1.0)
    for k, label in enumerate(methods):
        mean, low, high = ratios[label]
        colour = GOOD if high < 1 else BAD if low > 1 else GREY
        of_settings = (ratio_of(summary[name][label]) for name in summary if name != POOLED)
        single = [max(own[0], LEAST_SHOWN) for own in of_settings if own is not None]
        axis.plot(single, [k] * len(single), "o", color=LIGHT, markersize=4)
        axis.plot(np.maximum([low, high], LEAST_SHOWN), [k, k], color=colour, lw=3, solid_capstyle="butt")
        axis.plot([max(mean, LEAST_SHOWN)], [k], "o", color=colour, markersize=8)
        axis.annotate(f"{mean:.2f} [{low:.2f}, {high:.2f}]", (1.01, k), xycoords=("axes fraction", "data"), va="center",
                      fontsize=8, color=GREY)  # fmt: skip
    axis.axvline(1.0, color=GREY, lw=1, ls="--")
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(range(len(methods)), [shown(label) for label in methods])
    axis.set_ylim(-0.6, len(methods) - 0.4)
    axis.set_xlabel(f"penalised excess over that of {BASELINE} (left is better)")
    return _svg(figure)


def gain_figure(rounds: pd.DataFrame, best: str) -> str:
    """How much less each round costs under the best method, rounds in order."""
    gain = np.sort(paired(rounds, best)["gain"].to_numpy())[::-1]
    gain = gain[np.linspace(0, len(gain) - 1, min(len(gain), POINTS)).round().astype(int)]
    figure, axis = _axes(2.6)
    share = (np.arange(len(gain)) + 0.5) / len(gain) * 100
    for mask, colour in ((gain > 0, GOOD), (gain < 0, BAD)):
        axis.fill_between(share, np.where(mask, gain, 0.0), color=colour, step="mid", lw=0)
    axis.axhline(0.0, color=GREY, lw=1)
    low, high = np.quantile(gain, [0.005, 0.995])
    axis.set_ylim(min(low, 0) * 1.2 - 0.01, max(high, 0) * 1.1 + 0.01)
    axis.set_xlim(0, 100)
    axis.set_xlabel("% of the rounds")
    axis.set_ylabel(f"excess of {BASELINE}\nminus that of {shown(best)}")
    return _svg(figure)


def error_figure(predictions: dict[str, dict[str, Any]]) -> str:
    """How far predicted times are off, by method: median and 95th percentile of the factor, least at the top."""
    labels = sorted(predictions, key=lambda label: -predictions[label]["factor"])
    figure, axis = _axes(0.34 * len(labels) + 1.0)
    for k, label in enumerate(labels):
        own = predictions[label]
        axis.plot([own["factor"], own["factor_95"]], [k, k], color=LIGHT, lw=2, solid_capstyle="butt")
        axis.plot([own["factor"]], [k], "o", color=BLUE, markersize=7)
        axis.annotate(f"{own['factor']:.2f}, {own['factor_95']:.2f}", (1.01, k), xycoords=("axes fraction", "data"),
                      va="center", fontsize=8, color=GREY)  # fmt: skip
    axis.set_xscale("log")
    axis.set_xlim(1.0, None)
    ticks = [tick for tick in FACTORS if tick <= axis.get_xlim()[1]]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(range(len(labels)), [shown(label) for label in labels])
    axis.set_ylim(-0.6, len(labels) - 0.4)
    axis.set_xlabel(
        "predicted times of unseen tasks are off by a factor of: median (dot), 95th percentile (left is better)"
    )
    return _svg(figure)


def calibration_figure(predictions: dict[str, dict[str, Any]]) -> str:
    """Predicted against true probabilities of success; on the diagonal they agree.

    Args:
        predictions: of the methods to show, the last one on top.
    """
    figure, axis = _axes(3.2, width=4.2)
    values = [value for own in predictions.values() for pair in own["calibration"] for value in pair]
    low = max(0.0, min(values) - 0.02)
    axis.plot([low, 1], [low, 1], color=GREY, lw=1, ls="--")
    for (label, own), colour in zip(predictions.items(), (LIGHT, BLUE), strict=False):
        axis.plot(*zip(*own["calibration"], strict=True), "o-", color=colour, markersize=4, label=shown(label))
    axis.set(xlim=(low, 1), ylim=(low, 1), aspect="equal")
    axis.set_xlabel("predicted probability of success")
    axis.set_ylabel("true one, mean of a bin")
    axis.legend(frameon=False, labelcolor=GREY)
    return _svg(figure)


def gantt_figure(example: dict[str, Any], clusters: list[str], names: tuple[str, str]) -> str:
    """One round planned twice, one plan above the other, by true times.

    Args:
        example: of `details.examples`.
        clusters: M names.
        names: of the baseline and the method.
    """
    figure, axes = _axes(0.9 + 0.5 * len(clusters), rows=2)
    for axis, role, name in zip(axes, ("baseline", "method"), names, strict=True):
        plan, ends = example[role], np.zeros(len(clusters))
        for task, (cluster, seconds) in enumerate(zip(plan["cluster"], plan["seconds"], strict=True)):
            axis.barh(cluster, seconds, left=ends[cluster], height=0.7, color=BLUE, alpha=(0.55, 0.9)[task % 2])
            if seconds > 0.04 * max(sum(plan["seconds"]) / len(clusters), 1e-9):
                axis.text(ends[cluster] + seconds / 2, cluster, str(task + 1), ha="center", va="center", fontsize=8,
                          color="white")  # fmt: skip
            ends[cluster] += seconds
        axis.axvline(ends.max(), color=GREY, lw=1.2, ls="--")
        axis.set_yticks(range(len(clusters)), [shown(cluster) for cluster in clusters])
        axis.set_ylim(len(clusters) - 0.5, -0.5)
        axis.set_title(f"{shown(name)}: {ends.max():,.0f} s, success {plan['reliability']:.3f}", fontsize=9, loc="left",
                       color=GREY)  # fmt: skip
    axes[-1].set_xlabel("seconds")
    return _svg(figure)


def _axes(height: float, *, width: float = 7.5, rows: int = 1) -> tuple[Any, Any]:
    """A figure, and its axes or as many as there are rows, which share their axis of x."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, 1, sharex=True)
    for axis in np.atleast_1d(axes):
        _plain(axis)
    return figure, axes


def _plain(axis: Any) -> None:
    axis.tick_params(colors=GREY)
    axis.xaxis.label.set_color(GREY)
    axis.yaxis.label.set_color(GREY)
    for side, spine in axis.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GREY)


def _svg(figure: Any) -> str:
    """Inline SVG with text as text; the same figure gives the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mfcp"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the reader's browser has its own
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]
