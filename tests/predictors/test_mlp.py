"""A bank of networks with one hidden layer."""

import numpy as np
import torch

from mfcp.predictors.mlp import Mlp


def test_the_bank_is_the_formula_of_its_members():
    bank = Mlp(hidden=7).bank(3, 2, [(0,), (1,)])
    with torch.no_grad():
        for parameter in bank.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    Z = torch.randn(2, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = {name: value.detach().numpy() for name, value in bank.named_parameters()}
    found = bank(Z).detach().numpy()
    for k in range(2):
        for i in range(2):
            into, bias, skip, out, offset = (weights[name][k, i] for name in ("into", "bias", "skip", "out", "offset"))
            z = Z[k].numpy()
            np.testing.assert_allclose(found[k, i], np.tanh(z @ into + bias) @ out + z @ skip + offset, rtol=1e-12)


def test_members_and_clusters_share_nothing():
    """The gradient of one output is zero in all weights but its own."""
    bank = Mlp(hidden=4).bank(3, 2, [(0,), (1,)])
    bank(torch.ones(2, 1, 3, dtype=torch.float64))[1, 0].sum().backward()
    for name, parameter in bank.named_parameters():
        assert parameter.grad[1, 0].abs().sum() > 0, name
        parameter.grad[1, 0] = 0
        assert parameter.grad.abs().sum() == 0, name
