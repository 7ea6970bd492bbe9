"""A cluster that the log barely knows: times from its public figures and a handful of runs.

What is known of it are its accelerator's figures, hence a roofline, and how far the known clusters' times are from
*their* rooflines. With no run at all, that is the prediction: a *prior*, with the spread that the known clusters'
priors would have had. Runs correct it, by two linear heads with Gaussian coefficients that few runs move little:

    network head     log t = prior(x) + a + b · size(x) + c · factors(x) + d · shares(x) + e · vector(x) + noise
    roofline head    log t = log Σ_k e_k parts_k(x)    + a + d · shares(x) + noise

factors are log t_i - log roofline_i of predicted times on known clusters i; shares, of the predicted time by class of
operator and of all launches; vector, the network's view of the operators, weighted by their predicted time. A share
times a coefficient is what, to first order, a factor on the time of that class does, and a vector times a
coefficient what another last layer of the network does: everything below that layer stays frozen. The noise is
Student's: one run that is off by a factor says little about the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError
from mfcp.files import replacing
from mfcp.tasks.graphs.distinct import DistinctOperators
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.tasks.timing.linear_head import Head
from mfcp.tasks.timing.operator_times import OperatorTimes
from mfcp.tasks.timing.roofline import Accelerator, fit_roofline, graph_roofline, roofline_seconds, waiting_seconds

_LEAST_LEVEL_SD = 0.3  # of a prior: figures say nothing about software, and a compiler alone is worth a factor
_LONE_LEVEL_SD, _SINGLE_SD = 1.0, 0.4  # of a prior where one known cluster has nothing to be compared with
# Of coefficients: of size and factors per deviation, of shares and vectors as they are; then of the roofline's shares.
_SIZE_SD, _FACTOR_SD, _SHARE_SD, _VECTOR_SD, _CLASS_SD = 0.03, 0.05, 0.15, 0.2, 0.3
_SHORTEST = 1e-12
_FIGURE_SCALE = 1.0  # e-fold: clusters whose peak and bandwidth differ by more say little about each other


@dataclass(frozen=True)
class Prediction:
    """Log times of n tasks and how sure they are.

    Attributes:
        log_seconds: (n,) of a step.
        sd: (n,) standard deviation of log time.
        runs: how many runs of the cluster it rests on.
    """

    log_seconds: Floats
    sd: Floats
    runs: int


@dataclass(frozen=True)
class NewCluster:
    """Predictor of one new cluster.

    Args:
        accelerator: its public figures.
        weights: (K,) how much each known cluster says about it, summing to 1.
        prior_sd: of level and of single tasks about the prior, (2,).
        network, roofline: the two heads; their predictions are mixed as `known` mixes networks and roofline.
        runs: how many tasks had a run.
    """

    accelerator: Accelerator
    weights: Floats
    prior_sd: Floats
    network: Head
    roofline: Head
    runs: int

    @classmethod
    def fit(
        cls,
        accelerator: Accelerator,
        known: OperatorTimes,
        operators: DistinctOperators,
        batch: Floats,
        seconds: Floats,
        reference: DistinctOperators,
    ) -> NewCluster:
        """Fit to the runs there are; none at all is fine.

        Args:
            accelerator: public figures of the new cluster.
            known: trained on the other clusters.
            operators: n graphs with a run on the new cluster.
            batch, seconds: (n,) samples and seconds of those steps.
            reference: training graphs, on which the known clusters' priors are compared with their times.

        Raises:
            DataError: seconds or batches that are not positive and finite, or not as many as graphs.
        """
        n = len(seconds)
        if len(batch) != n or operators.counts.shape[0] != n or not (np.isfinite(seconds) & (seconds > 0)).all():
            raise DataError(f"new cluster: {n} runs need as many graphs, batches and positive seconds; check the runs")
        accelerator = fit_roofline(operators, accelerator, batch, seconds).accelerator if n else accelerator
        weights = _resemblance(accelerator, known.accelerators)
        typical = np.full(reference.counts.shape[0], accelerator.batch)
        network = _NetworkView.of(accelerator, known, weights, reference, typical)
        _, shares = _roofline_view(accelerator, known, weights, reference, typical)
        fitted = cls(
            accelerator,
            weights,
            _prior_sd(network.factors, known.accelerators),
            Head.start(network.columns, network.widths()),
            Head.start(shares, np.full(shares.shape[1], _CLASS_SD)),
            n,
        )
        if not n:
            return fitted
        own, target = _NetworkView.of(accelerator, known, weights, operators, batch), np.log(seconds)
        start, shares = _roofline_view(accelerator, known, weights, operators, batch)
        return replace(
            fitted,
            network=fitted.network.update(own.columns, target - own.middle),
            roofline=fitted.roofline.update(shares, target - start),
        )

    def predict(self, known: OperatorTimes, operators: DistinctOperators, batch: Floats) -> Prediction:
        """Times of a step of `batch` (n,) samples of n graphs.

        Raises:
            DataError: batches that are not positive and finite, or not as many as graphs.
        """
        own = _NetworkView.of(self.accelerator, known, self.weights, operators, batch)
        if not self.runs:
            sd = np.full(len(own.prior), float(np.hypot(*self.prior_sd)))
            return Prediction(own.prior, sd, 0)
        correction, sd = self.network.correct(own.columns)
        start, shares = _roofline_view(self.accelerator, known, self.weights, operators, batch)
        share = known.settings.roofline_share if known.rooflines else 0.0
        # The network head's sd stands for the mixture: the rest has a small share, and errors that go along.
        mixed = (1 - share) * (own.middle + correction) + share * (start + self.roofline.correct(shares)[0])
        return Prediction(mixed, sd, self.runs)

    def worth_profiling(
        self, known: OperatorTimes, operators: DistinctOperators, batch: Floats, count: int, *, seed: int = 0
    ) -> Ints:
        """Which of n graphs to run on it first: `count` that stand for all, as the network head sees them.

        Args:
            known: trained on the other clusters.
            operators: n graphs that could be run.
            batch: (n,) samples of a step of each.
            count: how many, at least 1; all where there are no more.
            seed: of the groups that they stand for.

        Raises:
            DataError: a count below 1; batches as in `predict`.
        """
        if count < 1:
            raise DataError(f"tasks worth profiling: asked for {count}, expected at least 1")
        view = _NetworkView.of(self.accelerator, known, self.weights, operators, batch)
        return self.network.stand_for_all(view.columns, count, seed)

    def save(self, path: Path) -> None:
        """Write everything as one safetensors file, whole or not at all."""
        from safetensors.numpy import save

        a = self.accelerator
        arrays = {"weights": self.weights, "prior_sd": self.prior_sd, "runs": np.array(self.runs)}
        arrays["accelerator"] = np.array([a.peak, a.bandwidth, a.element_bytes, a.batch, a.compiled], np.float64)
        for head in _HEADS:
            arrays |= {
                f"{head}.{name}": np.ascontiguousarray(value) for name, value in vars(getattr(self, head)).items()
            }
        with replacing(path) as temporary:
            temporary.write_bytes(save(arrays))

    @classmethod
    def load(cls, path: Path) -> NewCluster:
        """What `save` wrote.

        Raises:
            DataError: no such file, or not one of these.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            arrays = load_file(path)
            heads = {
                head: Head(
                    **{name.partition(".")[2]: value for name, value in arrays.items() if name.startswith(f"{head}.")}
                )
                for head in _HEADS
            }
            return cls(
                accelerator=_accelerator(arrays["accelerator"]),
                weights=arrays["weights"],
                prior_sd=arrays["prior_sd"],
                runs=int(arrays["runs"]),
                **heads,
            )
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: not a new cluster written by this program ({error}); fit it again") from None


_HEADS = ("network", "roofline")


@dataclass(frozen=True)
class _NetworkView:
    """What frozen networks say about n graphs on a new cluster.

    Args:
        prior: (n,) log seconds: roofline times the weighted factors of known clusters.
        middle: (n,) the same, half with factors of whole graphs and half with those of single operators.
        factors: (n, K) log of predicted time over roofline on each known cluster at its typical batch.
        columns: (n, d) size, factors, shares and vectors.
    """

    prior: Floats
    middle: Floats
    factors: Floats
    columns: Floats

    @classmethod
    def of(
        cls,
        accelerator: Accelerator,
        known: OperatorTimes,
        weights: Floats,
        operators: DistinctOperators,
        batch: Floats,
    ) -> _NetworkView:
        n = operators.counts.shape[0]
        if batch.shape != (n,) or not (np.isfinite(batch) & (batch > 0)).all():
            raise DataError(f"new cluster: {n} graphs need as many batches, all positive and finite; check the batches")
        size, factors = graph_roofline(operators, [accelerator], batch[None])[0], _factors(known, operators)
        vectors, log_factors, log_launch = known.operator_parts(operators)
        seconds = roofline_seconds(operators, [accelerator])[:, 0] * np.exp(log_factors @ weights)
        work = operators.class_steps(seconds, batch)
        launches = operators.counts @ np.exp(log_launch @ weights)
        waiting = waiting_seconds(operators, accelerator, batch)
        total = np.maximum(work.sum(axis=1) + launches + waiting, _SHORTEST)
        weighted = operators.of_steps(seconds[:, None] * vectors, batch)
        shares = np.column_stack([work, launches, weighted]) / total[:, None]
        prior = size + factors @ weights
        return cls(prior, (prior + np.log(total)) / 2, factors, np.column_stack([size, factors, shares]))

    def widths(self) -> Floats:
        """(d,) widths of the columns of a head for which these graphs are the reference."""
        K = self.factors.shape[1]
        deviations = np.maximum(self.columns[:, : K + 1].std(axis=0), 1e-6)
        classes = len(CLASS_NAMES) + 1
        return np.concatenate(
            [
                np.array([_SIZE_SD] + K * [_FACTOR_SD]) / deviations,
                np.full(classes, _SHARE_SD),
                np.full(self.columns.shape[1] - 1 - K - classes, _VECTOR_SD),
            ]
        )


def _accelerator(saved: Floats) -> Accelerator:
    peak, bandwidth, element_bytes, batch, compiled = map(float, saved)
    return Accelerator(peak, bandwidth, element_bytes, batch, bool(compiled))


def _roofline_view(
    accelerator: Accelerator, known: OperatorTimes, weights: Floats, operators: DistinctOperators, batch: Floats
) -> tuple[Floats, Floats]:
    """(n,) log seconds by the known clusters' fitted efficiencies, (n, 2C) shares of classes and of their launches."""
    if not known.rooflines:
        return np.zeros(len(batch)), np.zeros((len(batch), 0))
    coefficients = weights @ np.array([own.coefficients for own in known.rooflines])
    work = operators.class_steps(roofline_seconds(operators, [accelerator])[:, 0], batch)
    launches = operators.by_class(np.ones(len(operators.kind)))
    parts = np.concatenate([work, launches], axis=1) * np.exp(coefficients)
    total = np.maximum(parts.sum(axis=1) + waiting_seconds(operators, accelerator, batch), _SHORTEST)
    return np.log(total), parts / total[:, None]


def _factors(known: OperatorTimes, operators: DistinctOperators) -> Floats:
    """(n, K) log of predicted time over roofline on each known cluster at its typical batch."""
    batch = np.repeat(np.array([[a.batch] for a in known.accelerators]), operators.counts.shape[0], axis=1)
    factors: Floats = (known.log_seconds(operators) - graph_roofline(operators, known.accelerators, batch)).T
    return factors


def _resemblance(accelerator: Accelerator, others: Sequence[Accelerator]) -> Floats:
    """(K,) weights of known clusters by how close their public figures are, summing to 1."""
    gap = np.array([[np.log(o.peak / accelerator.peak), np.log(o.bandwidth / accelerator.bandwidth)] for o in others])
    distance = (gap**2).sum(axis=1) / _FIGURE_SCALE**2
    closeness: Floats = np.exp(-0.5 * (distance - distance.min()))
    weights: Floats = closeness / closeness.sum()
    return weights


def _prior_sd(factors: Floats, known: Sequence[Accelerator]) -> Floats:
    """(2,) spread of levels and of single tasks: how far each known cluster's prior from the others is off."""
    K = len(known)
    if K < 2:
        return np.array([_LONE_LEVEL_SD, _SINGLE_SD])
    off = []
    for i, own in enumerate(known):
        others = [k for k in range(K) if k != i]
        weights = _resemblance(own, [known[k] for k in others])
        off.append(factors[:, others] @ weights - factors[:, i])
    level = np.array([o.mean() for o in off])
    single = np.array([o.std() for o in off])
    # A new level is drawn like the K known ones, whose mean is itself uncertain.
    spread = max(float(np.sqrt((level**2).mean() * (1 + 1 / K))), _LEAST_LEVEL_SD)
    return np.array([spread, np.sqrt((single**2).mean())])
