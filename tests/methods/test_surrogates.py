"""Losses over enumerated plans: each against its published formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from methods.plan_costs import PRICE, belief, drawn, gradient, onehot, problems, tensors, vectors
from scipy.special import softmax
from scipy.stats import norm

from mfcp.matching.integer.enumeration import all_plans, plan_values
from mfcp.matching.planning import solve_or_fall_back
from mfcp.matching.problem import MatchingProblem, reliability
from mfcp.methods.surrogates import FORBIDDEN, Choice, ExpectedCosts, PlanCosts, PlanLoss
from mfcp.rules.base import Belief, Rule


class TestPlanCosts:
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize("zeta", [None, np.array([1.0, 1.0, 0.8, 0.7, 0.6])])
    def test_they_are_the_penalised_costs_of_all_plans(self, masked, zeta):
        problem = problems(masked=masked, zeta=zeta)
        T, A, costs = tensors(problem)
        unit = solve_or_fall_back(problem).makespan[:, None]
        span, reached = plan_values(problem)
        expected = span / unit + PRICE * np.maximum(problem.gamma[:, None] - reached, 0.0)
        np.testing.assert_allclose(costs(T, A)[0], np.where(np.isfinite(expected), expected, FORBIDDEN), rtol=1e-12)

    def test_samples_may_stand_between_rounds_and_pairs(self):
        T, A, costs = tensors(problems())
        many = costs(torch.stack([T, 2 * T, T**0.5], 2), torch.stack([A, A, 0.9 * A], 2))
        torch.testing.assert_close(many[:, :, 1], costs(T, A))
        torch.testing.assert_close(many[:, :, 2], costs(T**0.5, 0.9 * A))

    def test_their_derivative_is_that_of_finite_differences(self):
        problem = problems(rounds=2, N=3)
        T, A, costs = tensors(problem)
        T = torch.where(costs.allowed, T, 50.0)
        assert torch.autograd.gradcheck(costs, (T.requires_grad_(), A.requires_grad_()), eps=1e-7, atol=1e-5)

    def test_the_best_of_them_is_the_plan_of_the_rule(self):
        """What is trained through is what is deployed, of equal plans the more reliable."""
        problem = problems(rounds=40, seed=3)
        T, A, costs = tensors(problem)
        own = costs(T, A)[0].numpy()
        first = all_plans(problem.clusters, problem.tasks)[0][own.argmin(-1)]
        plan = Rule.parse("priced").plan(belief(problem), parameter=0.0, price=PRICE)
        index = plan @ problem.clusters ** np.arange(problem.tasks)[::-1]
        np.testing.assert_allclose(np.take_along_axis(own, index[:, None], 1)[:, 0], own.min(-1), rtol=1e-9)
        assert (reliability(plan, problem.A) >= reliability(first, problem.A) - 1e-12).all()


class TestExpectedCosts:
    def costs(self, problem, log_sd, a_sd):
        T, A, plain = tensors(problem)
        spread = (torch.full((1, 1, problem.clusters, 1), value, dtype=torch.float64) for value in (log_sd, a_sd))
        return T, A, ExpectedCosts(plain.gamma, plain.allowed, PRICE, plain.zeta, *spread)

    @pytest.mark.parametrize("zeta", [None, np.array([1.0, 1.0, 0.8, 0.7, 0.6])])
    def test_the_best_of_them_is_the_plan_of_the_rule(self, zeta):
        problem = problems(seed=3, rounds=40, zeta=None if zeta is None else np.tile(zeta, (3, 1)))
        T, A, costs = self.costs(problem, 0.15, 0.02)
        believed = Belief(
            problem.T, problem.A, np.full(T.shape[1:], 0.9), np.full(T.shape[1:], 0.15), np.full(T.shape[1:], 0.02),
            problem.gamma, problem.allowed, problem.zeta,
        )  # fmt: skip
        plan = Rule.parse("expected_cost").plan(believed, parameter=0.0, price=PRICE)
        own = all_plans(3, 4)[0][costs(T, A)[0].argmin(-1).numpy()]
        np.testing.assert_array_equal(own, plan)

    def test_without_spread_they_are_the_penalised_costs(self):
        problem = problems(seed=4)
        T, A, costs = self.costs(problem, 0.0, 0.0)
        np.testing.assert_allclose(costs(T, A), tensors(problem)[2](T, A), rtol=1e-5, atol=1e-5)


class TestLosses:
    def test_softmin_is_the_expected_cost_of_a_drawn_plan(self):
        predicted, true = drawn()
        chance = softmax(-predicted / 0.1, axis=1)
        expected = -chance * (true - (chance * true).sum(1, keepdims=True)) / 0.1
        found = gradient({"kind": "softmin", "temperature": 0.1}, vectors(predicted, true))
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    def test_spo_plus_has_the_published_subgradient(self):
        predicted, true = drawn()
        got = gradient("spo_plus", vectors(predicted, true))
        best, worst = true.argmin(1), (2 * predicted - true).argmin(1)
        np.testing.assert_allclose(got, 2 * (onehot(best, 7) - onehot(worst, 7)))

    @settings(max_examples=30)
    @given(st.integers(0, 10_000))
    def test_spo_plus_is_an_upper_bound_of_regret(self, seed):
        predicted, true = drawn(rounds=3, seed=seed)
        bound = PlanLoss.parse("spo_plus").of(vectors(predicted, true), []).detach().numpy()[0]
        regret = true[np.arange(3), predicted.argmin(1)] - true.min(1)
        assert (bound >= regret - 1e-12).all()

    @pytest.mark.parametrize("kind", ["spo_plus", "map", "fenchel_young", "listwise"])
    def test_true_costs_cannot_be_bettered(self, kind):
        _, true = drawn()
        rng = np.random.default_rng(1)

        def loss(predicted):
            row = {"kind": kind} | ({"samples": 2_000} if kind == "fenchel_young" else {})
            return PlanLoss.parse(row).of(vectors(predicted, true), [torch.Generator().manual_seed(0)]).sum().item()

        if kind in ("spo_plus", "map"):
            assert loss(true) == pytest.approx(0.0, abs=1e-12)
        near = true if kind != "fenchel_young" else 10 * true  # its noise is on the scale of the costs
        assert loss(near) < min(loss(rng.uniform(1, 2, true.shape)) for _ in range(20))

    def test_fenchel_young_is_target_minus_the_expected_choice(self):
        """Closed form for two plans: the difference of two normal noises is normal."""
        predicted, true = np.array([[1.0, 1.1], [1.3, 1.0]]), np.array([[1.0, 2.0], [1.0, 2.0]])
        sigma = 0.2
        choice = vectors(predicted, true)
        row = {"kind": "fenchel_young", "sigma": sigma, "samples": 50_000}
        gap = predicted[:, 1] - predicted[:, 0]
        width = sigma * np.sqrt(2)
        first = norm.cdf(gap / width)
        np.testing.assert_allclose(gradient(row, choice), np.stack([1 - first, first - 1], 1), atol=0.006)
        least = predicted[:, 0] * first + predicted[:, 1] * (1 - first) - width * norm.pdf(gap / width)
        loss = PlanLoss.parse(row).of(choice, [torch.Generator().manual_seed(1)])[0].detach()
        np.testing.assert_allclose(loss, predicted[:, 0] - least, atol=0.003)

    def test_nce_contrasts_the_best_plan_with_the_pool(self):
        predicted, true = drawn()
        true[:, 2], predicted[:, 2] = FORBIDDEN, FORBIDDEN
        pool = np.arange(7) != 2
        np.testing.assert_allclose(gradient("nce", vectors(predicted, true)), onehot(true.argmin(1), 7) - pool / 6)

    def test_map_contrasts_it_with_the_most_underrated_plan(self):
        predicted, true = drawn()
        true[:, 2], predicted[:, 2] = FORBIDDEN, FORBIDDEN
        choice = vectors(predicted, true)
        gap = np.where(np.arange(7) != 2, predicted - true, np.inf)
        best = true.argmin(1)
        np.testing.assert_allclose(gradient("map", choice), onehot(best, 7) - onehot(gap.argmin(1), 7))
        loss = PlanLoss.parse("map").of(choice, [])[0].detach()
        np.testing.assert_allclose(loss, gap[np.arange(5), best] - gap.min(1))

    def test_listwise_is_a_cross_entropy(self):
        predicted, true = drawn()
        choice = vectors(predicted, true)
        p, q = softmax(-true / 0.3, axis=1), softmax(-predicted / 0.3, axis=1)
        row = {"kind": "listwise", "temperature": 0.3}
        np.testing.assert_allclose(PlanLoss.parse(row).of(choice, [])[0].detach(), -(p * np.log(q)).sum(1))
        np.testing.assert_allclose(gradient(row, choice), (p - q) / 0.3, atol=1e-12)

    def test_blackbox_moves_towards_the_cheaper_neighbour(self):
        predicted, true = drawn(rounds=20)
        p, moved = predicted.argmin(1), (predicted + 0.7 * true).argmin(1)
        assert (p != moved).any()
        got = gradient({"kind": "blackbox", "lam": 0.7}, vectors(predicted, true))
        np.testing.assert_allclose(got, -(onehot(p, 7) - onehot(moved, 7)) / 0.7)

    def test_imle_is_a_difference_of_expected_choices(self):
        """Gumbel noise makes both expectations softmins; for a small step they are the exact derivative."""
        predicted, true = drawn(rounds=2)
        sigma, lam = 0.3, 0.5
        row = {"kind": "imle", "sigma": sigma, "lam": lam, "samples": 50_000}
        now, then = softmax(-predicted / sigma, axis=1), softmax(-(predicted + lam * true) / sigma, axis=1)
        np.testing.assert_allclose(gradient(row, vectors(predicted, true)), (then - now) / lam, atol=0.015)
        loss = PlanLoss.parse(row).of(vectors(predicted, true), [torch.Generator().manual_seed(1)])[0]
        np.testing.assert_allclose(loss.detach(), (now * true).sum(1), atol=0.01)

    def test_perturbed_is_the_derivative_of_the_expected_cost(self):
        """One task on two clusters, against differences of a plain simulation that knows nothing of scores."""
        T, A, gamma, sigma = np.array([100.0, 103.0]), np.array([0.86, 0.91]), 0.9, 0.05
        T_true, A_true = np.array([1.0, 1.3]), np.array([0.95, 0.93])
        problem = MatchingProblem(T_true[None, :, None], A_true[None, :, None], [gamma])
        labels_T, labels_A, costs = tensors(problem)
        T_hat, A_hat = (torch.as_tensor(x).reshape(1, 1, 2, 1).requires_grad_() for x in (T, A))
        choice = Choice(T_hat, A_hat, costs, costs(T_hat, A_hat), costs(labels_T, labels_A))
        loss = PlanLoss.build("perturbed", sigma=sigma, samples=200_000).of(choice, [torch.Generator().manual_seed(0)])
        got = [x.flatten().numpy() for x in torch.autograd.grad(loss.sum(), (T_hat, A_hat))]

        noise = sigma * np.random.default_rng(0).normal(size=(2, 2, 200_000))
        true_cost = choice.true.flatten().numpy()

        def expected(log_t, a):
            t, a = np.exp(log_t[:, None] + noise[0]), a[:, None] + noise[1]
            short = np.maximum(gamma - a, 0.0)
            hard = np.where(short > 0, np.inf, t)
            point = np.where(np.isinf(hard).all(0), (t + 20 * t.min(0) * short).argmin(0), hard.argmin(0))
            unit = np.take_along_axis(t, point[None], 0)
            return true_cost[(t / unit + PRICE * short).argmin(0)].mean()

        h = 0.01
        for i in range(2):
            e = h * np.eye(2)[i]
            by_time = (expected(np.log(T) + e, A) - expected(np.log(T) - e, A)) / (2 * h)
            by_reliability = (expected(np.log(T), A + e) - expected(np.log(T), A - e)) / (2 * h)
            assert got[0][i] * T[i] == pytest.approx(by_time, abs=0.06)
            assert got[1][i] == pytest.approx(by_reliability, abs=0.06)
            assert abs(by_time) > 0.2
            assert abs(by_reliability) > 0.2

    @pytest.mark.parametrize("kind", PlanLoss.members)
    def test_what_does_not_exist_is_neither_chosen_nor_a_nan(self, kind):
        problem = problems(rounds=8)
        T, A, costs = tensors(problem)
        rng = np.random.default_rng(2)
        T_hat = torch.as_tensor(rng.uniform(40, 90, T.shape)).requires_grad_()
        A_hat = torch.as_tensor(rng.uniform(0.7, 1, T.shape)).requires_grad_()
        choice = Choice(T_hat, A_hat, costs, costs(T_hat, A_hat), costs(T, A))
        loss = PlanLoss.parse(kind).of(choice, [torch.Generator().manual_seed(0)])
        assert loss.abs().max() < 100  # makespans: the cost of what is forbidden enters nowhere
        by_time, by_reliability = torch.autograd.grad(loss.sum(), (T_hat, A_hat))
        assert torch.isfinite(by_time).all()
        assert torch.isfinite(by_reliability).all()
        assert by_time.abs().sum() > 0
        if kind != "perturbed":  # whose noise on such a pair is no help and no harm
            assert (by_time[~costs.allowed] == 0).all()

    @pytest.mark.parametrize("kind", PlanLoss.members)
    def test_the_randomness_of_a_seed_is_its_own(self, kind):
        T, A, costs = tensors(problems(rounds=4))

        def losses(first, last):
            """Of seeds first…last - 1, whose rounds are all the same."""
            many = [x.expand(last - first, *x.shape[1:]) for x in (1.3 * T + 1.0, 0.9 * A, T, A)]
            own = PlanCosts(*(x.expand(last - first, *x.shape[1:]) for x in (costs.gamma, costs.allowed)), PRICE)
            choice = Choice(many[0], many[1], own, own(*many[:2]), own(*many[2:]))
            return PlanLoss.parse(kind).of(choice, [torch.Generator().manual_seed(s) for s in range(first, last)])

        torch.testing.assert_close(losses(0, 3)[2:], losses(2, 3), rtol=1e-12, atol=1e-12)
