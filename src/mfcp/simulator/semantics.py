"""What passes time, and what an event, a start or a move costs: values, with presets of published simulators."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mfcp.errors import SettingsError


class EventTerms(BaseModel):
    """A clock of events. Published results differ by 5 to 30 % by such terms alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    charge: Literal["resumes", "starts", "every event"] = Field(
        "resumes", description="when a job's overhead is paid: at every start but the first, at every start, or by all"
        " running jobs at every event",
    )  # fmt: skip
    end_has_charge: bool = Field(True, description="whether the planned end contains the overhead")
    moves: Literal["stays", "anywhere"] = Field(
        "stays", description="of preemptive policies: a running job keeps its nodes if it can, or all are placed anew"
    )
    ties: Literal["submission", "kept"] = Field("submission", description="equal keys: by submission, or as before")
    demoted: Literal["by key", "last"] = Field("by key", description="where a job goes in its next level")
    running_first: bool = Field(False, description="within a level, jobs that run come before those that wait")
    whole_limits: bool = Field(False, description="limits of levels in whole seconds of a job")


class RoundTerms(BaseModel):
    """A clock of rounds; a round ends with its last job, and until then what is free stays idle."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    round_s: float = Field(360.0, gt=0, description="seconds that a job may run before it is decided again")
    reset_s: float = Field(1920.0, ge=0, description="least seconds between two computations of shares")
    cut_s: float = Field(
        0.0, ge=0, description="seconds that a job loses of a whole round if it did not run in the one before; not in"
        " the first of all",
    )  # fmt: skip


class SlotTerms(BaseModel):
    """A clock for jobs that change their size: decisions, and what they cost."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    slot_s: float = Field(0.0, ge=0, description="least seconds between two decisions; what happens earlier waits")
    charge: Literal["changes", "every decision", "every submission"] = Field(
        "changes", description="when a job that runs is charged; or every job, while more are to come, to be paid when"
        " it runs next",
    )  # fmt: skip
    charge_s: float = Field(0.0, ge=0, description="seconds without progress")
    per_doubling_s: float = Field(
        0.0, ge=0, description="more of them, times 1 + log2 of its accelerators, unless it has run so before"
    )
    restart_every: int = Field(0, ge=0, description="events after which all layouts are forgotten; 0 for never")
    restart_s: float = Field(0.0, ge=0, description="what every job is charged then, besides")
    layouts: Literal["of a job", "of places", "none"] = Field(
        "of a job", description="what has run so before: the job, or any job at these places, the largest first; or"
        " nothing has"
    )  # fmt: skip
    ends: Literal["exact", "with a slot", "with a decision"] = Field(
        "exact", description="until when a job holds what it has: the end of its work, of a slot that began with the"
        " last decision, or the next decision, which follows a submission, or a slot where none is to come",
    )  # fmt: skip


Semantics = EventTerms | RoundTerms | SlotTerms

PRESETS: dict[str, Semantics] = {
    "plain": EventTerms(),
    # Zhao et al., SIGCOMM 2022 (Muri): whatever job causes an event, every running job pays.
    "muri": EventTerms(
        charge="every event", end_has_charge=False, moves="anywhere", ties="kept", demoted="last", whole_limits=True
    ),
    "slots": SlotTerms(),
    # Gu et al., ASPLOS 2023: on 256 accelerators or more, 7 and 47 seconds instead of 2 and 27
    "elasticflow": SlotTerms(
        slot_s=60.0,
        charge="every decision",
        charge_s=2.0,
        per_doubling_s=2.0,
        restart_every=60,
        restart_s=27.0,
        layouts="of places",
        ends="with a slot",
    ),
    "gavel": RoundTerms(),  # Narayanan et al., OSDI 2020
    "shockwave": RoundTerms(round_s=120.0, reset_s=1000.0, cut_s=20.0),  # Zheng et al., NSDI 2023
}


def preset(name: str, **changes: object) -> Semantics:
    """A named set of rules, with changes.

    Raises:
        SettingsError: no preset of that name.
    """
    if name not in PRESETS:
        raise SettingsError(f"semantics '{name}': known are {', '.join(PRESETS)}")
    return PRESETS[name].model_copy(update=changes)
