"""A round: what waits is predicted by the champion, matched, and written down in one transaction."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from mfcp.data.log.tables import Tables
from mfcp.errors import DataError
from mfcp.platform.deciding.finished import all_observed, measured_steps
from mfcp.platform.deciding.measuring import MeasureSettings, still_measuring
from mfcp.platform.releases.models import Models
from mfcp.platform.state.store import Note, Store
from mfcp.release.decision import Decision, decide
from mfcp.release.evidence import Evidence
from mfcp.release.model import Release


class MatchSettings(BaseModel):
    """What a round takes and how long it may think."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = Field(1000, ge=1, description="pending tasks of a round at most, first come first matched")
    gamma: float | None = Field(None, ge=0, le=1, description="least mean reliability; null takes the champion's")
    engine: str = Field("auto", description="auto for the champion's rule, else an engine of mfcp solve")
    time_limit: float = Field(2.0, gt=0, description="seconds for the bound, or the engine")
    measure: MeasureSettings = MeasureSettings()
    observes: bool = Field(True, description="count finished runs that the champion has not learned as evidence")


@dataclass(frozen=True)
class RoundReport:
    """What a round did.

    Attributes:
        status: of the plan ("optimal", "feasible", "short"), or why there is none: "idle" without pending tasks,
            "no_champion", "no_cluster" while all that the champion knows are offline, "measuring" while a few steps
            are run that are worth waiting for.
        round_id: None without a plan.
        version: of the champion.
        tasks: how many were assigned.
        waiting: how many still wait.
        set_aside: how many cannot be predicted; they are out of the queue, with the reason.
        makespan, lower_bound: seconds; None without a plan.
        gap, mean_reliability, gamma: of the plan.
        took_s: seconds from the first read to the last write.
        log: what the champion learned from, in words.
        observed: cells of finished runs beyond that which the plan rests on.
        measuring: cells that the round waits for.
        unread: why these could not be read; the plan rests on the champion alone then.
    """

    status: str
    round_id: int | None = None
    version: str | None = None
    tasks: int = 0
    waiting: int = 0
    set_aside: int = 0
    makespan: float | None = None
    lower_bound: float | None = None
    gap: float | None = None
    mean_reliability: float | None = None
    gamma: float | None = None
    took_s: float = 0.0
    log: str = ""
    observed: int = 0
    measuring: int = 0
    unread: str = ""

    def __str__(self) -> str:
        if self.round_id is None:
            what = f"{self.status} {self.measuring} cells" if self.measuring else self.status
            return f"no round ({what}), {self.waiting} tasks wait"
        gap = "no bound" if self.gap is None else f"gap {self.gap:.2%}"
        return (
            f"round {self.round_id}: {self.tasks} tasks by release {self.version} ({self.log}{self._since}), "
            f"{self.status}, "
            f"makespan {self.makespan:.1f} s ({gap}), {self._reliability}, "
            f"{self.waiting} wait, {self.took_s:.2f} s"
        )

    @property
    def _since(self) -> str:
        return f" and {self.observed} finished runs since" if self.observed else ""

    @property
    def _reliability(self) -> str:
        if self.mean_reliability is None:
            return "reliability unknown"
        return f"reliability {self.mean_reliability:.4f} (gamma {self.gamma:.4f})"


def match_round(store: Store, models: Models, settings: MatchSettings, log: Path | None = None) -> RoundReport:
    """Assign what is pending, each task once: a round that lost a task to another process is tried with the rest.

    A task that cannot be predicted would stop every round: it is set aside with the reason and an event. Finished runs
    that the champion has not learned count as evidence; where they cannot be read, it decides without.

    Args:
        store: the platform's state.
        models: its releases.
        settings: what a round takes.
        log: folder of its log.

    Raises:
        MfcpError: the database is out of reach, or no champion is whole.
    """
    begin, aside = time.perf_counter(), 0
    release = models.champion()
    while True:
        tables = store.pending(settings.tasks)
        online = frozenset(release.cluster_id if release else ()) - store.offline()
        if release is None or tables["tasks"].empty or not online:
            status = "no_champion" if release is None else "idle" if tables["tasks"].empty else "no_cluster"
            report = RoundReport(status, version=release.version if release else None)
            break
        try:
            evidence, unread = _observed(store, release, tables, log if settings.observes else None)
            decision = decide(
                release,
                tables,
                evidence=evidence,
                gamma=settings.gamma,
                clusters=online,
                backlog=store.backlogs(),
                engine=settings.engine,
                time_limit=settings.time_limit,
            )
            if open_cells := still_measuring(store, release, tables, decision, settings.measure):
                report = RoundReport("measuring", version=release.version, measuring=open_cells)
                break
        except DataError:
            reasons = unpredictable(release, tables)
            if not reasons:
                raise
            store.set_aside(reasons)
            aside += len(reasons)
            continue
        if (number := store.assign(*_rows(decision))) is not None:
            told = _log_in_words(decision)
            report = RoundReport(
                round_id=number,
                tasks=len(decision.task_id),
                log=told,
                observed=decision.believed.observed,
                unread=unread,
                **_facts(decision),
            )
            break
    waiting = store.counts()["queue"]
    return replace(report, waiting=waiting, set_aside=aside, took_s=time.perf_counter() - begin)


def _observed(store: Store, release: Release, tables: Tables, log: Path | None) -> tuple[Evidence | None, str]:
    """What was observed and the release has not learned; why finished runs cannot be read, where they cannot."""
    try:
        return all_observed(store, log, release, tables), ""
    except (DataError, OSError) as error:
        return measured_steps(store, release, tables), str(error)


def _facts(decision: Decision) -> dict[str, Any]:
    """What a report and a row of `rounds` say of a plan."""
    names = ("status", "version", "makespan", "lower_bound", "gap", "mean_reliability", "gamma")
    return {name: getattr(decision, name) for name in names}


def _log_in_words(decision: Decision) -> str:
    log = decision.provenance["log"]
    dates = f" to {log['last_run']}" if log["last_run"] else ""
    return f"{'emulated ' if decision.provenance['emulated'] else ''}log of {log['runs']} runs{dates}"


def _rows(decision: Decision) -> tuple[dict[str, Any], pd.DataFrame, list[Note]]:
    """The row of `rounds`, those of `assignments`, and what is to be tracked."""
    facts = {**_facts(decision), "tasks": len(decision.task_id), "took_s": decision.took_s}
    plan = pd.DataFrame({"task_id": decision.task_id, "cluster_id": decision.cluster_id, **decision.chosen()})
    tracked = ("tasks", "makespan", "gap", "mean_reliability", "took_s")
    notes = [Note(f"round.{name}", facts[name]) for name in tracked if facts[name] is not None]
    data = {**decision.data, "not_measured": decision.provenance["not_measured"]}
    if decision.backlog:
        data["backlog"] = decision.backlog
    if decision.believed.observed:
        notes.append(Note("round.observed", float(decision.believed.observed)))
        movers = zip(decision.task_id, decision.movers(), strict=True)
        data["moved_by"] = {task: [str(mover) for mover in own] for task, own in movers if own}
        data["observed"] = list(decision.believed.evidence.run_id) if decision.believed.evidence else []
    return {**facts, "data": data, "rule": decision.rule}, plan.astype(object).where(plan.notna(), None), notes


def unpredictable(release: Release, tables: Tables) -> dict[str, str]:
    """task_id → why the release cannot predict it, for every such task; found by halving the round."""
    tasks = tables["tasks"]
    try:
        release.predict(tables)
    except DataError as error:
        if len(tasks) == 1:
            return {str(tasks["task_id"].iloc[0]): str(error)}
        middle = len(tasks) // 2
        halves = (_with_graphs(tables, own) for own in (tasks.iloc[:middle], tasks.iloc[middle:]))
        return {name: why for half in halves for name, why in unpredictable(release, half).items()}
    return {}


def _with_graphs(tables: Tables, tasks: pd.DataFrame) -> Tables:
    """Some of the tasks with their own graphs alone."""
    own = set(tasks["graph_id"].dropna())
    parts = {name: tables[name][tables[name]["graph_id"].isin(own)] for name in ("nodes", "edges")}
    return {
        "tasks": tasks.reset_index(drop=True),
        **{name: part.reset_index(drop=True) for name, part in parts.items()},
    }
