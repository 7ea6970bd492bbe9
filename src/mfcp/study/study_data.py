"""A study: a task pool with its settings, and per seed a split and the features of every task. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mfcp.arrays import Bools, Floats, Ints
from mfcp.border.json_text import read_json
from mfcp.data.pool.splits import split_groups
from mfcp.data.pool.task_pool import TaskPool
from mfcp.errors import DataError
from mfcp.files import replacing, write_json
from mfcp.matching.speedup import SpeedUp
from mfcp.study.setting import PARTS, RoundSettings, Setting
from mfcp.tasks.features.feature_scale import standardise


@dataclass(frozen=True)
class Study:
    """A pool with its settings, and per seed a split and the features learned on its training tasks.

    Attributes:
        pool: tasks × clusters.
        settings: name → indices of its M clusters.
        seeds: (S,).
        split: (S, n), see `PARTS`.
        Z: (S, n, d) raw features of each seed.
        feature_names: (d,).
        operator_times: (S, M, n) of all clusters, see `Setting`; None where no networks were asked for.
    """

    pool: TaskPool
    settings: dict[str, tuple[int, ...]]
    seeds: tuple[int, ...]
    split: Ints
    Z: Floats
    feature_names: tuple[str, ...]
    operator_times: Floats | None = None

    @staticmethod
    def of_all_clusters(
        pool: TaskPool, name: str, seed: int, split: Ints, Z: Floats, feature_names: tuple[str, ...], times: Floats
    ) -> Study:
        """One seed and one setting, of all clusters; `split` (n,), `Z` (n, d) and `times` (M, n) are that seed's."""
        every = tuple(range(len(pool.cluster_id)))
        return Study(pool, {name: every}, (seed,), split[None], Z[None], feature_names, times[None])

    def largest_round(self) -> int:
        """Tasks of the largest round that every seed's validation and test tasks of every setting can fill.

        A part without a single task does not count: a release has no test tasks where all are learned.
        """
        sizes = []
        for clusters in self.settings.values():
            split = np.where(self._usable(clusters), self.split, -1)
            sizes += [(split == PARTS[part]).sum(axis=1).min() for part in ("validation", "test")]
        return int(min((size for size in sizes if size), default=0))

    def _usable(self, clusters: tuple[int, ...]) -> Bools:
        """(n,) tasks with a time on two of the clusters: with one left there is nothing to match."""
        usable: Bools = self.pool.allowed[list(clusters)].sum(axis=0) >= min(2, len(clusters))
        return usable

    def setting(self, name: str, matching: RoundSettings, *, price: float, exact: bool = False) -> Setting:
        """The named setting, with rounds of `matching.tasks` tasks, or of fewer where the log is too small for these.

        Its gamma is nan: `mfcp.study.reference.with_gamma` solves for it.

        Args:
            name: one of `settings`.
            matching: what a round is.
            price: makespans per unit of missing reliability.
            exact: rounds are as large as asked for, or `Setting.rounds` raises.
        """
        clusters = list(self.settings[name])
        pool = self.pool
        allowed = pool.allowed[clusters]
        tasks = matching.tasks if exact else max(1, min(matching.tasks, self.largest_round()))
        matching = matching if tasks == matching.tasks else matching.model_copy(update={"tasks": tasks})
        T, A = pool.T[clusters], pool.A[clusters]
        return Setting(
            name=name,
            cluster_id=tuple(str(pool.cluster_id[c]) for c in clusters),
            seeds=self.seeds,
            source_task=pool.source_task,
            family=pool.family,
            group=split_groups(pool),
            Z=standardise(self.Z, self.split == PARTS["train"]),
            split=np.where(self._usable(self.settings[name]), self.split, -1),
            T=T,
            A=A,
            runs=pool.runs[clusters],
            T_true=T if pool.T_true is None else pool.T_true[clusters],
            A_true=A if pool.A_true is None else pool.A_true[clusters],
            allowed=allowed,
            gamma=np.full(len(self.seeds), np.nan),
            matching=matching,
            price=price,
            speedup=SpeedUp(matching.zeta_floor, matching.zeta_decay) if matching.regime == "parallel" else None,
            operator_times=None if self.operator_times is None else self.operator_times[:, clusters],
        )

    def save(self, folder: Path) -> None:
        """Write the study as safetensors and JSON."""
        from safetensors.numpy import save_file

        folder = Path(folder)
        self.pool.save(folder / "pool")
        with replacing(folder / "features.safetensors") as path:
            arrays = {"Z": self.Z, "split": self.split, "operator_times": self.operator_times}
            save_file({k: np.ascontiguousarray(v) for k, v in arrays.items() if v is not None}, path)
        content = {"settings": self.settings, "seeds": self.seeds, "feature_names": self.feature_names}
        write_json(folder / "study.json", content)

    @staticmethod
    def load(folder: Path) -> Study:
        """Read what `save` wrote.

        Raises:
            DataError: a file is missing or damaged.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        folder = Path(folder)
        content = read_json(folder / "study.json")
        try:
            arrays = load_file(folder / "features.safetensors")
            return Study(
                pool=TaskPool.load(folder / "pool"),
                settings={k: tuple(v) for k, v in content["settings"].items()},
                seeds=tuple(content["seeds"]),
                split=arrays["split"],
                Z=arrays["Z"],
                feature_names=tuple(content["feature_names"]),
                operator_times=arrays.get("operator_times"),
            )
        except (SafetensorError, OSError, KeyError) as error:
            raise DataError(f"{folder}: not a complete study ({error}); run the featurize stage again") from None
