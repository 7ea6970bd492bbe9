"""Two runs of the same jobs: paired differences, and which jobs wait longer."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mfcp.errors import DataError
from mfcp.simulator.outcome import Outcome
from mfcp.simulator.traces.description import size_class

BLOCKS = 40


def paired_difference(first: Outcome, second: Outcome, *, samples: int = 2000, seed: int = 0) -> dict[str, float]:
    """Mean of the second run's completion times minus the first's, in seconds, with a 95 % interval.

    Jobs that wait in one queue are not independent: whole blocks of consecutive submissions are drawn, `BLOCKS` of
    them or as many as there are jobs. Jobs that do not finish in both runs are left out; `left_out` is their number.

    Raises:
        DataError: no job finishes in both runs.
    """
    difference = second.jct - first.jct
    both = ~np.isnan(difference)
    if not both.any():
        raise DataError("no job finishes in both runs, so there is nothing to compare")
    difference = difference[both]
    blocks = np.array_split(difference, min(BLOCKS, len(difference)))
    total, count = (np.array([f(block) for block in blocks], float) for f in (np.sum, len))
    drawn = np.random.default_rng(seed).integers(0, len(blocks), (samples, len(blocks)))
    means = total[drawn].sum(axis=1) / count[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    mean, base = float(difference.mean()), float(first.jct[both].mean())
    return {
        "mean_s": mean, "ci_low_s": float(low), "ci_high_s": float(high), "ratio": 1 + mean / base,
        "left_out": float((~both).sum()),
    }  # fmt: skip


def who_waits(first: Outcome, second: Outcome) -> pd.DataFrame:
    """Mean seconds between submission and end in which jobs do not run, per run, by size class and by user.

    Columns `by`, `group`, `jobs`, `first_s`, `second_s`, `change_s`. Only jobs that finish in both runs count. Users
    beyond the ten with most jobs are taken together.
    """
    jobs, both = first.jobs, ~np.isnan(first.jct + second.jct)
    waits = [outcome.jct - outcome.executed for outcome in (first, second)]
    common = pd.Series(jobs.user).value_counts().index[:10]
    users = np.where(np.isin(jobs.user, common), jobs.user, "others")
    rows = []
    for by, groups in (("size", size_class(jobs.gpus)), ("user", users)):
        if by == "user" and len(np.unique(groups)) <= 1:
            continue
        for group in np.unique(groups[both]):
            own = both & (groups == group)
            before, after = (float(wait[own].mean()) for wait in waits)
            rows.append(
                {"by": by, "group": str(group), "jobs": int(own.sum()), "first_s": before, "second_s": after,
                 "change_s": after - before}
            )  # fmt: skip
    return pd.DataFrame(rows, columns=["by", "group", "jobs", "first_s", "second_s", "change_s"])
