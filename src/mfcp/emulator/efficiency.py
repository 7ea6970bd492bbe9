"""How much of its published figures an accelerator reaches: the time of a step from rooflines by class of operator.

    step = Σ_c (work_c R_c + launch_c N_c) + optimizer O + loop

R_c are the roofline seconds (`mfcp.tasks.timing.roofline`) of the forward operators of class c, N_c their number,
O the seconds in which the memory could carry weights, gradients and optimizer state, `loop` what a step costs whatever
is in it. So `work` and `launch` of training steps hold the backward pass, too. `efficiencies.csv` has them for kinds of
hardware and some accelerators, fitted to measured training steps by `benchmarks/emulator.py --write`; a platform's own
logs give better ones (`mfcp calibrate`).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd

from mfcp.arrays import Floats
from mfcp.errors import DataError
from mfcp.files import replacing
from mfcp.tasks.graphs.distinct import DistinctOperators
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.tasks.timing.roofline import LAUNCH, class_parts, fit_factors

_OPTIMIZER, _LOOP = "optimizer", "loop"
_LOOP_S = 1e-3
_COLUMNS = ("hardware", "class", "work", "launch_s", "source")
_SHORTEST = 1e-12
_ANYWHERE = 5.0


@dataclass(frozen=True)
class Efficiency:
    """Factors on the rooflines of the C classes, and seconds of a launch of each (C,); the optimizer's; a loop's."""

    work: Floats
    launch_s: Floats
    optimizer: float
    loop_s: float

    @property
    def log(self) -> Floats:
        """(2C + 2,) logarithms, in the order of `step_parts`."""
        result: Floats = np.log(np.concatenate([self.work, self.launch_s, [self.optimizer, self.loop_s]]))
        return result

    @classmethod
    def of_log(cls, x: Floats) -> Efficiency:
        """What `log` was taken of."""
        size = len(CLASS_NAMES)
        return cls(np.exp(x[:size]), np.exp(x[size : 2 * size]), *(float(value) for value in np.exp(x[-2:])))

    def seconds(self, parts: Floats) -> Floats:
        """(n,) seconds of steps with these `step_parts`."""
        result: Floats = parts @ np.exp(self.log)
        return result

    @classmethod
    def fit(cls, parts: Floats, seconds: Floats, start: Efficiency, *, work_sd: float, launch_sd: float) -> Efficiency:
        """The efficiency closest to (n,) measured seconds, shrunk towards `start`.

        Args:
            parts: (n, 2C + 2) of `step_parts`.
            seconds: (n,) measured.
            start: before any measurement.
            work_sd, launch_sd: how far log factors are expected to be from there; that of a loop may be anywhere.
        """
        size = len(CLASS_NAMES)
        prior = np.concatenate([np.full(size, work_sd), np.full(size, launch_sd), [launch_sd, _ANYWHERE]])
        return cls.of_log(fit_factors(parts, seconds, start.log, prior))


def nominal(backward: float = 0.0) -> Efficiency:
    """Every operator at its roofline, each launch at a typical cost; the backward pass `backward` times the forward."""
    size = len(CLASS_NAMES)
    return Efficiency(np.full(size, 1 + backward), np.full(size, (1 + backward) * LAUNCH), 1.0, _LOOP_S)


def step_parts(
    operators: DistinctOperators,
    peak: Floats | float,
    bandwidth: float,
    element_bytes: float,
    batch: Floats,
    optimizer_bytes: Floats | float = 0.0,
) -> Floats:
    """(n, 2C + 2) `class_parts`, seconds of the optimizer's traffic, and one loop.

    Args:
        operators: n graphs of forward passes.
        peak: FLOP/s for each of their U operators, or one number.
        bandwidth: bytes/s.
        element_bytes: of an activation.
        batch: (n,) samples of a step.
        optimizer_bytes: (n,) that an optimizer step moves; 0 for inference.
    """
    classes = class_parts(operators, peak, bandwidth, element_bytes, batch)
    optimizer = np.maximum(np.broadcast_to(np.asarray(optimizer_bytes) / bandwidth, batch.shape), _SHORTEST)
    return np.column_stack([classes, optimizer, np.ones(len(batch))])


def defaults() -> dict[str, Efficiency]:
    """Efficiencies of training steps by kind of hardware."""
    with resources.files("mfcp.emulator").joinpath("efficiencies.csv").open(encoding="utf-8") as file:
        return _read(file, "efficiencies.csv")


def load(path: Path) -> dict[str, Efficiency]:
    """Efficiencies that `save` wrote, by the name that they were saved under.

    Raises:
        DataError: no such file, a class is missing or unknown, or a number is not positive.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return _read(file, str(path))
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise DataError(f"{path}: no efficiencies can be read ({error}); make them with `mfcp calibrate`") from None


def save(efficiencies: dict[str, Efficiency], path: Path, sources: dict[str, str]) -> None:
    """Write a CSV file, whole or not at all: a row for each name and class, with where it is from."""
    rows = []
    for name, own in efficiencies.items():
        for kind, work, launch in zip(CLASS_NAMES, own.work, own.launch_s, strict=True):
            rows.append((name, kind, f"{work:.4g}", f"{launch:.4g}", sources[name]))
        rows.append((name, _OPTIMIZER, f"{own.optimizer:.4g}", "", sources[name]))
        rows.append((name, _LOOP, "", f"{own.loop_s:.4g}", sources[name]))
    with replacing(path) as temporary:
        pd.DataFrame(rows, columns=list(_COLUMNS)).to_csv(temporary, index=False, lineterminator="\n")


def _read(file: IO[str], where: str) -> dict[str, Efficiency]:
    table = pd.read_csv(file)
    missing = [column for column in _COLUMNS[:4] if column not in table.columns]
    if missing:
        raise DataError(f"{where}: column '{missing[0]}' is missing; expected {', '.join(_COLUMNS)}")
    found = {}
    for name, own in table.groupby("hardware", sort=False):
        rows = own.set_index("class")
        wanted = [*CLASS_NAMES, _OPTIMIZER, _LOOP]
        if sorted(rows.index) != sorted(wanted):
            odd = sorted(set(rows.index).symmetric_difference(wanted)) or ["twice the same"]
            raise DataError(f"{where}: '{name}' needs one row for each class of operator; check {', '.join(odd)}")
        numbers = rows[["work", "launch_s"]].apply(pd.to_numeric, errors="coerce")
        classes = numbers.loc[list(CLASS_NAMES)].to_numpy(np.float64)
        others = np.array([numbers.at[_OPTIMIZER, "work"], numbers.at[_LOOP, "launch_s"]], np.float64)
        if not (np.isfinite(classes) & (classes > 0)).all() or not (np.isfinite(others) & (others > 0)).all():
            raise DataError(f"{where}: '{name}' has a number that is not positive; make the file anew")
        found[str(name)] = Efficiency(classes[:, 0], classes[:, 1], float(others[0]), float(others[1]))
    return found
