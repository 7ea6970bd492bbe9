"""Deviations and lengths of a Gaussian process by its marginal likelihood, under weak log-normal priors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

_STEPS = 80


def most_likely(
    start: Mapping[str, float], covariance: Callable[[Tensor], Tensor], y: Tensor, *, prior_sd: float, lr: float
) -> dict[str, float]:
    """Logarithms of values by name, after 80 steps of Adam from where the priors are centred.

    Args:
        start: positive values before anything is measured.
        covariance: logarithms in that order → (n, n) covariance of `y`, noise included.
        y: (n,) what was measured, of mean zero.
        prior_sd: of each logarithm about its start.
        lr: of Adam.
    """
    centre = torch.tensor(list(start.values()), dtype=torch.float64).log()
    values = centre.clone().requires_grad_()
    optimizer = torch.optim.Adam([values], lr=lr)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        factor = torch.linalg.cholesky(covariance(values))
        solved = torch.cholesky_solve(y[:, None], factor)[:, 0]
        surprise = ((values - centre) ** 2).sum() / (2 * prior_sd**2)
        torch.autograd.backward([0.5 * y @ solved + torch.diagonal(factor).log().sum() + surprise])
        optimizer.step()
    return dict(zip(start, values.tolist(), strict=True))
