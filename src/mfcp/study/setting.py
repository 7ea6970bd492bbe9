"""A setting: M clusters with everything that methods may see, and the truth apart. Nothing is solved here."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.errors import DataError
from mfcp.matching.problem import MatchingProblem
from mfcp.matching.speedup import SpeedUp

PARTS = {"train": 0, "validation": 1, "test": 2}


class RoundSettings(BaseModel):
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
        source_task, family: (n,) what ran, of which there may be copies with other samples, and its family.
        group: (n,) what a split or fold never divides: the family, or the task where there are few families.
        Z: (S, n, d) features, standardised on each seed's training tasks.
        split: (S, n) part of each task, see `PARTS`; -1 for a task that never enters a round.
        T, A: (M, n) observed seconds and success shares, nan where unknown.
        runs: (M, n) finished runs behind A.
        T_true, A_true: (M, n) what plans are judged by: the emulator's expectation where it is known, else T and A.
        allowed: (M, n) pairs that exist in the log.
        gamma: (S,) least mean reliability of a round; nan until `mfcp.study.reference.with_gamma` has set it.
        matching: what a round is.
        price: makespans per unit of missing reliability.
        speedup: curve of parallel execution, Eq. (16) of [Huo2025]_, or None.
        operator_times: (S, M, n) log seconds by networks over operators, up to a constant per cluster; tasks to learn
            from by networks that did not see their family; nan without a graph. None where there are no networks.
        reference_makespans: what `mfcp.study.reference.fastest` has worked out so far.
    """

    name: str
    cluster_id: tuple[str, ...]
    seeds: tuple[int, ...]
    source_task: Texts
    family: Texts
    group: Texts
    Z: Floats
    split: Ints
    T: Floats
    A: Floats
    runs: Ints
    T_true: Floats
    A_true: Floats
    allowed: Bools
    gamma: Floats
    matching: RoundSettings
    price: float
    speedup: SpeedUp | None
    operator_times: Floats | None = None
    reference_makespans: dict[tuple[str, int], Floats] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def clusters(self) -> int:
        """M, the number of clusters."""
        return len(self.cluster_id)

    @property
    def zeta(self) -> Floats | None:
        """(M, N + 1) factors of parallel execution, None when tasks run one after another."""
        return None if self.speedup is None else self.speedup.table(self.clusters, self.matching.tasks)

    def at_size(self, tasks: int) -> Setting:
        """The same with rounds of so many tasks, in as many validation rounds as hold as many tasks; gamma stays."""
        if tasks == self.matching.tasks:
            return self
        rounds = -(-self.matching.validation_rounds * self.matching.tasks // tasks)
        return replace(self, matching=self.matching.model_copy(update={"tasks": tasks, "validation_rounds": rounds}))

    def by_fold(self, fold: Ints) -> Setting:
        """A seed for every seed and fold, without the training tasks of that fold.

        Where folds hold validation tasks too, a fold's tasks are that seed's validation tasks, and all others with a
        fold its training tasks.

        Args:
            fold: (S, n) of tasks to learn from, -1 for others.
        """
        F = int(fold.max()) + 1
        left_out = fold.repeat(F, axis=0) == np.tile(np.arange(F), len(fold))[:, None]
        crossed = bool(((fold >= 0) & (self.split == PARTS["validation"])).any())
        split = np.where(fold >= 0, PARTS["train"], self.split) if crossed else self.split
        return replace(
            self,
            seeds=tuple(1000 * (seed + 1) + f for seed in self.seeds for f in range(F)),
            Z=self.Z.repeat(F, axis=0),
            split=np.where(left_out, PARTS["validation"] if crossed else -1, split.repeat(F, axis=0)),
            gamma=self.gamma.repeat(F),
            operator_times=None if self.operator_times is None else self.operator_times.repeat(F, axis=0),
        )

    def mask(self, part: str) -> Bools:
        """(S, M, n) pairs of one part whose label is known."""
        result: Bools = (self.split == PARTS[part])[:, None, :] & self.allowed[None]
        return result

    def rounds(self, part: str | tuple[str, ...], count: int) -> Ints:
        """(S, count, N) tasks of rounds drawn from a part, or from some together; the same for every method.

        Raises:
            DataError: fewer than N tasks there.
        """
        drawn, parts = [], (part,) if isinstance(part, str) else part
        for s, seed in enumerate(self.seeds):
            tasks = np.flatnonzero(np.isin(self.split[s], [PARTS[name] for name in parts]))
            if len(tasks) < self.matching.tasks:
                raise DataError(
                    f"setting {self.name}, seed {seed}: {len(tasks)} {' and '.join(parts)} tasks for rounds of "
                    f"{self.matching.tasks}; "
                    f"profile more tasks on {', '.join(self.cluster_id)} or lower matching.tasks"
                )
            rng = np.random.default_rng([seed, PARTS[parts[0]], int.from_bytes(self.name.encode(), "big")])
            order = rng.random((count, len(tasks))).argsort(axis=1)[:, : self.matching.tasks]
            drawn.append(tasks[order])
        return np.stack(drawn)

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
