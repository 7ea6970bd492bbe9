import numpy as np
import pytest
import torch

from mfcp.predictors.square_root import square_root


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_rounded_correctly(dtype):
    """r is the nearest if x lies between the squares of the midpoints to its neighbours; in long double."""
    x = torch.rand(10_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    root = square_root(x).numpy()
    middle = [
        (root.astype(np.longdouble) + np.nextafter(root, to)) / 2 for to in (root.dtype.type(0), root.dtype.type(9))
    ]
    assert ((middle[0] ** 2 <= x.numpy()) & (x.numpy() <= middle[1] ** 2)).all()


def test_its_derivative_is_that_of_the_root():
    x = torch.rand(20, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) + 0.1
    assert torch.autograd.gradcheck(square_root, (x.requires_grad_(),))
