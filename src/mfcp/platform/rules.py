"""Section `platform` of params.yaml: what the loop of a platform does, and how often."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from mfcp.platform.monitoring import MonitorRules
from mfcp.platform.promotion import PromoteRules
from mfcp.platform.rounds import MatchRules
from mfcp.platform.world import SimulatorRules


class Every(BaseModel):
    """Seconds between the scheduled runs of each flow; 0 for never."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    match: float = Field(300.0, ge=0)
    ingest: float = Field(600.0, ge=0)
    monitor: float = Field(3600.0, ge=0)
    retrain: float = Field(86400.0, ge=0)


class PlatformRules(BaseModel):
    """The loop of a platform."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    every_s: Every = Every()
    match: MatchRules = MatchRules()
    promote: PromoteRules = PromoteRules()
    monitor: MonitorRules = MonitorRules()
    simulator: SimulatorRules = Field(SimulatorRules(), description="what `make platform` feeds the platform with")
