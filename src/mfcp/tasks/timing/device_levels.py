"""How much slower whole runs are on a device than their kernels say, for devices with runs and without any.

A run's seconds are those of its matrix products and those of all other kernels, each times a factor of the device. The
logarithms of these factors, and of what is left of a run, are Gaussian processes over devices and runs:

    a factor   = level of all + of its maker + of devices with such figures (+ of products: slope · imbalance)
    what is left = what the model is off by everywhere + what the same run is, everywhere and on alike devices

A device is imbalanced by the logarithm of its FLOP per byte beyond 20. The two such boards that are known stay far
below their peak; both are of some 70 W, which may be why. Half of the imbalance is expected to be lost, and never more
than what known devices show is extrapolated. To first order, the logarithm of a run's excess is the sum of the factors'
logarithms by their share of its time. All deviations are fitted by the marginal likelihood under weak log-normal priors
(Rasmussen and Williams, 2006, Eqs. 2.30 and 5.9).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from mfcp.arrays import Floats, Ints, Texts
from mfcp.errors import DataError
from mfcp.tasks.timing.kernels import Devices
from mfcp.tasks.timing.marginal_likelihood import most_likely
from mfcp.threads import one_thread

_START = {
    "all": 0.3, "maker": 0.2, "slope": 0.5, "alike": 0.15, "rest": 0.1, "model": 0.06, "run": 0.05, "pair": 0.05,
    "noise": 0.03, "length": 0.7,
}  # fmt: skip
"""Deviations of log time before anything is measured, and an e-fold of figures over which devices are alike."""
_SLOPE, _BALANCE = 0.5, 20.0  # of log time per log FLOP per byte beyond the latter
_PRIOR_SD, _LR = 0.5, 0.05
_PARTS = ("products", "rest", "left")  # of a run's logarithm


@dataclass(frozen=True)
class WholeRuns:
    """n runs of whole models.

    Attributes:
        device: (n,) positions in `Devices`.
        model, phase: (n,) names; runs of one model and phase differ by their batch.
        run: (n,) names of what was computed, batch and all; equal ones are the same work.
    """

    device: Ints
    model: Texts
    phase: Texts
    run: Texts

    def __len__(self) -> int:
        """How many."""
        return len(self.device)

    def take(self, rows: Ints) -> WholeRuns:
        """Some of them."""
        return WholeRuns(self.device[rows], self.model[rows], self.phase[rows], self.run[rows])


@dataclass(frozen=True)
class DeviceLevels:
    """What was learned from runs.

    Attributes:
        devices: figures of all devices, those without runs too.
        known: runs that were measured.
        share: (n,) of their seconds that is matrix products', as the kernels have it.
        excess: (n,) log of measured seconds over those of the kernels.
        values: logarithms of what `_START` names.
    """

    devices: Devices
    known: WholeRuns
    share: Floats
    excess: Floats
    values: dict[str, float]

    @classmethod
    @one_thread()
    def fit(cls, devices: Devices, known: WholeRuns, share: Floats, excess: Floats) -> DeviceLevels:
        """Learn from measured runs; the same runs give the same numbers.

        Raises:
            DataError: no run, or one whose excess is not finite.
        """
        if len(known) == 0 or len(excess) != len(known) or not np.isfinite(excess).all():
            raise DataError(f"device levels: {len(known)} runs need as many finite times; check the table")
        unfitted = cls(devices, known, share, excess, {})
        alike = unfitted._alike(known, known)

        def covariance(values: Tensor) -> Tensor:
            return unfitted._of_known(values, alike)

        found = most_likely(_START, covariance, unfitted._surprise(), prior_sd=_PRIOR_SD, lr=_LR)
        return replace(unfitted, values=found)

    @one_thread()
    def predict(self, asked: WholeRuns, products: Floats, rest: Floats) -> tuple[Floats, Floats]:
        """(n,) expected seconds, and the standard deviation of their logarithm.

        Args:
            asked: n runs.
            products, rest: (n,) seconds of their matrix products and of all other kernels.
        """
        values = torch.tensor(list(self.values.values()), dtype=torch.float64)
        factor = torch.linalg.cholesky(self._of_known(values, self._alike(self.known, self.known)))
        solved = torch.cholesky_solve(self._surprise()[:, None], factor)[:, 0]
        across = _covariances(values, self._alike(asked, self.known))
        share = _shares(self.share)
        mean = {name: (across[name] * share[name] @ solved).numpy() for name in _PARTS}
        mean["products"] = mean["products"] + _SLOPE * self._imbalance(asked)
        parts = products * np.exp(mean["products"]), rest * np.exp(mean["rest"])
        own = _shares(parts[0] / sum(parts))
        between = sum(own[name][:, None] * across[name] * share[name] for name in _PARTS)
        told = torch.linalg.solve_triangular(factor, torch.as_tensor(between).T, upper=False).square().sum(0)
        alone = _covariances(values, self._alike(asked, asked))
        before = sum(own[name] ** 2 * torch.diagonal(alone[name]) for name in _PARTS) + _variances(values)["noise"]
        seconds: Floats = sum(parts) * np.exp(mean["left"])
        return seconds, torch.as_tensor(before - told).clamp_min(0.0).sqrt().numpy()

    def _imbalance(self, runs: WholeRuns) -> Floats:
        """(n,) log FLOP per byte of the device beyond `_BALANCE`, at most that of a known one."""
        beyond = np.maximum(np.log(self.devices.vector_peak / self.devices.bandwidth / _BALANCE), 0.0)
        limited: Floats = np.minimum(beyond, beyond[self.known.device].max())[runs.device]
        return limited

    def _surprise(self) -> Tensor:
        """(n,) excess beyond what is expected of the devices' figures alone."""
        return torch.as_tensor(self.excess - self.share * _SLOPE * self._imbalance(self.known))

    def _of_known(self, values: Tensor, alike: dict[str, Tensor]) -> Tensor:
        """(n, n) covariance of what was measured."""
        parts, share = _covariances(values, alike), _shares(self.share)
        total = _variances(values)["noise"] * torch.eye(len(self.known), dtype=torch.float64)
        for name in _PARTS:
            total = total + share[name][:, None] * parts[name] * share[name]
        return total

    def _alike(self, a: WholeRuns, b: WholeRuns) -> dict[str, Tensor]:
        """(n, m) by term of the covariances: in how far two runs share it."""

        def same(x: Texts, y: Texts) -> Tensor:
            return torch.as_tensor((x[:, None] == y[None]).astype(float))

        d = self.devices
        figures, maker = np.log(np.stack([d.peak, d.bandwidth, d.units], axis=1)), np.array(d.maker)
        distance = ((figures[a.device][:, None] - figures[b.device][None]) ** 2).sum(-1)
        run, kin = same(a.run, b.run), same(a.model, b.model) * same(a.phase, b.phase)
        return {
            "maker": same(maker[a.device], maker[b.device]),
            "slope": torch.as_tensor(np.outer(self._imbalance(a), self._imbalance(b))),
            "distance": torch.as_tensor(distance),
            "model": (same(a.model, b.model) + kin) / 2,
            "run": run,
            "pair": run + kin,
        }


def _variances(values: Tensor) -> dict[str, Tensor]:
    """By name, and the squared length."""
    return dict(zip(_START, (2 * values).exp(), strict=True))


def _shares(products: Floats) -> dict[str, Tensor]:
    """(n,) of each part in the logarithm of a run."""
    share = torch.as_tensor(products)
    return {"products": share, "rest": 1 - share, "left": torch.ones_like(share)}


def _covariances(values: Tensor, alike: dict[str, Tensor]) -> dict[str, Tensor]:
    """(n, m) of each part."""
    v = _variances(values)
    near = torch.exp(-alike["distance"] / (2 * v["length"]))
    return {
        "products": v["all"] + v["maker"] * alike["maker"] + v["alike"] * near + v["slope"] * alike["slope"],
        "rest": v["rest"] * (1 + near) / 2,
        "left": v["model"] * alike["model"] + v["run"] * alike["run"] + v["pair"] * alike["pair"] * near,
    }
