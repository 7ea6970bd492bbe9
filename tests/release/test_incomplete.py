"""What is not stated is averaged over what it may be, and its interval is wider."""

import numpy as np
import pytest

from mfcp.release.incomplete import complete

SLOPES = np.array([[1.0, 0.0], [1.0, 0.5]])  # (M, d)


def linear(Z, own):
    return np.exp(SLOPES @ Z.T), np.full((2, len(Z)), 0.9)


NOBODY = np.array([""])


def test_an_unknown_feature_takes_the_donors_values():
    donors = np.array([[-1.0, 0.0], [0.0, 0.0], [4.0, 0.0]])
    T, A, log_var, own_var, a_var = complete(np.array([[np.nan, 0.0]]), NOBODY, donors, np.array(["", "", ""]), linear)
    assert np.log(T[:, 0]) == pytest.approx([1.0, 1.0])
    assert log_var[:, 0] == pytest.approx([np.var([-1, 0, 4])] * 2)
    assert own_var == pytest.approx(0)  # both clusters are off together
    assert pytest.approx(0.9) == A
    assert a_var == pytest.approx(0)


def test_what_clusters_do_not_share_is_told_apart():
    donors = np.array([[0.0, -2.0], [0.0, 2.0]])
    _, _, log_var, own_var, _ = complete(np.array([[0.0, np.nan]]), NOBODY, donors, np.array(["", ""]), linear)
    assert log_var[:, 0] == pytest.approx([0.0, 1.0])
    assert own_var[:, 0] == pytest.approx([0.25, 0.25])


def test_donors_near_in_what_is_known_count_for_more():
    donors = np.array([[0.0, 1.0], [5.0, 9.0]])
    T, *_ = complete(np.array([[0.1, np.nan]]), NOBODY, donors, np.array(["", ""]), linear)
    assert np.log(T[1, 0]) == pytest.approx(0.1 + 0.5, abs=1e-6)


def test_a_model_that_the_log_has_is_its_own_donor():
    donors = np.array([[0.0, 1.0], [3.0, 9.0]])
    names = np.array(["resnet", "bert"])
    Z = np.array([[np.nan, np.nan], [np.nan, np.nan]])
    T, _, log_var, *_ = complete(Z, np.array(["bert", "other"]), donors, names, linear)
    assert np.log(T[0]) == pytest.approx([3.0, 1.5])
    assert log_var[:, 0] == pytest.approx(0)
    assert log_var[0, 1] > 1
