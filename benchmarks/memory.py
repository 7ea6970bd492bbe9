"""Memory of the matching layer: peak of the process beyond the inputs, forward + backward, in copies of T.

    python benchmarks/memory.py

Each size runs in a process of its own; counted is its resident memory, so torch's, numpy's and the kernels' buffers
and everything kept for the backward pass alike. Sizes are large enough for the interpreter's own ups and downs (a few
MB) not to show.
"""

from __future__ import annotations

import subprocess
import sys

SIZES = ((3, 5, 100_000), (5, 20, 20_000), (10, 100, 2_000), (8, 500_000, 1), (4, 1_000_000, 1))
CHILD = """
import resource, sys
import torch
from mfcp.matching import SpeedUp, relaxed_solution

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

def both(T, A, masked):
    allowed = torch.ones(T.shape, dtype=torch.bool) if masked else None
    gamma = (A.detach().amax(1).mean(1) - 0.05).clamp_min(0.0)
    found = relaxed_solution(T, A, gamma, 5 / T.shape[2], 0.1 * T.shape[2], 0.01, allowed=allowed)
    torch.autograd.grad(found.X.square().sum(), (T, A))
    return int(found.status.sum())

def inputs(M, N, B):
    # in place, so that nothing but the inputs themselves raises the peak before the layer runs
    T = torch.rand((B, M, N), dtype=torch.float64).mul_(2.0).add_(0.5).requires_grad_()
    return T, torch.rand((B, M, N), dtype=torch.float64).mul_(0.3).add_(0.7).requires_grad_()

torch.manual_seed(0)
torch.set_num_threads(1)
M, N, B, masked = (int(v) for v in sys.argv[1:])
both(*inputs(M, 5, 2), masked)
before = peak()
T, A = inputs(M, N, B)
failed = both(T, A, masked)
assert failed == 0, failed
size = T.numel() * 8
print((peak() - before - 2 * size) / size)
"""


def copies(M: int, N: int, B: int, *, masked: bool = False) -> float:
    """Peak beyond T and A in copies of T."""
    child = [sys.executable, "-c", CHILD, *(str(int(value)) for value in (M, N, B, masked))]
    return float(subprocess.run(child, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    print(f"{'(M, N, B)':>18} {'copies of T (target: at most 6)':>32} {'with a mask':>12}")
    for size in SIZES:
        print(f"{size!s:>18} {copies(*size):32.1f} {copies(*size, masked=True):12.1f}", flush=True)


if __name__ == "__main__":
    main()
