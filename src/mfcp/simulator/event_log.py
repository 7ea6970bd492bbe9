"""The log of a run: what happened to which job, and what each job held from when to when."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Floats
from mfcp.simulator.kernels.books import EVENT_NAMES, ROW

AFTER = {
    "submitted": "waits", "started": "runs", "stopped": "waits", "moved": "runs", "resized": "runs", "failed": "waits",
    "finished": "gone", "given_up": "gone", "declined": "gone",
}  # fmt: skip
"""What a job does after an event; a change of its level changes nothing of that."""
UNTOUCHED = ("demoted", "promoted")


def log_frame(rows: Any) -> pd.DataFrame:
    """The log as a table in the order of time: `time_s`, `job` (its row), `event`, `gpus`, `node` (-1 for none).

    Args:
        rows: (r,) `ROW`.
    """
    rows = rows[np.argsort(rows["time"], kind="stable")]
    columns = {"time_s": rows["time"].copy(), "job": rows["job"].copy()}
    event = pd.Categorical.from_codes(rows["event"], pd.Index(EVENT_NAMES))
    return pd.DataFrame({**columns, "event": event, "gpus": rows["gpus"].copy(), "node": rows["node"].copy()})


class EventLog:
    """A log to which events are added."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def add(self, time: Any, jobs: Any, event: int, gpus: Any, node: Any) -> None:
        """The same event of some jobs; `time`, `gpus` and `node` are one for all, or each one's own."""
        if len(jobs):
            rows = np.empty(len(jobs), ROW)
            rows["time"], rows["job"], rows["event"], rows["gpus"], rows["node"] = time, jobs, event, gpus, node
            self._parts.append(rows)

    def rows(self) -> Any:
        """(r,) `ROW`."""
        return np.concatenate([np.empty(0, ROW), *self._parts])


def stretches(log: pd.DataFrame) -> pd.DataFrame:
    """Every stretch in which a job held the same accelerators: `job`, `start_s`, `end_s`, `gpus`, `node`.

    A stretch whose end the log does not tell, as of a run that was cut off, ends with the log.

    Raises:
        ValueError: the log tells of something unknown.
    """
    steps = _steps(log)
    runs = (steps["after"] == "runs").to_numpy()
    following = steps["time_s"].shift(-1).where(steps["job"].shift(-1) == steps["job"], log["time_s"].max())
    table = steps.assign(end_s=following).loc[runs, ["job", "time_s", "end_s", "gpus", "node"]]
    return table.rename(columns={"time_s": "start_s"}).reset_index(drop=True)


def waiting(log: pd.DataFrame) -> tuple[Floats, Floats]:
    """Times, ascending, and how many jobs wait from each on: two (r,)."""
    steps = _steps(log)
    waits = (steps["after"] == "waits").to_numpy().astype(float)
    first = (steps["job"] != steps["job"].shift()).to_numpy()
    change = waits - np.where(first, 0.0, np.roll(waits, 1))
    order = np.argsort(steps["time_s"].to_numpy(), kind="stable")
    return steps["time_s"].to_numpy()[order], np.cumsum(change[order])


def _steps(log: pd.DataFrame) -> pd.DataFrame:
    """What changes whether a job waits or runs, by job and in order."""
    events = pd.Categorical(log["event"]).remove_unused_categories()
    if unknown := set(events.categories) - set(AFTER) - set(UNTOUCHED):
        raise ValueError(f"log: event '{sorted(unknown)[0]}' is unknown; known are {', '.join(EVENT_NAMES)}")
    after = pd.Categorical([AFTER.get(name, "as before") for name in events.categories]).take(events.codes)
    kept = np.flatnonzero(np.asarray(after != "as before"))
    order = kept[np.argsort(log["job"].to_numpy()[kept], kind="stable")]
    return log.drop(columns="event").assign(after=after).take(order).reset_index(drop=True)
