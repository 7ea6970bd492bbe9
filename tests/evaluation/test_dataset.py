"""A model's plans for rounds of a data set, against plans made one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

import mfcp
from mfcp.errors import DataError
from mfcp.matching import MatchingProblem, solve

RNG = np.random.default_rng(0)
T, A = RNG.lognormal(3.0, 1.0, (40, 3, 5)), RNG.uniform(0.7, 1.0, (40, 3, 5))
DATA = mfcp.MatchingDataset(RNG.normal(size=(40, 5, 2)), T, A, gamma=0.85)
OTHER = torch.as_tensor(RNG.lognormal(3.0, 1.0, (3, 5)))


class Fixed(nn.Module):
    """The same predictions for every round."""

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        assert not self.training
        return OTHER.expand(len(z), 3, 5), torch.full((len(z), 3, 5), 0.9)


def test_the_means_are_those_of_plans_made_one_by_one() -> None:
    model = Fixed()
    found = mfcp.regret(model, DataLoader(DATA, 7))
    assert model.training
    plan = solve(MatchingProblem(OTHER.numpy(), np.full((3, 5), 0.9), 0.85)).assignment
    excess, spans, bests = [], [], []
    for t, a in zip(T.astype(np.float32), A.astype(np.float32), strict=True):
        every = np.stack(np.meshgrid(*[range(3)] * 5, indexing="ij"), -1).reshape(-1, 5)
        span = np.stack([np.where(every == i, t[i], 0).sum(1) for i in range(3)], 1).max(1)
        short = np.maximum(0.85 - a[every, np.arange(5)].mean(1), 0.0)
        best = span[short <= 1e-9].min() if (short <= 1e-9).any() else None
        if best is None:
            continue
        mine = int((every == plan).all(1).argmax())
        cost = span / best + 4.0 * short
        excess.append(cost[mine] - cost.min())
        spans.append(span[mine])
        bests.append(best)
    assert len(excess) == 40  # every round can reach gamma
    assert found["penalised_excess"] == pytest.approx(np.mean(excess), rel=1e-5)
    assert found["relative_regret"] == pytest.approx(np.sum(spans) / np.sum(bests) - 1, rel=1e-5)
    assert found["regret"] == pytest.approx((np.mean(spans) - np.mean(bests)) / 5, rel=1e-5)


def test_the_truth_itself_has_no_regret_and_a_part_keeps_gamma() -> None:
    part = Subset(DATA, range(10))
    truth = iter(zip(T[:10].astype(np.float32), A[:10].astype(np.float32), strict=True))

    def oracle(z: Tensor) -> tuple[Tensor, Tensor]:
        pairs = [next(truth) for _ in range(len(z))]
        return torch.as_tensor(np.stack([t for t, _ in pairs])), torch.as_tensor(np.stack([a for _, a in pairs]))

    assert mfcp.regret(oracle, DataLoader(part, 5))["regret"] == pytest.approx(0.0, abs=1e-9)


def test_mistakes_are_named() -> None:
    with pytest.raises(DataError, match=r"40 rounds of 5 tasks need \(40, M, 5\)"):
        mfcp.MatchingDataset(DATA.features, T[:, :, :4], A, gamma=0.5)
    with pytest.raises(DataError, match=r"give \(R, N, F\)"):
        mfcp.MatchingDataset(DATA.features[0], T, A, gamma=0.5)
    with pytest.raises(DataError, match="gamma"):
        mfcp.MatchingDataset(DATA.features, T, A, gamma=1.5)
    with pytest.raises(DataError, match="tells no gamma"):
        mfcp.regret(Fixed(), [(DATA.features, DATA.T, DATA.A)])
    with pytest.raises(DataError, match="no batch"):
        mfcp.regret(Fixed(), [], gamma=0.5)
    with pytest.raises(DataError, match=r"the model gave \(40, 1\)"):
        mfcp.regret(lambda z: (torch.ones(len(z), 1),) * 2, [(DATA.features, DATA.T, DATA.A)], gamma=0.5)
