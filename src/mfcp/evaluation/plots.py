"""Figures: metrics as in the paper's Fig. 4, ratios to the baseline, and training curves."""

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
_APART = 0.55  # of a row, over which its settings lie
_LONGEST = 40  # characters of a name


def pyplot() -> Any:
    """matplotlib without a display, imported when something is drawn."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def shown(name: str) -> str:
    """A name as text of a figure: not read as mathematics, and no longer than there is room for."""
    text = name if len(name) <= _LONGEST else f"{name[:_LONGEST]}…"
    return text.replace("$", r"\$")


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG and close it; the same figure gives the same bytes."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=120, format="png", metadata={"Software": None})
    pyplot().close(figure)


def metrics(summary: Summary, path: Path) -> None:
    """Metrics × methods × settings with 95 % intervals, what Fig. 4 of [Huo2025]_ shows, on axes that are not cut."""
    plt = pyplot()
    settings = [name for name in summary if name != POOLED]
    methods = list(summary[settings[0]])
    rows = np.arange(len(methods))
    size = (3.4 * len(FIG4), (0.15 + 0.13 * len(settings)) * len(methods) + 1.4)
    figure, axes = plt.subplots(1, len(FIG4), figsize=size, sharey=True, layout="constrained")
    for axis, metric in zip(axes, FIG4, strict=True):
        for k, name in enumerate(settings):
            values = [summary[name][method][metric] for method in methods]
            mean = np.array([v["mean"] for v in values], float)
            half = [v["ci_high"] - v["mean"] if v["n"] > 1 else 0.0 for v in values]  # t intervals are symmetric
            y = rows + _APART * (k - (len(settings) - 1) / 2) / len(settings)
            axis.errorbar(mean, y, xerr=half, fmt="o", ms=4, lw=1.2, label=name)
        if metric in ("relative_regret", "penalised_excess"):
            axis.axvline(0.0, color="grey", lw=0.8)
        axis.grid(axis="y", color="0.92")
        axis.set_axisbelow(True)
        better = METRICS[metric].better
        axis.set_xlabel(f"{metric.replace('_', ' ')} ({'left' if better == 'low' else 'right'} is better)")
    axes[0].set_yticks(rows, [shown(method) for method in methods])
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=len(settings), fontsize=9,
                  title="setting, 95 % interval over seeds")  # fmt: skip
    save(figure, path)


def ratios(summary: Summary, path: Path) -> None:
    """Each method's headline metric over the baseline's, per setting and pooled, with paired intervals."""
    plt = pyplot()
    from matplotlib import ticker

    found = {name: {m: own["vs_tsm"] for m, own in summary[name].items() if "vs_tsm" in own} for name in summary}
    names = [name for name, own in found.items() if own]  # without those in which the baseline has no excess
    methods = [m for m in summary[names[0]] if m != BASELINE]
    figure, axis = plt.subplots(figsize=(7, (0.1 + 0.11 * len(names)) * len(methods) + 1.5), layout="constrained")
    for k, name in enumerate(names):
        values = [found[name][m] for m in methods]
        mean = np.array([v["mean"] for v in values], float)
        sides = [np.array([v[side] for v in values], float) for side in ("ci_low", "ci_high")]  # nan: no interval
        error = np.nan_to_num([mean - sides[0], sides[1] - mean])
        y = np.arange(len(methods)) + 0.15 * (k - (len(names) - 1) / 2)
        strong = name == POOLED
        axis.errorbar(mean, y, xerr=np.maximum(error, 0), fmt="D" if strong else "o", ms=6 if strong else 4, capsize=2,
                      color="black" if strong else None, label=name)  # fmt: skip
    axis.axvline(1.0, color="grey", lw=0.8)
    axis.set_yticks(range(len(methods)), [shown(method) for method in methods])
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
    """What decision-focused training does to the validation cost: a panel per setting, mean over seeds and its error.

    Costs are those above each seed's first one: seeds differ far more in level than training changes.

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
        setting, _, method = key.partition("/")
        axis = axes[0][settings.index(setting)]
        change = values - values[:, :1]
        x, mean = np.linspace(0, 1, values.shape[1]), change.mean(axis=0)
        error = change.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0 * mean
        (line,) = axis.plot(x, mean, label=shown(method))
        for edge in (mean - error, mean + error):
            axis.plot(x, edge, color=line.get_color(), lw=0.6, ls=":")
        axis.set_title(f"setting {setting}: mean ± standard error, {len(values)} seeds", fontsize=10)
    for axis in axes[0]:
        axis.axhline(0.0, color="grey", lw=0.8)
    axes[0][0].set_ylabel("change of the penalised cost\non validation rounds (lower is better)")
    figure.supxlabel("share of training steps", fontsize=10)
    if watched:
        axes[0][0].legend(fontsize=8)
    save(figure, path)
