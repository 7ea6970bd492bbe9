"""Settings of the emulated platform, light to import: no table is built here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Drift(BaseModel):
    """A change of a cluster in the middle of the history.

    A driver upgrade is `slowdown: 0.9`, throttling `slowdown: 1.3`, a degrading cluster `hazard: 5`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    cluster: str
    day: float = Field(ge=0, description="from which day of the history on")
    slowdown: float = Field(1.0, gt=0, description="factor on step times")
    hazard: float = Field(1.0, gt=0, description="factor on interruptions")


class EmulatorSettings(BaseModel):
    """What the emulated platform's history looks like.

    Args:
        tasks: how many tasks were submitted.
        families: model families of the zoo to draw from; empty for all.
        clusters: names of clusters; empty for all.
        measured: folder of a profile whose machines join the platform with their measured step times; empty for none.
        calibration: file of efficiencies that `mfcp calibrate` wrote, used for the accelerators that it names.
        runs: least and most runs of a task on a cluster.
        missing: share of (task, cluster) pairs that never ran.
        days: length of the history.
        work: scale of the samples per task; durations are about proportional to it.
        noise: factor on every cluster's run-to-run noise.
        hazard: factor on every rate of interruption.
        failures: factor on every owner's share of jobs that fail on their own.
        outages: factor on every owner's rate of outages.
        cancelled: share of runs stopped by their users.
        pairs: pairs of tasks that ran side by side on each cluster.
        drift: changes of clusters within the history; `truth` is as of its end.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = Field(300, ge=1)
    families: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    measured: str = ""
    calibration: str = ""
    runs: tuple[int, int] = (12, 30)
    missing: float = Field(0.15, ge=0, lt=1)
    days: float = Field(42.0, gt=0)
    work: float = Field(1.0, gt=0)
    noise: float = Field(1.0, ge=0)
    hazard: float = Field(1.0, gt=0)
    failures: float = Field(1.0, ge=0, le=3)
    outages: float = Field(1.0, ge=0)
    cancelled: float = Field(0.03, ge=0, lt=1)
    pairs: int = Field(40, ge=0)
    drift: tuple[Drift, ...] = ()
