"""The relaxed objective, and bad input to it."""

import pytest
import torch

from mfcp.errors import DataError, InfeasibleError, SettingsError
from mfcp.matching import relaxed_solution
from mfcp.matching.relaxed.objective import smooth_makespan


def test_smooth_makespan_needs_no_small_numbers():
    T = torch.tensor([[1e300, 1e300], [1.0, 1.0]], dtype=torch.float64)
    X = torch.full((2, 2), 0.5, dtype=torch.float64)
    assert smooth_makespan(X, T, 1.0).isfinite()


GOOD_T, GOOD_A = torch.ones(2, 3, 4, dtype=torch.float64), torch.full((2, 3, 4), 0.9, dtype=torch.float64)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"T": GOOD_T.long()}, DataError, "int64.*double"),
        ({"T": GOOD_T[:, :2]}, DataError, r"\(2, 2, 4\).*\(2, 3, 4\)"),
        (
            {"T": torch.ones(4, dtype=torch.float64), "A": torch.ones(4, dtype=torch.float64)},
            DataError,
            r"\(\.\.\., M, N\)",
        ),
        ({"T": GOOD_T.index_fill(0, torch.tensor([1]), torch.nan)}, DataError, r"round 1: T\[0, 0\] = nan"),
        ({"T": -GOOD_T}, DataError, r"round 0: T\[0, 0\] = -1"),
        ({"A": GOOD_A + 1}, DataError, r"round 0: A\[0, 0\] = 1\.9.*\[0, 1\]"),
        ({"gamma": 1.5}, DataError, r"gamma must lie in \[0, 1\]"),
        ({"gamma": torch.full((3,), 0.5)}, SettingsError, r"gamma has shape \(3,\).*\(2,\)"),
        ({"tau": 0.0}, SettingsError, "tau must be positive"),
        ({"beta": -1.0}, SettingsError, "beta must be positive"),
        ({"lam": float("inf")}, SettingsError, "lam must be positive and finite"),
        ({"allowed": torch.ones(2, 3, 4)}, DataError, "allowed must be boolean"),
        ({"allowed": torch.ones(5, 4, dtype=torch.bool)}, DataError, "allowed has shape"),
        (
            {"allowed": torch.zeros(2, 3, 4, dtype=torch.bool)},
            InfeasibleError,
            "round 0: task 0 has no allowed cluster",
        ),
        ({"A": GOOD_A.to("meta")}, DataError, "move both to one device"),
        ({"backend": "cuda"}, SettingsError, "unknown backend"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input_names_round_and_remedy(change, error, message):
    arguments = {"T": GOOD_T, "A": GOOD_A, "gamma": 0.5, "beta": 5.0, "lam": 0.1, "tau": 0.01} | change
    with pytest.raises(error, match=message):
        relaxed_solution(**arguments)
