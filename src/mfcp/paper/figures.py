"""The study's figures, from paper.json alone: bars as Fig. 4, lines as Fig. 5 and Table 2, ratios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mfcp.evaluation import plots
from mfcp.evaluation.compare import POOLED
from mfcp.evaluation.metric_table import METRICS
from mfcp.paper.results import HELD_OUT

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
                plots.bars(drawn, folder / f"{name}-{data}.png")
                plots.ratios(
                    {key: tables[key] for key in (HELD_OUT, POOLED) if key in tables},
                    folder / f"{name}-{data}-ratios.png",
                )


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
