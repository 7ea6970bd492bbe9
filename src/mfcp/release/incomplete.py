"""Tasks of which something is not stated: predictions over what it may be, and wider intervals for it.

.. [Andridge2010] R. R. Andridge and R. J. A. Little, "A review of hot deck imputation for survey non-response",
   International Statistical Review 78(1), 2010.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mfcp.arrays import Floats, Ints, Texts

MOST_DONORS = 64
_ROWS = 4_000  # completed tasks predicted at most for one request, which takes a second
_FEWEST = 8
_NEAR = 0.5  # deviations, in the mean over known features, over which a donor loses weight


def complete(
    Z: Floats,
    model: Texts,
    donors: Floats,
    donor_model: Texts,
    predict: Callable[[Floats, Ints], tuple[Floats, Floats]],
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Predictions for tasks with unknown features, by a weighted hot deck [Andridge2010]_.

    The unknown features of a task take the values that K tasks of the log have, all of a donor's together. Where the
    log has tasks of the same model, these are the donors; each counts by how near it is in the features that are known.
    What the predictions differ by is variance that the task has more than one of which all is known.

    Args:
        Z: (n, d) standardised features, nan where unknown.
        model: (n,) name of each task's model, empty where it is not stated.
        donors: (K, d) standardised features of tasks of the log, without nan.
        donor_model: (K,) names of their models.
        predict: (n', d) features and (n',) positions of their tasks → seconds and probabilities, each (M, n').

    Returns:
        Seconds and probabilities (M, n), and what not knowing adds: variance of log time, the part of it that the
        clusters of a task do not share, and variance of the probability, each (M, n).
    """
    unknown = ~np.isfinite(Z)
    filled_from = np.nan_to_num(Z)
    apart = (filled_from[:, None] - donors[None]) ** 2 * ~unknown[:, None]
    square = apart.sum(-1) / np.maximum((~unknown).sum(-1), 1)[:, None]
    same = (model[:, None] == donor_model[None]) & (model != "")[:, None]
    square = np.where(same | ~same.any(axis=1, keepdims=True), square, np.inf)
    count = min(len(donors), MOST_DONORS, max(_FEWEST, _ROWS // max(len(Z), 1)))
    nearest = np.argsort(square, axis=1, kind="stable")[:, :count]
    square = np.take_along_axis(square, nearest, axis=1)
    weight = np.exp(-(square - square[:, :1]) / (2 * _NEAR**2))
    weight /= weight.sum(1, keepdims=True)
    filled = np.where(unknown[:, None], donors[nearest], filled_from[:, None])  # (n, K, d)
    n, k = weight.shape
    T, A = predict(filled.reshape(n * k, -1), np.arange(n).repeat(k))
    log_t, a = (values.reshape(len(T), n, k) for values in (np.log(T), A))
    mean, share = ((values * weight).sum(-1) for values in (log_t, a))
    off = log_t - mean[..., None]
    own = off - off.mean(axis=0)
    spread = ((values**2 * weight).sum(-1) for values in (off, own, a - share[..., None]))
    return (np.exp(mean), share, *spread)
