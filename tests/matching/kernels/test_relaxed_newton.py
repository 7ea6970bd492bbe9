"""The compiled solver of relaxed rounds is the one in torch."""

import pytest
import torch
from matching.instances import rounds

from mfcp.matching import relaxed_solution

ENGINES = ["torch", "compiled"]


@pytest.mark.parametrize("masked", [False, True])
def test_backends_agree(masked):
    T, A, gamma = rounds(4, 9, 32, seed=5)
    allowed = torch.rand(T.shape, generator=torch.Generator().manual_seed(0)) < 0.7 if masked else None
    if masked:
        allowed[:, 0] = True
        gamma = torch.minimum(gamma, A.masked_fill(~allowed, 0).amax(1).mean(1) - 0.01)
    G = torch.randn(T.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results = []
    for backend in ENGINES:
        t, a = T.clone().requires_grad_(), A.clone().requires_grad_()
        found = relaxed_solution(t, a, gamma, 20.0, 0.01, 0.02, allowed=allowed, backend=backend)
        results.append((found.X, found.p, found.q, found.status, *torch.autograd.grad((found.X * G).sum(), (t, a))))
    for name, one, other in zip(("X", "p", "q", "status", "dT", "dA"), *results, strict=True):
        assert torch.allclose(one.double(), other.double(), rtol=1e-6, atol=1e-8), name
