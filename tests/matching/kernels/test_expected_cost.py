"""The compiled search for the least expected cost against enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from matching.uncertain import cost_of, curve, moments

from mfcp.matching import expected
from mfcp.matching.expected import (
    expected_plans,
    least_expected_makespan,
)


@pytest.mark.parametrize("zeta", [None, curve(3, 5)])
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_local_search_is_near_enumeration_and_never_forbidden(monkeypatch, zeta, spread):
    m = moments(rounds=60, zeta=zeta, spread=spread)
    best = expected_plans(m, price=4.0)
    monkeypatch.setattr(expected, "_FEW", 0)
    found = expected_plans(m, price=4.0)
    assert np.take_along_axis(m.allowed, found.assignment[:, None], axis=1).all()
    np.testing.assert_allclose(best.cost, cost_of(m, best.assignment, best.unit), rtol=1e-12)
    np.testing.assert_allclose(found.cost, cost_of(m, found.assignment, best.unit), rtol=1e-9)
    assert (found.cost >= best.cost - 1e-9).all()
    assert np.mean(found.cost <= best.cost + 1e-9) > 0.95
    assert found.cost.mean() <= 1.001 * best.cost.mean()


def test_chance_search_agrees_with_enumeration_and_falls_back_alike(monkeypatch):
    m = moments(seed=4, rounds=60, tasks=6)
    m = replace(m, gamma=np.linspace(0.8, 0.98, 60))
    best, held = least_expected_makespan(m, alpha=0.1)
    assert held.any()
    assert not held.all()
    monkeypatch.setattr(expected, "_FEW", 0)
    found, also = least_expected_makespan(m, alpha=0.1)
    assert not (also & ~held).any()
    assert np.mean(also == held) > 0.95
    assert np.mean((found == best).all(axis=1)) > 0.9
