"""Graphs to times: a network that learns what multiplies every operator's roofline, from times of whole graphs.

    h_v   = mlp([shape_v, embedding of operator and class, W · classes of producers and consumers])
    w_vi  = roofline_vi · exp(bounded linear(h_v)_i)           seconds per sample of operator v on cluster i
    t_gi  = Σ_v (b_gi w_vi + launch_i(operator of v))          seconds of a step of b_gi samples

Operators that the batch does not repeat count once: b_gi is 1 for them.

What is predicted is a mean of log times: of several such networks, and with a small weight of the fitted roofline
(`mfcp.tasks.timing.roofline`), whose few coefficients extrapolate more calmly to an unseen kind of model.

One round of message passing over the kinds of neighbours says what a compiler fuses and what a cache still holds. Its
inputs never change, so it runs once per distinct operator (`mfcp.tasks.graphs.distinct`). Operators that are known
but were never trained on fall back to their class, unknown ones to `other`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfcp.arrays import Floats
from mfcp.errors import DataError
from mfcp.files import replacing
from mfcp.tasks.graphs.distinct import FEATURES, DistinctOperators
from mfcp.tasks.graphs.operator_graphs import OperatorGraphs
from mfcp.tasks.graphs.operators import CLASS_NAMES, OPERATORS
from mfcp.tasks.timing.measured_steps import MeasuredSteps, TimingSettings, Weights
from mfcp.tasks.timing.roofline import Accelerator, FittedRoofline, fit_roofline

_PER_OPERATOR = ("of_operator.weight", "launch.weight")


@dataclass(frozen=True)
class OperatorTimes:
    """Trained networks and rooflines: they predict times of any operator graph on the clusters of their training."""

    settings: TimingSettings
    accelerators: tuple[Accelerator, ...]
    members: tuple[Weights, ...]
    rooflines: tuple[FittedRoofline, ...] = ()

    @classmethod
    def fit(
        cls,
        graphs: OperatorGraphs,
        accelerators: tuple[Accelerator, ...],
        steps: MeasuredSteps,
        *,
        seed: int,
        settings: TimingSettings | None = None,
        advance: Callable[[], Any] = lambda: None,
    ) -> OperatorTimes:
        """Train on measured steps; the same arguments give the same weights.

        Args:
            graphs: holds the tasks' graphs; no other one is looked at.
            accelerators: M, public figures of the clusters; for which of them models are compiled, their steps tell.
            steps: of training tasks.
            seed: of weights and order; the caller's random state is left alone.
            settings: sizes and training.
            advance: called once per epoch of a member.

        Raises:
            DataError: no time at all on a cluster.
        """
        from mfcp.tasks.timing.timing_network import train_member

        settings = settings or TimingSettings()
        missing = np.flatnonzero(~np.isfinite(steps.seconds).any(axis=1))
        if len(missing):
            raise DataError(f"cluster {missing[0]}: none of {len(steps.graph)} training tasks has a time; leave it out")
        operators = graphs.distinct.take(steps.graph)
        rooflines = fit_rooflines(operators, accelerators, steps)
        told = tuple(own.accelerator for own in rooflines)
        members = [train_member(settings, operators, told, steps, [seed, m], advance) for m in range(settings.members)]
        return cls(settings, told, tuple(members), rooflines)

    def log_seconds(self, operators: DistinctOperators, batch: Floats | None = None) -> Floats:
        """(M, n) predicted log seconds of a step of `batch` (M, n) samples, else of each cluster's typical batch."""
        from mfcp.tasks.timing.timing_network import apply_member

        if batch is None:
            typical = np.array([a.batch for a in self.accelerators])
            batch = np.repeat(typical[:, None], operators.counts.shape[0], axis=1)
        batch = np.nan_to_num(batch, nan=1.0)
        networks = [apply_member(self.settings, w, operators, self.accelerators, batch) for w in self.members]
        mean: Floats = np.mean(networks, axis=0)
        if not self.rooflines or not self.settings.roofline_share:
            return mean
        rooflines = [own.log_seconds(operators, b) for own, b in zip(self.rooflines, batch, strict=True)]
        share = self.settings.roofline_share
        predicted: Floats = (1 - share) * mean + share * np.stack(rooflines)
        return predicted

    def operator_parts(self, operators: DistinctOperators) -> tuple[Floats, Floats, Floats]:
        """What the networks make of single operators, for heads of further clusters.

        Returns:
            (U, V) vectors that the last layers see, of all members side by side and divided by the root of their
            number; (U, M) log factors over the roofline; (U, M) log seconds of a launch; the last two are means.
        """
        from mfcp.tasks.timing.timing_network import look_into_member

        parts = [look_into_member(self.settings, weights, operators, self.accelerators) for weights in self.members]
        vectors, factors, launches = zip(*parts, strict=True)
        joined: Floats = np.concatenate(vectors, axis=1) / np.sqrt(len(vectors))
        return joined, np.mean(factors, axis=0), np.mean(launches, axis=0)

    def save(self, path: Path) -> None:
        """Write weights, clusters and settings as one safetensors file, whole or not at all."""
        from safetensors.numpy import save

        arrays = packed(self.members)
        arrays["rooflines"] = np.array([own.coefficients for own in self.rooflines])
        vocabulary = {"operators": OPERATORS, "classes": CLASS_NAMES, "features": FEATURES}
        about = vocabulary | {
            "settings": self.settings.model_dump(),
            "accelerators": [asdict(a) for a in self.accelerators],
        }
        with replacing(path) as temporary:
            temporary.write_bytes(save(arrays, metadata={"operator_times": json.dumps(about)}))

    @classmethod
    def load(cls, path: Path) -> OperatorTimes:
        """What `save` wrote.

        Raises:
            DataError: no such file, not one of these, or of other classes of operators.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                about = json.loads((file.metadata() or {})["operator_times"])
                if about.get("features") != FEATURES:
                    raise DataError(f"{path}: made for other features of operators; fit it again")
                if tuple(about["classes"]) != CLASS_NAMES:
                    raise DataError(f"{path}: made for other classes of operators; fit it again")
                settings = TimingSettings(**about["settings"])
                coefficients = file.get_tensor("rooflines")
                arrays = {key: file.get_tensor(key) for key in sorted(set(file.keys()) - {"rooflines"})}
                members = tuple(
                    {name: _by_name(name, values, about["operators"]) for name, values in weights.items()}
                    for weights in unpacked(arrays, settings.members)
                )
            accelerators = tuple(Accelerator(**a) for a in about["accelerators"])
            rooflines = tuple(FittedRoofline(a, c) for a, c in zip(accelerators, coefficients, strict=False))
            return cls(settings, accelerators, members, rooflines)
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, IndexError) as error:
            raise DataError(f"{path}: no operator times written by this program ({error}); fit them again") from None


def fit_rooflines(
    operators: DistinctOperators, accelerators: tuple[Accelerator, ...], steps: MeasuredSteps
) -> tuple[FittedRoofline, ...]:
    """The roofline of each cluster; row r of `operators.counts` is task r of `steps`."""
    rooflines = []
    for accelerator, seconds, batch in zip(accelerators, steps.seconds, steps.batch, strict=True):
        known = np.flatnonzero(np.isfinite(seconds))
        rooflines.append(fit_roofline(operators.take(known), accelerator, batch[known], seconds[known]))
    return tuple(rooflines)


def packed(members: Sequence[Weights]) -> Weights:
    """Weights of all members by `member.name`, as one file holds them."""
    return {f"{m}.{name}": value for m, weights in enumerate(members) for name, value in weights.items()}


def unpacked(arrays: Weights, count: int) -> tuple[Weights, ...]:
    """What `packed` packed, for so many members."""
    members: tuple[Weights, ...] = tuple({} for _ in range(count))
    for key, value in arrays.items():
        member, _, name = key.partition(".")
        members[int(member)][name] = value
    return members


def _by_name(weight: str, values: NDArray[np.float32], operators: list[str]) -> NDArray[np.float32]:
    """A weight whose rows are operators, with the rows of today's list; new operators start where training does."""
    if weight not in _PER_OPERATOR:
        return values
    rows = np.zeros((len(OPERATORS), values.shape[1]), np.float32)
    place = {name: row for row, name in enumerate(operators)}
    for row, name in enumerate(OPERATORS):
        if name in place:
            rows[row] = values[place[name]]
    return rows
