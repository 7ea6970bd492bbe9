"""Levels of devices: against a posterior written out in numpy, and what figures and runs must do to them."""

from dataclasses import replace

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.tasks.timing.device_levels import DeviceLevels, WholeRuns
from mfcp.tasks.timing.kernels import Devices

# c is like a, d is imbalanced (40 FLOP a byte), e even more, f has a maker of its own.
DEVICES = Devices(
    tuple("abcdef"), ("X",) * 5 + ("Y",), np.array([1.0, 2, 1.05, 8, 30, 3]) * 1e13,
    np.array([1.0, 2, 1.05, 8, 30, 3]) * 1e13, np.array([1.0, 1.5, 1.02, 2, 1, 2]) * 1e12,
    np.array([80.0, 100, 82, 60, 60, 100]), np.full(6, 1e7),
)  # fmt: skip


def runs(*rows):
    """Of (device, model, phase, batch)."""
    device, model, phase, batch = zip(*rows, strict=True)
    name = [f"{m}-{p}-{b}" for m, p, b in zip(model, phase, batch, strict=True)]
    return WholeRuns(DEVICES.at(list(device)), np.array(model), np.array(phase), np.array(name))


KNOWN = runs(*((d, m, p, b) for d in "abdf" for m, p, b in (("m", "infer", 1), ("m", "infer", 8), ("n", "train", 1))))
SHARE = np.tile([0.9, 0.8, 0.6], 4)
EXCESS = np.repeat([0.1, -0.1, 0.5, 0.3], 3) * SHARE + np.tile([0.02, 0.0, -0.03], 4)


@pytest.fixture(scope="module")
def fitted():
    return DeviceLevels.fit(DEVICES, KNOWN, SHARE, EXCESS)


def imbalance(device, known):
    def own(d):
        return max(np.log(DEVICES.vector_peak[d] / DEVICES.bandwidth[d] / 20), 0)

    return min(own(device), max(map(own, known)))


def covariance(v, a, b, known):
    """Of the three parts of two runs (device, model, phase, run), as the module's head has them."""
    figures = [np.log([DEVICES.peak[d], DEVICES.bandwidth[d], DEVICES.units[d]]) for d in (a[0], b[0])]
    near = np.exp(-((figures[0] - figures[1]) ** 2).sum() / (2 * v["length"]))
    maker = DEVICES.maker[a[0]] == DEVICES.maker[b[0]]
    kin = a[1:3] == b[1:3]
    products = v["all"] + v["maker"] * maker + v["alike"] * near
    products += v["slope"] * imbalance(a[0], known) * imbalance(b[0], known)
    left = v["model"] * ((a[1] == b[1]) + kin) / 2 + v["run"] * (a[3] == b[3])
    return np.array([products, v["rest"] * (1 + near) / 2, left + v["pair"] * ((a[3] == b[3]) + kin) * near])


def test_it_is_the_posterior_of_the_stated_process(fitted):
    asked = runs(("a", "m", "infer", 8), ("c", "m", "infer", 8), ("e", "o", "infer", 1), ("d", "n", "train", 4))
    products, rest = np.array([2.0, 1.0, 3.0, 0.5]), np.array([1.0, 0.5, 0.2, 0.5])
    v = {name: np.exp(2 * value) for name, value in fitted.values.items()}
    known = [*zip(*map(np.ndarray.tolist, vars(KNOWN).values()), strict=True)]
    devices = {row[0] for row in known}
    parts = np.array([SHARE, 1 - SHARE, np.ones(len(SHARE))])
    K = np.array([[parts[:, i] * parts[:, j] @ covariance(v, a, b, devices) for j, b in enumerate(known)]
                  for i, a in enumerate(known)]) + v["noise"] * np.eye(len(known))  # fmt: skip
    y = EXCESS - 0.5 * SHARE * [imbalance(row[0], devices) for row in known]
    seconds, sd = fitted.predict(asked, products, rest)
    for i, a in enumerate(zip(*map(np.ndarray.tolist, vars(asked).values()), strict=True)):
        across = np.array([covariance(v, a, b, devices) * parts[:, j] for j, b in enumerate(known)])
        mean = across.T @ np.linalg.solve(K, y) + [0.5 * imbalance(a[0], devices), 0, 0]
        both = np.array([products[i], rest[i]]) * np.exp(mean[:2])
        assert seconds[i] == pytest.approx(both.sum() * np.exp(mean[2]), rel=1e-6)
        own = np.array([*(both / both.sum()), 1])
        variance = own**2 @ covariance(v, a, a, devices) + v["noise"]
        assert sd[i] ** 2 == pytest.approx(variance - (across @ own) @ np.linalg.solve(K, across @ own), rel=1e-5)


def level(fitted, device, model="o"):
    """Of a run that is all products, and how sure it is."""
    seconds, sd = fitted.predict(runs((device, model, "infer", 1)), np.ones(1), np.zeros(1))
    return float(np.log(seconds[0])), float(sd[0])


def test_a_device_with_the_figures_of_a_known_one_has_its_level(fitted):
    assert level(fitted, "c")[0] == pytest.approx(level(fitted, "a")[0], abs=0.02)
    assert level(fitted, "c")[1] > level(fitted, "a")[1]
    assert level(fitted, "e")[1] > level(fitted, "c")[1]


def test_imbalance_costs_and_is_not_extrapolated(fitted):
    assert level(fitted, "d")[0] > level(fitted, "a")[0] + 0.2
    assert level(fitted, "e")[0] < level(fitted, "d")[0] + 0.15  # 300 FLOP a byte, where 40 are known
    without = fitted.known.device != DEVICES.at(["d"])[0]
    blind = DeviceLevels.fit(DEVICES, KNOWN.take(np.flatnonzero(without)), SHARE[without], EXCESS[without])
    assert level(blind, "e")[0] == pytest.approx(level(blind, "b")[0], abs=0.25)


def test_the_same_work_elsewhere_tells_of_it():
    """A model that all devices run slower than its kernels say is slower on a new one."""
    odd = EXCESS + 0.2 * (KNOWN.model == "n")
    fitted = DeviceLevels.fit(DEVICES, KNOWN, SHARE, odd)
    seconds, _ = fitted.predict(runs(("c", "n", "train", 1), ("c", "m", "infer", 1)), np.ones(2), np.ones(2))
    assert np.log(seconds[0] / seconds[1]) > 0.1


def test_runs_without_times_are_refused():
    for excess in (EXCESS[:-1], np.where(np.arange(len(EXCESS)) == 3, np.nan, EXCESS)):
        with pytest.raises(DataError, match="finite times"):
            DeviceLevels.fit(DEVICES, KNOWN, SHARE, excess)
    with pytest.raises(DataError, match="finite times"):
        DeviceLevels.fit(replace(DEVICES), KNOWN.take(np.arange(0)), SHARE[:0], EXCESS[:0])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_one_device_and_one_run_are_enough_and_equal_runs_agree(share):
    for count in (1, 3):
        known = runs(*[("a", "m", "infer", 1)] * count)
        fitted = DeviceLevels.fit(DEVICES, known, np.full(count, share), np.full(count, 0.2))
        seconds, sd = fitted.predict(known, np.full(count, share), np.full(count, 1 - share))
        assert np.log(seconds) == pytest.approx([0.2] * count, abs=0.02)
        assert len(set(seconds.round(9))) == 1
        assert (sd > 0).all()
