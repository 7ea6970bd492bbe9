"""Parallel execution: the relaxed plan where a cluster's time is zeta_i(n_i) times its load, Eqs. (16)-(17).

The objective depends on X through 2 M + 1 aggregates only (load and number of tasks of each cluster, reliability)
and the entropy. So does its Hessian, tau / X plus a matrix of rank 2 M + 1, and Newton steps and the implicit
derivative are again one small linear system per round; but that matrix is not positive definite, and what is found
is a local optimum. Restarts look for a good one.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from mfcp.matching.relaxed.dual_newton import DualPoint
from mfcp.matching.relaxed.mirror_descent import interior_plan, margin, mirror_step, objective, objective_slope
from mfcp.matching.relaxed.objective import RelaxedProblem

_STEPS = 200
_TOLERANCE = 1e-11
_SPREAD = 2.0  # standard deviation of the logits of a random starting plan


def solve_locally(
    problem: RelaxedProblem, *, restarts: int, start: Tensor | None = None, compiled: bool = False
) -> DualPoint:
    """The best local optimum of every round over several starts; prices p are weights of the clusters' busy times.

    Every step is the best of two Newton steps and one of mirror descent, so the objective never rises; near an optimum
    Newton converges quadratically. The starts are the same in every call: small changes of T and A move the result
    smoothly unless another optimum becomes best.

    Args:
        problem: rounds with a `speedup`, gamma within reach.
        restarts: number of starting plans, the first uniform, the others random.
        start: (B, M, N) plans to start from instead.
        compiled: take the steps in `kernels/parallel_descent.py`, which is for the CPU.
    """
    B, M, N = problem.T.shape
    if start is None:
        draw = torch.Generator().manual_seed(0)
        logits = _SPREAD * torch.randn((restarts, 1, M, N), dtype=problem.T.dtype, generator=draw)
        logits[0] = 0.0
        plans = torch.softmax(logits.to(problem.T.device), 2).expand(restarts, B, M, N).flatten(0, 1)
    else:
        plans = start
    many = replace(problem, T=problem.T.detach(), A=problem.A.detach()).repeated(len(plans) // B)
    X = interior_plan(many, plans)
    if start is not None:  # stay on its branch, unless gamma is crossed
        X = torch.where((margin(many, plans) > 0)[:, None, None], plans, X)
    if compiled:
        from mfcp.matching.relaxed.compiled import descend

        X, steps, residual, value = descend(problem, X, max_steps=_STEPS, tolerance=_TOLERANCE)
    else:
        X, steps, residual, value = _descend(many, X)
    value = torch.where(residual <= 1e-6, value, torch.inf).reshape(-1, B)
    best = value.argmin(0) * B + torch.arange(B, device=X.device)
    X = X[best]
    factor, _, _ = _curve(problem, X.sum(2))
    p = torch.softmax(problem.beta[:, None] * factor * (problem.T.detach() * X).sum(2), 1)
    q = problem.lam / margin(problem, X).detach()
    return DualPoint(X, p, q, steps.reshape(-1, B).sum(0), residual[best])


def _descend(problem: RelaxedProblem, X: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Plans after at most `_STEPS` steps from X, the steps, the residuals and the objectives of each."""
    steps = torch.zeros(len(X), dtype=torch.long, device=X.device)
    for _ in range(_STEPS):
        _, residual = _stationarity(problem, X)
        live = residual > _TOLERANCE
        if not bool(live.any()):
            break
        steps += live.long()
        X = torch.where(live[:, None, None], _step(problem, X), X)
    _, residual = _stationarity(problem, X)
    return X, steps, residual, objective(problem, X)


def respond(problem: RelaxedProblem, X: Tensor, good: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """(dL/dT, dL/dA) for dL/dX = G by the implicit rule at a local optimum; zeros where not `good`."""
    change = _newton(problem, X, G)
    change = torch.where(good[:, None, None], change, 0.0)
    with torch.enable_grad():
        T, A = problem.T.detach().requires_grad_(), problem.A.detach().requires_grad_()
        slope, _ = objective_slope(replace(problem, T=T, A=A), X)
        grad_T, grad_A = torch.autograd.grad((torch.where(good[:, None, None], slope, 0.0) * change).sum(), (T, A))
    return grad_T.nan_to_num(0.0), grad_A.nan_to_num(0.0)


def _step(problem: RelaxedProblem, X: Tensor) -> Tensor:
    """(B, M, N) the best of a Newton step, one with the curvature made convex, and a mirror descent step."""
    slope, _ = objective_slope(problem, X)
    best = mirror_step(problem, X)
    value = objective(problem, best)
    rounding = 1e-12 * value.abs()  # so that Newton, which converges, is preferred where values no longer differ
    for convex in (True, False):
        trial, reached = _search(problem, X, slope, _newton(problem, X, slope, convex=convex))
        better = reached <= value + rounding
        best = torch.where(better[:, None, None], trial, best)
        value = torch.where(better, reached, value)
    return best


def _search(problem: RelaxedProblem, X: Tensor, slope: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
    """X plus the longest of the steps 1, 1/2, 1/4, … along a falling direction that does not raise the objective."""
    before = objective(problem, X)
    falling = (slope * change).sum((1, 2)) < 0
    alpha = torch.ones_like(before)
    for _ in range(20):
        trial = torch.maximum(X + alpha[:, None, None] * change, 0.1 * X)
        trial = trial / trial.sum(1, keepdim=True)
        value = torch.where(falling & (margin(problem, trial) > 0), objective(problem, trial), torch.inf)
        good = value <= before + 1e-12 * before.abs()
        if bool((good | ~falling).all()):
            break
        alpha = torch.where(good, alpha, alpha / 2)
    return trial, value


def _stationarity(problem: RelaxedProblem, X: Tensor) -> tuple[Tensor, Tensor]:
    """Deviation (B, M, N) of the gradient from its column means, and its largest size relative to the gradient (B,)."""
    slope, _ = objective_slope(problem, X)
    used = X > 1e-300
    spread = torch.where(used, slope - (X * slope).sum(1, keepdim=True), 0.0)
    # weighted by X: at an entry that is leaving, the deviation only tells how fast
    size = torch.where(used, slope, 0.0).abs().amax((1, 2)) + problem.tau
    return spread, (X * spread).abs().amax((1, 2)) / size


def _newton(problem: RelaxedProblem, X: Tensor, V: Tensor, *, convex: bool = False) -> Tensor:
    """(B, M, N) plan change of the Newton step for gradient V; `convex` drops directions of negative curvature."""
    W = X / problem.tau[:, None, None]
    share = W / W.sum(1, keepdim=True)
    U = _aggregators(problem)  # (B, 2 M + 1, M, N)
    C = _curvature(problem, (U * X[:, None]).sum((2, 3)))
    if convex:
        size, basis = torch.linalg.eigh(C)
        C = (basis * size.clamp_min(0.0)[:, None, :]) @ basis.transpose(1, 2)

    def centred(Y: Tensor) -> Tensor:
        return W[:, None] * (Y - (share[:, None] * Y).sum(2, keepdim=True))

    projected = centred(U)
    K = torch.einsum("bkmn,blmn->bkl", U, projected)
    force = torch.einsum("bkmn,bmn->bk", projected, V)
    eye = torch.eye(K.shape[1], dtype=X.dtype, device=X.device)
    weights = torch.linalg.solve_ex(eye + C @ K, -(C @ force[:, :, None])).result[:, :, 0]
    push = V + torch.einsum("bk,bkmn->bmn", weights, U)
    return -centred(push[:, None])[:, 0]


def _aggregators(problem: RelaxedProblem) -> Tensor:
    """(B, 2 M + 1, M, N) U with U · X = (loads, numbers of tasks, mean reliability)."""
    B, M, N = problem.T.shape
    own = torch.eye(M, dtype=problem.T.dtype, device=problem.T.device)[None, :, :, None]
    loads = own * problem.T.detach()[:, None]
    counts = own.expand(B, M, M, N)
    return torch.cat([loads, counts, problem.A.detach()[:, None] / N], 1)


def _curvature(problem: RelaxedProblem, aggregates: Tensor) -> Tensor:
    """(B, 2 M + 1, 2 M + 1) Hessian of the objective without entropy in the aggregates."""
    B, M = problem.T.shape[:2]
    load, count = aggregates[:, :M], aggregates[:, M:-1]
    factor, slope, bend = _curve(problem, count)
    p = torch.softmax(problem.beta[:, None] * factor * load, 1)
    by_load, by_count = p * factor, p * slope * load  # p times the gradient of each cluster's busy time
    pull = torch.cat([by_load, by_count], 1)
    C = load.new_zeros(B, 2 * M + 1, 2 * M + 1)
    beta = problem.beta[:, None, None]
    C[:, :-1, :-1] = -beta * pull[:, :, None] * pull[:, None, :]
    own = torch.arange(M, device=load.device)
    cross = beta[:, 0] * p * factor * slope * load + p * slope
    C[:, own, own] += beta[:, 0] * p * factor.square()
    C[:, own, own + M] += cross
    C[:, own + M, own] += cross
    C[:, own + M, own + M] += beta[:, 0] * p * (slope * load).square() + p * bend * load
    C[:, -1, -1] = problem.lam / (aggregates[:, -1] - problem.gamma).square()
    return C


def _curve(problem: RelaxedProblem, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Factor, slope and bend of the speed-up at n (B, M)."""
    assert problem.speedup is not None  # only such problems come here
    return problem.speedup(count), problem.speedup.slope(count), problem.speedup.bend(count)
