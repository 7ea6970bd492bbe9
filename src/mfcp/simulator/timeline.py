"""A run over time: queue and utilization as a figure, and the log as a Chrome trace."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mfcp.arrays import Floats
from mfcp.files import replacing
from mfcp.simulator.event_log import stretches, waiting
from mfcp.simulator.outcome import Outcome

PERIODS = 100


def over_time(outcome: Outcome, periods: int = PERIODS) -> tuple[Floats, Floats, Floats]:
    """A run cut into equal periods: where they begin and end, what is used, what waits.

    Means over a period, not values at an instant: those of a busy cluster jump with every job.

    Args:
        outcome: a run.
        periods: how many.

    Returns:
        Hours (periods + 1,); accelerators in use over those there are (periods,); jobs that wait (periods,).
    """
    edges = np.linspace(0.0, float(outcome.log["time_s"].max()), periods + 1)
    times, used = outcome.in_use.T if len(outcome.in_use) else _in_use(outcome)
    changes, queue = waiting(outcome.log)
    return edges / 3600, _means(times, used, edges) / outcome.cluster.accelerators, _means(changes, queue, edges)


def _in_use(outcome: Outcome) -> tuple[Floats, Floats]:
    """Times, ascending, and accelerators in use from each on, where each is of one job."""
    held = stretches(outcome.log)
    times, gpus = held[["start_s", "end_s"]].to_numpy().T.ravel(), held["gpus"].to_numpy(float)
    order = np.argsort(times, kind="stable")
    return times[order], np.cumsum(np.concatenate([gpus, -gpus])[order])


def _means(times: Floats, values: Floats, edges: Floats) -> Floats:
    """Means (E - 1,) between edges (E,) of what is `values` (K,) from `times` (K,) on, and nothing before."""
    if edges[-1] <= edges[0] or not len(times):
        return np.zeros(len(edges) - 1)
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])  # up to each of `times`
    last = np.searchsorted(times, edges, side="right") - 1
    until = np.where(last < 0, 0.0, area[last] + values[last] * (edges - times[last]))
    return np.diff(until) / np.diff(edges)


def draw_timeline(outcomes: dict[str, Outcome], path: Path) -> None:
    """Utilization and queue of one or more policies, one above the other, as PNG."""
    from mfcp.evaluation import plots

    plt = plots.pyplot()
    figure, axes = plt.subplots(2, 1, figsize=(9, 5), sharex=True, layout="constrained")
    for name, outcome in outcomes.items():
        hours, used, queue = over_time(outcome)
        axes[0].stairs(used, hours, baseline=None, lw=1.3, label=plots.shown(name))
        axes[1].stairs(queue, hours, baseline=None, lw=1.3, label=plots.shown(name))
    axes[0].set_ylabel("utilization")
    axes[0].set_ylim(0, 1.05)
    axes[1].set_ylabel("jobs that wait")
    axes[1].set_xlabel(f"hours; means of {PERIODS} equal periods")
    for axis in axes:
        axis.grid(alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=min(6, len(outcomes)))
    plots.save(figure, path)


def write_chrome_trace(outcome: Outcome, path: Path) -> None:
    """The stretches in which jobs ran, by first node, for chrome://tracing or ui.perfetto.dev."""
    jobs, separator = outcome.jobs, ""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ms", "traceEvents": [')
        for job, start, end, gpus, node in stretches(outcome.log).itertuples(index=False, name=None):
            event = {"name": str(jobs.id[job]), "ph": "X", "ts": start * 1e6, "dur": (end - start) * 1e6,
                     "pid": node, "tid": job, "args": {"gpus": gpus, "user": str(jobs.user[job])}}  # fmt: skip
            file.write(separator + json.dumps(event))  # one by one: a list of a million would take a gigabyte
            separator = ",\n"
        file.write("]}\n")
