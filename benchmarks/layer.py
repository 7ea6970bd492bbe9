"""The differentiable matching layer against its peers: time and gradient error, forward and backward.

    python benchmarks/layer.py            every table; minutes where peers are installed
    python benchmarks/layer.py --quick    ours only
    python benchmarks/layer.py --full     peers run whole batches too: tens of minutes

Peers (cvxpylayers, diffcp) are not dependencies: install them in another environment with mfcp. All solve the same
problem, Eq. (10), with the same entropy; runs alternate, times are medians of five. The second ratio is of processor
time, all threads summed: on a machine that does other things as well it is the steadier one. "x4 of 16" says that a
peer ran 4 of the 16 rounds and that its times are scaled up. Memory: benchmarks/memory.py.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from functools import cache, partial
from importlib.util import find_spec
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from mfcp.matching import Unrolled, relaxed_solution
from mfcp.matching.relaxed import dual_newton
from mfcp.matching.relaxed.objective import balanced_makespan

SHAPES = [(3, 5, 64), (5, 20, 64), (10, 100, 16), (20, 500, 4)]
TARGETS = {(3, 5, 64): (6, 60), (5, 20, 64): (10, 500), (10, 100, 16): (12, 5000), (20, 500, 4): (30, None)}
BETA, LAM, TAU = 5.0, 0.1, 0.01
PEER_ENTRIES = 20_000  # B·M·N above which a peer gets fewer rounds, unless --full
Layer = Callable[[Tensor, Tensor, Tensor], Tensor]


def instance(M: int, N: int, B: int) -> tuple[Tensor, Tensor, Tensor]:
    rng = np.random.default_rng(0)
    size, speed = rng.lognormal(0, 0.7, (B, 1, N)), rng.lognormal(0, 0.4, (B, M, 1))
    T = size / speed * np.exp(0.5 * rng.standard_normal((B, M, N)))
    A = 0.995 - 0.25 * rng.random((B, M, N)) - 0.1 * rng.random((B, M, 1))
    best = A.max(1).mean(1)
    fast = np.take_along_axis(A, T.argmin(1)[:, None], 1)[:, 0].mean(1)
    return torch.tensor(T), torch.tensor(A), torch.tensor(fast + 0.6 * (best - fast) - 1e-3)


def ours(T: Tensor, A: Tensor, gamma: Tensor, **options: object) -> Tensor:
    return relaxed_solution(T, A, gamma, BETA, LAM, TAU, **options).X


def unrolled(T: Tensor, A: Tensor, gamma: Tensor) -> Tensor:
    return ours(T, A, gamma, gradient=Unrolled(steps=1000))


def cvxpy_problem(M: int, N: int) -> tuple[Any, list[Any], Any]:
    import cvxpy as cp

    X, T, A = cp.Variable((M, N)), cp.Parameter((M, N), nonneg=True), cp.Parameter((M, N), nonneg=True)
    gamma = cp.Parameter()
    smooth = cp.log_sum_exp(BETA * cp.sum(cp.multiply(T, X), axis=1)) / BETA
    barrier = LAM * cp.log(cp.sum(cp.multiply(A, X)) / N - gamma)
    constraints = [cp.sum(X, axis=0) == 1, X >= 0]  # X >= 0 follows from the entropy, but diffcp's derivative needs it
    problem = cp.Problem(cp.Minimize(smooth - barrier - TAU * cp.sum(cp.entr(X))), constraints)
    return problem, [T, A, gamma], X


def cvxpylayer(mode: str) -> Callable[[int, int], Layer]:
    def make(M: int, N: int) -> Layer:
        from cvxpylayers.torch import CvxpyLayer

        problem, parameters, X = cvxpy_problem(M, N)
        layer = CvxpyLayer(problem, parameters=parameters, variables=[X])
        return lambda T, A, gamma: layer(T, A, gamma, solver_args={"solve_method": "Clarabel", "mode": mode})[0]

    return make


class ConeProgram:
    """The problem as diffcp takes it; cvxpy brings it into that form once, outside the clock."""

    def __init__(self, M: int, N: int) -> None:
        import cvxpy as cp
        from cvxpy.reductions.solvers.conic_solvers.scs_conif import dims_to_solver_dict

        problem, self.parameters, X = cvxpy_problem(M, N)
        for parameter in self.parameters:
            parameter.value = np.full(parameter.shape, 0.5)
        data = problem.get_problem_data(cp.SCS, solver_opts={"use_quad_obj": False})[0]
        self.program, self.cones = data["param_prob"], dims_to_solver_dict(data["dims"])
        self.place = slice(self.program.var_id_to_col[X.id], self.program.var_id_to_col[X.id] + M * N)

    def matrices(self, *values: np.ndarray) -> tuple[object, ...]:
        """A, b, c of one round."""
        given = {parameter.id: value for parameter, value in zip(self.parameters, values, strict=True)}
        c, _, A, b = self.program.apply_parameters(given, keep_zeros=True)
        return -A, b, c


class Cone(torch.autograd.Function):
    """diffcp's solution of a batch and its derivative."""

    @staticmethod
    def forward(ctx, T, A, gamma, cone, mode):  # type: ignore[no-untyped-def]
        import diffcp

        rounds = [cone.matrices(*(v.numpy() for v in one)) for one in zip(T, A, gamma, strict=True)]
        As, bs, cs = (list(column) for column in zip(*rounds, strict=True))
        solve = diffcp.solve_and_derivative_batch
        xs, ys, _, _, adjoint = solve(As, bs, cs, [cone.cones] * len(T), solve_method="Clarabel", mode=mode)
        ctx.rest = cone, adjoint, xs, ys
        return torch.tensor(np.stack([x[cone.place].reshape(T.shape[1:], order="F") for x in xs]))

    @staticmethod
    def backward(ctx, G):  # type: ignore[no-untyped-def]
        cone, adjoint, xs, ys = ctx.rest
        dxs = [np.zeros_like(x) for x in xs]
        for dx, g in zip(dxs, G.numpy(), strict=True):
            dx[cone.place] = g.flatten(order="F")
        grads = []
        for dA, db, dc in zip(*adjoint(dxs, [0 * y for y in ys], [0 * y for y in ys]), strict=True):
            by = cone.program.apply_param_jac(dc, -dA, db)
            grads.append([np.asarray(by[p.id]).reshape(p.shape, order="F") for p in cone.parameters[:2]])
        grad_T, grad_A = (torch.tensor(np.stack(column)) for column in zip(*grads, strict=True))
        return grad_T, grad_A, None, None, None


def diffcp_layer(M: int, N: int) -> Layer:
    """diffcp in the mode that is fastest for two rounds of this size."""
    cone, few = ConeProgram(M, N), instance(M, N, 2)

    def layer(mode: str) -> Layer:
        return lambda T, A, gamma: Cone.apply(T, A, gamma, cone, mode)

    took = {mode: seconds(lambda mode=mode: both(layer(mode), *few))[0] for mode in ("lsqr", "lsmr", "dense")}
    best = min(took, key=took.__getitem__)
    print(f"{'':14} diffcp: fastest of {', '.join(took)} is {best}")
    return layer(best)


PEERS: dict[str, tuple[str, Callable[[int, int], Layer]]] = {
    "cvxpylayers lsqr": ("cvxpylayers", cvxpylayer("lsqr")),
    "cvxpylayers dense": ("cvxpylayers", cvxpylayer("dense")),
    "diffcp": ("diffcp", diffcp_layer),
    "ours in plain torch": ("", lambda M, N: partial(ours, backend="torch")),
    "unrolled 1000": ("", lambda M, N: unrolled),
}


@cache
def random_loss(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """dL/dX of the linear loss that gradients are taken of."""
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).to(device)


def both(layer: Layer, T: Tensor, A: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Plan and the two gradients of a fixed random loss."""
    t, a = T.detach().requires_grad_(), A.detach().requires_grad_()
    X = layer(t, a, gamma)
    grad_T, grad_A = torch.autograd.grad(X, (t, a), random_loss(tuple(T.shape), T.device))
    return X.detach(), grad_T, grad_A


def gradient_error(grad: Tensor, T: Tensor, A: Tensor, gamma: Tensor) -> float:
    """Error along one direction per round, relative, against Richardson-extrapolated differences of a tight solve."""
    loss = random_loss(tuple(T.shape), T.device)
    v = T * torch.randn(T.shape, dtype=T.dtype, generator=torch.Generator().manual_seed(1))

    def value(h: float) -> Tensor:
        return (ours(T + h * v, A, gamma, tolerance=1e-13) * loss).sum((1, 2))

    def central(h: float) -> Tensor:
        return (value(h) - value(-h)) / (2 * h)

    exact = [(4 * central(h / 2) - central(h)) / 3 for h in (1e-4, 3e-5, 1e-5)]
    found = (grad * v).sum((1, 2))
    return min(float((found - e).norm() / e.norm()) for e in exact)


def kkt_residual(X: Tensor, T: Tensor, A: Tensor, gamma: Tensor) -> float:
    """Relative spread of the objective's gradient over the used rows of a column, from X alone."""
    p = torch.softmax(BETA * (X * T).sum(2), 1)
    q = LAM / ((X * A).sum((1, 2)) / T.shape[2] - gamma)
    used = X > 1e-300
    cost = p[:, :, None] * T + (q / T.shape[2])[:, None, None] * (A.amax(1, keepdim=True) - A)
    G = cost + TAU * torch.where(used, X, 1.0).log()
    spread = torch.where(used, G - (X * G).sum(1, keepdim=True), 0.0)
    return float((spread.abs().amax((1, 2)) / (torch.where(used, cost, 0.0).amax((1, 2)) + TAU)).max())


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of processor time."""
    start, busy = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - busy


def compare(shape: tuple[int, int, int], quick: bool, full: bool) -> None:
    M, N, B = shape
    T, A, gamma = instance(M, N, B)
    X, grad, _ = both(ours, T, A, gamma)
    times = [seconds(lambda: both(ours, T, A, gamma)) for _ in range(25)]
    limit, ratio = TARGETS[shape]
    wall, busy = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
    verdict = "met" if wall <= limit else "MISSED"
    print(
        f"{shape!s:14} {'ours':20} {wall:10.2f} ms {'':>26} gradient {gradient_error(grad, T, A, gamma):.0e}"
        f"  KKT {kkt_residual(X, T, A, gamma):.0e}  target {limit} ms: {verdict}"
        f"; least of 25: {1e3 * min(times)[0]:.2f} ms; processor {busy:.2f} ms"
    )
    for name, (package, make) in PEERS.items():
        if quick:
            continue
        if package and find_spec(package) is None:
            print(f"{shape!s:14} {name:20} skipped: {package} is not installed")
            continue
        if package and M * N >= 10_000 and not full:
            print(f"{shape!s:14} {name:20} skipped: no peer finishes this in minutes")
            continue
        part = B if full else max(1, min(B, PEER_ENTRIES // (M * N * (50 if M * N >= 1000 else 1))))
        few = (T[:part], A[:part], gamma[:part])
        try:
            layer = make(M, N)
            first, _ = seconds(lambda layer=layer, few=few: both(layer, *few))
            pairs = [
                (*seconds(lambda: both(ours, T, A, gamma)), *seconds(lambda layer=layer, few=few: both(layer, *few)))
                for _ in range(5 if first < 20 else 1)
            ]
        except Exception as error:  # a peer that gives up is a result, not a failure of this program
            print(f"{shape!s:14} {name:20} failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:60]}")
            continue
        mine, my_busy, peer, peer_busy = (statistics.median(column) for column in zip(*pairs, strict=True))
        scale = B / part
        _, peer_grad, _ = both(layer, *few)
        wanted = "" if ratio is None or package != "cvxpylayers" else f"  target {ratio}x"
        scaled = "" if part == B else f"  x{part} of {B} rounds, scaled up"
        print(
            f"{shape!s:14} {name:20} {1e3 * scale * peer:10.2f} ms {scale * peer / mine:8.0f}x"
            f" (processor {scale * peer_busy / my_busy:5.0f}x)"
            f" gradient {gradient_error(peer_grad, *few):.0e}{wanted}{scaled}"
        )
    print(f"{shape!s:14} {'PyEPO':20} skipped: its layers take linear objectives; neither makespan nor barrier is one")


def scaling() -> None:
    print("\nscaling, forward + backward, ms (steps): cost per round and task should stay level")
    cases = (
        [(4, 10**k, 1) for k in (2, 3, 4, 5)] + [(M, 1000, 1) for M in (2, 8, 32)] + [(3, 5, B) for B in (1, 64, 4096)]
    )
    for M, N, B in cases:
        T, A, gamma = instance(M, N, B)
        T = T / (T.amin(1).sum(1) / M)[:, None, None]
        both(ours, T, A, gamma)
        best, _ = min(seconds(lambda T=T, A=A, gamma=gamma: both(ours, T, A, gamma)) for _ in range(3))
        steps = relaxed_solution(T, A, gamma, BETA, LAM, TAU).steps.double().mean()
        each = 1e9 * best / (M * N * B)
        print(f"  M={M:<3} N={N:<7} B={B:<5} {1e3 * best:9.2f} ms   {each:9.0f} ns per entry ({steps:.0f} steps)")


def warm_starts() -> None:
    """Steps from the prices of rounds whose times were others, at the weights of the pipeline's training."""
    print("\nstarts at the prices of near-by rounds, (3, 5, 512), beta=40 lam=0.003 tau=0.01 of a balanced makespan")
    T, A, gamma = instance(3, 5, 512)
    T = T / balanced_makespan(T)[:, None, None]
    weights, noise = (40.0, 0.003, 0.01), torch.randn(T.shape, generator=torch.Generator().manual_seed(0))
    start = relaxed_solution(T, A, gamma, *weights)
    for size in (0.001, 0.01, 0.05, 0.1):
        other = T * (size * noise.double()).exp()
        told = [relaxed_solution(other, A, gamma, *weights), relaxed_solution(other, A, gamma, *weights, start=start)]
        with mock.patch.object(dual_newton, "NEAR", math.inf):
            told.append(relaxed_solution(other, A, gamma, *weights, start=start, backend="torch"))
        fresh, warm, never = (found.steps.double().mean() for found in told)
        print(
            f"  times off by {size:<6} steps from scratch {fresh:5.1f}, from the start {warm:5.1f},"
            f" from one that is never given up {never:5.1f}"
        )


def cuda() -> None:
    if not torch.cuda.is_available():
        print("\nGPU column skipped: no CUDA device here; `pytest -m gpu` holds the torch path to the CPU's results")
        return
    print("\nGPU (torch path), forward + backward")
    for shape in [*SHAPES, (10, 100, 4096)]:
        T, A, gamma = (value.cuda() for value in instance(*shape))
        both(ours, T, A, gamma)

        def timed(T: Tensor = T, A: Tensor = A, gamma: Tensor = gamma) -> None:
            both(ours, T, A, gamma)
            torch.cuda.synchronize()

        print(f"  {shape!s:16} {1e3 * statistics.median(seconds(timed)[0] for _ in range(5)):9.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="ours only")
    parser.add_argument("--full", action="store_true", help="peers run whole batches, however long that takes")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"(M, N, B), forward + backward, float64, {arguments.threads} threads, beta={BETA} lam={LAM} tau={TAU}")
    for shape in SHAPES:
        compare(shape, arguments.quick, arguments.full)
    scaling()
    warm_starts()
    cuda()


if __name__ == "__main__":
    main()
