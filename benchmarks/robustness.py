"""How often the relaxed solver gives up: rounds at every edge, for both backends.

Weights are in units of the round's makespan under its even plan. A round counts as failed when its status is not
CONVERGED; such rounds carry zero gradient. Usage: python benchmarks/robustness.py [--rounds B]
"""

from __future__ import annotations

import argparse
import itertools

import torch

from mfcp.matching import Status, relaxed_solution

SHAPES = ((1, 1), (2, 1), (3, 5), (5, 20), (10, 100))
DECADES = (0.0, 2.0, 8.0)  # spread of the times
BELOW_EDGE = (1e-2, 1e-4, 1e-6)
BETAS = (1.0, 10.0, 100.0)
WEIGHTS = (1e-1, 1e-3, 1e-6)  # of tau and lam


def draw(shape: tuple[int, int], decades: float, rounds: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    size = (rounds, *shape)
    T = 10.0 ** (decades * (torch.rand(size, generator=generator, dtype=torch.float64) - 0.5))
    T = T * torch.exp(0.3 * torch.randn(size, generator=generator, dtype=torch.float64))
    return T, 0.6 + 0.4 * torch.rand(size, generator=generator, dtype=torch.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2, help="rounds per combination")
    count = parser.parse_args().rounds
    torch.set_num_threads(1)
    print(
        f"{'shape':>10} {'backend':>9} {'rounds':>7} {'failed':>7} {'of them tau = lam = 1e-6':>25} {'most steps':>11}"
    )
    for shape, backend in itertools.product(SHAPES, ("torch", "compiled")):
        total = failed = extreme = most = 0
        for seed, (decades, edge, beta, tau, lam) in enumerate(
            itertools.product(DECADES, BELOW_EDGE, BETAS, WEIGHTS, WEIGHTS)
        ):
            T, A = draw(shape, decades, count, seed)
            unit = (T.mean(1).sum(1) / shape[0])[:, None, None]
            gamma = A.amax(1).mean(1) - edge
            found = relaxed_solution(T / unit, A, gamma, beta=beta, lam=lam, tau=tau, backend=backend)
            bad = int((found.status != Status.CONVERGED).sum())
            total, failed, most = total + count, failed + bad, max(most, int(found.steps.max()))
            extreme += bad if tau == lam == 1e-6 else 0
        print(f"{shape!s:>10} {backend:>9} {total:7d} {failed:7d} {extreme:25d} {most:11d}", flush=True)


if __name__ == "__main__":
    main()
