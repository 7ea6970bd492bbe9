"""The losses as modules: the methods' own values and slopes, any precision, and what a loop of one's own learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import mfcp
from mfcp.errors import DataError, SettingsError
from mfcp.matching import MatchingProblem, solve_or_fall_back
from mfcp.matching.integer.enumeration import all_plans
from mfcp.matching.problem import makespan, reliability
from mfcp.matching.regret import PRICE
from mfcp.methods.surrogates import PlanLoss

GAMMA = 0.85


def round_of_tasks(count: int = 6) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Predictions, differentiable, and labels of rounds of 5 tasks on 3 clusters, in seconds around 100."""
    rng = np.random.default_rng(0)
    T, A = (
        np.stack([draw(count) for _ in range(2)])
        for draw in (
            lambda count: rng.lognormal(4.6, 1.0, (count, 3, 5)),
            lambda count: rng.uniform(0.75, 1.0, (count, 3, 5)),
        )
    )
    T_hat, T = torch.as_tensor(T)
    A_hat, A = torch.as_tensor(A)
    return T_hat.requires_grad_(), A_hat.requires_grad_(), T, A


def test_the_slope_of_the_decision_loss_is_that_of_finite_differences() -> None:
    T_hat, A_hat, T, A = round_of_tasks()
    loss = mfcp.DecisionLoss(GAMMA)
    slopes = torch.autograd.grad(loss(T_hat, A_hat, T, A), (T_hat, A_hat))
    generator = torch.Generator().manual_seed(0)
    for which, (slope, step) in enumerate(zip(slopes, (1e-3, 1e-6), strict=True)):
        v = torch.randn(T.shape, dtype=T.dtype, generator=generator)
        with torch.no_grad():
            near = [[x + h * v if k == which else x for k, x in enumerate((T_hat, A_hat))] for h in (step, -step)]
            above, below = (loss(*predicted, T, A) for predicted in near)
            difference = (above - below) / (2 * step)
        assert float((slope * v).sum()) == pytest.approx(float(difference), rel=2e-3)


def test_the_decision_loss_is_the_penalised_cost_of_the_relaxed_plan() -> None:
    T_hat, A_hat, T, A = round_of_tasks()
    found = mfcp.DecisionLoss(GAMMA, reduction="none")(T_hat, A_hat, T, A)
    X = mfcp.relaxed_matching(T_hat, A_hat, GAMMA).detach().numpy()
    least = mfcp.solve(MatchingProblem(T.numpy(), A.numpy(), GAMMA)).makespan
    span = (X * T.numpy()).sum(2).max(1)
    short = np.maximum(GAMMA - (X * A.numpy()).sum((1, 2)) / 5, 0.0)
    assert found.detach().numpy() == pytest.approx(span / least + PRICE * short)
    assert (found >= 0.5).all()


def test_rounds_whose_gamma_is_out_of_reach_are_counted_and_teach_nothing() -> None:
    T_hat, A_hat, T, A = round_of_tasks()
    loss = mfcp.DecisionLoss(0.999)
    loss(T_hat, A_hat, T, A).backward()
    assert loss.failed == len(T)
    assert not T_hat.grad.any()  # type: ignore[union-attr]


def test_missing_pairs_have_no_influence() -> None:
    T_hat, A_hat, T, A = round_of_tasks()
    allowed = torch.rand(T.shape, generator=torch.Generator().manual_seed(2)) < 0.8
    allowed[:, 0] = True
    for loss in (mfcp.DecisionLoss(0.5), mfcp.SurrogateLoss(gamma=0.5)):
        values = [loss(T_hat, A_hat, T.masked_fill(~allowed, x), A, allowed) for x in (torch.nan, 1.0)]
        assert values[0] == values[1]
        (slope,) = torch.autograd.grad(values[0], T_hat)
        assert not slope[~allowed].any()


@pytest.mark.parametrize("surrogate", sorted(PlanLoss.members))
def test_a_surrogate_learns_in_either_precision(surrogate: str) -> None:
    slopes = []
    for dtype in (torch.float64, torch.float32):
        T_hat, A_hat, T, A = (x.detach().to(dtype).requires_grad_() for x in round_of_tasks())
        loss = mfcp.SurrogateLoss(surrogate, gamma=GAMMA, generator=torch.Generator().manual_seed(1))
        value = loss(T_hat, A_hat, T, A)
        assert value.dtype == dtype
        assert value.ndim == 0
        slopes.append(torch.autograd.grad(value, T_hat)[0].double())
        assert slopes[-1].any()
    if surrogate not in ("fenchel_young", "imle", "perturbed"):  # their noise differs with the precision
        assert torch.allclose(*slopes, rtol=1e-3, atol=1e-6)


def test_spo_plus_is_the_published_formula_over_all_plans() -> None:
    T_hat, A_hat, T, A = (x.detach() for x in round_of_tasks(2))
    plans = all_plans(3, 5)[0]

    def costs(T: Tensor, A: Tensor) -> np.ndarray:
        point = solve_or_fall_back(MatchingProblem(T.numpy(), A.numpy(), GAMMA)).assignment
        spans = np.stack([makespan(np.broadcast_to(p, (2, 5)), T.numpy()) for p in plans], 1)
        shares = np.stack([reliability(np.broadcast_to(p, (2, 5)), A.numpy()) for p in plans], 1)
        return spans / makespan(point, T.numpy())[:, None] + PRICE * np.maximum(GAMMA - shares, 0.0)

    predicted, true = costs(T_hat, A_hat), costs(T, A)
    best = true.argmin(1)
    own = np.arange(2)
    wanted = (true - 2 * predicted).max(1) + 2 * predicted[own, best] - true[own, best]
    found = mfcp.SurrogateLoss("spo_plus", gamma=GAMMA, reduction="none")(T_hat, A_hat, T, A)
    assert found.numpy() == pytest.approx(wanted)


def test_single_precision_reaches_the_same_plan_and_slope() -> None:
    slopes = []
    for dtype in (torch.float64, torch.float32):
        T_hat, A_hat, T, A = (x.detach().to(dtype).requires_grad_() for x in round_of_tasks())
        assert mfcp.relaxed_matching(T_hat, A_hat, GAMMA).dtype == dtype
        slopes.append(torch.autograd.grad(mfcp.DecisionLoss(GAMMA)(T_hat, A_hat, T, A), (T_hat, A_hat)))
    for one, other in zip(*slopes, strict=True):
        assert torch.allclose(one.float(), other, rtol=1e-3, atol=1e-5)


def test_mistakes_are_named() -> None:
    T_hat, A_hat, T, A = round_of_tasks()
    with pytest.raises(DataError, match=r"T has shape \(6, 3, 4\).*\(6, 3, 5\)"):
        mfcp.DecisionLoss(GAMMA)(T_hat, A_hat, T[..., :4], A)
    with pytest.raises(SettingsError, match="unknown reduction 'avg'; known: mean, sum, none"):
        mfcp.DecisionLoss(GAMMA, reduction="avg")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="unknown planloss kind 'spo'"):
        mfcp.SurrogateLoss("spo", gamma=GAMMA)
    wide = torch.ones(1, 10, 6)
    with pytest.raises(SettingsError, match=r"all 10\^6 plans.*DecisionLoss"):
        mfcp.SurrogateLoss(gamma=GAMMA)(wide, wide, wide, wide)
    for loss in (mfcp.DecisionLoss(GAMMA), mfcp.SurrogateLoss(gamma=GAMMA)):
        with pytest.raises(DataError, match="finite time"):
            loss(T_hat * torch.nan, A_hat, T, A)
        with pytest.raises(DataError, match=r"probability in \[0, 1\]"):
            loss(T_hat, A_hat + 1, T, A)
        with pytest.raises(DataError, match=r"\[0, 0\]|cluster 0"):
            loss(T_hat, A_hat, -T, A)
        loss.gamma = 1.5
        with pytest.raises(DataError, match="gamma must"):
            loss(T_hat, A_hat, T, A)


class Linear(nn.Module):
    def __init__(self, features: int, clusters: int) -> None:
        super().__init__()
        self.layer = nn.Linear(features, 2 * clusters)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        log_t, logit = self.layer(z).mT.chunk(2, dim=-2)
        return (log_t + 3.0).exp(), logit.sigmoid()


def test_a_loop_of_ones_own_lowers_the_excess_where_a_line_cannot_fit_the_times() -> None:
    torch.manual_seed(0)
    z = torch.randn(900, 5, 6)
    log_T = 3 + 0.6 * (z @ torch.randn(6, 3)) + 0.5 * torch.relu(z @ torch.randn(6, 3))
    data = mfcp.MatchingDataset(z, log_T.exp().mT, torch.sigmoid(2 + 0.5 * z @ torch.randn(6, 3)).mT, gamma=0.88)
    train, test = torch.utils.data.random_split(data, [300, 600])
    model = Linear(6, 3)

    def go_on(loss: mfcp.DecisionLoss | None, epochs: int, lr: float) -> float:
        optimizer = torch.optim.Adam(model.parameters(), lr)
        for _ in range(epochs):
            for features, T, A in torch.utils.data.DataLoader(train, 50, shuffle=True):
                T_hat, A_hat = model(features)
                error = (T_hat.log() - T.log()).square().mean() + (A_hat - A).square().mean()
                optimizer.zero_grad()
                (error if loss is None else loss(T_hat, A_hat, T, A)).backward()
                optimizer.step()
        return mfcp.regret(model, torch.utils.data.DataLoader(test, 300))["penalised_excess"]

    two_stage = go_on(None, 60, 3e-2)
    assert go_on(mfcp.DecisionLoss(0.88), 20, 3e-3) < 0.95 * two_stage
