"""Why a job waits: what ran instead, what was free, and when it was to be expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Floats
from mfcp.simulator.outcome import Outcome


@dataclass(frozen=True)
class Explanation:
    """One job of a run.

    Attributes:
        job: its row.
        submit, started, finished: seconds.
        stops: how often it was taken off.
        free: mean accelerators that were free while it waited for its first start; NaN if it never waited.
        instead: the jobs with most accelerator-seconds in that time: (id, seconds); at most five.
        starts: (samples,) seconds at which it starts under other draws of belief and failures.
    """

    job: int
    submit: float
    started: float
    finished: float
    stops: int
    free: float
    instead: tuple[tuple[str, float], ...]
    starts: Floats

    def interval(self) -> tuple[float, float, float]:
        """Median, 5 % and 95 % quantile of its start."""
        median, low, high = np.quantile(self.starts, [0.5, 0.05, 0.95])
        return float(median), float(low), float(high)


def explain_job(outcome: Outcome, job: int, again: Callable[[int], Outcome], *, samples: int = 20) -> Explanation:
    """Explain one job of a finished run.

    Args:
        outcome: the run.
        job: its row.
        again: a run with another seed.
        samples: how many of those.
    """
    begin, end = float(outcome.jobs.submit[job]), float(outcome.started[job])
    used = np.zeros(len(outcome.jobs.id))
    held = stretches(outcome)
    for other, start, stop, gpus in held:
        used[int(other)] += gpus * max(min(stop, end) - max(start, begin), 0.0)
    waited = end - begin
    first = np.argsort(-used)[:5]
    starts = np.array([again(seed).started[job] for seed in range(1, samples + 1)])
    return Explanation(
        job, begin, end, float(outcome.finished[job]), int(outcome.stops[job]),
        float(outcome.cluster.accelerators - used.sum() / waited) if waited > 0 else float("nan"),
        tuple((str(outcome.jobs.id[k]), float(used[k])) for k in first if used[k] > 0), starts,
    )  # fmt: skip


def stretches(outcome: Outcome) -> Floats:
    """(r, 4) job, start, end and accelerators of every stretch in which a job ran."""
    log = outcome.log
    begins = log[log["event"] == "started"].sort_values(["job", "time_s"], kind="stable")
    ends = log[log["event"].isin(["stopped", "failed", "finished"])].sort_values(["job", "time_s"], kind="stable")
    columns = [begins["job"], begins["time_s"], ends["time_s"].to_numpy(), begins["gpus"]]
    return np.stack([np.asarray(column, float) for column in columns], axis=1)
