"""A release: encoder, scale, trained method and gamma in one folder, each file held by its hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.arrays import Floats
from mfcp.errors import DataError
from mfcp.files import read_json, replacing_folder, write_json
from mfcp.methods.base import Trained, predict
from mfcp.rules.base import Belief
from mfcp.study.operator_steps import OperatorPredictor
from mfcp.study.scaling import Scale
from mfcp.tasks.features.descriptors import TaskFeatures, log_samples
from mfcp.tasks.features.encoder import FittedEncoder
from mfcp.tasks.timing.operator_times import OperatorTimes
from mfcp.threads import one_thread

if TYPE_CHECKING:
    from mfcp.data.log.tables import Tables

MANIFEST = "manifest.json"
_MODEL, _ENCODER, _OPERATORS, _FACTS = "model", "encoder.safetensors", "operators.safetensors", "release.json"


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
        data: what its log was: digest, tasks, runs, and what of it is emulated.
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

    @one_thread()
    def predict(self, tables: Tables) -> Belief:
        """What the release believes of the rows of table `tasks`, in their order, as one round (B = 1).

        A feature that a task lacks counts as average.

        Args:
            tables: `tasks`, and their `nodes` and `edges` where they have graphs.

        Raises:
            DataError: damaged graphs, or no task at all.
        """
        tasks = tables["tasks"]
        if not len(tasks):
            raise DataError("tasks: no rows; a round needs at least one task")
        samples = tasks["samples"].to_numpy(np.float64, na_value=np.nan) if "samples" in tasks else np.nan
        work = log_samples(np.broadcast_to(samples, len(tasks)))
        width = len(self.feature_names) - 1
        described = self.describe(tables)
        Z = self.scale.apply(np.column_stack([described[:, :width], work]))
        times = None
        if self.operators is not None:
            usual = self.scale.mean.ravel()[-1]
            times = (described[:, width:].T + np.where(np.isfinite(work), work, usual))[None]
        T, A = predict(self.trained.heads, Z[None], times)
        spread = self.trained.calibration
        return Belief.of(T, A, log_sd=spread.log_sd[0], own_sd=spread.own_sd[0], a_sd=spread.a_sd[0], gamma=self.gamma)

    def describe(self, tables: Tables) -> Floats:
        """(n, d - 1 + M) features of the tasks but their work, nan where unknown; then log seconds per sample.

        The M last columns, nan where unknown, are what operators say of each cluster; a release without networks over
        operators has none.
        """
        features = TaskFeatures.of(tables, tables["tasks"]["task_id"].to_numpy(str))
        columns = [features.under(self.feature_names[:-1], self.encoder)]
        if self.operators is not None:
            columns.append(self.operators.log_seconds(features).T)
        return np.concatenate(columns, axis=1)

    @staticmethod
    def load(folder: Path) -> Release:
        """The release in a folder, after every file was compared with its hash.

        Raises:
            DataError: a file is missing, changed or damaged; nothing of the folder is used then.
        """
        folder = Path(folder)
        version = verify(folder)
        facts = read_json(folder / _FACTS)
        try:
            return Release(
                version=version,
                trained=Trained.load(folder, _MODEL),
                encoder=FittedEncoder.load(folder / _ENCODER) if facts["encoder"] else None,
                operators=_operators(folder, facts),
                feature_names=tuple(facts["feature_names"]),
                scale=Scale(np.array(facts["mean"]), np.array(facts["deviation"])),
                cluster_id=tuple(facts["cluster_id"]),
                gamma=float(facts["gamma"]),
                price=float(facts["price"]),
                learned_from=frozenset(facts["learned_from"]),
                data=dict(facts["data"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{folder / _FACTS}: not the facts of a release ({error}); make it again") from None


def _operators(folder: Path, facts: dict[str, Any]) -> OperatorPredictor | None:
    rows = facts["operator_clusters"]
    if rows is None:
        return None
    return OperatorPredictor(
        OperatorTimes.load(folder / _OPERATORS), np.array(rows, np.int64), len(facts["cluster_id"])
    )


def verify(folder: Path) -> str:
    """The version of a release whose files are all as they were when it was made.

    Raises:
        DataError: naming the first file that is not.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such release; `dvc repro release` makes one in data/release")
    manifest = read_json(folder / MANIFEST)
    if not isinstance(manifest, dict) or _FACTS not in manifest:
        raise DataError(f"{folder / MANIFEST}: expected file names with their SHA-256; make the release again")
    for name, expected in manifest.items():
        try:
            found = _sha256(folder / Path(name).name)
        except OSError as error:
            raise DataError(f"{folder / name}: cannot read ({error.strerror}); the release is incomplete") from None
        if found != expected:
            raise DataError(
                f"{folder / name}: damaged or changed, its SHA-256 is {found[:12]}… instead of {str(expected)[:12]}…; "
                "take the release from its source again"
            )
    return _sha256(folder / MANIFEST)[:12]


def write_release(
    folder: Path,
    trained: Trained,
    setting: Any,
    *,
    encoder: FittedEncoder | None,
    operators: OperatorPredictor | None,
    feature_names: tuple[str, ...],
    scale: Scale,
    learned_from: list[str],
    data: dict[str, Any],
) -> None:
    """Write a release, whole or not at all; arguments as the attributes of `Release`, `setting` is what was learned."""
    with replacing_folder(folder) as temporary:
        trained.save(temporary, _MODEL, setting)
        if encoder is not None:
            encoder.save(temporary / _ENCODER)
        if operators is not None:
            operators.times.save(temporary / _OPERATORS)
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
            "learned_from": sorted(learned_from),
        }
        write_json(temporary / _FACTS, facts)
        names = sorted(path.name for path in temporary.iterdir())
        write_json(temporary / MANIFEST, {name: _sha256(temporary / name) for name in names})


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
