"""From a task pool to what methods learn from and are judged on: settings, splits, features, rounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from mfcp.data.pool import TaskPool, split_groups
from mfcp.errors import DataError
from mfcp.files import read_json, replacing, write_json
from mfcp.matching.planning import quick, solve_or_fall_back
from mfcp.matching.problem import Bools, Floats, Ints, MatchingProblem, reliability
from mfcp.matching.speedup import SpeedUp

PARTS = {"train": 0, "validation": 1, "test": 2}


class RoundRules(BaseModel):
    """What a round is: section `matching` of params.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    tasks: int = Field(5, ge=1, description="N, tasks matched at once")
    gamma_quantile: float = Field(0.5, ge=0, le=1, description="quantile of the time-optimal plans' reliability")
    validation_rounds: int = Field(200, ge=10, description="rounds per seed on which everything is tuned")
    regime: Literal["sequential", "parallel"] = Field("sequential", description="tasks of a cluster in turn or at once")
    zeta_floor: float = Field(0.6, gt=0, le=1, description="parallel: factor that zeta(n) decays to")
    zeta_decay: float = Field(2.0, gt=0, description="parallel: tasks over which zeta(n) decays")


@dataclass(frozen=True)
class Setting:
    """One choice of M clusters, with everything that methods may see and, apart, the truth.

    Attributes:
        name: "A", "B", …
        cluster_id: (M,).
        seeds: (S,) seeds of splits, rounds and initial weights; the first axis of everything learned.
        group: (n,) what a split or fold never divides: the family, or the task where there are few families.
        Z: (S, n, d) features, standardised on each seed's training tasks.
        split: (S, n) part of each task, see `PARTS`; -1 for a task that never enters a round.
        T, A: (M, n) observed seconds and success shares, nan where unknown.
        runs: (M, n) finished runs behind A.
        T_true, A_true: (M, n) what plans are judged by: the emulator's expectation where it is known, else T and A.
        allowed: (M, n) pairs that exist in the log.
        gamma: (S,) least mean reliability of a round.
        rules: what a round is.
        price: makespans per unit of missing reliability.
        speedup: curve of parallel execution, Eq. (16) of [Huo2025]_, or None.
    """

    name: str
    cluster_id: tuple[str, ...]
    seeds: tuple[int, ...]
    group: NDArray[np.str_]
    Z: Floats
    split: Ints
    T: Floats
    A: Floats
    runs: Ints
    T_true: Floats
    A_true: Floats
    allowed: Bools
    gamma: Floats
    rules: RoundRules
    price: float
    speedup: SpeedUp | None
    _fastest: dict[tuple[str, int], Floats] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def clusters(self) -> int:
        """M, the number of clusters."""
        return len(self.cluster_id)

    @property
    def zeta(self) -> Floats | None:
        """(M, N + 1) factors of parallel execution, None when tasks run one after another."""
        return None if self.speedup is None else self.speedup.table(self.clusters, self.rules.tasks)

    def at_size(self, tasks: int) -> Setting:
        """The same with rounds of so many tasks, in as many validation rounds as hold as many tasks; gamma stays."""
        if tasks == self.rules.tasks:
            return self
        rounds = -(-self.rules.validation_rounds * self.rules.tasks // tasks)
        return replace(self, rules=self.rules.model_copy(update={"tasks": tasks, "validation_rounds": rounds}))

    def by_fold(self, fold: Ints) -> Setting:
        """A seed for every seed and fold, without the training tasks of that fold.

        Args:
            fold: (S, n) of training tasks, -1 for others.
        """
        F = int(fold.max()) + 1
        left_out = fold.repeat(F, axis=0) == np.tile(np.arange(F), len(fold))[:, None]
        return replace(
            self,
            seeds=tuple(1000 * (seed + 1) + f for seed in self.seeds for f in range(F)),
            Z=self.Z.repeat(F, axis=0),
            split=np.where(left_out, -1, self.split.repeat(F, axis=0)),
            gamma=self.gamma.repeat(F),
        )

    def mask(self, part: str) -> Bools:
        """(S, M, n) pairs of one part whose label is known."""
        result: Bools = (self.split == PARTS[part])[:, None, :] & self.allowed[None]
        return result

    def rounds(self, part: str, count: int) -> Ints:
        """(S, count, N) tasks of rounds drawn from one part; the same for every method.

        Raises:
            DataError: fewer than N tasks in that part.
        """
        drawn = []
        for s, seed in enumerate(self.seeds):
            tasks = np.flatnonzero(self.split[s] == PARTS[part])
            if len(tasks) < self.rules.tasks:
                raise DataError(
                    f"setting {self.name}, seed {seed}: {len(tasks)} {part} tasks for rounds of {self.rules.tasks}; "
                    f"profile more tasks on {', '.join(self.cluster_id)} or lower matching.tasks"
                )
            rng = np.random.default_rng([seed, PARTS[part], int.from_bytes(self.name.encode(), "big")])
            order = rng.random((count, len(tasks))).argsort(axis=1)[:, : self.rules.tasks]
            drawn.append(tasks[order])
        return np.stack(drawn)

    def fastest(self, part: str, count: int) -> Floats:
        """(S, count) seconds of the rounds of one part, to measure makespans in: those of `matching.planning.quick`.

        Worked out once for all methods.
        """
        if (part, count) not in self._fastest:
            problem = self.problem(self.rounds(part, count))
            spans = solve_or_fall_back(problem, quick(problem)).makespan
            self._fastest[part, count] = spans.reshape(len(self.seeds), count)
        return self._fastest[part, count]

    def problem(self, rounds: Ints, *, truth: bool = False) -> MatchingProblem:
        """The rounds (S, R, N) as one batch (S·R, M, N) under the labels, or under the truth."""
        T, A = (self.T_true, self.A_true) if truth else (self.T, self.A)
        allowed = gather(self.allowed, rounds)
        gamma = np.repeat(self.gamma, rounds.shape[1])
        return MatchingProblem(gather(T, rounds), gather(A, rounds), gamma, allowed, self.zeta)


def gather(values: np.ndarray, rounds: Ints) -> np.ndarray:
    """(S·R, M, N) entries of (M, n) or (S, M, n) values for rounds (S, R, N)."""
    if values.ndim == 2:
        picked = values[:, rounds].transpose(1, 2, 0, 3)
    else:
        picked = np.stack([v[:, r] for v, r in zip(values, rounds, strict=True)]).transpose(0, 2, 1, 3)
    return picked.reshape(-1, *picked.shape[2:])


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
    """

    pool: TaskPool
    settings: dict[str, tuple[int, ...]]
    seeds: tuple[int, ...]
    split: Ints
    Z: Floats
    feature_names: tuple[str, ...]

    def setting(self, name: str, rules: RoundRules, *, price: float) -> Setting:
        """The named setting, with gamma set from the labels of each seed's validation rounds.

        gamma is the quantile `rules.gamma_quantile` of the reliability of the time-optimal plan, so that it
        binds in that share of the rounds.
        """
        clusters = list(self.settings[name])
        pool = self.pool
        allowed = pool.allowed[clusters]
        usable = allowed.sum(axis=0) >= min(2, len(clusters))  # with one cluster left there is nothing to match
        T, A = pool.T[clusters], pool.A[clusters]
        blank = Setting(
            name=name,
            cluster_id=tuple(str(pool.cluster_id[c]) for c in clusters),
            seeds=self.seeds,
            group=split_groups(pool),
            Z=standardise(self.Z, self.split == PARTS["train"]),
            split=np.where(usable, self.split, -1),
            T=T,
            A=A,
            runs=pool.runs[clusters],
            T_true=T if pool.T_true is None else pool.T_true[clusters],
            A_true=A if pool.A_true is None else pool.A_true[clusters],
            allowed=allowed,
            gamma=np.zeros(len(self.seeds)),
            rules=rules,
            price=price,
            speedup=SpeedUp(rules.zeta_floor, rules.zeta_decay) if rules.regime == "parallel" else None,
        )
        return _with_gamma(blank)

    def save(self, folder: Path) -> None:
        """Write the study as safetensors and JSON."""
        from safetensors.numpy import save_file

        folder = Path(folder)
        self.pool.save(folder / "pool")
        with replacing(folder / "features.safetensors") as path:
            save_file({"Z": np.ascontiguousarray(self.Z), "split": np.ascontiguousarray(self.split)}, path)
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
            )
        except (SafetensorError, OSError, KeyError) as error:
            raise DataError(f"{folder}: not a complete study ({error}); run the featurize stage again") from None


@dataclass(frozen=True)
class Scale:
    """Means and deviations (..., 1, d) of features over training tasks; one that tells nothing has deviation 0."""

    mean: Floats
    deviation: Floats

    @staticmethod
    def of(Z: Floats, train: Bools) -> Scale:
        """The scale of features (S, n, d), with training tasks (S, n)."""
        weight = train[:, :, None] / train.sum(axis=1)[:, None, None]
        mean = (Z * weight).sum(axis=1, keepdims=True)
        deviation = np.sqrt((((Z - mean) ** 2) * weight).sum(axis=1, keepdims=True))
        return Scale(mean, np.where(deviation > 1e-9, deviation, 0.0))

    def apply(self, Z: Floats) -> Floats:
        """Features (..., n, d) with mean 0 and deviation 1 over training tasks, cut at ±5; unknown ones are average.

        The cut keeps one unseen extreme from leaving the region that the predictors were trained in.
        """
        tells = self.deviation > 0
        scaled = (Z - self.mean) / np.where(tells, self.deviation, 1.0)
        result: Floats = np.clip(np.where(tells & np.isfinite(Z), scaled, 0.0), -5.0, 5.0)
        return result


def standardise(Z: Floats, train: Bools) -> Floats:
    """(S, n, d) features with mean 0 and deviation 1 over each seed's training tasks, cut at ±5."""
    return Scale.of(Z, train).apply(Z)


def _with_gamma(setting: Setting) -> Setting:
    rounds = setting.rounds("validation", setting.rules.validation_rounds)
    problem = setting.problem(rounds)
    fastest = solve_or_fall_back(problem.at(0.0)).assignment
    reached = reliability(fastest, problem.A).reshape(rounds.shape[:2])
    return replace(setting, gamma=np.quantile(reached, setting.rules.gamma_quantile, axis=1))
