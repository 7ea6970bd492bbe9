"""Heads: their scale, what they are trained for, and the checkpoint that is kept."""

import numpy as np
import pytest
import torch
from torch import nn

from mfcp.predictors.heads import Best, Heads, HeadTraining, fit
from mfcp.predictors.linear import Linear
from mfcp.predictors.mlp import Mlp


def labels(n=60, seed=0):
    rng = np.random.default_rng(seed)
    Z = torch.tensor(rng.normal(size=(1, n, 2)))
    T = torch.tensor(np.exp(3 + 0.8 * Z[0, :, 0].numpy()))[None]
    A = torch.sigmoid(1 + Z[0, :, 1])[None]
    part = torch.arange(n) % 3
    return Z, T, A, (part > 0)[None, None], (part == 0)[None, None]


def test_a_fresh_network_predicts_the_average_of_its_labels():
    Z, T, A, train, _ = labels()
    heads = Heads(Mlp(), 2, 1, [(0,)])
    for bank in (heads.time, heads.reliability):
        for parameter in bank.parameters():
            nn.init.zeros_(parameter)
    heads.scale_to(T, A, train)
    t, a = heads(Z)
    assert t[0, 0].detach().numpy() == pytest.approx(float(T[0, train[0, 0]].log().mean().exp()))
    assert a[0, 0].detach().numpy() == pytest.approx(float(A[0, train[0, 0]].mean()))


@pytest.mark.parametrize("loss", ["time", "log_time"])
def test_training_lowers_the_validation_loss_and_leaves_unknown_labels_alone(loss):
    Z, T, A, train, validation = labels()
    T, A = (torch.where(train[0] | validation[0], x, torch.nan) for x in (T, A))
    T[0, 5] = A[0, 5] = torch.nan
    train[..., 5] = validation[..., 5] = False
    heads = Heads(Linear(), 2, 1, [(0,)])
    seen = fit(heads, Z, T, A, train, validation, loss=loss, training=HeadTraining(epochs=200, lr=0.05))
    assert seen[-1, 0] < 0.2 * seen[0, 0]
    assert all(p.isfinite().all() for p in heads.parameters())


def test_predictions_are_positive_times_and_probabilities_far_from_the_training_tasks_too():
    heads = Heads(Linear(), 2, 1, [(0,)])
    Z, T, A, train, _ = labels()
    heads.scale_to(T, A, train)
    t, a = heads(Z * 1e6)
    assert ((t > 0) & t.isfinite()).all()
    assert ((a >= 0) & (a <= 1)).all()


def test_each_member_keeps_its_own_best_parameters():
    module = nn.Linear(1, 2, bias=False)  # two members of one weight each
    best = Best(module)
    for weights, scores in (((1.0, 10.0), (3.0, 1.0)), ((2.0, 20.0), (1.0, 2.0)), ((3.0, 30.0), (2.0, 3.0))):
        with torch.no_grad():
            module.weight.copy_(torch.tensor(weights)[:, None])
        best.offer(torch.tensor(scores))
    best.restore()
    assert module.weight[:, 0].tolist() == [2.0, 10.0]
