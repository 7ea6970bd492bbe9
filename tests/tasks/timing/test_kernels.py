"""Kernels: work, bounds and features by hand and by plain loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfcp.errors import DataError
from mfcp.tasks.timing.kernels import KINDS, PRODUCTS, Devices, Kernels

DEVICES = Devices(
    ("a", "b"), ("X", "Y"), np.array([1e13, 4e13]), np.array([1e13, 2e13]), np.array([1e12, 5e11]),
    np.array([80.0, 60.0]), np.array([6e6, 4e7]),
)  # fmt: skip


def kernels(*rows):
    return Kernels(np.array([r[0] for r in rows]), np.array([r[1:] for r in rows], float), np.ones(len(rows)))


def test_work_by_hand():
    own = kernels(("linear", 1, 8, 4, 2), ("batched_product", 3, 8, 4, 2), ("softmax", 10, 20, 1, 1),
                  ("normalization", 10, 20, 1, 1), ("binary", 10, 20, 1, 1), ("copy", 100, 1, 1, 1))  # fmt: skip
    assert own.flops.tolist() == [128, 384, 1000, 1200, 200, 0]
    assert own.moved.tolist() == [4 * 56, 4 * 168, 1600, 1600, 2400, 400]
    assert own.products.tolist() == [True, True, False, False, False, False]


def test_bounds_by_hand():
    own = kernels(("linear", 1, 1000, 1000, 1000), ("unary", 1000, 1000, 1, 1), ("copy", 10**6, 1, 1, 1))
    at = np.array([1, 1, 1])
    assert own.unit_seconds(DEVICES, at) == pytest.approx(
        [2e9 / 4e13 + 3e-6, 8e6 / 5e11 + 3e-6, 4e6 / 4e11]  # a vector's rate counts where no product is
    )


SIZES = st.tuples(*[st.integers(1, 5000)] * 4)


@given(st.lists(st.tuples(st.sampled_from(KINDS), SIZES), min_size=1, max_size=5), st.integers(0, 1))
def test_features_are_those_of_a_plain_loop(rows, device):
    own = kernels(*((kind, *(size if kind in PRODUCTS else (*size[:2], 1, 1))) for kind, size in rows))
    found = own.features(DEVICES, np.full(len(rows), device))
    assert np.isfinite(found).all()
    for row, kind, (b, m, n, k) in zip(found, own.kind, own.size, strict=True):
        if kind not in PRODUCTS:
            assert row[[1, 2, 3, 5, 6, 11]].tolist() == [1, 0, 1, 0, 0, 1]
            continue
        units = DEVICES.units[device]
        waves = b * math.ceil(m / 128) * math.ceil(k / 128) / units
        assert row[0] == pytest.approx(math.log2(waves))
        assert row[1] == pytest.approx(waves / math.ceil(waves))
        assert row[4:7] == pytest.approx([math.log2(n), math.log2(min(m, k)), math.log2(max(m, k))])
        compute = 2 * b * m * n * k / DEVICES.peak[device]
        memory = 4 * b * (m * n + n * k + m * k) / DEVICES.bandwidth[device]
        assert row[7] == pytest.approx(math.log2((compute + 1e-12) / (memory + 1e-12)))
        assert row[10] == KINDS.index(kind)
        assert 0 < row[11] <= 1


def test_what_is_wrong_is_named():
    with pytest.raises(DataError, match="unknown kind conv"):
        kernels(("conv", 1, 1, 1, 1))
    with pytest.raises(DataError, match="row 1"):
        kernels(("linear", 1, 1, 1, 1), ("linear", 1, 0, 1, 1))
    with pytest.raises(DataError, match="four sizes"):
        Kernels(np.array(["linear"]), np.ones((1, 3)), np.ones(1))
    with pytest.raises(DataError, match="cache of b is nan"):
        replace(DEVICES, cache=np.array([1.0, np.nan]))
    with pytest.raises(DataError, match="no figures of c"):
        DEVICES.at(["a", "c"])
