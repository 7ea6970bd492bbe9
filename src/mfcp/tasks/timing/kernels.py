"""Kernels, the single operations that a device runs, with their sizes, and what devices' public figures say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.errors import DataError

PRODUCTS = ("linear", "batched_product")
"""Matrix products: b of (m, n) and (n, k)."""
KINDS = (*PRODUCTS, "softmax", "normalization", "unary", "binary", "copy")
"""The others go over b rows of m numbers; a copy reads and writes b numbers in all."""
_FLOPS = {"softmax": 5.0, "normalization": 6.0, "unary": 1.0, "binary": 1.0, "copy": 0.0}  # a number
_MOVED = {"softmax": 2.0, "normalization": 2.0, "unary": 2.0, "binary": 3.0, "copy": 1.0}  # read and written, a number
_BYTES = 4.0  # of a number in single precision
_TILE, _SMALL_TILE = 128.0, 64.0  # of an output that one unit of the device computes at a time
_LAUNCH = 3e-6
_LEAST = 1e-12


@dataclass(frozen=True)
class Devices:
    """D devices by their public figures.

    Attributes:
        name, maker: of each.
        peak: (D,) FLOP/s of products; AMD's matrix rate, where there is one.
        vector_peak: (D,) FLOP/s of everything else.
        bandwidth: (D,) bytes/s of memory.
        units: (D,) multiprocessors.
        cache: (D,) bytes, of the last level.
    """

    name: tuple[str, ...]
    maker: tuple[str, ...]
    peak: Floats
    vector_peak: Floats
    bandwidth: Floats
    units: Floats
    cache: Floats

    def __post_init__(self) -> None:
        """Check what logarithms are taken of.

        Raises:
            DataError: a figure that is not positive and finite, or of another number of devices.
        """
        for field in ("peak", "vector_peak", "bandwidth", "units", "cache"):
            values = np.asarray(getattr(self, field))
            if values.shape != (len(self.name),):
                raise DataError(f"devices: {field} has shape {values.shape}, expected one figure for each device")
            bad = ~(np.isfinite(values) & (values > 0))
            if bad.any():
                at = int(bad.argmax())
                raise DataError(f"devices: {field} of {self.name[at]} is {values[at]}; look it up and add it")

    def at(self, names: Sequence[str]) -> Ints:
        """Positions of devices by name.

        Raises:
            DataError: a device whose figures are not here.
        """
        where = {name: k for k, name in enumerate(self.name)}
        missing = sorted(set(names) - set(where))
        if missing:
            raise DataError(f"devices: no figures of {', '.join(missing)}; add a row for each")
        return np.array([where[name] for name in names], np.int64)


@dataclass(frozen=True)
class Kernels:
    """n kernels.

    Attributes:
        kind: (n,) one of KINDS.
        size: (n, 4) b, m, n and k, as KINDS tells; 1 where a kind has no such size.
        count: (n,) how often each runs.
    """

    kind: Texts
    size: Floats
    count: Floats

    def __post_init__(self) -> None:
        """Check kinds and sizes.

        Raises:
            DataError: an unknown kind, or a size that is not positive and finite.
        """
        unknown = sorted(set(self.kind.tolist()) - set(KINDS))
        if unknown:
            raise DataError(f"kernels: unknown kind {', '.join(unknown)}; there are {', '.join(KINDS)}")
        if self.size.shape != (len(self.kind), 4) or len(self.count) != len(self.kind):
            raise DataError(f"kernels: {len(self.kind)} kinds, sizes {self.size.shape}, expected four sizes for each")
        bad = ~(np.isfinite(self.size) & (self.size > 0)).all(axis=1)
        if bad.any():
            raise DataError(f"kernels: sizes of row {int(bad.argmax())} are not positive; drop it or mend it")

    @property
    def products(self) -> Bools:
        """(n,) which are matrix products."""
        return np.isin(self.kind, PRODUCTS)

    @property
    def elements(self) -> Floats:
        """(n,) numbers that a kernel goes over, 0 for products."""
        b, m, _, _ = self.size.T
        return np.where(self.products, 0.0, np.where(self.kind == "copy", b, b * m))

    @property
    def flops(self) -> Floats:
        """(n,) of one run."""
        rate = np.array([_FLOPS.get(kind, 0.0) for kind in self.kind])
        work: Floats = np.where(self.products, 2 * self.size.prod(axis=1), self.elements * rate)
        return work

    @property
    def moved(self) -> Floats:
        """(n,) bytes read and written in one run, each operand once."""
        b, m, n, k = self.size.T
        numbers = self.elements * np.array([_MOVED.get(kind, 0.0) for kind in self.kind])
        moved: Floats = _BYTES * np.where(self.products, b * (m * n + n * k + m * k), numbers)
        return moved

    def take(self, rows: Ints | Bools) -> Kernels:
        """Some of them."""
        return Kernels(self.kind[rows], self.size[rows], self.count[rows])

    def unit_seconds(self, devices: Devices, at: Ints) -> Floats:
        """(n,) seconds of each at its bound on device `at` (n,), and a launch; copies move at 0.8 of the bandwidth.

        Copies that a graph lists are mostly views and indices, so no launch is charged for one.
        """
        compute, memory = self.sides(devices, at)
        return np.where(self.kind == "copy", memory / 0.8, np.maximum(compute, memory) + _LAUNCH)

    def sides(self, devices: Devices, at: Ints) -> tuple[Floats, Floats]:
        """(n,) seconds of computing and (n,) of moving bytes on device `at` (n,); the larger one is the bound."""
        peak = np.where(self.products, devices.peak[at], devices.vector_peak[at])
        return self.flops / peak, self.moved / devices.bandwidth[at]

    def features(self, devices: Devices, at: Ints) -> Floats:
        """(n, 12) of each on device `at` (n,), in units in which devices are alike.

        How many waves of tiles of two sizes the device's units compute, and how full the last of them is; inner size or
        length of a row; the smaller and the larger side of a product; compute over memory at the bound; bytes over
        cache; seconds at the bound; kind; and how much of its tiles a product fills.
        """
        b, m, n, k = self.size.T
        product, elements, units = self.products, self.elements, devices.units[at]
        compute, memory = self.sides(devices, at)

        def waves(tile: float) -> tuple[Floats, Floats]:
            count = b * np.ceil(m / tile) * np.ceil(k / tile) / units
            return np.log2(count), count / np.ceil(count)

        (large, large_fill), (small, small_fill) = waves(_TILE), waves(_SMALL_TILE)
        row = np.where(np.isin(self.kind, ("softmax", "normalization")), m, 1.0)
        tiles = np.ceil(m / _TILE) * np.ceil(k / _TILE) * _TILE**2
        return np.column_stack(
            [
                np.where(product, large, np.log2(elements / (1024 * units) + 1e-9)),
                np.where(product, large_fill, 1.0),
                np.where(product, small, 0.0),
                np.where(product, small_fill, 1.0),
                np.log2(np.where(product, n, row)),
                np.where(product, np.log2(np.minimum(m, k)), 0.0),
                np.where(product, np.log2(np.maximum(m, k)), 0.0),
                np.log2((compute + _LEAST) / (memory + _LEAST)),
                np.log2(self.moved / devices.cache[at] + 1e-9),
                np.log2(np.maximum(compute, memory) / 5e-6 + 1e-9),
                [KINDS.index(kind) for kind in self.kind],
                np.where(product, m * k / tiles, 1.0),
            ]
        )
