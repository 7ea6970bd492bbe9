"""Settings of the emulated platform, light to import: no table is built here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class EmulatorSettings(BaseModel):
    """What the emulated platform's history looks like.

    Args:
        tasks: how many tasks were submitted.
        families: model families of the zoo to draw from; empty for all.
        clusters: names of clusters; empty for all.
        runs: least and most runs of a task on a cluster.
        missing: share of (task, cluster) pairs that never ran.
        days: length of the history.
        work: scale of the samples per task; durations are about proportional to it.
        noise: factor on every cluster's run-to-run noise.
        hazard: factor on every interruption and start failure rate.
        error: median probability that a run fails for a reason of the task's own.
        cancelled: share of runs stopped by their users.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = Field(300, ge=1)
    families: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    runs: tuple[int, int] = (12, 30)
    missing: float = Field(0.15, ge=0, lt=1)
    days: float = Field(42.0, gt=0)
    work: float = Field(1.0, gt=0)
    noise: float = Field(1.0, ge=0)
    hazard: float = Field(1.0, gt=0)
    error: float = Field(0.02, gt=0, lt=0.5)
    cancelled: float = Field(0.03, ge=0, lt=1)
