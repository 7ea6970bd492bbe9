"""From the outbox to the tracking store: what is there stays until it is delivered, so MLflow may be down for days."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from mfcp.errors import MfcpError
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Store
from mfcp.tracking import MetricPoint, log_points, register_releases

EXPERIMENT = "platform"
REGISTERED = "mfcp"  # model in MLflow's registry


@dataclass(frozen=True)
class Delivered:
    """What became of the notes that waited.

    Attributes:
        delivered: notes that the tracking store has now.
        waiting: notes that it does not have.
        error: why not, empty where all are there.
    """

    delivered: int
    waiting: int
    error: str = ""

    def __str__(self) -> str:
        return f"{self.delivered} metrics and events delivered" + (
            f", {self.waiting} wait: {self.error}" if self.waiting else ""
        )


def deliver(store: Store, home: Path, *, limit: int = 5000) -> Delivered:
    """Send what waits to MLflow, a run for each month; a store that is down costs only the delay.

    The step of a point is the note's id: one that is sent again, after a death before it was marked, is there once.
    An event is the point `event.<name>` of value 1, and its content a tag of the run that holds the last such one. A
    metric without a finite value has nothing to send and counts as delivered.

    Args:
        store: holds the outbox.
        home: MLflow's store is in its `mlruns/`, unless MLFLOW_TRACKING_URI names another.
        limit: notes at most in one call, the oldest first.
    """
    waiting = store.undelivered(limit)
    delivered, error = 0, ""
    for month, own in waiting.groupby(waiting["at"].map(_month), sort=False):
        ids = [int(number) for number in own["id"]]
        try:
            log_points(EXPERIMENT, str(month), _points(own), tags=_tags(own), root=home)
        except MfcpError as failure:
            error = str(failure)
            store.mark(ids, error)
            break
        store.mark(ids)
        delivered += len(ids)
    return Delivered(delivered, store.counts()["outbox"], error)


def mirror(models: Models, home: Path) -> str:
    """Releases and who is champion and challenger into MLflow's registry; why not, empty where that is done.

    What cannot be sent now is sent with the next release: the registry shows the platform's state and decides nothing.
    """
    table = models.store.models()
    whole = {version: models.folder / version for version in table["version"] if (models.folder / version).is_dir()}
    challenger = models.challenger()
    aliases = {"champion": models.current(), "challenger": challenger.version if challenger else None}
    try:
        register_releases(EXPERIMENT, REGISTERED, whole, aliases, root=home)
    except MfcpError as failure:
        return str(failure)
    return ""


def _month(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m")


def _points(notes: pd.DataFrame) -> list[MetricPoint]:
    return [
        MetricPoint(f"event.{note['name']}", 1.0, note["id"], note["at"])
        if note["kind"] == "event"
        else MetricPoint(note["name"], float(note["value"]), note["id"], note["at"])
        for note in notes.to_dict("records")
        if note["kind"] == "event" or pd.notna(note["value"])
    ]


def _tags(notes: pd.DataFrame) -> dict[str, str]:
    events = notes[notes["kind"] == "event"]
    return {
        f"event.{name}": json.dumps({"id": number, **content})
        for name, number, content in zip(events["name"], events["id"], events["content"], strict=True)
    }
