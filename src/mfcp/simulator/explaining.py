"""Why a job waits: what ran instead, which job was first in line, which took its place, and when it was expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mfcp.arrays import Floats
from mfcp.simulator.event_log import stretches
from mfcp.simulator.outcome import Outcome

MOST = 5  # jobs that are named


@dataclass(frozen=True)
class JobReport:
    """One job of a run.

    Attributes:
        job: its row.
        submit, started, finished: seconds; NaN for what does not happen.
        fate: `finished`, `declined`, `given_up` or `never_ends`.
        roomy_s: seconds, before its first start, in which as many accelerators were free as it asks for.
        first: of these seconds, the jobs that were first in line, which it could not pass: (id, accelerators that they
            ask for, seconds), most seconds first, at most five.
        instead: jobs with most accelerator-seconds before its first start: (id, accelerator-seconds), at most five.
        taken_off: when it was taken off, and jobs that started, grew or moved at that instant: (seconds, ids).
        starts: (samples,) seconds at which it starts under other draws of belief and failures; NaN where it does not.
    """

    job: int
    submit: float
    started: float
    finished: float
    fate: str
    roomy_s: float
    first: tuple[tuple[str, int, float], ...]
    instead: tuple[tuple[str, float], ...]
    taken_off: tuple[tuple[float, tuple[str, ...]], ...]
    starts: Floats

    def interval(self) -> tuple[float, float, float]:
        """Median, 5 % and 95 % quantile of its start, over the draws in which it starts; NaN if there are none."""
        starts = self.starts[~np.isnan(self.starts)]
        if len(starts) == 0:
            return float("nan"), float("nan"), float("nan")
        median, low, high = np.quantile(starts, [0.5, 0.05, 0.95])
        return float(median), float(low), float(high)


def explain_job(outcome: Outcome, job: int, again: Callable[[int], Outcome], *, samples: int = 20) -> JobReport:
    """Explain one job of a finished run.

    Args:
        outcome: the run.
        job: its row.
        again: a run with another seed.
        samples: how many of those.
    """
    jobs, log = outcome.jobs, outcome.log
    begin, started = float(jobs.submit[job]), float(outcome.started[job])
    end = float(log["time_s"].max()) if np.isnan(started) else started
    held = stretches(log)
    inside = (held["end_s"].clip(upper=end) - held["start_s"].clip(lower=begin)).clip(lower=0.0)
    used = (inside * held["gpus"]).groupby(held["job"]).sum().nlargest(MOST)
    roomy, first = _first_in_line(outcome, held, job, begin, end)
    fates = [why for why, rows in outcome.unfinished().items() if job in rows]
    return JobReport(
        job, begin, started, float(outcome.finished[job]), fates[0] if fates else "finished", roomy, first,
        tuple((str(jobs.id[k]), float(used[k])) for k in used.index if used[k] > 0), _taken_off(outcome, log, job),
        np.array([again(seed).started[job] for seed in range(1, samples + 1)]),
    )  # fmt: skip


def _first_in_line(
    outcome: Outcome, held: pd.DataFrame, job: int, begin: float, end: float
) -> tuple[float, tuple[tuple[str, int, float], ...]]:
    """Seconds with room enough, and the waiting jobs that start first after each of them."""
    jobs, need = outcome.jobs, int(outcome.jobs.gpus[job])
    times = np.unique(np.clip(outcome.log["time_s"].to_numpy(), begin, end))
    starts, ends, gpus = (held[name].to_numpy() for name in ("start_s", "end_s", "gpus"))
    change = np.concatenate([[0], np.cumsum(gpus[np.argsort(starts, kind="stable")])])
    back = np.concatenate([[0], np.cumsum(gpus[np.argsort(ends, kind="stable")])])
    in_use = change[np.searchsorted(np.sort(starts), times, side="right")]
    in_use = in_use - back[np.searchsorted(np.sort(ends), times, side="right")]
    spans = np.diff(times, append=times[-1:])
    roomy, seconds = 0.0, dict[int, float]()
    by_start = held.sort_values("start_s", kind="stable")
    runners, begins = by_start["job"].to_numpy(), by_start["start_s"].to_numpy()
    for time, span, free in zip(times, spans, outcome.cluster.accelerators - in_use, strict=True):
        if span <= 0 or free < need:
            continue
        roomy += float(span)
        for k in range(np.searchsorted(begins, time, side="right"), len(begins)):
            other = int(runners[k])
            if other == job or begins[k] > end:
                break
            if jobs.submit[other] <= time and not (outcome.started[other] <= time):
                seconds[other] = seconds.get(other, 0.0) + float(span)
                break
    named = sorted(seconds.items(), key=lambda pair: -pair[1])[:MOST]
    return roomy, tuple((str(jobs.id[k]), int(jobs.gpus[k]), span) for k, span in named)


def _taken_off(outcome: Outcome, log: pd.DataFrame, job: int) -> tuple[tuple[float, tuple[str, ...]], ...]:
    times = log.loc[(log["job"] == job) & (log["event"] == "stopped"), "time_s"]
    coming = log[log["event"].isin(["started", "moved", "resized"]) & log["time_s"].isin(times)]
    by_time = {time: rows["job"].to_numpy()[:MOST] for time, rows in coming.groupby("time_s")}
    return tuple((float(t), tuple(str(outcome.jobs.id[k]) for k in by_time.get(t, ()))) for t in times)
