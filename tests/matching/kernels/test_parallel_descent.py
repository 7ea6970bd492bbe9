"""The compiled descent of parallel rounds finds the optima of the one in torch."""

import pytest
import torch
from matching.instances import rounds

from mfcp.matching import SpeedUp, relaxed_solution

CURVE = SpeedUp([0.6, 0.7, 0.8], 2.0)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(1, 4, 4), (3, 5, 16), (4, 9, 6)], ids=str)
def test_backends_find_the_same_local_optima(shape, masked):
    T, A, gamma = rounds(*shape, seed=4, tight=0.4)
    allowed = torch.rand(T.shape, generator=torch.Generator().manual_seed(0)) < 0.7 if masked else None
    if masked:
        allowed[:, 0] = True
        gamma = torch.minimum(gamma, A.masked_fill(~allowed, 0).amax(1).mean(1) - 0.01)
    found = [
        relaxed_solution(
            T, A, gamma, 20.0, 0.01, 0.03, speedup=SpeedUp(0.6, 1.5), allowed=allowed, restarts=3, backend=backend
        ).require()
        for backend in ("torch", "compiled")
    ]
    for name in ("X", "p", "q", "status"):
        assert torch.allclose(*(getattr(one, name).double() for one in found), rtol=1e-5, atol=1e-7), name
    if masked:
        assert (found[1].X[~allowed] == 0).all()


def test_a_warm_start_stays_on_its_branch_under_both_backends():
    T, A, gamma = rounds(3, 5, 8, seed=3)
    base = relaxed_solution(T, A, gamma, 10.0, 0.03, 0.05, speedup=CURVE)
    cold = base.steps
    for backend in ("torch", "compiled"):
        near = relaxed_solution(T * 1.001, A, gamma, 10.0, 0.03, 0.05, speedup=CURVE, start=base, backend=backend)
        assert (near.require().X - base.X).abs().max() < 0.05
        assert (near.steps < cold).all()
