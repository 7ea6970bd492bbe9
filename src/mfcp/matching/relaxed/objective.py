"""The relaxed problem of a batch of rounds and its objective, Eqs. (8), (9), (12) and (17) of [Huo2025]_."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mfcp.errors import DataError, InfeasibleError, SettingsError
from mfcp.matching.speedup import SpeedUp

BETA, LAM, TAU = 40.0, 0.003, 0.01
"""Default weights, beta per `balanced_makespan` of the round and the others in it: what MFCP learns best with."""

_LONGEST = torch.finfo(torch.float64).max


@dataclass(frozen=True)
class RelaxedProblem:
    """A flat batch of rounds, checked at the border by `relaxed_problem`.

    Attributes:
        T: (B, M, N) times, seconds; 0 where forbidden.
        A: (B, M, N) success probabilities; 0 where forbidden.
        forbidden: (B, M, N) True where a task may not run on a cluster, or None.
        gamma: (B,) least mean success probability.
        beta: (B,) sharpness of the smooth maximum, 1 / seconds.
        lam: (B,) weight of the reliability barrier, seconds.
        tau: (B,) weight of the entropy, seconds.
        batch: leading dimensions of what the caller gave.
        speedup: curve of parallel execution, or None for tasks one after another.
    """

    T: Tensor
    A: Tensor
    forbidden: Tensor | None
    gamma: Tensor
    beta: Tensor
    lam: Tensor
    tau: Tensor
    batch: torch.Size
    speedup: SpeedUp | None = None

    def reachable_gamma(self) -> Tensor:
        """(B,) largest mean reliability of any plan: mean over tasks of the most reliable allowed cluster's."""
        return self.A.amax(1).mean(1)

    def take(self, b: int) -> RelaxedProblem:
        """Round b alone, as a batch of one, detached."""
        part = slice(b, b + 1)
        return RelaxedProblem(
            self.T[part].detach(),
            self.A[part].detach(),
            None if self.forbidden is None else self.forbidden[part],
            self.gamma[part],
            self.beta[part],
            self.lam[part],
            self.tau[part],
            torch.Size([1]),
            self.speedup,
        )

    def repeated(self, times: int, T: Tensor | None = None, A: Tensor | None = None) -> RelaxedProblem:
        """The rounds `times` over, round after round; T and A (times · B, M, N) may take the place of the copies."""
        return RelaxedProblem(
            self.T.repeat(times, 1, 1) if T is None else T,
            self.A.repeat(times, 1, 1) if A is None else A,
            None if self.forbidden is None else self.forbidden.repeat(times, 1, 1),
            self.gamma.repeat(times),
            self.beta.repeat(times),
            self.lam.repeat(times),
            self.tau.repeat(times),
            self.batch,
            self.speedup,
        )


def relaxed_problem(
    T: Tensor,
    A: Tensor,
    gamma: Tensor | float,
    beta: Tensor | float,
    lam: Tensor | float,
    tau: Tensor | float,
    allowed: Tensor | None = None,
    speedup: SpeedUp | None = None,
) -> RelaxedProblem:
    """The problem of `relaxed_matching` from what a caller gives; see there for the arguments.

    Raises:
        DataError: wrong shapes, dtypes or devices; non-finite or negative times; probabilities outside [0, 1].
        InfeasibleError: a task with no allowed cluster.
        SettingsError: beta, lam or tau not positive and finite, or of a shape that does not broadcast to the batch;
            a speed-up for another number of clusters.
    """
    T, A = _matrix(T, "T"), _matrix(A, "A")
    if T.shape != A.shape:
        raise DataError(f"T has shape {tuple(T.shape)} but A has {tuple(A.shape)}; both must be (..., M, N)")
    if T.device != A.device:
        raise DataError(f"T is on {T.device} but A on {A.device}; move both to one device")
    if speedup is not None and not {len(speedup.floor), len(speedup.decay)} <= {1, T.shape[-2]}:
        raise SettingsError(
            f"speedup is for {max(len(speedup.floor), len(speedup.decay))} clusters, T has {T.shape[-2]}; "
            "give floor and decay as one number, or one per cluster"
        )
    batch = T.shape[:-2]
    flat = (-1, *T.shape[-2:])
    forbidden = None
    if allowed is not None:
        mask = torch.as_tensor(allowed, device=T.device)
        if mask.dtype != torch.bool:
            raise DataError(f"allowed must be boolean, got {mask.dtype}")
        try:
            forbidden = ~mask.expand(T.shape).reshape(flat)
        except RuntimeError:
            raise DataError(f"allowed has shape {tuple(mask.shape)}; it must broadcast to {tuple(T.shape)}") from None
        T, A = T.reshape(flat).masked_fill(forbidden, 0.0), A.reshape(flat).masked_fill(forbidden, 0.0)
        _no_empty_column(forbidden, batch)
    T, A = T.reshape(flat), A.reshape(flat)
    _check(T.detach(), _LONGEST, batch, "T", "a finite time >= 0 in seconds")
    _check(A.detach(), 1.0, batch, "A", "a probability in [0, 1]")
    level = _per_round(gamma, "gamma", batch, T)
    least, most = level.aminmax()
    if not (least >= 0 and most <= 1):
        raise DataError(f"gamma must lie in [0, 1], got {least:.6g} to {most:.6g}")
    weights = {name: _weight(value, name, batch, T) for name, value in (("beta", beta), ("lam", lam), ("tau", tau))}
    return RelaxedProblem(T, A, forbidden, level, **weights, batch=batch, speedup=speedup)


def balanced_makespan(T: Tensor, allowed: Tensor | None = None) -> Tensor:
    """(...) seconds: every task on its fastest cluster, and that work shared by all clusters.

    The unit of the default weights: with them a plan does not change when all times are given in minutes.

    Args:
        T: (..., M, N) seconds.
        allowed: (..., M, N) which pairs exist.
    """
    T = T if allowed is None else torch.where(allowed, T, torch.inf)
    unit = T.amin(-2).sum(-1) / T.shape[-2]
    return torch.where(unit > 0, unit, 1.0)  # a round of no work has no scale


def smooth_makespan(X: Tensor, T: Tensor, beta: Tensor | float) -> Tensor:
    """(...) seconds: a smooth upper bound of the makespan, above it by at most log(M) / beta.

    Eq. (8) of [Huo2025]_: (1/beta) log Σ_i exp(beta Σ_j x_ij t_ij).

    Args:
        X: (..., M, N) relaxed plan, columns sum to one.
        T: (..., M, N) seconds.
        beta: sharpness, 1 / seconds; broadcasts to (...).
    """
    sharpness = torch.as_tensor(beta, dtype=T.dtype, device=T.device)
    return torch.logsumexp(sharpness[..., None] * (X * T).sum(-1), -1) / sharpness


def relaxed_objective(
    X: Tensor,
    T: Tensor,
    A: Tensor,
    gamma: Tensor | float,
    beta: Tensor | float,
    lam: Tensor | float,
    tau: Tensor | float = 0.0,
    speedup: SpeedUp | None = None,
) -> Tensor:
    """(...) seconds: what the relaxed plan minimises; inf where its mean reliability is not above gamma.

    Eq. (9) of [Huo2025]_: smooth makespan minus lam log g, g = mean reliability - gamma. Two deviations, both in
    docs/equations.md: the mean is over the N tasks, and an entropy tau Σ x log x is added, which makes the argmin
    unique and interior so that its derivative exists everywhere (tau = 0: as printed).

    Args:
        X: (..., M, N) relaxed plan, columns sum to one.
        T: (..., M, N) seconds.
        A: (..., M, N) success probabilities.
        gamma, beta, lam, tau: see `relaxed_matching`; broadcast to (...).
        speedup: with a curve, `smooth_parallel_makespan` takes the place of `smooth_makespan`.
    """
    g = (X * A).sum((-2, -1)) / X.shape[-1] - gamma
    barrier = torch.where(g > 0, -g.clamp_min(1e-300).log(), torch.inf)
    span = smooth_makespan(X, T, beta) if speedup is None else smooth_parallel_makespan(X, T, beta, speedup)
    return span + lam * barrier + tau * torch.xlogy(X, X).sum((-2, -1))


def smooth_parallel_makespan(X: Tensor, T: Tensor, beta: Tensor | float, speedup: SpeedUp) -> Tensor:
    """(...) seconds: the smooth makespan where a cluster's tasks run side by side; not convex in X.

    Eq. (17) of [Huo2025]_: (1/beta) log Σ_i exp(beta zeta_i(Σ_j x_ij) Σ_j x_ij t_ij).

    Args:
        X: (..., M, N) relaxed plan, columns sum to one.
        T: (..., M, N) seconds.
        beta: sharpness, 1 / seconds; broadcasts to (...).
        speedup: zeta.
    """
    sharpness = torch.as_tensor(beta, dtype=T.dtype, device=T.device)
    busy = speedup(X.sum(-1)) * (X * T).sum(-1)
    return torch.logsumexp(sharpness[..., None] * busy, -1) / sharpness


def relaxed_regret(
    X: Tensor,
    optimal: Tensor,
    T: Tensor,
    A: Tensor,
    gamma: Tensor | float,
    beta: Tensor | float,
    lam: Tensor | float,
) -> Tensor:
    """(...) seconds per task that a relaxed plan costs over the relaxed optimum, both under true times.

    Eq. (12) of [Huo2025]_: (F(X*(T̂, Â); T, A) - F(X*(T, A); T, A)) / N, differentiable in X, the training loss of
    the paper. inf where the plan misses gamma under the true reliabilities: F has a barrier.

    Args:
        X: (..., M, N) relaxed plan from predictions.
        optimal: (..., M, N) relaxed plan from the truth.
        T: (..., M, N) true seconds.
        A: (..., M, N) true success probabilities.
        gamma, beta, lam: see `relaxed_matching`; broadcast to (...).
    """
    cost = relaxed_objective(X, T, A, gamma, beta, lam) - relaxed_objective(optimal, T, A, gamma, beta, lam)
    return cost / X.shape[-1]


def most_reliable(problem: RelaxedProblem) -> Tensor:
    """(B, M, N) each task on its most reliable allowed clusters, shared equally where several tie."""
    A = problem.A.detach()
    if problem.forbidden is not None:
        A = A.masked_fill(problem.forbidden, -1.0)
    top = (A.amax(1, keepdim=True) == A).to(A.dtype)
    return top / top.sum(1, keepdim=True)


def round_name(index: int, batch: torch.Size) -> str:
    """'round 3' or 'round 1, 4': the place of a flat index in the caller's batch."""
    if not batch:
        return "the round"
    return "round " + ", ".join(str(int(i)) for i in torch.unravel_index(torch.tensor(index), batch))


def _matrix(value: Tensor, name: str) -> Tensor:
    tensor = torch.as_tensor(value)
    if not tensor.is_floating_point():
        raise DataError(f"{name} has dtype {tensor.dtype}; give real numbers: call .double()")
    if tensor.ndim < 2 or 0 in tensor.shape:
        raise DataError(f"{name} must have shape (..., M, N) with no empty dimension, got {tuple(tensor.shape)}")
    return tensor.double()


def _per_round(value: Tensor | float, name: str, batch: torch.Size, like: Tensor) -> Tensor:
    tensor = torch.as_tensor(value, dtype=like.dtype, device=like.device).detach()
    try:
        return tensor.expand(batch).reshape(-1).contiguous()
    except RuntimeError:
        raise SettingsError(
            f"{name} has shape {tuple(tensor.shape)}; give a number or one per round, shape {tuple(batch)}"
        ) from None


def _weight(value: Tensor | float, name: str, batch: torch.Size, like: Tensor) -> Tensor:
    weight = _per_round(value, name, batch, like)
    least, most = weight.aminmax()
    if not (least > 0 and most <= _LONGEST):
        raise SettingsError(f"{name} must be positive and finite, got {least:.6g} to {most:.6g}")
    return weight


def _no_empty_column(forbidden: Tensor, batch: torch.Size) -> None:
    empty = forbidden.all(1)
    if bool(empty.any()):
        where, task = (int(i) for i in empty.nonzero()[0])
        raise InfeasibleError(
            f"{round_name(where, batch)}: task {task} has no allowed cluster; allow one or drop the task"
        )


def _check(value: Tensor, largest: float, batch: torch.Size, name: str, expected: str) -> None:
    least, most = value.aminmax()  # NaN if there is one; and no temporary of the size of T
    if not (least >= 0 and most <= largest):
        good = (value >= 0) & (value <= largest)
        where, cluster, task = (int(i) for i in (~good).nonzero()[0])
        raise DataError(
            f"{round_name(where, batch)}: {name}[{cluster}, {task}] = {value[where, cluster, task]:.6g}: "
            f"expected {expected}"
        )
