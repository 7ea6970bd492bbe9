"""What a log measured of tasks like those that are asked about: measured times come before predicted ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.border.json_text import read_json
from mfcp.data.log.schema import TASKS
from mfcp.data.pool.task_pool import TaskPool
from mfcp.data.pool.times import run_spread
from mfcp.errors import DataError
from mfcp.files import replacing, write_json
from mfcp.rules.base import Belief

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.data.log.tables import Tables

DESCRIBED_BY = tuple(c.name for c in TASKS.columns if c.name not in ("task_id", "domain", "family"))
COLUMNS = tuple(name for name in DESCRIBED_BY if name != "model")
"""What of a row predictions use; a model's name is asked for where its figures are not there."""
_IDENTIFYING = ("model", "graph_id", "param_count", "flops")
"""A row without any of these says nothing that would make two tasks the same."""
_PRIOR_RUNS = 4.0  # runs that the log's common spread counts for beside a cell's own
LEAST_SD = 0.01  # of log time: clusters are not metronomes
_ARRAYS, _NAMES = "known_tasks.safetensors", "known_tasks.json"


@dataclass(frozen=True)
class KnownTasks:
    """Measured times and outcomes of K entries on M clusters: the tasks of a log, then descriptions that several share.

    A new task with the description of a logged one, that is the same cells of `DESCRIBED_BY`, is that task run again,
    whatever it is called. Where several logged tasks have one description, which of them it is like is unknown: their
    times differ, and so may its. A task may also be asked about by its name in the log and nothing else.

    Attributes:
        described: description → position.
        named: task_id → position.
        cells: task_id → its description; what a row may leave out.
        log_time: (M, K) mean log seconds (of a sample where the release tells those), nan where not measured.
        variance: (M, K) of that mean; of a further task, where several share the description.
        succeeded, finished: (M, K) runs.
    """

    described: dict[str, int]
    named: dict[str, int]
    cells: dict[str, dict[str, str]]
    log_time: Floats
    variance: Floats
    succeeded: Ints
    finished: Ints

    @staticmethod
    def of(tables: Tables, pool: TaskPool, usual: float) -> KnownTasks:
        """Of all tasks of a pool.

        The spread of a cell's runs is (4 s² + Σ deviations²) / (4 + R - 1), where s² is that of all cells together:
        with few runs what is common counts, with many the cell's own. A description of T tasks has the mean of their
        log times with the variance b² (1 + 1/T), b² that between them, and at least that of their own means.

        Args:
            tables: the log behind the pool.
            pool: made by `logged_pool`.
            usual: standard deviation of the log time of one run, and of tasks of one description, where none is known.
        """
        rows = tables["tasks"].set_index("task_id", drop=False).loc[pool.source_task.tolist()]
        cells = [_cells(row) for row in _records(rows)]
        square, count = run_spread(tables, pool.cluster_id, pool.source_task)
        known = pool.allowed & (count > 0)
        runs = np.where(known, count, 0)
        freedom = np.maximum(runs - 1, 0)
        within = np.where(known, square, 0.0)
        common = common_variance(within, freedom, usual**2)
        spread = (_PRIOR_RUNS * common + within) / (_PRIOR_RUNS + freedom)
        entries = [
            np.where(known, np.log(np.where(known, pool.T, 1.0)), np.nan),
            np.maximum(spread, LEAST_SD**2) / np.maximum(runs, 1),
            np.rint(np.where(pool.runs > 0, np.nan_to_num(pool.A) * pool.runs, 0.0)),
            pool.runs.astype(np.float64),
        ]
        shared: dict[str, list[int]] = {}
        for k, own in enumerate(cells):
            if any(name in own for name in _IDENTIFYING):
                shared.setdefault(_key(own), []).append(k)
        described = {key: at[0] for key, at in shared.items() if len(at) == 1}
        several = {key: at for key, at in shared.items() if len(at) > 1}
        described |= {key: len(cells) + g for g, key in enumerate(several)}
        if several:
            groups = [_together(entries, at, usual) for at in several.values()]
            entries = [np.column_stack([own, *(group[k] for group in groups)]) for k, own in enumerate(entries)]
        return KnownTasks(
            described=described,
            named={str(name): k for k, name in enumerate(pool.source_task)},
            cells={str(name): own for name, own in zip(pool.source_task, cells, strict=True)},
            log_time=entries[0],
            variance=entries[1],
            succeeded=entries[2].astype(np.int64),
            finished=entries[3].astype(np.int64),
        )

    def completed(self, tasks: pd.DataFrame) -> pd.DataFrame:
        """The rows with what the log says of tasks that are asked about by their name and do not contradict it."""
        known = [
            (k, self.cells[row["task_id"]])
            for k, row in enumerate(_records(tasks, "task_id"))
            if row["task_id"] in self.cells and self._agrees(row)
        ]
        if not known:
            return tasks
        result = tasks.copy()
        for name in {column for _, own in known for column in own}:
            if name not in result:
                result[name] = None
            at = [k for k, own in known if name in own]
            values = [known_value(name, own[name]) for _, own in known if name in own]
            column = result[name].astype(object).where(result[name].notna(), None)
            column.iloc[at] = values
            result[name] = column if TASKS[name].kind == "text" else column.astype("float64")
        return result

    def find(self, tasks: pd.DataFrame) -> Ints:
        """(n,) entry of each task, by its name in the log or its description; -1 for one that the log never ran."""
        found = [
            self.named[name] if (name := str(row["task_id"])) in self.named and self._agrees(row)
            else self.described.get(_key(_cells(row)), -1)
            for row in _records(tasks, "task_id")
        ]  # fmt: skip
        return np.array(found, np.int64)

    def update(self, belief: Belief, at: Ints, per_sample: Floats) -> Belief:
        """The belief about tasks (n,) after what was measured of them.

        Log time: the normal posterior of the prediction, whose deviation is calibrated, and the mean of R runs.
        Reliability: the prediction as a Beta prior of the same mean and deviation, and the R outcomes.

        Args:
            belief: of one round, B = 1.
            at: (n,) see `find`.
            per_sample: (n,) log samples to add to the measured times; 0 where these are of whole tasks.
        """
        own = np.flatnonzero(at >= 0)
        if not len(own):
            return belief
        log_time = np.full(belief.T.shape[1:], np.nan)
        weight, won, tried = (np.zeros(belief.T.shape[1:]) for _ in range(3))
        log_time[:, own] = self.log_time[:, at[own]] + per_sample[own]
        measured = np.isfinite(log_time)
        weight[:, own] = np.where(measured[:, own], 1 / self.variance[:, at[own]], 0.0)
        won[:, own], tried[:, own] = self.succeeded[:, at[own]], self.finished[:, at[own]]
        prior = 1 / np.maximum(belief.log_sd[0], LEAST_SD) ** 2
        mean = np.log(belief.T[0])
        mean = np.where(measured, (prior * mean + weight * np.nan_to_num(log_time)) / (prior + weight), mean)
        log_sd = np.where(measured, np.sqrt(1 / (prior + weight)), belief.log_sd[0])
        a, a_sd = belief.A[0], belief.a_sd[0]
        strength = np.maximum(a * (1 - a) / np.maximum(a_sd, 1e-6) ** 2 - 1, 1e-3)
        share = (a * strength + won) / (strength + tried)
        share_sd = np.sqrt(share * (1 - share) / (strength + tried + 1))
        counted = (tried > 0) & belief.reliability_known
        return replace(
            belief,
            T=np.exp(mean)[None],
            A=np.where(counted, share, a)[None],
            log_sd=log_sd[None],
            own_sd=np.minimum(belief.own_sd[0], log_sd)[None],
            a_sd=np.where(counted, share_sd, a_sd)[None],
        )

    def _agrees(self, row: dict[str, object]) -> bool:
        own = self.cells[str(row["task_id"])]
        return all(own.get(name) == value for name, value in _cells(row).items())

    def save(self, folder: Path) -> None:
        """Write its arrays and its names, a file each."""
        from safetensors.numpy import save_file

        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        texts = {name: arrays.pop(name) for name in ("described", "named", "cells")}
        with replacing(Path(folder) / _ARRAYS) as path:
            save_file({name: np.ascontiguousarray(value) for name, value in arrays.items()}, path)
        write_json(Path(folder) / _NAMES, texts)

    @staticmethod
    def load(folder: Path) -> KnownTasks:
        """Read what `save` wrote.

        Raises:
            DataError: a file is missing or damaged.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        texts = read_json(Path(folder) / _NAMES)
        try:
            arrays: dict[str, Any] = load_file(Path(folder) / _ARRAYS)
            return KnownTasks(**{name: texts[name] for name in ("described", "named", "cells")}, **arrays)
        except (SafetensorError, OSError, KeyError, TypeError) as error:
            raise DataError(f"{Path(folder) / _ARRAYS}: not whole ({error}); make the release again") from None


def description_keys(tasks: pd.DataFrame) -> list[str]:
    """Of each task, what tasks of one description share; empty where that is too little to be one task."""
    cells = [_cells(row) for row in _records(tasks, "task_id")]
    return [_key(own) if any(name in own for name in _IDENTIFYING) else "" for own in cells]


def common_variance(square: Floats, freedom: Ints, otherwise: float) -> float:
    """Of the log time of a run, over all pairs that ran more than once."""
    return float(square.sum() / freedom.sum()) if freedom.sum() else otherwise


def _together(entries: list[Floats], tasks: list[int], usual: float) -> list[Floats]:
    """The entry of a description that several tasks share: (M,) log time, variance, succeeded, finished."""
    log_time, variance, won, tried = (own[:, tasks] for own in entries)
    known = np.isfinite(log_time)
    count = known.sum(axis=1)
    mean = np.where(known, log_time, 0.0).sum(axis=1) / np.maximum(count, 1)
    off = np.where(known, log_time - mean[:, None], 0.0) ** 2
    freedom = np.maximum(count - 1, 0)
    overall = off.sum() / freedom.sum() if freedom.sum() else usual**2
    between = np.where(freedom > 0, off.sum(axis=1) / np.maximum(freedom, 1), overall)
    own = np.where(known, variance, 0.0).sum(axis=1) / np.maximum(count, 1)
    total = np.maximum(between, own) * (1 + 1 / np.maximum(count, 1))
    return [np.where(count > 0, mean, np.nan), total, won.sum(axis=1), tried.sum(axis=1)]


def known_value(name: str, text: str) -> str | float:
    """A cell from its text in a description."""
    return text if TASKS[name].kind == "text" else float(text)


def unknown_cells(tasks: pd.DataFrame, names: Sequence[str]) -> list[Bools]:
    """(n,) which rows leave each of these columns empty."""
    return [tasks[name].isna().to_numpy(bool) if name in tasks else np.ones(len(tasks), bool) for name in names]


def _records(tasks: pd.DataFrame, *more: str) -> list[dict[str, object]]:
    names = [name for name in (*more, *DESCRIBED_BY) if name in tasks]
    columns = [tasks[name].astype(object).where(tasks[name].notna(), None).tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _cells(row: dict[str, object]) -> dict[str, str]:
    """The cells that are filled, as text: numbers by value, so that 64 and 64.0 are the same."""
    return {
        name: str(row[name]) if TASKS[name].kind == "text" else repr(float(row[name]))  # type: ignore[arg-type]
        for name in DESCRIBED_BY
        if row.get(name) is not None
    }


def _key(cells: dict[str, str]) -> str:
    return "\x1f".join(f"{name}={value}" for name, value in cells.items())
