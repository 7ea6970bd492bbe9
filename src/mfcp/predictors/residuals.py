"""What the errors of predicted times have in common, and what runs that have ended tell of tasks that have not.

A predictor that never saw a family is off for all of its models alike, more so for near relatives, and most alike for
one task on all of its clusters. `ResidualProcess` is a Gaussian process over these errors of log time: predicted times
are its mean, its covariance comes from out-of-fold errors alone. Observed runs then shift predictions and narrow them
[Rasmussen2006]_, between clusters as between tasks [Bonilla2007]_.

.. [Rasmussen2006] C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006, Eq. (2.23).
.. [Bonilla2007] E. V. Bonilla, K. M. A. Chai, C. K. I. Williams, "Multi-task Gaussian process prediction", 2007.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts

LENGTHS = (0.1, 0.2, 0.4, 0.8, 1.6)  # of the likeness between relatives, in deviations of a feature
NEAREST = 30  # observed cells that a task is conditioned on; further ones add less than they cost
_LEAST_PAIRS = 8  # pairs of one family below which nothing is said of what relatives share
_PER_FAMILY = 1000  # tasks of a family that pairs are made of
_FAMILIES, _TASKS, _KIN = 60, 8, 8  # left out in turn: so many families, tasks of each, and relatives that tell of one
_NOISE = 0.05  # of what these are taken to have measured
_SURE = 0.84  # one standard error below, where there are many families
_LEAST_VARIANCE = 1e-5  # of log time, 0.3 %: no error is more certain


@dataclass(frozen=True)
class TaskPoints:
    """Tasks as the process sees them.

    Attributes:
        task: (n,) what ran; rows of one name share all of their error.
        family: (n,) families; tasks of different families share nothing.
        Z: (n, d) standardised features.
    """

    task: Texts
    family: Texts
    Z: Floats

    def take(self, at: Ints | Bools) -> TaskPoints:
        """The tasks at these positions."""
        return TaskPoints(self.task[at], self.family[at], self.Z[at])


@dataclass(frozen=True)
class ObservedCells:
    """K cells of log time that were measured, each once: a task on a cluster.

    Attributes:
        points: the K tasks.
        cluster: (K,) positions of their clusters.
        residual: (K,) measured log seconds less predicted log seconds.
        variance: (K,) of the measurement.
    """

    points: TaskPoints
    cluster: Ints
    residual: Floats
    variance: Floats

    @staticmethod
    def of(points: TaskPoints, cluster: Ints, residual: Floats, variance: Floats) -> ObservedCells:
        """From K' measurements; those of one task with the same features on one cluster become their weighted mean."""
        features = [row.tobytes() for row in np.ascontiguousarray(points.Z)]
        number: dict[tuple[str, int, bytes], int] = {}
        keys = zip(points.task.tolist(), cluster.tolist(), features, strict=True)
        cell = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
        first = np.unique(cell, return_index=True)[1]
        precision = np.bincount(cell, 1 / variance, len(first))
        mean = np.bincount(cell, residual / variance, len(first)) / precision
        return ObservedCells(points.take(first), cluster[first], mean, 1 / precision)

    def take(self, at: Ints | Bools) -> ObservedCells:
        """The cells at these positions."""
        return ObservedCells(self.points.take(at), self.cluster[at], self.residual[at], self.variance[at])


@dataclass(frozen=True)
class Conditioned:
    """What observed cells tell of n tasks.

    Attributes:
        shift: (n, M) what is added to predicted log times; 0 where nothing related was observed.
        covariance: (n, M, M) of a task's errors thereafter; exactly the process's `total` where nothing was.
        untold: (n, M) what the task's own cells leave of the variance that other tasks' leave; 1 where it has none.
        cells: per task, positions (k,) of the cells that told of it.
        parts: per task, (M, k) what each of them adds to the shift.
    """

    shift: Floats
    covariance: Floats
    untold: Floats
    cells: tuple[Ints, ...]
    parts: tuple[Floats, ...]


@dataclass(frozen=True)
class ResidualProcess:
    """Covariance of errors of log time, of task j on cluster i and task k on cluster l:

    [same family] (family_il + near_il exp(-d_jk / length)) + [same task] task_il,

    where d is the root mean square difference of standardised features.

    Attributes:
        family, near, task: (M, M) covariances, positive semidefinite.
        length: of features.
    """

    family: Floats
    near: Floats
    task: Floats
    length: float

    @property
    def total(self) -> Floats:
        """(M, M) covariance of one task's errors before anything is observed."""
        return self.family + self.near + self.task

    @staticmethod
    def independent(shared: float, own: float, clusters: int) -> ResidualProcess:
        """Tasks that tell nothing of each other: variance `shared` by the clusters of a task, and `own` to each."""
        none = np.zeros((clusters, clusters))
        return ResidualProcess(none, none, np.full((clusters, clusters), shared) + own * np.eye(clusters), 1.0)

    @staticmethod
    def fit(error: Floats, known: Bools, points: TaskPoints) -> ResidualProcess:
        """By moments of out-of-fold errors, about zero.

        Products of errors of two tasks of a family, weighted so that a family counts by its tasks, are regressed on
        (1, exp(-d / length)) for each pair of clusters; the length is the one of least squares. What a task's own
        products hold beyond is its own. Each part is made positive semidefinite, and shrunk to a matrix of two numbers
        by p / (p + G), p = M (M + 1) / 2 entries told by G families (of `task`: by tasks beyond families). Last, what
        relatives share is cut down to what it proves to be worth: each task left out in turn, as `_told_by_relatives`.

        Args:
            error: (M, n) out-of-fold log prediction less log label. Copies of a task repeat an error: pass one.
            known: (M, n) errors that exist.
            points: the n tasks.
        """
        M = len(error)
        error = np.where(known, error, 0.0)
        mask = known.astype(np.float64)
        families = np.unique(points.family, return_inverse=True)[1]
        told = int(families.max(initial=-1)) + 1
        total = _filled(error @ error.T, mask @ mask.T)
        sums = np.zeros((len(LENGTHS), 6, M, M))
        pairs = 0
        for at in _groups(families, _PER_FAMILY):
            if len(at) > 1:
                pairs += len(at) * (len(at) - 1) // 2
                sums += _moments(error[:, at], mask[:, at], points.Z[at])
        if pairs < _LEAST_PAIRS:
            none = np.zeros((M, M))
            return ResidualProcess(none, none, _shrunk(total, told), 1.0)
        fits = [_regressed(own) for own in sums]
        best = int(np.argmin([left for _, _, left in fits]))
        family = _shrunk(fits[best][0], told)
        near = _shrunk(fits[best][1], told)
        task = _shrunk(total - family - near, error.shape[1] - told)
        scale = np.trace(total) / np.trace(family + near + task)
        found = ResidualProcess(scale * family, scale * near, scale * task, LENGTHS[best])
        return found.related(_told_by_relatives(found, error, known, points))

    def related(self, part: float) -> ResidualProcess:
        """With so large a part of what relatives share, the rest being the task's own; `total` stays."""
        own = self.task + (1 - part) * (self.family + self.near)
        return replace(self, family=part * self.family, near=part * self.near, task=own)

    def condition(self, points: TaskPoints, observed: ObservedCells) -> Conditioned:
        """What observed cells tell of the errors of tasks.

        A task is conditioned on the `NEAREST` cells of its family, its own before all others; tasks one by one.

        Args:
            points: n tasks.
            observed: K cells.
        """
        n, M = len(points.task), len(self.family)
        shift, covariance, untold = np.zeros((n, M)), np.repeat(self.total[None], n, axis=0), np.ones((n, M))
        cells: list[Ints] = [np.zeros(0, np.int64)] * n
        parts: list[Floats] = [np.zeros((M, 0))] * n
        for family in np.unique(points.family):
            own = np.flatnonzero(observed.points.family == family)
            if not len(own):
                continue
            at = np.flatnonzero(points.family == family)
            across = distances(points.Z[at], observed.points.Z[own])
            same = points.task[at][:, None] == observed.points.task[own]
            order = np.argsort(np.where(same, -1.0, across), axis=1, kind="stable")[:, :NEAREST]
            near, same = own[order], np.take_along_axis(same, order, 1)  # (n', k)
            seen = observed.take(near.ravel())
            k, shape = near.shape[1], near.shape
            between = np.take_along_axis(across, order, 1)
            to = self._covariance(
                np.arange(M)[None, :, None], observed.cluster[near][:, None, :], between[:, None, :],
                same[:, None, :],
            )  # fmt: skip  # (n', M, k)
            among = np.stack([distances(Z, Z) for Z in observed.points.Z[near]])
            cluster, names = observed.cluster[near], observed.points.task[near]
            inner = self._covariance(
                cluster[:, :, None], cluster[:, None, :], among, names[:, :, None] == names[:, None, :]
            )
            inner = inner + seen.variance.reshape(shape)[:, :, None] * np.eye(k)
            gain, left = _conditioned(self.total, to, inner)
            each = gain * seen.residual.reshape(shape)[:, None, :]
            shift[at] = each.sum(axis=2)
            covariance[at] = left
            measured = same.any(axis=1)
            if measured.any():
                others = np.where(same[measured, None, :], 0.0, to[measured])
                apart = ~(same[measured, :, None] | same[measured, None, :]) | np.eye(k, dtype=bool)
                before = _conditioned(self.total, others, np.where(apart, inner[measured], 0.0))[1]
                untold[at[measured]] = np.diagonal(left[measured], axis1=1, axis2=2) / np.diagonal(
                    before, axis1=1, axis2=2
                )
            for row, task in enumerate(at):
                cells[task], parts[task] = near[row], each[row]
        return Conditioned(shift, covariance, untold, tuple(cells), tuple(parts))

    def _covariance(self, i: Ints, j: Ints, d: Floats, same: Bools) -> Floats:
        """Of two cells of one family, on clusters i and j."""
        result: Floats = self.family[i, j] + self.near[i, j] * np.exp(-d / self.length) + self.task[i, j] * same
        return result


def _conditioned(total: Floats, to: Floats, inner: Floats) -> tuple[Floats, Floats]:
    """Gain (n, M, k) and covariance (n, M, M) of errors after cells, whose covariance is `inner`, `to` with errors."""
    gain = np.linalg.solve(inner, to.swapaxes(1, 2)).swapaxes(1, 2).astype(np.float64, copy=False)
    left = total - gain @ to.swapaxes(1, 2)
    return gain, (left + left.swapaxes(1, 2)) / 2


def _told_by_relatives(process: ResidualProcess, error: Floats, known: Bools, points: TaskPoints) -> float:
    """The part in [0, 1] of what relatives are said to tell that they tell.

    A task's error, of what its clusters do not share, is regressed through the origin on what the process makes of its
    relatives, a cell of each. The slope less its standard error, clustered by family, is what can be relied on: of few
    families little.
    """
    from scipy.special import stdtrit

    rng = np.random.default_rng(0)
    sums = []
    groups = [at for at in _groups(np.unique(points.family, return_inverse=True)[1], _PER_FAMILY) if len(at) > 1]
    for g in rng.permutation(len(groups))[:_FAMILIES]:
        at = groups[g][known[:, groups[g]].any(axis=0)]
        cluster = (known[:, at] * rng.random((len(known), len(at)))).argmax(axis=0)
        total = np.zeros(2)
        for q in rng.permutation(len(at))[:_TASKS]:
            kin = rng.permutation(np.delete(np.arange(len(at)), q))[:_KIN]
            seen = ObservedCells(
                points.take(at[kin]), cluster[kin], -error[cluster[kin], at[kin]], np.full(len(kin), _NOISE**2)
            )
            here = known[:, at[q]]
            said = process.condition(points.take(at[q : q + 1]), seen).shift[0][here]
            was = -error[here, at[q]]
            total += (said - said.mean()) @ (was - was.mean()), ((said - said.mean()) ** 2).sum()
        sums.append(total)
    if len(sums) < 2:
        return 0.0
    product, square = np.array(sums).T
    if not square.sum() > 0:
        return 0.0
    slope = product.sum() / square.sum()
    error_of_slope = np.sqrt(((product - slope * square) ** 2).sum()) / square.sum()
    return float(np.clip(slope - stdtrit(len(sums) - 1, _SURE) * error_of_slope, 0.0, 1.0))


def distances(Z: Floats, other: Floats) -> Floats:
    """(n, k) root mean square difference of features (n, d) and (k, d)."""
    square = (Z**2).sum(1)[:, None] + (other**2).sum(1) - 2 * Z @ other.T
    # Rounding leaves up to 1e-14 of the features' size where two tasks are equal.
    square = np.where(square < 1e-12 * (1 + (Z**2).sum(1)[:, None]), 0.0, square)
    result: Floats = np.sqrt(square / max(Z.shape[1], 1))
    return result


def _groups(group: Ints, most: int) -> Iterator[Ints]:
    """Positions of each group, of a large one every so many."""
    for at in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]):
        yield at if len(at) <= most else at[np.linspace(0, len(at) - 1, most).astype(np.int64)]


def _moments(error: Floats, mask: Floats, Z: Floats) -> Floats:
    """(L, 6, M, M) weighted sums over pairs of one family: of 1, x, x², y, x y and y², with x = exp(-d / length)."""
    n = len(Z)
    d = distances(Z, Z)
    other = 1.0 - np.eye(n)
    result = []
    for length in LENGTHS:
        x = np.exp(-d / length) * other
        known = [mask @ w @ mask.T for w in (other, x, x * x)]
        products = [error @ w @ error.T for w in (other, x)]
        square = (error**2) @ other @ (error**2).T
        result.append(np.stack([*known, *products, square]) / (n - 1))
    return np.stack(result)


def _regressed(sums: Floats) -> tuple[Floats, Floats, float]:
    """Intercept and slope (M, M) of the weighted regressions, and the squares that they leave."""
    one, x, xx, y, xy, yy = sums
    ridge = 1e-9 * max(float(one.max()), 1e-12)
    normal = np.stack([np.stack([one + ridge, x], -1), np.stack([x, xx + ridge], -1)], -2)
    both = np.linalg.solve(normal, np.stack([y, xy], -1)[..., None])[..., 0]
    left = yy - (both * np.stack([y, xy], -1)).sum(-1)
    told = one > 0
    a, b = (_completed(both[..., k], told) for k in (0, 1))
    return a, b, float(left[told].sum())


def _filled(total: Floats, count: Floats) -> Floats:
    """Means from sums; a pair of clusters that no task knows both of is like the others."""
    return _completed(total / np.maximum(count, 1), count > 0)


def _completed(values: Floats, told: Bools) -> Floats:
    """(M, M) with what is not told taken from the mean of what is, on the diagonal and off it."""
    result = values.copy()
    on = np.eye(len(values), dtype=bool)
    for part in (on, ~on):
        if part.any() and not told[part].all():
            own = values[part & told]
            result[part & ~told] = own.mean() if len(own) else 0.0
    return result


def _shrunk(covariance: Floats, told: int) -> Floats:
    """Positive semidefinite, and the nearer to one shared and one own variance, the fewer groups told it."""
    M = len(covariance)
    covariance = _semidefinite(covariance)
    about = float(covariance.mean())  # 1'V1 / M²
    own = max((float(np.trace(covariance)) - M * about) / max(M - 1, 1), _LEAST_VARIANCE)
    shared = max(about - own / M, 0.0)
    entries = M * (M + 1) / 2
    weight = entries / (entries + max(told, 0))
    plain = shared + own * np.eye(M)
    return _semidefinite((1 - weight) * covariance + weight * plain)


def _semidefinite(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    result: Floats = (vectors * np.maximum(values, _LEAST_VARIANCE)) @ vectors.T
    return result
