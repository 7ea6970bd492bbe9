"""Decision-focused training: its upper level against the relaxed objective, and that it lowers what it trains for."""

from __future__ import annotations

import pytest
import torch
from methods.plan_costs import problems, tensors

from mfcp.matching.relaxed.objective import relaxed_objective
from mfcp.methods.base import FinetuneSettings, Method
from mfcp.methods.decision_focused import DecisionFocused
from mfcp.methods.finetuned import TrainingRounds
from mfcp.predictors.calibration import Calibration

pytestmark = pytest.mark.xdist_group("contract")  # one worker makes what they share


def test_decision_focused_training_lowers_the_cost_it_trains_for(setting, base):
    method = Method.parse({"kind": "decision_focused"})
    trained = method.fit(setting, base, FinetuneSettings(steps=60, rounds=16, check_every=10))
    cost = trained.history["train.cost"]
    assert (cost[:, -15:].mean(axis=1) < cost[:, :15].mean(axis=1)).all()


class TestObjectiveAsUpperLevel:
    def rounds(self, gamma):
        T, A, costs = tensors(problems(rounds=4, masked=False))
        level = torch.full((1, 4), gamma, dtype=torch.float64)
        optimum = torch.tensor([[40.0, 50.0, 60.0, 70.0]])
        nothing = torch.zeros(1)
        return TrainingRounds(T, A, T, A, costs.allowed, level, optimum, nothing, nothing)

    def test_it_is_the_relaxed_objective_where_that_has_a_value(self, setting):
        rounds = self.rounds(0.5)
        X = torch.rand(1, 4, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(2)
        method = DecisionFocused(upper="objective", beta=7.0, lam=0.1)
        expected = relaxed_objective(X, rounds.T / rounds.fastest[..., None, None], rounds.A, 0.5, 7.0, 0.1)
        torch.testing.assert_close(method._upper_level(X, rounds, setting), expected)

    def test_below_gamma_it_charges_the_price(self, setting):
        rounds = self.rounds(0.97)
        X = torch.full((1, 4, 3, 4), 1 / 3, dtype=torch.float64).requires_grad_()
        by_plan = torch.autograd.grad(DecisionFocused(upper="objective")._upper_level(X, rounds, setting).sum(), X)[0]
        load = torch.logsumexp(40.0 * (X * rounds.T).sum(3) / rounds.fastest[..., None], 2).sum() / 40.0
        by_load = torch.autograd.grad(load, X)[0]
        torch.testing.assert_close(by_plan - by_load, -setting.price * rounds.A / 4)

    def test_it_trains(self, setting, base):
        trained = Method.parse({"kind": "decision_focused", "upper": "objective"}).fit(
            setting, base, FinetuneSettings(steps=40, rounds=8, check_every=40)
        )
        cost = trained.history["train.cost"]
        assert (cost[:, -10:].mean(axis=1) < cost[:, :10].mean(axis=1)).all()


def test_true_others_leave_one_cluster_predicted_in_each_round():
    """Algorithm 2: three rounds for each one, by hand; everything else of a round is repeated with it."""
    T, A, costs = tensors(problems(rounds=4, masked=True))
    level, optimum, nothing = torch.rand(1, 4), torch.rand(1, 4), torch.zeros(1)
    rounds = TrainingRounds(2 * T, A / 2, T, A, costs.allowed, level, optimum, nothing, nothing)
    found = rounds.one_predicted()
    assert found.T_hat.shape == (1, 12, 3, 4)
    for r in range(4):
        for i in range(3):
            k = 3 * r + i
            for m in range(3):
                torch.testing.assert_close(found.T_hat[0, k, m], T[0, r, m] * (2 if m == i else 1))
                torch.testing.assert_close(found.A_hat[0, k, m], A[0, r, m] / (2 if m == i else 1))
            torch.testing.assert_close(found.T[0, k], T[0, r])
            assert found.gamma[0, k] == level[0, r]
            assert found.fastest[0, k] == optimum[0, r]
            assert (found.allowed[0, k] == costs.allowed[0, r]).all()


def test_alternating_steps_move_times_then_reliabilities(setting, base):
    def moved(steps):
        method = Method.parse({"kind": "decision_focused", "updates": "alternating"})
        small = FinetuneSettings(steps=steps, rounds=8, check_every=1)
        start = base.start(setting, "log_time")
        heads = base.start(setting, "log_time")
        method._descend(heads, setting, Calibration.none(2, 3), small, lambda: None)
        return [
            any((p != q).any() for p, q in zip(own.parameters(), was.parameters(), strict=True))
            for own, was in ((heads.time, start.time), (heads.reliability, start.reliability))
        ]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("mfcp.predictors.heads.Best.restore", lambda self: None)  # the last step, not the best
        assert moved(1) == [True, False]
        assert moved(2) == [True, True]
