"""What every engine gets for free: batches of rounds, and a word about what it cannot do."""

from typing import Any, ClassVar

import numpy as np
import pytest

from mfcp.errors import SettingsError
from mfcp.matching.engines.base import Engine, Found
from mfcp.matching.problem import MatchingProblem


class Fixed(Engine):
    """Puts everything on cluster 0; its state is the price."""

    name: ClassVar[str] = ""

    def match_round(self, problem: MatchingProblem, *, price: float | None, time_limit: float, start: Any) -> Found:
        bound = -1.0 if start is None else start
        return Found(np.zeros((1, problem.tasks), np.int64), np.array([bound]), [price], {"visits": problem.tasks})


def problem(rounds=3):
    return MatchingProblem(np.ones((rounds, 2, 4)), np.ones((rounds, 2, 4)), 0.5)


def test_a_batch_is_its_rounds_each_with_its_price_and_start():
    found = Fixed().match(problem(), price=np.array([1.0, 2.0, 3.0]), time_limit=1.0, start=[7.0, 8.0, 9.0])
    assert found.assignment.shape == (3, 4)
    assert found.bound.tolist() == [7.0, 8.0, 9.0]
    assert found.state == [1.0, 2.0, 3.0]
    assert found.stats["visits"].tolist() == [4, 4, 4]


def test_what_an_engine_cannot_take_is_named_with_the_remedy():
    engine = Fixed()
    engine.refuse(problem(), None)
    with pytest.raises(SettingsError, match="cannot take a price of shortfall; use engine 'auto'"):
        engine.refuse(problem(), np.ones(3))
    parallel = MatchingProblem(np.ones((2, 4)), np.ones((2, 4)), 0.5, zeta=np.ones(5))
    with pytest.raises(SettingsError, match="parallel execution"):
        engine.refuse(parallel, None)
    with pytest.raises(SettingsError, match="backlog"):
        engine.refuse(MatchingProblem(np.ones((2, 4)), np.ones((2, 4)), 0.5, backlog=np.ones(2)), None)
