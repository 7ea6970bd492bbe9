"""The value of a measurement: by the definition, plan by plan; never negative; from a neighbourhood, a bound."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching.uncertain import cost_of
from rules.beliefs import belief

from mfcp.matching.expected import expected_plans
from mfcp.rules import measuring
from mfcp.rules.expected_cost import moments_of
from mfcp.rules.measuring import cell_values, informed, measured, measurements, own_variance

PRICE, VARIANCE = 4.0, 0.05**2


def covariances(B, N, M, seed=0, size=0.2):
    root = np.random.default_rng(seed).normal(0, size, (B, N, M, M))
    return root @ root.swapaxes(-1, -2)


def round_of(B=1, M=3, N=4, seed=0, size=0.2):
    """A belief whose own spread is that of its covariance."""
    covariance = covariances(B, N, M, seed, size)
    sd = np.sqrt(own_variance(covariance)).swapaxes(1, 2)
    shown = belief(rounds=B, clusters=M, tasks=N, seed=seed)
    return replace(shown, own_sd=sd, log_sd=sd), covariance


def by_definition(b, covariance, i, n, unit):
    """Over nodes: condition, cost every plan, subtract the best from the plan held; nothing shared with the code."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    M, N = b.T.shape[1:]
    plans = np.array(list(itertools.product(range(M), repeat=N)))
    costs = np.array([cost_of(moments_of(b, 0.0), plan[None], unit, PRICE)[0] for plan in plans])
    held = costs.argmin()
    P = covariance[0, n]
    v = P[i, i] + VARIANCE
    after = covariance.copy()
    after[0, n] = P - np.outer(P[:, i], P[i]) / v
    total = 0.0
    for node, weight in zip(nodes, weights, strict=True):
        shift = np.zeros((1, N, M))
        shift[0, n] = P[:, i] / v * np.sqrt(v) * node
        then = moments_of(informed(b, shift, covariance, after), 0.0)
        costs = np.array([cost_of(then, plan[None], unit, PRICE)[0] for plan in plans])
        total += weight * (costs[held] - costs.min())
    return total


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_the_definition_says(seed):
    b, covariance = round_of(N=3, seed=seed)
    value, unit = cell_values(b, covariance, VARIANCE, price=PRICE)
    for i, n in itertools.product(range(3), range(3)):
        expected = by_definition(b, covariance, i, n, unit) if b.allowed[0, i, n] else 0.0
        assert value[0, i, n] == pytest.approx(expected, abs=1e-9)


def test_rounds_are_worth_the_same_alone_and_together():
    b, covariance = round_of(B=4, N=4)
    value, unit = cell_values(b, covariance, VARIANCE, price=PRICE)
    for k in range(4):
        one, _ = round_of(B=4, N=4)
        alone = cell_values(take(one, k), covariance[k : k + 1], VARIANCE, price=PRICE)
        assert alone[0][0] == pytest.approx(value[k])
        assert alone[1][0] == pytest.approx(unit[k])


def take(b, k):
    names = ("T", "A", "log_sd", "own_sd", "a_sd", "gamma", "allowed")
    return replace(b, **{name: getattr(b, name)[k : k + 1] for name in names})


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), M=st.integers(1, 3), N=st.integers(1, 5), size=st.sampled_from([0.0, 0.05, 0.8]))
def test_no_measurement_is_worth_less_than_nothing(seed, M, N, size):
    b, covariance = round_of(M=M, N=N, seed=seed, size=size)
    value, unit = cell_values(b, covariance, VARIANCE, price=PRICE)
    assert (value >= 0).all()
    assert (value[~b.allowed] == 0).all()
    assert (unit > 0).all()
    if M == 1 or size == 0:  # nothing to choose, or nothing to learn
        assert value == pytest.approx(0, abs=1e-12)


def test_a_cell_that_says_nothing_of_the_others_is_worth_what_it_tells():
    """A cell measured already is worth next to nothing; the same cell before, more."""
    b, covariance = round_of(size=0.4)
    before, _ = cell_values(b, covariance, VARIANCE, price=PRICE)
    i, n = np.unravel_index(before[0].argmax(), before[0].shape)
    after = covariance.copy()
    after[0, n] = measured(covariance[0, n], np.asarray(i), 1e-12)[1]
    known = informed(b, np.zeros((1, 4, 3)), covariance, after)
    assert cell_values(known, after, VARIANCE, price=PRICE)[0][0, i, n] == pytest.approx(0, abs=1e-9)
    assert before[0, i, n] > 1e-3


@pytest.mark.parametrize("N", [5, 8])
def test_a_neighbourhood_bounds_the_value_from_below_and_finds_most_of_it(N, monkeypatch):
    """Against all plans at (3, 5) and (3, 8): never above, and the cell it would measure is worth nearly the best."""
    kept, share = [], []
    for seed in range(8):
        b, covariance = round_of(N=N, seed=seed, size=0.15)
        monkeypatch.setattr(measuring, "_FEW", 10_000)
        exact, unit = cell_values(b, covariance, VARIANCE, price=PRICE)
        monkeypatch.setattr(measuring, "_FEW", 0)
        found, same = cell_values(b, covariance, VARIANCE, price=PRICE)
        assert same == pytest.approx(unit)
        held = expected_plans(moments_of(b, 0.0), price=PRICE)
        assert (found <= exact + 1e-9 + 1e-6 * held.cost[0]).all()
        if exact.max() > 1e-4:
            kept.append(exact.ravel()[found.argmax()] / exact.max())
            share.append(found.sum() / exact.sum())
    assert np.mean(kept) > 0.9
    assert np.mean(share) > 0.8


def test_measurements_come_best_first_until_they_cost_more():
    b, covariance = round_of(size=0.4)
    free = list(measurements(b, covariance, VARIANCE, price=PRICE, open_cells=b.allowed[0], cost=np.zeros((3, 4))))
    value, unit = cell_values(b, covariance, VARIANCE, price=PRICE)
    first = free[0]
    assert first.value == pytest.approx(value.max())
    assert first.seconds == pytest.approx(value.max() * unit[0])
    assert len({(m.task, m.cluster) for m in free}) == len(free)
    dear = np.full((3, 4), 0.5 * value.max() * unit[0])
    some = list(measurements(b, covariance, VARIANCE, price=PRICE, open_cells=b.allowed[0], cost=dear))
    assert 0 < len(some) < len(free)
    assert all(m.seconds > dear[0, 0] for m in some)
    shut = np.zeros((3, 4), bool)
    assert not list(measurements(b, covariance, VARIANCE, price=PRICE, open_cells=shut, cost=np.zeros((3, 4))))


@pytest.mark.parametrize("N", [4, 8])
def test_what_a_cell_narrows_is_worked_out_for_its_task_alone_and_is_the_same(N):
    """By all plans, and by descents: as if every cell were looked at again after each."""
    b, covariance = round_of(N=N, seed=2, size=0.5)
    found = list(measurements(b, covariance, VARIANCE, price=PRICE, open_cells=b.allowed[0], cost=np.zeros((3, N))))
    assert len(found) > 3
    left, expected = b.allowed[0].copy(), []
    for _ in found:
        value, _ = cell_values(b, covariance, VARIANCE, price=PRICE)
        i, n = np.unravel_index(np.where(left, value[0], -1).argmax(), left.shape)
        expected.append((n, i, value[0, i, n]))
        left[i, n] = False
        covariance = covariance.copy()
        covariance[0, n] = measured(covariance[0, n], np.asarray(i), VARIANCE)[1]
    assert [(m.task, m.cluster) for m in found] == [(n, i) for n, i, _ in expected]
    assert [m.value for m in found] == pytest.approx([value for *_, value in expected])
    some, _ = cell_values(b, covariance, VARIANCE, price=PRICE, tasks=[1])
    whole, _ = cell_values(b, covariance, VARIANCE, price=PRICE)
    assert np.array_equal(some[..., 1], whole[..., 1])
    assert not np.delete(some, 1, axis=-1).any()


def test_nothing_told_leaves_the_belief_as_it_is_to_the_bit():
    b, covariance = round_of(B=2)
    same = informed(b, np.zeros((2, 4, 3)), covariance, covariance)
    for name in ("T", "log_sd", "own_sd"):
        assert np.array_equal(getattr(same, name), getattr(b, name))


def test_own_variance_is_that_about_the_mean_over_clusters():
    P = covariances(1, 1, 4)[0, 0]
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(4), P, 400_000)
    about = draws - draws.mean(axis=1, keepdims=True)
    assert own_variance(P) == pytest.approx(about.var(axis=0) * 4 / 3, rel=0.02)
    assert own_variance(np.ones((2, 2))) == pytest.approx([0, 0])


def spread(M=3, N=4, seed=0, factor=0.7):
    """A belief whose deviation of log time is `factor` of what its process says."""
    b, covariance = round_of(M=M, N=N, seed=seed, size=0.4)
    return replace(b, log_sd=factor * np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)).swapaxes(1, 2)), covariance


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 2.5])
def test_a_measured_cell_is_as_certain_as_its_measurement_whatever_was_believed(factor):
    b, covariance = spread(factor=factor)
    after = covariance.copy()
    after[0, 1] = measured(covariance[0, 1], np.asarray(2), VARIANCE)[1]
    known = informed(b, np.zeros((1, 4, 3)), covariance, after)
    others = np.arange(4) != 1
    assert (known.log_sd[:, :, others] == b.log_sd[:, :, others]).all()  # nothing observed: the same bytes
    if factor == 0.0:  # a method that has no spread gets none
        assert (known.log_sd == 0).all()
        return
    share = after[0, 1, 2, 2] / covariance[0, 1, 2, 2]
    scale = 1 + (factor - 1) * share  # of the belief's deviation to the process's
    assert known.log_sd[0, 2, 1] == pytest.approx(scale * np.sqrt(after[0, 1, 2, 2]))
    assert (known.log_sd <= b.log_sd).all()


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000), factor=st.floats(0.7, 4.0), cells=st.permutations(range(3)))
def test_evidence_in_steps_leaves_the_spread_that_it_leaves_at_once(seed, factor, cells):
    b, covariance = spread(seed=seed, factor=factor)
    none, now, step = np.zeros((1, 4, 3)), covariance, b
    for i in cells:
        then = now.copy()
        then[0, 0] = measured(now[0, 0], np.asarray(i), VARIANCE)[1]
        now, step = then, informed(step, none, now, then)
    assert step.log_sd == pytest.approx(informed(b, none, covariance, now).log_sd, rel=1e-9)


@pytest.mark.parametrize("factor", [0.7, 1.0, 2.5])
def test_other_tasks_leave_the_scale_and_the_task_itself_takes_what_is_left_of_it(factor):
    """A third of the variance is left by others; then a cell is measured, at once with them or thereafter."""
    b, covariance = spread(factor=factor)
    told, none = covariance / 3, np.zeros((1, 4, 3))
    others = informed(b, none, covariance, told, np.ones((1, 4, 3)))
    assert others.log_sd == pytest.approx(b.log_sd / np.sqrt(3), rel=1e-12)
    after, untold = told.copy(), np.ones((1, 4, 3))
    after[0, 1] = measured(told[0, 1], np.asarray(2), VARIANCE)[1]
    untold[0, 1] = np.diagonal(after[0, 1]) / np.diagonal(told[0, 1])
    at_once, then = informed(b, none, covariance, after, untold), informed(others, none, told, after)
    assert at_once.log_sd == pytest.approx(then.log_sd, rel=1e-9)
    scale = 1 + (factor - 1) * untold[0, 1, 2]
    assert at_once.log_sd[0, 2, 1] == pytest.approx(scale * np.sqrt(after[0, 1, 2, 2]))
