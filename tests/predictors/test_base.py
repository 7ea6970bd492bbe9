"""Initial weights of a bank's member are those of its own seed."""

import numpy as np

from mfcp.predictors.base import initial


def test_a_members_weights_depend_on_its_seed_alone():
    together = initial([(3, 0), (5, 1)], (2, 4), 0.5).detach().numpy()
    np.testing.assert_array_equal(together[1], initial([(5, 1)], (2, 4), 0.5).detach().numpy()[0])
    assert not np.array_equal(together[0], together[1])


def test_their_deviation_is_the_scale():
    weights = initial([(0,)], (100, 100), 0.25).detach().numpy()
    assert abs(weights.std() / 0.25 - 1) < 0.05
    assert weights.dtype == np.float64
