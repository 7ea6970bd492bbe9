"""Seconds of whole models on devices that nobody has run them on, from kernels measured one by one on other devices.

1. Boosted trees learn how far a kernel of a kind and size is from its device's bound, in units in which devices are
   alike (`Kernels.features`): waves of tiles, intensity, cache. What a device is off by as a whole is told apart, for
   products and for the rest, so that trees do not learn which device it was.
2. A run is the sum of its kernels. What it is off by is a process over devices' figures and runs (`device_levels`).

Utilization by tiles and waves is NeuSight's idea (Lee et al., ASPLOS 2025), learned there by networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError, SettingsError
from mfcp.tasks.timing.device_levels import DeviceLevels, WholeRuns
from mfcp.tasks.timing.kernels import Devices, Kernels

if TYPE_CHECKING:
    from lightgbm import Booster

_BOOSTERS, _TREES, _ALTERNATIONS = 3, 300, 4
_SETTINGS = {
    "objective": "regression", "learning_rate": 0.05, "num_leaves": 31, "min_data_in_leaf": 20, "bagging_freq": 1,
    "bagging_fraction": 0.7, "feature_fraction": 0.7, "num_threads": 1, "deterministic": True, "force_row_wise": True,
    "verbose": -1,
}  # fmt: skip


@dataclass(frozen=True)
class KernelTimes:
    """What was learned.

    Attributes:
        devices: figures of all devices.
        boosters: their mean is a log factor on a kernel's bound.
        levels: of devices, from whole runs.
    """

    devices: Devices
    boosters: tuple[Booster, ...]
    levels: DeviceLevels

    @classmethod
    def fit(
        cls,
        devices: Devices,
        kernels: Kernels,
        device: Ints,
        seconds: Floats,
        graphs: Sequence[Kernels],
        runs: WholeRuns,
        run_seconds: Floats,
        *,
        advance: Callable[[], Any] = lambda: None,
    ) -> KernelTimes:
        """Learn from single kernels and from whole runs; the same ones give the same numbers.

        Args:
            devices: figures, of those without any measurement too.
            kernels: n of them, measured alone.
            device, seconds: (n,) where and how long.
            graphs: R runs' kernels.
            runs, run_seconds: R of them, and how long each took.
            advance: called once per booster.

        Raises:
            DataError: no kernels, or seconds that are not positive and finite.
            SettingsError: LightGBM is not installed.
        """
        for name, told, count in (("kernels", seconds, len(kernels.kind)), ("runs", run_seconds, len(runs))):
            if len(told) != count or count == 0 or not (np.isfinite(told) & (told > 0)).all():
                raise DataError(f"kernel times: {count} {name} need as many positive seconds; check the tables")
        target = np.log(seconds / kernels.unit_seconds(devices, device))
        X, weight = kernels.features(devices, device), _weights(kernels, device)
        boosters = []
        for seed in range(_BOOSTERS):
            boosters.append(_booster(X, target, weight, device * 2 + kernels.products, seed))
            advance()
        products, rest = _kernel_seconds(devices, boosters, graphs, runs.device)
        whole = products + rest
        return cls(
            devices, tuple(boosters), DeviceLevels.fit(devices, runs, products / whole, np.log(run_seconds / whole))
        )

    def predict(self, graphs: Sequence[Kernels], runs: WholeRuns) -> tuple[Floats, Floats]:
        """(R,) expected seconds, and the standard deviation of their logarithm."""
        return self.levels.predict(runs, *_kernel_seconds(self.devices, self.boosters, graphs, runs.device))

    def replayed(
        self,
        graphs: Sequence[Kernels],
        runs: WholeRuns,
        measured: Sequence[Kernels],
        measured_runs: WholeRuns,
        seconds: Floats,
    ) -> Floats:
        """(R,) seconds of each run from one that was measured on its device: of another batch, or not fused, say.

        What a trace is off by as a whole is kept, as in Daydream (Zhu et al., USENIX ATC 2020); what the change adds or
        saves is as learned.

        Args:
            graphs, runs: R of them.
            measured, measured_runs, seconds: R that were run, and how long each took.

        Raises:
            DataError: a run and its measured one are of different devices, or the seconds are not positive and finite.
        """
        if (runs.device != measured_runs.device).any():
            raise DataError("replayed: a run and the measured one are of the same device each")
        if len(seconds) != len(runs) or not (np.isfinite(seconds) & (seconds > 0)).all():
            raise DataError(f"replayed: {len(runs)} runs need as many positive seconds")
        result: Floats = seconds * self.predict(graphs, runs)[0] / self.predict(measured, measured_runs)[0]
        return result


def _kernel_seconds(
    devices: Devices, boosters: Sequence[Booster], graphs: Sequence[Kernels], device: Ints
) -> tuple[Floats, Floats]:
    """(R,) of all matrix products and of all other kernels of each run, before its device's level."""
    sizes = [len(graph.kind) for graph in graphs]
    parts = [np.concatenate([getattr(g, name) for g in graphs]) for name in ("kind", "size", "count")]
    every, at, run = Kernels(*parts), np.repeat(device, sizes), np.repeat(np.arange(len(graphs)), sizes)
    factor = np.exp(np.mean([b.predict(every.features(devices, at)) for b in boosters], axis=0))
    each: Floats = every.unit_seconds(devices, at) * np.where(every.kind == "copy", 1.0, factor) * every.count
    products: Floats = np.bincount(run, np.where(every.products, each, 0.0), len(graphs)).astype(np.float64)
    rest: Floats = np.bincount(run, np.where(every.products, 0.0, each), len(graphs)).astype(np.float64)
    return products, rest


def _weights(kernels: Kernels, device: Ints) -> Floats:
    """Every kind of operation counts as much on every device, however many sizes were measured."""
    group = np.where(kernels.products | np.isin(kernels.kind, ("softmax", "normalization")), kernels.kind, "others")
    _, of, count = np.unique(
        np.char.add(group.astype(str), device.astype(str)), return_inverse=True, return_counts=True
    )
    weight = 1 / count[of]
    result: Floats = weight / weight.mean()
    return result


def _booster(X: Floats, target: Floats, weight: Floats, group: Ints, seed: int) -> Booster:
    """Trees and a level per group, in turns: each learns what the other leaves."""
    lightgbm = _lightgbm()
    level = np.zeros(group.max() + 1)
    total = np.maximum(np.bincount(group, weight, len(level)), 1e-12)
    for _ in range(_ALTERNATIONS):
        data = lightgbm.Dataset(X, target - level[group], weight=weight, params={"verbose": -1})
        booster: Booster = lightgbm.train(_SETTINGS | {"seed": seed}, data, _TREES)
        level = np.bincount(group, weight * (target - booster.predict(X)), len(level)) / total
    return booster


def _lightgbm() -> Any:
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        raise SettingsError(
            f"kernel times need LightGBM, which cannot be loaded ({error}): pip install 'mfcp[baselines]'"
        ) from None
    return lightgbm
