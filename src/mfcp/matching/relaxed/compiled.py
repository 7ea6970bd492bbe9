"""The compiled kernels behind the torch interface: rounds go to threads, results are those of `dual_newton.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from mfcp.matching.relaxed.dual_newton import DualPoint
from mfcp.matching.relaxed.objective import RelaxedProblem

# What a thread must have to do to be worth its wake-up of 0.1-0.2 ms, in entries of T: about a millisecond of solving.
_WORTH = 4_000
_OVERHEAD = 60  # entries that take as long as what a round costs whatever its size


def solve_rounds(
    problem: RelaxedProblem, room: Tensor, *, tolerance: float, max_steps: int, start: tuple[Tensor, Tensor] | None
) -> DualPoint:
    """`dual_newton.solve_rounds` of a problem on the CPU, `room` (B,) being its distance to the edge."""
    from mfcp.matching.kernels.relaxed_newton import solve_range

    B, M, N = problem.T.shape
    mask = np.empty((0, M, N), bool) if problem.forbidden is None else _array(problem.forbidden)
    given = (np.empty((0, M)), np.empty(0)) if start is None else (_array(start[0]), _array(start[1]))
    X, p, q = np.empty((B, M, N)), np.empty((B, M)), np.empty(B)
    steps, residual = np.empty(B, np.int64), np.empty(B)
    T, A = _array(problem.T), _array(problem.A)
    weights = [_array(value) for value in (room, problem.beta, problem.lam, problem.tau)]

    def work(first: int, last: int) -> None:
        solve_range(
            T, A, mask, *weights, *given, tolerance, max_steps, first, last, X, p, q, steps, residual,
        )  # fmt: skip

    over_rounds(work, B, M * N + _OVERHEAD)
    return DualPoint(*(torch.from_numpy(value) for value in (X, p, q, steps, residual)))


def respond(problem: RelaxedProblem, X: Tensor, p: Tensor, q: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """`argmin.respond` on the CPU; rounds with infinite q get zeros."""
    from mfcp.matching.kernels.relaxed_newton import respond_range

    B, M, N = X.shape
    T, A = _array(problem.T), _array(problem.A)
    values = [_array(value) for value in (problem.beta, problem.lam, problem.tau, X, p, q, G)]
    grad_T, grad_A = np.empty((B, M, N)), np.empty((B, M, N))

    def work(first: int, last: int) -> None:
        respond_range(T, A, *values, first, last, grad_T, grad_A)

    over_rounds(work, B, (M * N + _OVERHEAD) // 12)  # one step, not a dozen
    return torch.from_numpy(grad_T), torch.from_numpy(grad_A)


def descend(
    problem: RelaxedProblem, start: Tensor, *, max_steps: int, tolerance: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`parallel._descend` on the CPU from plans (R · B, M, N), R starts of the B rounds of the problem."""
    from mfcp.matching.kernels.parallel_descent import descend_range

    assert problem.speedup is not None  # only such problems come here
    M, N = problem.T.shape[1:]
    curve = [np.broadcast_to(value, M).copy() for value in (problem.speedup.floor, problem.speedup.decay)]
    mask = np.empty((0, M, N), bool) if problem.forbidden is None else _array(problem.forbidden)
    values = [_array(value) for value in (problem.gamma, problem.beta, problem.lam, problem.tau)]
    T, A, X = _array(problem.T), _array(problem.A), _array(start).copy()
    steps, residual, value = np.empty(len(X), np.int64), np.empty(len(X)), np.empty(len(X))

    def work(first: int, last: int) -> None:
        descend_range(T, A, mask, *values, *curve, max_steps, tolerance, first, last, X, steps, residual, value)

    over_rounds(work, len(X), M * N + _OVERHEAD)
    return torch.from_numpy(X), torch.from_numpy(steps), torch.from_numpy(residual), torch.from_numpy(value)


def _array(value: Tensor) -> np.ndarray:
    return value.detach().contiguous().numpy()


def over_rounds(work: Callable[[int, int], None], rounds: int, size: int) -> None:
    """work(first, last) over all rounds, on as many threads as torch may use and the work is worth."""
    threads = min(torch.get_num_threads(), rounds, max(1, rounds * size // _WORTH))
    if threads == 1:
        work(0, rounds)
        return
    bounds = np.linspace(0, rounds, threads + 1).astype(int).tolist()
    jobs = [_pool(threads).submit(work, low, high) for low, high in pairwise(bounds[1:])]
    work(bounds[0], bounds[1])
    for job in jobs:
        job.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads - 1, thread_name_prefix="mfcp-matching")


# A forked child has the pool's object but not its threads: it must make its own.
os.register_at_fork(after_in_child=_pool.cache_clear)
