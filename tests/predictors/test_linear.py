"""A bank of linear maps."""

import numpy as np
import torch

from mfcp.predictors.linear import Linear


def test_the_bank_is_one_straight_line_per_member_and_cluster():
    bank = Linear().bank(3, 2, [(0,), (1,)])
    Z = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight, offset = bank.weight.detach().numpy(), bank.offset.detach().numpy()
    expected = np.stack([weight[k] @ Z[k].numpy().T + offset[k][:, None] for k in range(2)])
    np.testing.assert_allclose(bank(Z).detach(), expected, rtol=1e-12)


def test_it_learns_a_straight_line():
    bank = Linear().bank(2, 1, [(0,)])
    Z = torch.randn(1, 50, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    target = 2 * Z[..., 0] - Z[..., 1] + 0.5
    optimizer = torch.optim.Adam(bank.parameters(), lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        ((bank(Z)[:, 0] - target) ** 2).mean().backward()
        optimizer.step()
    assert ((bank(Z)[:, 0] - target) ** 2).mean() < 1e-4
