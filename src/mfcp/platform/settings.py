"""Section `platform` of params.yaml: what the loop of a platform does, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mfcp.errors import SettingsError
from mfcp.matching.engines.base import Engine
from mfcp.matching.problem import MatchingProblem
from mfcp.platform.deciding.rounds import MatchSettings
from mfcp.platform.releases.monitoring import MonitorSettings
from mfcp.platform.releases.promotion import PromoteSettings
from mfcp.platform.running.job_settings import ClusterSettings, JobSettings
from mfcp.platform.simulation.world import SimulatorSettings
from mfcp.registry import import_members

_RUN_S = 60.0


class Every(BaseModel):
    """Seconds between the scheduled runs of each flow; 0 for never."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    match: float = Field(300.0, ge=0)
    ingest: float = Field(600.0, ge=0)
    monitor: float = Field(3600.0, ge=0)
    retrain: float = Field(86400.0, ge=0)
    run: float = Field(0.0, ge=0, description="on real clusters, 60 where there are any; each run stays until the next")


class PlatformSettings(BaseModel):
    """The loop of a platform."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    every_s: Every = Every()
    match: MatchSettings = MatchSettings()
    promote: PromoteSettings = PromoteSettings()
    monitor: MonitorSettings = MonitorSettings()
    clusters: Mapping[str, ClusterSettings] = Field(
        {}, description="cluster_id → what runs its tasks; docs/clusters.md"
    )
    run: JobSettings = JobSettings()
    simulator: SimulatorSettings = Field(
        SimulatorSettings(), description="what `make platform` feeds the platform with"
    )

    @model_validator(mode="after")
    def _run_where_there_are_clusters(self) -> Self:
        """Clusters that are named are run on, unless somebody says never."""
        if self.clusters and "run" not in self.every_s.model_fields_set:
            object.__setattr__(self, "every_s", self.every_s.model_copy(update={"run": _RUN_S}))
        return self

    @model_validator(mode="after")
    def _engine_can_match(self) -> Self:
        """Rounds would fail: with an unknown engine all, with one that takes no backlog once a cluster is busy."""
        if self.match.engine == "auto":
            return self
        import_members("mfcp.matching.engines")
        try:
            engine = Engine.build(self.match.engine)
            if self.clusters:
                busy = MatchingProblem([[1.0]], [[1.0]], 0.0, backlog=[1.0]).flat()
                engine.resolve(busy, None, self.match.time_limit).refuse(busy, None)
        except SettingsError as error:
            raise ValueError(f"match.engine: {error}") from None
        return self
