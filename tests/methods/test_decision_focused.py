"""Decision-focused training: its upper level against the relaxed objective, and that it lowers what it trains for."""

from __future__ import annotations

import pytest
import torch
from methods.plan_costs import problems, tensors

from mfcp.matching.relaxed.objective import relaxed_objective
from mfcp.methods.base import FinetuneSettings, Method
from mfcp.methods.decision_focused import DecisionFocused
from mfcp.methods.finetuned import TrainingRounds

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
