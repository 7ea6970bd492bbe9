"""Compares predictions with the runs that have come back, and raises an alarm where something has changed.

A stream is in the order in which its runs came into the log, so that no clock matters and every call sees the same
alarms at the same runs. Each release has streams of its own, since a new one has learned what alarmed before it. The
detector is river's Page-Hinkley test, whose thresholds `benchmarks/drift.py` judges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Floats
from mfcp.data.log.schema import SUCCEEDED, UNFINISHED
from mfcp.data.log.tables import Tables
from mfcp.data.pool.run_totals import floats, pair_index
from mfcp.data.pool.times import measure_cells
from mfcp.matching.planning import solve
from mfcp.matching.problem import MatchingProblem
from mfcp.matching.regret import penalised_cost
from mfcp.platform.state.store import Note, Store
from mfcp.rules.base import WIDTH

MIX = ("flops", "param_count", "samples")
REFERENCE = 100  # so many first tasks of the log define the usual mix
BINS = 10
_DRIFT, _REQUEST = "drift", "retrain_requested"
TRIES = 3  # trainings of an episode that may fail


class Detector(BaseModel):
    """A Page-Hinkley test on values in units of their expected deviation.

    Args:
        least: values before it may alarm.
        delta: change of the mean that is tolerated.
        threshold: summed change beyond `delta` that alarms.
        clip: largest value either way: one outlier is no drift.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    least: int = Field(20, ge=1)
    delta: float = Field(0.5, ge=0)
    threshold: float = Field(12.0, gt=0)
    clip: float = Field(4.0, gt=0)

    def alarms(self, values: Floats) -> list[int]:
        """Positions at which the mean of the values is found to have changed; after each it starts anew."""
        from river.drift import PageHinkley

        test = PageHinkley(min_instances=self.least, delta=self.delta, threshold=self.threshold, alpha=1.0, mode="both")
        found = []
        for place, value in enumerate(np.clip(values, -self.clip, self.clip).tolist()):
            test.update(value)  # type: ignore[no-untyped-call]
            if test.drift_detected:
                found.append(place)
        return found


class MonitorSettings(BaseModel):
    """What monitoring looks at, and when it alarms."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    window: int = Field(2000, ge=1, description="newest runs that figures are of")
    rounds: int = Field(20, ge=0, description="newest rounds that regret is of")
    pairs: int = Field(2, ge=2, description="clusters on which each task of such a round must have been measured")
    price: float = Field(4.0, ge=0, description="makespans per unit of missing reliability, in regret")
    time: Detector = Field(Detector(), description="observed against predicted times, by cluster")
    reliability: Detector = Field(
        Detector(delta=0.15, threshold=16.0, clip=2.0), description="successes against predicted ones, by cluster"
    )
    mix: Detector = Field(Detector(least=30, delta=0.25, threshold=16.0), description="size of the tasks that come")


@dataclass(frozen=True)
class Alarm:
    """A change that a detector found: in which stream, and at which run or task."""

    stream: str
    at: str

    @property
    def key(self) -> str:
        """The same for the same alarm whenever it is looked for."""
        return f"{self.stream} at {self.at}"


@dataclass(frozen=True)
class Health:
    """What one look found.

    Attributes:
        figures: name → value, see `figures` and `regret`.
        alarms: new ones.
        retrain: keys of the alarms that a training should answer, empty where none is due.
        newest: version of the newest release, which ends an episode when it changes.
        requests: trainings that were asked for before.
    """

    figures: dict[str, float]
    alarms: list[Alarm]
    retrain: list[str]
    newest: str
    requests: int
    absorbed: bool = field(repr=False, default=False)


def look(
    store: Store,
    log: Tables,
    champion: str | None,
    settings: MonitorSettings,
    *,
    failed: Callable[[str], bool] = lambda run: False,
) -> Health:
    """Figures, and alarms that no earlier look has recorded; `record` makes them known.

    One training answers an episode: it begins with an alarm and ends when there is a new release. What alarms
    meanwhile belongs to it. A training that failed is asked for again, up to `TRIES` times.

    Args:
        store: rounds, assignments and earlier events.
        log: the platform's log.
        champion: version that decides now.
        settings: thresholds.
        failed: whether the run that a training was asked for as has ended without success.
    """
    rounds, planned = store.rounds(), store.assignments()
    seen = observations(log, planned, rounds)
    past, asked = ([dict(c) for c in store.events(name)["content"]] for name in (_DRIFT, _REQUEST))
    models = store.models()["version"]
    newest = str(models.iloc[-1]) if len(models) else ""
    found = alarms(seen[seen["version"] == champion], log["tasks"], settings)
    episode = [one for one in asked if one["newest"] == newest]
    absorbed = bool(episode)
    known = {one["key"] for one in past}
    answered = {key for one in asked for key in one["keys"]} | {one["key"] for one in past if one["absorbed"]}
    due = [] if absorbed else [alarm.key for alarm in found if alarm.key not in answered]
    if episode and len(episode) < TRIES and failed(episode[-1]["run"]):
        due = list(episode[-1]["keys"])
    numbers = figures(seen.tail(settings.window)) | regret(log, planned, rounds, settings)
    return Health(numbers, [alarm for alarm in found if alarm.key not in known], due, newest, len(asked), absorbed)


def record(store: Store, health: Health, *, requested: str | None) -> None:
    """Keep what a look found: figures and new alarms for the tracking store, and the run that is to train, if any."""
    notes = [Note(f"monitor.{name}", value) for name, value in health.figures.items()]
    notes.append(Note("monitor.alarms", float(len(health.alarms))))
    for alarm in health.alarms:
        content = {"key": alarm.key, "stream": alarm.stream, "at": alarm.at, "absorbed": health.absorbed}
        notes.append(Note(_DRIFT, kind="event", content=content))
    if requested is not None:
        content = {"newest": health.newest, "keys": health.retrain, "run": requested}
        notes.append(Note(_REQUEST, kind="event", content=content))
    store.post(notes)


def observations(log: Tables, assignments: pd.DataFrame, rounds: pd.DataFrame) -> pd.DataFrame:
    """One row per finished run of a task on the cluster that it was assigned to, in the log's order.

    Returns:
        The run's id, task, cluster, round and version; `success` (0 or 1) and the predicted `reliability`;
        `log_ratio`, log of observed over predicted seconds, `z`, that over its stated deviation, and `inside` its
        stated interval. The last three only of the first success of each task: its runs share one error of the
        prediction. nan elsewhere.
    """
    planned = assignments.merge(rounds[["round_id", "version"]], on="round_id")
    runs = log["runs"][["run_id", "task_id", "cluster_id", "duration_s", "status"]]
    seen = runs[~runs["status"].isin(UNFINISHED)].merge(planned, on=["task_id", "cluster_id"])  # in order of runs
    seen["success"] = (seen["status"] == SUCCEEDED).astype(float)
    timed = (seen["success"] == 1.0) & seen["duration_s"].notna()
    first = timed & ~seen["task_id"].where(timed).duplicated()
    seconds, low, high = (seen[name].astype(float) for name in ("seconds", "seconds_low", "seconds_high"))
    seen["log_ratio"] = np.log((seen["duration_s"].astype(float) / seconds).where(first))
    seen["z"] = seen["log_ratio"] / np.maximum(np.log(high / low) / (2 * WIDTH), 1e-6)
    seen["inside"] = seen["duration_s"].between(low, high).astype(float).where(first)
    return seen


def figures(seen: pd.DataFrame) -> dict[str, float]:
    """What `observations` say of the predictions; without any, nothing.

    Returns:
        `time.bias` and `time.rms` of log_ratio, also by cluster; `time.coverage` of the stated 95 % intervals;
        `reliability.bias` (successes - predicted), `reliability.brier`, and `reliability.ece`, the expected
        calibration error over ten bins of equal width.
    """
    if seen.empty:
        return {}
    ratio, p, y = (seen[name].to_numpy(np.float64) for name in ("log_ratio", "reliability", "success"))
    result = {}
    told = np.isfinite(p)  # a release of a log without failures says nothing of reliability
    if told.any():
        p, y = p[told], y[told]
        bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
        result = {
            "reliability.bias": float(np.mean(y - p)),
            "reliability.brier": float(np.mean((y - p) ** 2)),
            "reliability.ece": float(np.abs(np.bincount(bins, y - p)).sum() / len(y)),
        }
    if np.isfinite(ratio).any():
        result["time.bias"] = float(np.nanmean(ratio))
        result["time.rms"] = float(np.sqrt(np.nanmean(ratio**2)))
        result["time.coverage"] = float(seen["inside"].mean())
        by_cluster = (seen["log_ratio"] ** 2).groupby(seen["cluster_id"]).mean().dropna()
        result |= {f"time.rms.{name}": float(np.sqrt(value)) for name, value in by_cluster.items()}
    return result


def regret(log: Tables, assignments: pd.DataFrame, rounds: pd.DataFrame, settings: MonitorSettings) -> dict[str, float]:
    """Penalised excess of past rounds over the best plan on measured pairs.

    A round counts once each of its tasks has succeeded on its own cluster and on `settings.pairs` clusters in all.
    Times are means of succeeded runs and reliabilities shares of finished ones; clusters were as busy as the round knew
    them. Only measured pairs may be chosen, so the excess is estimated too low. Costs are (makespan + price · predicted
    makespan · shortfall of gamma) / predicted makespan.

    Returns:
        `regret.mean` over the rounds that count, and `regret.rounds`, how many they are.
    """
    cells = measure_cells(log, np.ones(len(log["clusters"])))
    place = pair_index(log, assignments)
    values = []
    for _, one in rounds.sort_values("round_id", ascending=False).head(settings.rounds).iterrows():
        own = (assignments["round_id"] == one["round_id"]).to_numpy()
        plan, tasks = place[0][own], place[1][own]
        if (plan < 0).any() or (tasks < 0).any():
            continue
        known = np.isfinite(cells.duration[:, tasks])
        if not known[plan, np.arange(len(tasks))].all() or (known.sum(axis=0) < settings.pairs).any():
            continue
        T, A = np.where(known, cells.duration[:, tasks], 1.0), np.where(known, cells.reliability[:, tasks], 0.0)
        waits = one["data"].get("backlog", {})
        backlog = [waits.get(name, 0.0) for name in log["clusters"]["cluster_id"]]
        gamma = np.nan_to_num(float(one["gamma"]))
        problem = MatchingProblem(T, A, gamma, known, backlog=backlog if any(backlog) else None)
        values.append(_excess(problem, plan, float(one["makespan"]), settings))
    return {"regret.mean": float(np.mean(values)), "regret.rounds": float(len(values))} if values else {}


def _excess(problem: MatchingProblem, plan: Any, unit: float, settings: MonitorSettings) -> float:
    best = solve(problem, price=settings.price * unit, time_limit=1.0)
    scale = np.array(unit)
    ours, least = (penalised_cost(p, problem, price=settings.price, unit=scale) for p in (plan, best.assignment))
    return max(0.0, float(ours - least))


def alarms(seen: pd.DataFrame, tasks: pd.DataFrame, settings: MonitorSettings) -> list[Alarm]:
    """Changes of a cluster's times and reliability, of `observations` of one release, and of the tasks that come.

    Args:
        seen: observations of the release that decides.
        tasks: of the log, in its order; those without a figure are left out of its stream.
        settings: the detectors.
    """
    found = []
    for cluster, own in seen.groupby("cluster_id"):
        timed = own.dropna(subset=["z"])
        found += _alarms(f"time of {cluster}", floats(timed["z"]), timed["run_id"], settings.time)
        own = own.dropna(subset=["reliability"])
        p, y = floats(own["reliability"]), floats(own["success"])
        deviation = np.sqrt(np.maximum(p * (1 - p), 0.02))  # of one run; a sure success that fails is no earthquake
        found += _alarms(f"reliability of {cluster}", (y - p) / deviation, own["run_id"], settings.reliability)
    for name in MIX:
        known = tasks[tasks[name].notna() & (tasks[name] > 0)]
        size = np.log(floats(known[name]))
        start = size[:REFERENCE]
        if len(size) > REFERENCE and start.std() > 0:
            found += _alarms(f"mix of {name}", (size - start.mean()) / start.std(), known["task_id"], settings.mix)
    return found


def _alarms(stream: str, values: Floats, names: pd.Series[str], detector: Detector) -> list[Alarm]:
    return [Alarm(stream, str(names.iloc[place])) for place in detector.alarms(values)]
