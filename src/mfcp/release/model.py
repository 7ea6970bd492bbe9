"""A release: encoder, scale, trained method and gamma in one folder, each file held by its hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.border.json_text import read_json
from mfcp.border.limits import limits
from mfcp.border.regular import opened, refusing
from mfcp.data.pool.task_pool import TaskPool
from mfcp.errors import DataError, in_shell
from mfcp.files import replacing_folder, write_json
from mfcp.methods.base import Trained, predict
from mfcp.predictors.residuals import TaskPoints
from mfcp.release.evidence import RUN_NOISE, Believed, Evidence, points_of
from mfcp.release.incomplete import complete
from mfcp.release.known_tasks import COLUMNS, KnownTasks, unknown_cells
from mfcp.release.memory_limits import MemoryLimits, trains
from mfcp.rules.base import Belief
from mfcp.rules.measuring import informed
from mfcp.study.operator_steps import OperatorPredictor
from mfcp.tasks.features.descriptors import TaskFeatures, log_samples
from mfcp.tasks.features.encoder import FittedEncoder
from mfcp.tasks.features.feature_scale import Scale
from mfcp.tasks.memory import MemoryRisk, PeakMemory
from mfcp.tasks.timing.operator_times import OperatorTimes
from mfcp.threads import one_thread

if TYPE_CHECKING:
    import pandas as pd

    from mfcp.data.log.tables import Tables

MANIFEST = "manifest.json"
LOG_FACTS = ("name", "first_run", "last_run", "tasks", "runs", "runs_per_cluster")
_MODEL, _ENCODER, _OPERATORS, _FACTS = "model", "encoder.safetensors", "operators.safetensors", "release.json"
_DONORS = "donors.safetensors"


@dataclass(frozen=True)
class Before:
    """What is predicted of n tasks, as one round, before anything that was measured of them.

    Attributes:
        belief: from predictions alone.
        log_time: (M, n) predicted log seconds, of a sample where the release tells those.
        tasks: rows of table `tasks`.
        Z: (n, d) standardised features.
        at: (n,) entries of what the log measured, see `KnownTasks.find`.
        factor: (n,) log samples that turn seconds of a sample into those of a task, else 0.
        peak: (M, n) bytes at the peak of a step, nan where they are not predicted.
    """

    belief: Belief
    log_time: Floats
    tasks: pd.DataFrame
    Z: Floats
    at: Ints
    factor: Floats
    peak: Floats

    @cached_property
    def points(self) -> TaskPoints:
        """The tasks, as the process of errors sees them; worked out for who has evidence."""
        return points_of(self.tasks, self.at, self.Z)


@dataclass(frozen=True)
class Release:
    """A method trained for all clusters of a platform, ready for tasks that it has never seen.

    Attributes:
        version: 12 hexadecimal digits, a digest of everything below; the same training gives the same.
        trained: the method, of one seed.
        encoder: maps operator graphs to features; None where the log had no graphs.
        operators: predicts times from operator graphs; None where the log had too few.
        feature_names: (d,).
        scale: of the features, over training tasks.
        cluster_id: (M,) clusters that it knows.
        gamma: least mean reliability of a round where nobody asks for another.
        price: makespans per unit of missing reliability.
        learned_from: ids of the tasks that it was trained, stopped or tuned on; never judge it on these.
        data: what its log was: name, digest, dates, tasks, runs by cluster, and what of it is emulated.
        known: what the log measured.
        donors: (K, d) standardised features of tasks of the log, which stand in for what a new task does not state.
        donor_model: (K,) names of their models.
        per_sample: the log tells throughput only: a task's seconds follow from its `samples`.
        reliability_known: whether a run of the log failed; else nothing is known of it and no gamma is asked for.
        groups: families, or tasks where there are few families, that errors were measured on.
        pool_size: (M,) devices of a cluster side by side on one task.
        run_noise: deviation of log time between runs of one task on one cluster.
        memory: tells where a task does not fit; None where the log told too little.
    """

    version: str
    trained: Trained
    encoder: FittedEncoder | None
    operators: OperatorPredictor | None
    feature_names: tuple[str, ...]
    scale: Scale
    cluster_id: tuple[str, ...]
    gamma: float
    price: float
    learned_from: frozenset[str]
    data: dict[str, Any]
    known: KnownTasks
    donors: Floats
    donor_model: Texts
    per_sample: bool
    reliability_known: bool
    groups: int
    pool_size: Floats
    run_noise: float
    memory: MemoryLimits | None = None

    def predict(self, tables: Tables, evidence: Evidence | None = None) -> Belief:
        """What the release believes of the rows of table `tasks`, in their order, as one round (B = 1); see `believe`.

        What the log measured of a task comes before what is predicted of it (`KnownTasks`). A task of which something
        is not stated is predicted over what it may be, and its interval is wider (`mfcp.release.incomplete`).

        Args:
            tables: `tasks`, and their `nodes` and `edges` where they have graphs.
            evidence: of runs that the release has not learned from.

        Raises:
            DataError: damaged graphs, no task at all, or one without `samples` where the log tells only throughput.
        """
        return self.believe(tables, evidence).belief

    @one_thread()
    def believe(self, tables: Tables, evidence: Evidence | None = None) -> Believed:
        """`predict`, with the covariance of each task's errors and what evidence told of it.

        Evidence comes between prediction and log: it corrects what is predicted, and what the log measured of a task
        is known beside it. Without evidence of a task, or of its family, nothing of it changes.
        """
        before, process = self.before(tables), self.trained.process()
        belief, told, task = before.belief, None, np.zeros(0, np.str_)
        errors = total = np.broadcast_to(process.total, (len(before.at), *process.total.shape))
        if evidence is not None and len(evidence.cells.cluster):
            points = before.points
            told, task = process.condition(points, evidence.cells), points.task
            errors = told.covariance
            belief = informed(belief, told.shift[None], total[None], errors[None], told.untold[None])
        belief = self.known.update(belief, before.at, before.factor)
        return Believed(belief, errors, told, evidence, task, self.cluster_id, before.peak, self._lacks(before))

    def before(self, tables: Tables, *, work: bool = True) -> Before:
        """What is predicted of tasks before anything that was measured of them; see `predict`.

        Args:
            tables: as for `predict`.
            work: whether their work must be told; without it, times are those of a sample where the release tells
                these.
        """
        tasks = self.known.completed(tables["tasks"])
        if not len(tasks):
            raise DataError("tasks: no rows; a round needs at least one task")
        amount = self._work(tasks) if work or not self.per_sample else np.zeros(len(tasks))
        described = self.describe({**tables, "tasks": tasks})
        width = len(self.feature_names) - 1
        # The samples of a task are a feature, but where they are told of no task: then they are a factor.
        feature, factor = (0.0 * amount, amount) if self.per_sample else (amount, 0.0 * np.nan_to_num(amount))
        Z = self.scale.standard(np.column_stack([described[:, :width], feature])).reshape(len(tasks), -1)
        peak = np.full((len(self.cluster_id), len(tasks)), np.nan)
        steps = described[:, width:]
        if self.memory is not None:
            steps, peak = steps[:, : -len(peak)], np.where(trains(tasks), steps[:, -len(peak) :].T, np.nan)
        predicted = partial(self._predicted, steps.T, feature)
        T, A = predicted(np.nan_to_num(Z), np.arange(len(tasks)))
        own = self.trained.calibration
        variances = [np.tile(sd[0][:, None] ** 2, len(tasks)) for sd in (own.log_sd, own.own_sd, own.a_sd)]
        part = np.flatnonzero(~np.isfinite(Z).all(axis=1))
        if len(part):
            model, of_part = _texts(tasks, "model")[part], lambda filled, at: predicted(filled, part[at])
            T[:, part], A[:, part], *more = complete(Z[part], model, self.donors, self.donor_model, of_part)
            for variance, added in zip(variances, more, strict=True):
                variance[:, part] += added
        log_sd, own_sd, a_sd = (np.sqrt(variance)[None] for variance in variances)
        belief = Belief.of(
            (T * np.exp(factor))[None],
            np.where(self.reliability_known, A, 1.0)[None],
            log_sd=log_sd,
            own_sd=own_sd,
            a_sd=a_sd * self.reliability_known,
            gamma=self.gamma,
            reliability_known=self.reliability_known,
            width=self.width,
        )
        return Before(belief, np.log(T), tasks, np.nan_to_num(Z), self.known.find(tasks), factor, peak)

    def _lacks(self, before: Before) -> Bools:
        """(M, n) where a task is not expected to have the memory that it needs, and the log has not seen it succeed."""
        if self.memory is None:
            return np.zeros(before.belief.T.shape[1:], bool)
        known = before.at >= 0
        done = np.zeros(before.belief.T.shape[1:], bool)
        done[:, known] = self.known.succeeded[:, before.at[known]] > 0
        return self.memory.lacking(before.peak) & ~done

    def _predicted(self, operators: Floats, work: Floats, Z: Floats, at: Ints) -> tuple[Floats, Floats]:
        """Seconds and probabilities (M, n') of standardised features Z (n', d) without nan, of tasks `at` (n',).

        Args:
            operators: (M, n) log seconds of a sample, or (0, n) without networks over operators.
            work: (n,) log samples; where they are nan, those among the features count.
            Z: features.
            at: whose they are.
        """
        times = None
        if self.operators is not None:
            mean, deviation = (values.ravel()[-1] for values in (self.scale.mean, self.scale.deviation))
            times = (operators[:, at] + np.where(np.isfinite(work[at]), work[at], Z[:, -1] * deviation + mean))[None]
        T, A = predict(self.trained.heads, Z[None], times)
        return T[0].copy(), A[0].copy()

    @property
    def width(self) -> float:
        """Deviations either side that hold 95 % of a Student distribution whose deviation `groups` errors told."""
        from scipy.special import stdtrit

        return float(stdtrit(max(self.groups - 1, 1), 0.975))

    def _work(self, tasks: pd.DataFrame) -> Floats:
        """(n,) log samples, nan where a row does not state them."""
        samples = (
            tasks["samples"].to_numpy(np.float64, na_value=np.nan)
            if "samples" in tasks
            else np.full(len(tasks), np.nan)
        )
        work = log_samples(samples)
        if self.per_sample and not np.isfinite(work).all():
            task = tasks["task_id"].iloc[int(np.argmin(np.isfinite(work)))]
            raise DataError(
                f"task '{task}': the log of release {self.version} tells throughput only, so seconds need the task's "
                "work; fill in column 'samples'"
            )
        return work

    def summary(self) -> list[str]:
        """What a person is told of it, a line each; the first says whether its log is emulated."""
        data, spread = self.data, self.trained.calibration.log_sd[0]
        dates = f", {data['first_run']} to {data['last_run']}" if data.get("last_run") else ""
        behind = data.get("runs_per_cluster", {})
        counts = ", ".join(f"{name} {count}" for name, count in behind.items())
        if len(behind) > 4:
            counts = f"{min(behind.values())} to {max(behind.values())}"
        factor = float(np.exp(np.median(spread)))
        known = (
            f"reliability: counted; gamma {self.gamma:.3f} where none is asked for"
            if self.reliability_known
            else "reliability: unknown, no run failed where one succeeded; gamma is not applied"
        )
        return [
            *(["EMULATED LOG: its runs never took place."] if data.get("emulated") else []),
            f"release {self.version}, method '{self.trained.method.name}', of {data.get('name', 'a log')}{dates}",
            f"{data.get('tasks')} tasks learned, {data.get('held_back')} kept back; runs behind each cluster: {counts}",
            f"new tasks: times are typically off by a factor {factor:.2f} (measured on {self.groups} left-out groups)",
            known,
        ]

    def provenance(self, tables: Tables) -> dict[str, Any]:
        """What an answer about these tasks rests on: release, log, dates, runs by cluster, and what is not measured."""
        told = []
        if self.data.get("emulated"):
            told.append("the log: it is emulated, no cluster ran these tasks")
        if not self.reliability_known:
            told.append("reliability: no run failed where one succeeded, so it is unknown and gamma is not applied")
        by_columns: dict[tuple[str, ...], list[str]] = {}
        for task, columns in self.unstated(tables).items():
            by_columns.setdefault(columns, []).append(task)
        for columns, tasks in by_columns.items():
            shown = ", ".join(tasks[:3]) + (f" and {len(tasks) - 3} more" if len(tasks) > 3 else "")
            told.append(f"{', '.join(columns)} of {shown}: not stated, so the interval is wider")
        return {
            "emulated": bool(self.data.get("emulated")),
            "version": self.version,
            "log": {"digest": self.data.get("log"), **{name: self.data.get(name) for name in LOG_FACTS}},
            "interval": 0.95,
            "not_measured": told,
        }

    def unstated(self, tables: Tables) -> dict[str, tuple[str, ...]]:
        """task_id → the columns of `tasks` that the release would use and that its row, and the log, leave out."""
        tasks = self.known.completed(tables["tasks"])
        used = [name for name in COLUMNS if self._uses(name)]
        empty = unknown_cells(tasks, used)
        found = self.known.find(tasks)
        return {
            str(task): missing
            for j, task in enumerate(tasks["task_id"])
            if found[j] < 0 and (missing := tuple(name for name, mask in zip(used, empty, strict=True) if mask[j]))
        }

    def _uses(self, column: str) -> bool:
        if column == "samples":
            return self.per_sample or bool(self.scale.deviation.ravel()[-1] > 0)
        if column == "graph_id":
            return (self.encoder is not None or self.operators is not None) and "no_graph" not in self.feature_names
        flags = f"no_{column}" in self.feature_names or f"{column}=unknown" in self.feature_names
        stated = f"log_{column}" in self.feature_names
        return not flags and (stated or any(name.startswith(f"{column}=") for name in self.feature_names))

    def describe(self, tables: Tables) -> Floats:
        """(n, ·) what follows from a task's row and graph, nan where unknown.

        First d - 1 features, all but the task's work. Then, with networks over operators, M columns of log seconds per
        sample; then, with `memory`, M of the bytes that a training step takes.
        """
        features = TaskFeatures.of(tables, tables["tasks"]["task_id"].to_numpy(str))
        columns = [features.under(self.feature_names[:-1], self.encoder)]
        if self.operators is not None:
            columns.append(self.operators.log_seconds(features).T)
        if self.memory is not None:
            columns.append(self.memory.peaks(features).T)
        return np.concatenate(columns, axis=1)

    @staticmethod
    def load(folder: Path, version: str | None = None) -> Release:
        """The release in a folder, after every file was compared with its hash.

        Args:
            folder: of the release.
            version: that it must have, where that is known.

        Raises:
            DataError: a file is missing, changed, damaged or too many, or it is another version; nothing of the folder
                is used then.
        """
        folder = Path(folder)
        version = verify(folder, version)
        with refusing(folder / _FACTS, "the facts of a release", "make the release again"):
            facts = _Facts.model_validate(read_json(folder / _FACTS))
            donors = _donors(folder)
            widths = {len(facts.feature_names), len(facts.mean), len(facts.deviation), donors.shape[-1]}
            if len(widths) > 1 or len(facts.donor_model) != len(donors):
                raise ValueError(f"features in {sorted(widths)} columns, {len(facts.donor_model)} names of donors")
            return Release(
                version=version,
                trained=Trained.load(folder, _MODEL),
                encoder=FittedEncoder.load(folder / _ENCODER) if facts.encoder else None,
                operators=_operators(folder, facts),
                feature_names=facts.feature_names,
                scale=Scale(np.array(facts.mean), np.array(facts.deviation)),
                cluster_id=facts.cluster_id,
                gamma=facts.gamma,
                price=facts.price,
                learned_from=facts.learned_from,
                data=facts.data,
                known=KnownTasks.load(folder),
                donors=donors,
                donor_model=np.array(facts.donor_model, np.str_),
                per_sample=facts.per_sample,
                reliability_known=facts.reliability_known,
                groups=facts.groups,
                pool_size=np.array(facts.pool_size or (1.0,) * len(facts.cluster_id)),
                run_noise=facts.run_noise,
                memory=None if facts.memory is None else facts.memory.limits_of(len(facts.cluster_id)),
            )


class _MemoryFacts(BaseModel):
    """`MemoryLimits.facts`."""

    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)
    factors: tuple[tuple[float, ...], ...] = Field(min_length=1)
    kinds: tuple[Annotated[int, Field(ge=-1)], ...]
    shift: float
    sd: float = Field(gt=0)
    limits: tuple[Annotated[float, Field(gt=0)] | None, ...]

    def limits_of(self, clusters: int) -> MemoryLimits:
        """As the release uses it."""
        counts = {len(factors) for factors in self.factors}
        if {len(self.limits), len(self.kinds)} != {clusters} or counts != {PeakMemory.parts()}:
            raise ValueError(f"memory of {len(self.limits)} clusters of {len(self.kinds)} kinds by {counts} factors")
        if max(self.kinds) >= len(self.factors):
            raise ValueError(f"memory of kind {max(self.kinds)}, where there are {len(self.factors)}")
        limit = np.array([np.nan if own is None else own for own in self.limits])
        peak = tuple(PeakMemory(np.array(factors)) for factors in self.factors)
        return MemoryLimits(peak, np.array(self.kinds), MemoryRisk(self.shift, self.sd), limit)


class _Facts(BaseModel):
    """The file release.json; attributes as those of `Release`, `operator_clusters` are rows of its operator times."""

    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)
    method: dict[str, Any]
    cluster_id: tuple[str, ...] = Field(min_length=1)
    gamma: float = Field(ge=0, le=1)
    price: float = Field(ge=0)
    encoder: bool
    operator_clusters: tuple[int, ...] | None
    feature_names: tuple[str, ...] = Field(min_length=1)
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    data: dict[str, Any]
    donor_model: tuple[str, ...]
    per_sample: bool
    reliability_known: bool
    groups: int = Field(ge=1)
    learned_from: frozenset[str]
    pool_size: tuple[Annotated[float, Field(gt=0)], ...] = ()
    run_noise: float = Field(RUN_NOISE, gt=0)
    memory: _MemoryFacts | None = None


def _texts(tasks: pd.DataFrame, name: str) -> Texts:
    """(n,) a text column, empty where it or a cell is not there."""
    if name not in tasks:
        return np.full(len(tasks), "", np.str_)
    return tasks[name].astype(object).where(tasks[name].notna(), "").to_numpy(str)


def _donors(folder: Path) -> Floats:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(folder / _DONORS)["Z"]
    except (SafetensorError, OSError, KeyError) as error:
        raise DataError(f"{folder / _DONORS}: not whole ({error}); make the release again") from None


def _operators(folder: Path, facts: _Facts) -> OperatorPredictor | None:
    rows = facts.operator_clusters
    if rows is None:
        return None
    return OperatorPredictor(OperatorTimes.load(folder / _OPERATORS), np.array(rows, np.int64), len(facts.cluster_id))


def verify(folder: Path, version: str | None = None) -> str:
    """The version of a release whose files are all as they were when it was made, and no others.

    Args:
        folder: of the release.
        version: that it must have, where that is known.

    Raises:
        DataError: naming the first file that is not, or the version that was found.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such release; `mfcp release --data DIR --out {in_shell(folder)}` makes one")
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or _FACTS not in manifest:
        raise DataError(f"{folder / MANIFEST}: expected file names with their SHA-256; make the release again")
    unlisted = {path.name for path in folder.iterdir()} - {MANIFEST} - set(manifest)
    if unlisted:
        raise DataError(
            f"{folder / min(unlisted)}: not in {MANIFEST}, so nothing says what it should be; take the release from "
            "its source again"
        )
    for name, expected in manifest.items():
        found = _sha256(folder / Path(name).name)
        if found != expected:
            raise DataError(
                f"{folder / name}: damaged or changed, its SHA-256 is {found[:12]}… instead of {str(expected)[:12]}…; "
                "take the release from its source again"
            )
    found = _sha256(folder / MANIFEST)[:12]
    if version not in (None, found):
        raise DataError(f"{folder}: holds release {found} instead of {version}; put the right one in its place")
    return found


def write_release(
    folder: Path,
    trained: Trained,
    setting: Any,
    *,
    encoder: FittedEncoder | None,
    operators: OperatorPredictor | None,
    feature_names: tuple[str, ...],
    scale: Scale,
    known: KnownTasks,
    donors: Floats,
    donor_model: list[str],
    pool: TaskPool,
    groups: int,
    learned_from: list[str],
    run_noise: float,
    memory: MemoryLimits | None,
    data: dict[str, Any],
) -> None:
    """Write a release, whole or not at all; arguments as the attributes of `Release`, `setting` is what was learned."""
    from safetensors.numpy import save_file

    with replacing_folder(folder) as temporary:
        trained.save(temporary, _MODEL, setting)
        if encoder is not None:
            encoder.save(temporary / _ENCODER)
        if operators is not None:
            operators.times.save(temporary / _OPERATORS)
        known.save(temporary)
        save_file({"Z": np.ascontiguousarray(donors)}, temporary / _DONORS)
        facts = {
            "method": trained.method.spec(),
            "cluster_id": setting.cluster_id,
            "gamma": float(setting.gamma[0]),
            "price": setting.price,
            "encoder": encoder is not None,
            "operator_clusters": None if operators is None else operators.rows.tolist(),
            "feature_names": feature_names,
            "mean": scale.mean.ravel().tolist(),
            "deviation": scale.deviation.ravel().tolist(),
            "data": data,
            "donor_model": donor_model,
            "per_sample": pool.per_sample,
            "reliability_known": pool.reliability_known,
            "groups": groups,
            "learned_from": sorted(learned_from),
            "pool_size": pool.pool_size.tolist(),
            "run_noise": run_noise,
            "memory": None if memory is None else memory.facts(),
        }
        write_json(temporary / _FACTS, facts)
        names = sorted(path.name for path in temporary.iterdir())
        write_json(temporary / MANIFEST, {name: _sha256(temporary / name) for name in names})


def _sha256(path: Path) -> str:
    with opened(path, limits().file_mib, expected="a whole release") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
