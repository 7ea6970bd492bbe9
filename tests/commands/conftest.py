"""The fixtures of a small platform, and matrices of a small round."""

import numpy as np
import pytest
from platform_fixtures import bad, good, home, postgres, store  # noqa: F401


@pytest.fixture
def matrices(tmp_path):
    """A folder with times in t.npy and reliabilities in a.csv, and both arrays."""
    rng = np.random.default_rng(0)
    T, A = rng.lognormal(size=(3, 5)), rng.uniform(0.7, 1.0, (3, 5))
    np.save(tmp_path / "t.npy", T)
    np.savetxt(tmp_path / "a.csv", A, delimiter=",")
    return tmp_path, T, A
