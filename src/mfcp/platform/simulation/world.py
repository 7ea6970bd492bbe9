"""The simulated platform's world, known in advance: its tasks, every run of each, and when clusters take none.

The emulator draws all runs of a task beforehand, so what a run takes and how it ends depends on the seed, the task,
the cluster and the attempt alone, never on when or in which order it was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mfcp.data.log.schema import EDGES, NODES, RUNS, TASKS
from mfcp.data.log.tables import Tables, read_table, write_tables
from mfcp.files import replacing_folder

if TYPE_CHECKING:
    import pandas as pd

HISTORY_DAYS = 42.0
HOUR, DAY = 3600.0, 86400.0
_BLOCK = 48  # tasks drawn at once
_TRIALS, _OUTAGES, _GAPS = 1, 2, 3  # streams of the seed
_HORIZON = 1000 * DAY  # of outages


class SimulatorSettings(BaseModel):
    """What the simulated platform is like; hours and days are emulated ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    seed: int = Field(0, ge=0, description="of everything drawn")
    speed: float = Field(600.0, gt=0, description="emulated seconds in a second")
    history: int = Field(150, ge=1, description="tasks of the first log")
    families: tuple[str, ...] = Field((), description="model families of the zoo, all if none is named")
    newcomers: tuple[str, ...] = Field(("convnext", "swin", "bart"), description="families that it has few of at first")
    few: int = Field(2, ge=0, description="tasks of each newcomer in the first log")
    clusters: tuple[str, ...] = Field((), description="of the emulator, all if none is named")
    work: float = Field(0.3, gt=0, description="scale of the tasks' samples, hence of their durations")
    per_hour: float = Field(6.0, gt=0, description="tasks that arrive in an hour, in the mean")
    trial_clusters: int = Field(3, ge=0, description="clusters that try a new task out when it arrives")
    trial_runs: int = Field(6, ge=1, description="runs of each such trial")
    delivery_hours: float = Field(6.0, ge=0, description="between deliveries of logs")
    policy: str = Field(
        "fifo", description="by which clusters schedule what is assigned to them, see docs/simulator.md"
    )
    servers: int = Field(1, ge=1, description="tasks that a cluster runs at once")
    days_between_outages: float = Field(4.0, gt=0, description="of a cluster, in the mean")
    outage_hours: float = Field(6.0, gt=0, description="for which it then takes no tasks, in the mean")
    degraded: str = Field("meridian-a10x4", description="cluster that degrades, none if empty")
    degrades_on: float = Field(2.0, ge=0, description="day from which on")
    slowdown: float = Field(2.0, gt=0, description="factor on its step times then")
    hazard: float = Field(5.0, gt=0, description="factor on its interruptions then")


@dataclass(frozen=True)
class SimulatedRun:
    """An attempt of a task on a cluster: where, which (from 0), and from when to when, in seconds of the simulation."""

    task_id: str
    cluster_id: str
    attempt: int
    begin: float
    end: float


class World:
    """What there is; nothing here changes.

    Args:
        settings: of the simulation.
        folder: where the models' graphs are kept once they are captured.
    """

    def __init__(self, settings: SimulatorSettings, folder: Path) -> None:
        self.settings = settings
        self._graphs = _captured(settings.families, folder)
        self._block = lru_cache(maxsize=16)(self._drawn)
        self.clusters: list[str] = self._block(0, False)["clusters"]["cluster_id"].to_list()
        self._outages = [self._outages_of(i) for i in range(len(self.clusters))]

    def history(self) -> Tables:
        """The first log, in which newcomers are few."""
        settings = self.settings
        tables = self._emulated(0, tasks=settings.history, days=HISTORY_DAYS)
        tasks = tables["tasks"]
        tasks = tasks[~tasks["family"].isin(settings.newcomers) | (tasks.groupby("family").cumcount() < settings.few)]
        tasks = tasks[[column.name for column in TASKS.columns]]
        runs = tables["runs"][tables["runs"]["task_id"].isin(tasks["task_id"])]
        return {"tasks": tasks, "clusters": tables["clusters"], "runs": runs} | self._graphs_of(tasks)

    def gap(self, number: int) -> float:
        """Seconds from the arrival of a task, which are counted from 0, to that of the next."""
        return float(self._rng(_GAPS, number).exponential(HOUR / self.settings.per_hour))

    def tasks(self, numbers: Sequence[int]) -> Tables:
        """Tables tasks, nodes and edges of the tasks that arrive in these places."""
        import pandas as pd

        rows = [self._block(n // _BLOCK, False)["tasks"].iloc[[n % _BLOCK]] for n in numbers]
        tasks = pd.concat(rows, ignore_index=True)[[column.name for column in TASKS.columns]]
        tasks["task_id"] = [f"{name}~{n}" for name, n in zip(tasks["task_id"], numbers, strict=True)]
        return {"tasks": tasks} | self._graphs_of(tasks)

    def trials(self, task_id: str, moment: float) -> list[SimulatedRun]:
        """The runs with which a new task is tried out; attempts before the one that it is assigned for."""
        own = self._rng(_TRIALS, number_of(task_id)).permutation(len(self.clusters))[: self.settings.trial_clusters]
        count = self.settings.trial_runs
        return [SimulatedRun(task_id, self.clusters[i], k, moment, moment) for i in own for k in range(count)]

    def runs(self, asked: Sequence[SimulatedRun]) -> pd.DataFrame:
        """Rows of table `runs`, in this order."""
        import pandas as pd

        from mfcp.emulator.platform import START

        drawn: dict[tuple[int, bool], list[tuple[int, int]]] = {}
        for place, run in enumerate(asked):
            block, row = divmod(number_of(run.task_id), _BLOCK)
            late = bool(self.settings.degraded) and run.begin >= self.settings.degrades_on * DAY
            own = self._block(block, late)
            at = own["positions"][(own["tasks"]["task_id"].iloc[row], run.cluster_id)]
            drawn.setdefault((block, late), []).append((place, at[run.attempt % len(at)]))
        order = np.argsort([place for rows in drawn.values() for place, _ in rows])
        pieces = [self._block(*key)["runs"].iloc[[at for _, at in rows]] for key, rows in drawn.items()]
        columns = [column.name for column in RUNS.columns if column.name in pieces[0]]
        table: pd.DataFrame = pd.concat(pieces, ignore_index=True)[columns].iloc[order].reset_index(drop=True)
        table["task_id"], table["attempt"] = [run.task_id for run in asked], [run.attempt + 1 for run in asked]
        table["run_id"] = [f"{run.cluster_id}/{run.task_id}/{run.attempt + 1}" for run in asked]
        seconds = np.round([HISTORY_DAYS * DAY + run.begin for run in asked])
        table["started_at"] = START + pd.to_timedelta(seconds, unit="s")
        return table

    def offline(self, moment: float) -> list[str]:
        """Clusters that take no tasks then."""
        following = [int(np.searchsorted(starts, moment, side="right")) for starts, _ in self._outages]
        each = zip(self.clusters, following, self._outages, strict=True)
        return [name for name, k, (_, ends) in each if k and moment < ends[k - 1]]

    def _drawn(self, block: int, late: bool) -> dict[str, Any]:
        """A block of tasks with all runs that they can have, before or after the change of a cluster."""
        settings, each = self.settings, self.settings.trial_runs + 1
        change = {"cluster": settings.degraded, "day": 0, "slowdown": settings.slowdown, "hazard": settings.hazard}
        drift = (change,) if late else ()
        tables = self._emulated(1 + block, tasks=_BLOCK, runs=(each, each), missing=0, cancelled=0, drift=drift)
        return {**tables, "positions": tables["runs"].groupby(["task_id", "cluster_id"]).indices}

    def _emulated(self, number: int, **how: Any) -> Tables:
        from mfcp.emulator.platform import emulate
        from mfcp.emulator.settings import EmulatorSettings

        settings = self.settings
        emulator = EmulatorSettings(
            families=settings.families, clusters=settings.clusters, work=settings.work, pairs=0, **how
        )
        return emulate(
            emulator, settings.seed * 100_003 + number, graphs=(self._graphs["nodes"], self._graphs["edges"])
        )

    def _graphs_of(self, tasks: pd.DataFrame) -> Tables:
        return {name: table[table["graph_id"].isin(tasks["graph_id"])] for name, table in self._graphs.items()}

    def _outages_of(self, cluster: int) -> tuple[Any, Any]:
        from mfcp.emulator.failures import draw_outages

        rate = 1 / (self.settings.days_between_outages * DAY)
        return draw_outages(rate, self.settings.outage_hours * HOUR, _HORIZON, self._rng(_OUTAGES, cluster))

    def _rng(self, stream: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, stream, number])


def number_of(task_id: str) -> int:
    """The place in which a task arrived, -1 for tasks that are not of the simulation."""
    _, mark, number = task_id.rpartition("~")
    return int(number) if mark and number.isdecimal() else -1


def _captured(families: Sequence[str], folder: Path) -> Tables:
    """Nodes and edges of all models, from the folder where it has them."""
    from mfcp.emulator import zoo

    wanted, paths = zoo.variants(families), {table: folder / f"{table.name}.parquet" for table in (NODES, EDGES)}
    if not all(path.exists() for path in paths.values()):
        with replacing_folder(folder) as temporary:
            nodes, edges = zoo.capture_all(wanted)
            write_tables({"nodes": nodes, "edges": edges}, temporary)
    return {table.name: read_table(path, table) for table, path in paths.items()}
