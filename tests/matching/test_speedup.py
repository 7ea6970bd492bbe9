"""The curve of parallel execution, its table and its fit."""

import numpy as np
import pytest
import torch
from matching.instances import rounds

from mfcp.errors import DataError, SettingsError
from mfcp.matching import MatchingProblem, SpeedUp, relaxed_solution, solve

CURVE = SpeedUp([0.6, 0.7, 0.8], 2.0)


def test_the_curve_is_one_for_one_task_and_decays_to_its_floor():
    curve = SpeedUp()
    n = np.array([[0.0], [1.0], [2.0], [1e9]])
    assert curve(n)[:2].tolist() == [[1.0], [1.0]]
    assert 0.6 < curve(n)[2, 0] < 1
    assert curve(n)[3, 0] == pytest.approx(0.6)
    assert np.allclose(curve(torch.tensor(n)).numpy(), curve(n))
    h = 1e-6
    at = np.array([[1.5, 3.0, 7.0]])
    assert np.allclose((CURVE(at + h) - CURVE(at - h)) / (2 * h), CURVE.slope(at), atol=1e-8)
    assert np.allclose((CURVE.slope(at + h) - CURVE.slope(at - h)) / (2 * h), CURVE.bend(at), atol=1e-8)
    assert CURVE.slope(np.array([[0.5, 1.0, 0.0]])).tolist() == [[0.0, 0.0, 0.0]]


def test_the_table_feeds_the_exact_solver():
    T, A, gamma = rounds(3, 5, 2)
    table = CURVE.table(3, 5)
    assert table.shape == (3, 6)
    assert (np.diff(table[:, 1:]) < 0).all()
    side_by_side = solve(MatchingProblem(T.numpy(), A.numpy(), gamma.numpy(), zeta=table))
    one_by_one = solve(MatchingProblem(T.numpy(), A.numpy(), gamma.numpy()))
    assert (side_by_side.makespan <= one_by_one.makespan).all()
    assert (side_by_side.makespan < one_by_one.makespan).any()


def test_fit_recovers_the_curve():
    rng = np.random.default_rng(0)
    n, cluster = np.tile(np.arange(1.0, 9.0), 30), np.repeat([0, 1, 2], 80)
    multiplier = CURVE.table(3, 8)[cluster, n.astype(int)] * (1 + 0.01 * rng.standard_normal(240))
    found = SpeedUp.fit(n, multiplier, cluster)
    assert np.allclose(found.table(3, 8), CURVE.table(3, 8), rtol=0.02)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: SpeedUp(0.0), SettingsError, "floor"),
        (lambda: SpeedUp(0.6, -1.0), SettingsError, "decay"),
        (lambda: SpeedUp.fit([1, 2], [1.0]), DataError, "one length"),
        (lambda: SpeedUp.fit([0.5, 2], [1.0, 0.9]), DataError, "n >= 1"),
        (lambda: SpeedUp.fit([2, 2], [0.9, 0.9]), DataError, "two different n"),
        (lambda: SpeedUp.fit([], []), DataError, "no co-location"),
        (
            lambda: relaxed_solution(*rounds(4, 5, 2), 5.0, 0.1, 0.1, speedup=CURVE),
            SettingsError,
            "for 3 clusters, T has 4",
        ),
    ],
)
def test_bad_curves_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
