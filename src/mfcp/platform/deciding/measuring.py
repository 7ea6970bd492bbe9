"""A round that waits for a few measured steps: asked for while they are worth it, waited for no longer than agreed."""

from __future__ import annotations

import time

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from mfcp.data.log.tables import Tables
from mfcp.platform.state.store import Store
from mfcp.release.decision import Decision
from mfcp.release.measurements import Measuring, worth_measuring
from mfcp.release.model import Release


class MeasureSettings(BaseModel):
    """Which steps a round may ask clusters for before it decides."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    cells: int = Field(0, ge=0, description="measurements of the tasks of a round at most; 0: none is asked for")
    worth: float = Field(0.002, ge=0, lt=1, description="makespans that one must save")
    start_s: float = Field(30.0, ge=0, description="seconds that a measurement takes to start")
    steps: int = Field(20, ge=1, description="steps of a measurement")
    tasks: int = Field(50, ge=1, description="a larger round is decided at once: what cells are worth takes minutes")
    wait_s: float = Field(120.0, gt=0, description="real seconds after the first is asked for, then the round decides")


def still_measuring(
    store: Store, release: Release, tables: Tables, decision: Decision, settings: MeasureSettings
) -> int:
    """How many measurements a round waits for; 0 once it should decide with what has come.

    What is asked for is in the database before anything waits for it, so that a round that is killed goes on where it
    was. One cell of a task is asked for at a time, since what it tells changes what the others are worth.

    Args:
        store: the platform's state.
        release: the champion.
        tables: the round's tasks.
        decision: what would be decided now, with all that was observed.
        settings: what may be asked for.
    """
    if not settings.cells or len(decision.task_id) > settings.tasks:
        return 0
    asked = store.measurements(list(decision.task_id))
    if len(asked) and time.time() >= asked["asked_at"].min() + settings.wait_s:
        return 0
    waiting = int((asked["status"] == "asked").sum())
    left = settings.cells - len(asked)
    if waiting or left <= 0:
        return waiting
    wish = Measuring(worth=settings.worth, start_s=settings.start_s, steps=settings.steps)
    done = set(zip(asked["task_id"], asked["cluster_id"], strict=True))
    cells = [vars(one) for one in worth_measuring(release, tables, decision, wish, done)]
    first = pd.DataFrame(cells).drop_duplicates("task_id").head(left) if cells else pd.DataFrame()
    return store.ask(first) if len(first) else 0
