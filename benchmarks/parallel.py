"""Gradients where clusters run tasks side by side (zeta from 1 to 0.6, Eqs. 16-17): three rules against differences.

    python benchmarks/parallel.py

The loss is linear in X*, derivatives are with respect to log T. Truth is every entry's central difference of solves
that start from the optimum and so stay on its branch. A zeroth-order estimate is repeated with other directions; all
figures are relative to the truth. sd: square root of the summed variance of one estimate. bias: the mean of what
Delta adds to an estimate from the same directions at Delta = 1e-4, whose mean is the truth (noise: its own standard
error). Change: sd of the difference of the estimates for two losses a little apart, with common random numbers and
with directions of their own.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mfcp.matching import SpeedUp, Unrolled, ZerothOrder, relaxed_solution
from mfcp.matching.relaxed.argmin import RelaxedSolution, respond, solve_relaxed
from mfcp.matching.relaxed.mirror_descent import mirror_descent
from mfcp.matching.relaxed.objective import RelaxedProblem, relaxed_problem

SHAPES = ((3, 5, 8), (5, 20, 4))
WEIGHTS = (5.0, 0.1, 0.1)  # beta, lam, tau, where the mean task is 1 / N of the makespan
SAMPLES, DELTAS, REPEATS = (4, 16, 64), (0.3, 0.1, 0.03), 24
STEP = 1e-4


def instance(M: int, N: int, B: int) -> RelaxedProblem:
    rng = np.random.default_rng(0)
    T = rng.lognormal(0, 0.6, (B, 1, N)) * np.exp(0.3 * rng.standard_normal((B, M, N)))
    T /= T.min(1).sum(1)[:, None, None] / M
    A = 0.99 - 0.3 * rng.random((B, M, N))
    gamma = A.max(1).mean(1) - 0.1
    return relaxed_problem(
        torch.tensor(T), torch.tensor(A), torch.tensor(gamma), *WEIGHTS, speedup=SpeedUp(floor=0.6, decay=2.0)
    )


def differences(problem: RelaxedProblem, base: RelaxedSolution, G: Tensor) -> Tensor:
    """(B, M, N) dL/dlog T by central differences of every entry."""
    M, N = problem.T.shape[1:]
    truth = torch.zeros_like(problem.T)
    for i in range(M):
        for j in range(N):
            values = []
            for sign in (1, -1):
                T = problem.T.clone()
                T[:, i, j] *= np.exp(sign * STEP)
                values.append((solve_relaxed(dataclasses.replace(problem, T=T), start=base).X * G).sum((1, 2)))
            truth[:, i, j] = (values[0] - values[1]) / (2 * STEP)
    return truth


def unrolled(problem: RelaxedProblem, base: RelaxedSolution, G: Tensor) -> Tensor:
    """`Unrolled` from a plan near the local optimum, so that it descends to the same one."""
    T = problem.T.clone().requires_grad_()
    X = mirror_descent(dataclasses.replace(problem, T=T), Unrolled().steps, start=base.X.detach())
    return torch.autograd.grad((X * G).sum(), T)[0] * problem.T


def report(rule: str, found: Tensor, truth: Tensor, more: str = "") -> None:
    cosine = float(torch.cosine_similarity(found.flatten(1), truth.flatten(1), dim=1).mean())
    error = float((found - truth).norm() / truth.norm())
    print(f"  {rule:44} cosine {cosine:7.4f}  relative error {error:8.1e}{more}", flush=True)


def zeroth_order(problem: RelaxedProblem, base: RelaxedSolution, G: Tensor, truth: Tensor) -> None:
    size = truth.norm()
    nearby = G + 0.05 * torch.randn(G.shape, dtype=G.dtype, generator=torch.Generator().manual_seed(3))

    def estimates(rule: ZerothOrder, G: Tensor, first: int = 0) -> Tensor:
        draw = partial(rule.estimate, problem, base, of="T")
        seeds = range(first, first + REPEATS)
        return torch.stack([draw(G, torch.Generator().manual_seed(seed)) * problem.T for seed in seeds])

    def spread(values: Tensor) -> float:
        return float(values.var(0).sum().sqrt() / size)

    for samples, deltas in ((samples, DELTAS if samples == 16 else DELTAS[-1:]) for samples in SAMPLES):
        exact = estimates(ZerothOrder(samples=samples, delta=1e-4), G)
        for delta in deltas:
            for antithetic in (False, True):
                rule = ZerothOrder(samples=samples, delta=delta, antithetic=antithetic)
                found = estimates(rule, G)
                bias, noise = float((found - exact).mean(0).norm() / size), spread(found - exact) / REPEATS**0.5
                shared, apart = (spread(estimates(rule, nearby, first) - found) for first in (0, 1000))
                report(
                    f"zeroth order S={samples:<3} Delta={delta:<5} {'pairs' if antithetic else 'one-sided'}",
                    found[0],
                    truth,
                    f"  sd {spread(found):6.3f}  bias {bias:7.4f} (noise {noise:6.4f})"
                    f"  change: common {shared:5.3f}, own {apart:5.3f}",
                )


def training() -> None:
    print("\nforward + backward of 32 rounds, 8 starts each, ms of processor time: compiled beside torch")
    for M, N in ((3, 5), (5, 20)):
        problem = instance(M, N, 32)
        took: dict[str, list[float]] = {"compiled": [], "torch": []}
        for repeat in range(4):
            for backend, times in took.items():
                T = problem.T.clone().requires_grad_()
                start = time.process_time()
                found = relaxed_solution(
                    T,
                    problem.A,
                    problem.gamma,
                    *WEIGHTS,
                    speedup=problem.speedup,
                    backend=backend,
                )
                torch.autograd.grad(found.X.square().sum(), T)
                if repeat:
                    times.append(1e3 * (time.process_time() - start))
        fast, slow = (statistics.median(took[backend]) for backend in ("compiled", "torch"))
        print(f"  {(M, N)!s:10} compiled {fast:8.1f}  torch {slow:8.1f}  {slow / fast:5.1f}x", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    for shape in SHAPES:
        problem = instance(*shape)
        base = solve_relaxed(problem).require()
        G = torch.randn(problem.T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        truth = differences(problem, base, G)
        print(f"{shape}: beta, lam, tau = {WEIGHTS}, zeta 1 -> 0.6")
        report("implicit", respond(problem, base, G)[0] * problem.T, truth)
        report(f"unrolled, {Unrolled().steps} steps", unrolled(problem, base, G), truth)
        zeroth_order(problem, base, G, truth)
    training()


if __name__ == "__main__":
    main()
