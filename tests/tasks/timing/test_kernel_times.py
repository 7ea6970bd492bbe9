"""Times on devices without runs, in a world whose kernels take what a formula says."""

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.tasks.timing.device_levels import WholeRuns
from mfcp.tasks.timing.kernel_times import KernelTimes
from mfcp.tasks.timing.kernels import Devices, Kernels

pytest.importorskip("lightgbm")

DEVICES = Devices(
    tuple("abcde"), ("X",) * 5, *[np.array([1.0, 1.4, 2, 2.8, 1.7]) * 1e13] * 2,
    np.array([0.8, 1.2, 1.5, 2.5, 3.0]) * 1e12, np.array([60.0, 80, 100, 130, 50]), np.full(5, 1e7),
)  # fmt: skip
NEW = 4
LEVEL = np.array([1.0, 1.1, 0.95, 1.05, 1.0])


def truth(kernels, device):
    """Seconds: products reach more of the peak the fuller their waves, all else reaches 0.8 of the bandwidth."""
    b, m, _, k = kernels.size.T
    waves = b * np.ceil(m / 128) * np.ceil(k / 128) / DEVICES.units[device]
    useful = np.where(kernels.products, 0.9 * waves / (waves + 0.5), 0.8)
    bound = np.maximum(kernels.flops / DEVICES.peak[device], kernels.moved / DEVICES.bandwidth[device])
    return LEVEL[device] * (bound / useful + 3e-6)


def drawn(rng, count):
    kind = rng.choice(["linear", "batched_product", "softmax", "binary"], count)
    size = 2.0 ** rng.integers(5, 12, (count, 4))
    product = np.isin(kind, ("linear", "batched_product"))
    size[:, 0] = np.where(kind == "linear", 1, np.where(product, 8, size[:, 0] * 32))
    size[~product, 2:] = 1
    return Kernels(kind, size, rng.integers(1, 5, count).astype(float))


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    single = drawn(rng, 2400)
    device = rng.integers(0, NEW, 2400)
    graphs = [drawn(rng, 12) for _ in range(6)]
    at = np.repeat(np.arange(5), 6)
    models = np.tile([f"m{i}" for i in range(6)], 5)
    runs = WholeRuns(at, models, np.full(30, "infer"), models)
    seconds = np.array([(truth(g, np.full(12, d)) * g.count).sum() for d, g in zip(at, graphs * 5, strict=True)])
    return single, device, graphs * 5, runs, seconds


@pytest.fixture(scope="module")
def fitted(world):
    single, device, graphs, runs, seconds = world
    known = np.flatnonzero(runs.device != NEW)
    return KernelTimes.fit(
        DEVICES, single, device, truth(single, device), [graphs[i] for i in known], runs.take(known), seconds[known]
    )


def test_whole_runs_on_a_device_that_nothing_was_measured_on(fitted, world):
    _, _, graphs, runs, seconds = world
    new = np.flatnonzero(runs.device == NEW)
    told, sd = fitted.predict([graphs[i] for i in new], runs.take(new))
    assert np.abs(told / seconds[new] - 1).max() < 0.15
    assert (np.abs(np.log(told / seconds[new])) < 4 * sd).all()
    known = np.flatnonzero(runs.device != NEW)
    again, sure = fitted.predict([graphs[i] for i in known], runs.take(known))
    assert np.abs(again / seconds[known] - 1).mean() < 0.03
    assert sure.mean() < sd.mean()


def test_twice_the_kernels_take_twice_as_long(fitted, world):
    _, _, graphs, runs, _ = world
    twice = [Kernels(g.kind, g.size, 2 * g.count) for g in graphs]
    told = [fitted.predict(each, runs)[0] for each in (graphs, twice)]
    assert told[1] == pytest.approx(2 * told[0])


def test_a_replayed_run_keeps_what_its_trace_is_off_by(fitted, world):
    """Changed kernels change it as predictions say; the same kernels take what was measured."""
    _, _, graphs, runs, seconds = world
    slow = 1.3 * seconds
    assert fitted.replayed(graphs, runs, graphs, runs, slow) == pytest.approx(slow)
    twice = [Kernels(g.kind, g.size, 2 * g.count) for g in graphs]
    assert fitted.replayed(twice, runs, graphs, runs, slow) == pytest.approx(2 * slow)
    bigger = [Kernels(g.kind, g.size * [2, 1, 1, 1], g.count) for g in graphs]
    told = fitted.replayed(bigger, runs, graphs, runs, slow)
    expected = slow * fitted.predict(bigger, runs)[0] / fitted.predict(graphs, runs)[0]
    assert told == pytest.approx(expected)
    with pytest.raises(DataError, match="of the same device each"):
        fitted.replayed(graphs[:1], runs.take(np.array([0])), graphs[6:7], runs.take(np.array([6])), slow[:1])
    with pytest.raises(DataError, match="need as many positive seconds"):
        fitted.replayed(graphs, runs, graphs, runs, np.zeros(len(runs)))


def test_the_same_tables_give_the_same_numbers(fitted, world):
    single, device, graphs, runs, seconds = world
    known = np.flatnonzero(runs.device != NEW)
    again = KernelTimes.fit(
        DEVICES, single, device, truth(single, device), [graphs[i] for i in known], runs.take(known), seconds[known]
    )
    assert np.array_equal(again.predict(graphs, runs)[0], fitted.predict(graphs, runs)[0])


def test_times_that_are_not_positive_are_refused(world):
    single, device, graphs, runs, seconds = world
    with pytest.raises(DataError, match="2400 kernels need"):
        KernelTimes.fit(DEVICES, single, device, np.zeros(2400), graphs, runs, seconds)
    with pytest.raises(DataError, match="30 runs need"):
        KernelTimes.fit(DEVICES, single, device, truth(single, device), graphs, runs, -seconds)
