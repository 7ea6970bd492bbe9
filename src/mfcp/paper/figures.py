"""The study's figures, from paper.json alone: bars as Fig. 4, lines as Fig. 5 and Table 2, ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mfcp.evaluation import plots
from mfcp.evaluation.compare import POOLED
from mfcp.evaluation.metric_table import BASELINE, METRICS
from mfcp.paper.results import HELD_OUT

_WIDEST = 2.0  # ratio to the baseline at which the axis of `draw_summary` ends
PANELS = ("penalised_excess", "relative_regret", "reliability", "utilization")


def names(results: dict[str, Any]) -> list[str]:
    """The files that `draw` writes."""
    return [
        file
        for name, experiment in results["experiments"].items()
        for data in dict.fromkeys(entry["data"] for entry in experiment["entries"])
        for file in (f"{name}-{data}.png", *([] if experiment["swept"] else [f"{name}-{data}-ratios.png"]))
    ]


def draw(results: dict[str, Any], folder: Path) -> None:
    """One PNG per experiment and data set, and one of ratios where nothing is swept; see `names`."""
    for name, experiment in results["experiments"].items():
        for data in results["data"]:
            entries = [entry for entry in experiment["entries"] if entry["data"] == data]
            if not entries:
                continue
            if experiment["swept"]:
                lines(entries, experiment["swept"], experiment["figure"], folder / f"{name}-{data}.png")
            else:
                tables = entries[0]["tables"]
                drawn = {
                    key: {label: rows[label] for label in experiment["figure"]}
                    for key, rows in tables.items()
                    if key not in (POOLED, HELD_OUT)
                }
                plots.metrics(drawn, folder / f"{name}-{data}.png")
                plots.ratios(
                    {key: tables[key] for key in (HELD_OUT, POOLED) if key in tables},
                    folder / f"{name}-{data}-ratios.png",
                )


def draw_summary(summary: dict[str, Any], path: Path) -> None:
    """The rows of the page's first table, with their 95 % intervals: a panel per log.

    The axis ends at twice the baseline; a method beyond it is marked at the edge with its ratio.

    Args:
        summary: see `mfcp.paper.summary.summarise_study`.
        path: the PNG.
    """
    plt = plots.pyplot()
    headline, ours = summary["headline"], summary["study"]["ours"]
    rows = [row for row in headline["rows"] if row["of"] != [BASELINE]]
    logs = headline["logs"]
    size = (2.6 * len(logs) + 3.2, 0.34 * len(rows) + 1.1)
    figure, axes = plt.subplots(1, len(logs), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for k, (axis, log) in enumerate(zip(axes[0], logs, strict=True)):
        for y, row in enumerate(rows):
            label, ratio = row["cells"][k]["label"], row["cells"][k]["ratio"]
            if ratio is None:
                continue
            colour = "tab:orange" if label in ours else "tab:blue"
            if ratio["mean"] > _WIDEST:
                axis.annotate(f"{ratio['mean']:.1f} →", (_WIDEST, y), ha="right", va="center", fontsize=8, color=colour)
                continue
            axis.plot([ratio["ci_low"], ratio["ci_high"]], [y, y], color=colour, lw=1.8)
            axis.plot(ratio["mean"], y, "o", ms=5, color=colour)
        axis.axvline(1.0, color="grey", lw=0.8)
        highest = max((row["cells"][k]["ratio"] or {}).get("ci_high") or 1.0 for row in rows)
        axis.set_xlim(0.0, min(_WIDEST, max(1.05, 1.05 * highest)))
        axis.set_title(log, fontsize=10)
        axis.grid(axis="x", alpha=0.3)
    axes[0][0].set_yticks(range(len(rows)), [row["title"].replace("`", "") for row in rows], fontsize=9)
    axes[0][0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel("penalised excess / TSM's, 95 % intervals (left is better; orange: ours)", fontsize=9)
    plots.save(figure, path)


def draw_errors(summary: dict[str, Any], path: Path) -> None:
    """Every method a point: its ratio to the baseline against its error of log time, a panel per log.

    Colours are the rules of methods; the page's first rows have their labels. Methods without predicted times are left
    out, and so is what is worse than twice the baseline.

    Args:
        summary: see `mfcp.paper.summary.summarise_study`.
        path: the PNG.
    """
    plt = plots.pyplot()
    experiment, rules = next(iter(summary["ratios"].values())), summary["study"]["rules"]
    named = {row["of"][0] for row in summary["headline"]["rows"] if len(row["of"]) == 1}
    logs = [column["data"] for column in experiment["columns"]]
    drawn = dict.fromkeys(rules[label] for label in experiment["rows"])
    colours = {rule: f"C{k}" for k, rule in enumerate(drawn)}
    size = (3.9 * len(logs) + 0.4, 4.3)
    figure, axes = plt.subplots(1, len(logs), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for k, (axis, log) in enumerate(zip(axes[0], logs, strict=True)):
        points: dict[str, tuple[float, float]] = {}
        for label, ratios in experiment["rows"].items():
            mean = 1.0 if label == BASELINE else (ratios[k] or {}).get("mean")
            error = summary["errors"][log].get(label, {}).get("log_time_rms")
            if mean is None or error is None or mean > _WIDEST:
                continue
            axis.plot(error, mean, "o", ms=5, color=colours[rules[label]], alpha=0.8, mew=0)
            if label in named:
                points[label] = (error, mean)
        axis.set_title(log, fontsize=10)
        farthest = max([line.get_xdata()[0] for line in axis.lines], default=1.0)
        axis.set_xlim(-0.02 * farthest, 1.5 * farthest)
        axis.grid(alpha=0.3)
        _name_points(axis, points, 1.1 * farthest)
    axes[0][0].set_ylim(-0.03 * _WIDEST, _WIDEST)
    axes[0][0].set_ylabel("penalised excess / TSM's")
    figure.supxlabel("error of log time, rms over pairs of test tasks and clusters (left is better)", fontsize=9)
    handles = [plt.Line2D([], [], marker="o", ls="", color=colour, label=rule) for rule, colour in colours.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8)
    plots.save(figure, path)


def _name_points(axis: Any, points: dict[str, tuple[float, float]], x: float) -> None:
    """Labels one above the other at `x`, in the order of their points' heights, each with a line to its point."""
    y = -np.inf
    for label, point in sorted(points.items(), key=lambda item: item[1][1]):
        y = max(point[1], y + _WIDEST / 22)  # the height of a line of text
        style = {"arrowstyle": "-", "color": "0.6", "lw": 0.6, "shrinkA": 0, "shrinkB": 3}
        axis.annotate(label, point, xytext=(x, y), fontsize=8, va="center", arrowprops=style)


def lines(entries: list[dict[str, Any]], swept: str, rows: list[str], path: Path) -> None:
    """Each method's pooled means over what is swept, with the 95 % interval as a band."""
    plt = plots.pyplot()
    figure, axes = plt.subplots(1, len(PANELS), figsize=(4.0 * len(PANELS), 3.8), layout="constrained")
    x = np.array([entry["value"] for entry in entries], float)
    for axis, metric in zip(axes, PANELS, strict=True):
        for label in rows:
            values = [entry["tables"][POOLED][label][metric] for entry in entries]
            mean, low, high = (np.array([v[key] for v in values], float) for key in ("mean", "ci_low", "ci_high"))
            (line,) = axis.plot(x, mean, marker="o", ms=3, label=label)
            axis.fill_between(x, low, high, alpha=0.12, color=line.get_color(), lw=0)
        better = "lower" if METRICS[metric].better == "low" else "higher"
        axis.set_title(f"{metric.replace('_', ' ')} ({better} is better)", fontsize=10)
        axis.set_xticks(x)
        axis.set_xlabel({"tasks": "N, tasks of a round", "zeta_floor": "floor of zeta"}[swept])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(8, len(rows)), fontsize=9)
    plots.save(figure, path)
