"""Figures: bars as in the paper's Fig. 4, ratios to the baseline, and training curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.evaluation.compare import POOLED
from mfcp.evaluation.metric_table import BASELINE, METRICS
from mfcp.files import replacing

if TYPE_CHECKING:
    from mfcp.evaluation.compare import Summary

FIG4 = ("relative_regret", "penalised_excess", "reliability", "utilization")
_WIDTH = 0.8


def pyplot() -> Any:
    """matplotlib without a display, imported when something is drawn."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG and close it; the same figure gives the same bytes."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format="png", metadata={"Software": None})
    pyplot().close(figure)


def bars(summary: Summary, path: Path) -> None:
    """Settings × methods × metrics with 95 % intervals, as Fig. 4 of [Huo2025]_."""
    plt = pyplot()
    settings = [name for name in summary if name != POOLED]
    methods = list(summary[settings[0]])
    figure, axes = plt.subplots(1, len(FIG4), figsize=(4.2 * len(FIG4), 4.2), layout="constrained")
    colours = plt.get_cmap("tab10").colors
    for axis, metric in zip(axes, FIG4, strict=True):
        for k, method in enumerate(methods):
            values = [summary[s][method][metric] for s in settings]
            mean = np.array([v["mean"] for v in values], float)
            half = [v["ci_high"] - v["mean"] if v["n"] > 1 else 0.0 for v in values]  # t intervals are symmetric
            x = np.arange(len(settings)) + (k - (len(methods) - 1) / 2) * _WIDTH / len(methods)
            axis.bar(x, mean, _WIDTH / len(methods), yerr=half, color=colours[k % 10], label=method,
                     error_kw={"elinewidth": 0.8})  # fmt: skip
        axis.set_xticks(range(len(settings)), settings)
        axis.set_xlabel("setting")
        better = METRICS[metric].better
        axis.set_title(
            f"{metric.replace('_', ' ')} ({'lower' if better == 'low' else 'higher'} is better)", fontsize=10
        )
        if metric in ("reliability", "utilization"):
            low = min(summary[s][m][metric]["mean"] for s in settings for m in methods)
            axis.set_ylim(bottom=max(0.0, low - 0.1))
        else:  # TAM is far off: the others stay readable on a logarithmic axis
            axis.set_yscale("symlog", linthresh=0.05)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(8, len(methods)), fontsize=9
    )
    save(figure, path)


def ratios(summary: Summary, path: Path) -> None:
    """Each method's headline metric over the baseline's, per setting and pooled, with paired intervals."""
    plt = pyplot()
    from matplotlib import ticker

    names = list(summary)
    methods = [m for m in summary[names[0]] if m != BASELINE and "vs_tsm" in summary[names[0]][m]]
    figure, axis = plt.subplots(figsize=(7, (0.1 + 0.11 * len(names)) * len(methods) + 1.5), layout="constrained")
    for k, name in enumerate(names):
        values = [summary[name][m]["vs_tsm"] for m in methods]
        mean = np.array([v["mean"] for v in values], float)
        error = np.array([[v["mean"] - v["ci_low"], v["ci_high"] - v["mean"]] for v in values], float).T
        y = np.arange(len(methods)) + 0.15 * (k - (len(names) - 1) / 2)
        strong = name == POOLED
        axis.errorbar(mean, y, xerr=np.maximum(error, 0), fmt="D" if strong else "o", ms=6 if strong else 4, capsize=2,
                      color="black" if strong else None, label=name)  # fmt: skip
    axis.axvline(1.0, color="grey", lw=0.8)
    axis.set_yticks(range(len(methods)), methods)
    axis.margins(y=0.5 / max(len(methods), 1))
    axis.invert_yaxis()
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    steps = (1.0, 2.0, 5.0) if high > 20 * low else (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=steps))
    axis.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())
    axis.set_xlabel(f"penalised excess / {BASELINE}'s, 95 % paired bootstrap (left of 1 is better)")
    axis.legend(fontsize=8)
    save(figure, path)


def curves(history: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    """Validation cost during decision-focused training: a panel per setting, mean over seeds and its spread.

    Args:
        history: "setting/method" → curve name → (S, checks).
        path: the PNG.
    """
    plt = pyplot()
    watched = {
        key: own["validation.penalised_cost"] for key, own in history.items() if "validation.penalised_cost" in own
    }
    settings = list(dict.fromkeys(key.split("/")[0] for key in watched)) or ["-"]
    size = (4.2 * len(settings), 3.6)
    figure, axes = plt.subplots(1, len(settings), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for key, values in watched.items():
        setting, method = key.split("/")
        axis = axes[0][settings.index(setting)]
        x, mean, spread = np.linspace(0, 1, values.shape[1]), values.mean(axis=0), values.std(axis=0)
        (line,) = axis.plot(x, mean, label=method)
        axis.fill_between(x, mean - spread, mean + spread, alpha=0.15, color=line.get_color())
        axis.set_title(f"setting {setting}: mean ± deviation over {len(values)} seeds", fontsize=10)
    axes[0][0].set_ylabel("penalised cost on validation rounds")
    figure.supxlabel("share of training steps", fontsize=10)
    if watched:
        axes[0][0].legend(fontsize=8)
    save(figure, path)
