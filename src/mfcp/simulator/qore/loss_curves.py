"""When training converges, from the losses so far: a curve is fitted and followed until it hardly declines.

Two curves of epoch k, both by non-negative least squares (NNLS). `inverse` is that of Optimus (Peng et al., EuroSys
2018, §3.1), which SLAQ uses for first-order methods, too: 1 / (a k + b) + c. `power` bends more or less:
a (1 + k / s)^-p + c, by relative error on the newest fifth, as what ends a run is relative decline (Eq. 10), and
training goes through phases that no one curve follows.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Literal

import numpy as np

from mfcp.arrays import Floats
from mfcp.errors import DataError
from mfcp.simulator.qore.equations import LOSSES, decline_rate

Curve = Callable[[Floats], Floats]
"""Epochs, from 1 on, to losses."""
Form = Literal["power", "inverse"]
_FLOORS, _POWERS, _SHIFTS = (
    np.linspace(0.0, 0.999, 40),
    (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0),
    (1.0, 4.0, 11.0, 31.0, 101.0),
)
_OLD = 0.8  # part of the epochs that `power` does not look at
_FEWEST = 6  # epochs that it looks at, if there are so many
_LEAST = 1e-12


def converged_at(losses: Floats, threshold: float) -> int | None:
    """The first epoch at which the last 30 losses decline by less than a threshold an epoch; None if there is none."""
    for epoch in range(LOSSES, len(losses) + 1):
        if decline_rate(losses[epoch - LOSSES : epoch]) < threshold:
            return epoch
    return None


def remaining_epochs(losses: Floats, threshold: float, limit: int, form: Form = "power") -> int:
    """How many epochs are still necessary until `converged_at`, or until a limit of epochs in all.

    Args:
        losses: one of every epoch so far, positive.
        threshold: relative decline an epoch below which it has converged.
        limit: epochs in all.
        form: of the curve.

    Raises:
        DataError: fewer than three losses, or one that is not positive and finite.
    """
    losses = np.asarray(losses, float)
    if len(losses) < 3 or not (np.isfinite(losses) & (losses > 0)).all():
        raise DataError(f"loss curve: {len(losses)} losses; expected three or more, all positive and finite")
    return epochs_left(losses, FITS[form](losses), threshold, limit)


def epochs_left(losses: Floats, curve: Curve, threshold: float, limit: int) -> int:
    """How many epochs after the losses so far a run has converged that goes on along a curve, at most to the limit."""
    return epochs_until(continued(losses, curve, limit), len(losses), threshold)


def continued(losses: Floats, curve: Curve, limit: int) -> Floats:
    """(limit,) the losses so far, and from the last of them on what a curve makes of it."""
    done = len(losses)
    ahead = curve(np.arange(done, max(limit, done) + 1.0))
    return np.concatenate([losses, losses[-1] * ahead[1:] / ahead[0]])[:limit]


def epochs_until(values: Floats, done: int, threshold: float) -> int:
    """How many epochs after those done a curve (limit,) of all epochs has converged, at most to its end."""
    limit = len(values)
    decline = np.abs(np.diff(values)) / np.maximum(np.abs(values[:-1]), _LEAST)
    window = LOSSES - 1
    if len(decline) < window:
        return max(limit - done, 0)
    mean = np.convolve(decline, np.ones(window) / window, "valid")
    epoch = np.arange(len(mean)) + LOSSES
    ends = epoch[(mean < threshold) & (epoch >= done)]
    return int((ends[0] if len(ends) else max(limit, done)) - done)


def fit_inverse(losses: Floats) -> Curve:
    """1 / (a k + b) + c of least squared error, a and b not negative, c on a grid below the least loss."""
    from scipy.optimize import nnls

    epoch, best, found = np.arange(1.0, len(losses) + 1.0), np.inf, (0.0, 1.0, 0.0)
    for floor in _FLOORS * losses.min():
        above = np.maximum(losses - floor, _LEAST)
        weight = above**2  # to first order, the error of the loss and not of its inverse
        (a, b), _ = nnls(np.column_stack([epoch, np.ones_like(epoch)]) * weight[:, None], above)
        error = float(((1 / np.maximum(a * epoch + b, _LEAST) - above) ** 2).sum())
        if error < best:
            best, found = error, (a, b, floor)
    a, b, floor = found
    return lambda k: 1 / np.maximum(a * k + b, _LEAST) + floor


def fit_power(losses: Floats, old: float = _OLD) -> Curve:
    """a (1 + k / s)^-p + c of least relative squared error on newer losses, a and c not negative, p and s on a grid.

    Args:
        losses: one of every epoch.
        old: part of the epochs that is not looked at.
    """
    from scipy.optimize import nnls

    first = min(int(len(losses) * old), max(len(losses) - _FEWEST, 0))
    epoch, target = np.arange(first + 1.0, len(losses) + 1.0), losses[first:]
    best, found = np.inf, (0.0, 0.0, 1.0, 1.0)
    for power, shift in product(_POWERS, _SHIFTS):
        columns = np.column_stack([(1 + epoch / shift) ** -power, np.ones_like(epoch)]) / target[:, None]
        (a, c), error = nnls(columns, np.ones_like(epoch))
        if error < best:
            best, found = float(error), (a, c, power, shift)
    a, c, power, shift = found
    return lambda k: a * (1 + k / shift) ** -power + c


FITS: dict[Form, Callable[[Floats], Curve]] = {"power": fit_power, "inverse": fit_inverse}
"""Form → what fits a curve of it to losses."""
