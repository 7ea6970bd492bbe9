"""Which few steps of a round's tasks are worth running, and where, before the round is decided."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mfcp.arrays import Floats
from mfcp.data.pool.run_totals import floats
from mfcp.errors import SettingsError
from mfcp.release.evidence import STEP_NOISE
from mfcp.rules.measuring import measurements

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables
    from mfcp.release.decision import Decision
    from mfcp.release.model import Release


@dataclass(frozen=True)
class Measuring:
    """What may be measured, and what that takes.

    Attributes:
        most: measurements at most; None for all that are worth it.
        worth: makespans that one must save.
        start_s: seconds until its first step.
        steps: how many are run.
    """

    most: int | None = None
    worth: float = 0.0
    start_s: float = 30.0
    steps: int = 20

    def __post_init__(self) -> None:
        """Raise SettingsError where a number makes no sense."""
        if self.most is not None and self.most < 1:
            raise SettingsError(f"measure: expected a number of measurements, at least 1, got {self.most}")
        if not 0 <= self.worth < 1:
            raise SettingsError(f"measure-worth: expected a share of the makespan, in [0, 1), got {self.worth}")
        if not 0 <= self.start_s < np.inf or self.steps < 1:
            raise SettingsError(
                f"measure-start, measure-steps: expected seconds, at least 0, and a step, got {self.start_s}, "
                f"{self.steps}"
            )


@dataclass(frozen=True)
class WorthMeasuring:
    """A measurement that is expected to save more of the makespan than it takes.

    Attributes:
        task_id, cluster_id: which steps to run where.
        steps: how many.
        saves_s: seconds of expected makespan, given those before it.
        saves: the same in makespans.
        takes_s: seconds of the measurement itself.
    """

    task_id: str
    cluster_id: str
    steps: int
    saves_s: float
    saves: float
    takes_s: float


def worth_measuring(
    release: Release,
    tables: Tables,
    decision: Decision,
    asked: Measuring,
    done: Collection[tuple[str, str]] = (),
) -> list[WorthMeasuring]:
    """The measurements that are worth making, in order; cells that evidence has already are left alone.

    One that takes longer than what it saves is none, since the round waits for it; measurements on different clusters
    run side by side, so each is held against its own seconds alone, and those for which its cluster is still busy.

    Args:
        release: that decides.
        tables: `tasks` of the round.
        decision: its plan as it is.
        asked: what may be measured.
        done: tasks and clusters that are not to be asked for again.
    """
    at = [release.cluster_id.index(name) for name in decision.clusters]
    believed, belief = decision.believed, decision.belief
    covariance = believed.covariance[:, :, at][:, :, :, at]
    tasks = release.known.completed(tables["tasks"])
    steps = _step_seconds(belief.T[0], floats(tasks["batch_size"]), floats(tasks["samples"]))
    takes = asked.start_s + asked.steps * steps
    if belief.backlog is not None:
        takes = takes + belief.backlog[0][:, None]
    tried = [[(task, name) in done for task in decision.task_id] for name in decision.clusters]
    chosen = measurements(
        belief,
        covariance,
        STEP_NOISE**2,
        price=decision.price,
        open_cells=belief.allowed[0] & ~believed.lacks[at] & ~believed.measured()[at] & ~np.array(tried, bool),
        cost=takes,
        worth=asked.worth,
    )
    return [
        WorthMeasuring(
            decision.task_id[m.task], decision.clusters[m.cluster], asked.steps, m.seconds, m.value,
            float(takes[m.cluster, m.task]),
        )
        for m in islice(chosen, asked.most)
    ]  # fmt: skip


def _step_seconds(T: Floats, batch: Floats, samples: Floats) -> Floats:
    """(M, n) predicted seconds of a step; 0 where batch or samples are not told, and never more than the whole task."""
    share = batch / samples
    seconds: Floats = T * np.minimum(np.where(np.isfinite(share), share, 0.0), 1.0)
    return seconds


def write_answer_sheet(path: Path, tables: Tables, worth: list[WorthMeasuring]) -> None:
    """The measurements as rows of table `runs` whose step_time_s is to be filled in."""
    import pandas as pd

    from mfcp.data.log.formats import write_sheet

    batch = dict(zip(tables["tasks"]["task_id"].astype(str), floats(tables["tasks"]["batch_size"]), strict=True))
    rows = [
        {
            "run_id": f"measured-{k}",
            "task_id": one.task_id,
            "cluster_id": one.cluster_id,
            "step_time_s": None,
            "batch_size": None if np.isnan(batch[one.task_id]) else int(batch[one.task_id]),
            "status": "succeeded",
        }
        for k, one in enumerate(worth, 1)
    ]
    columns = ["run_id", "task_id", "cluster_id", "step_time_s", "batch_size", "status"]
    write_sheet(pd.DataFrame(rows, columns=columns), path, float_format="%.6g")
