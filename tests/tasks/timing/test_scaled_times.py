"""What the fit leaves: against a posterior written out in numpy, and on jobs that the fit gets wrong."""

from dataclasses import replace

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.tasks.timing.scaled_times import ScaledTimes
from mfcp.tasks.timing.scaling_fit import ScaledRuns, ScalingFit


def odd_jobs(seed=0):
    """Jobs whose time has a bump at four accelerators and at small batches, which no fit of the form knows."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"m{j}", device, batch, g, spread)
        for j in range(4) for device in ("x", "y") for batch in (32.0, 64.0, 128.0)
        for g in (1, 2, 4, 8) for spread in ((False, True) if g > 1 else (False,))
    ]  # fmt: skip
    model, device, batch, g, spread = map(np.array, zip(*rows, strict=True))
    known = ScaledRuns(model, device, batch, g.astype(float), spread)
    size = np.array([float(name[1]) + 1 for name in model]) * np.where(device == "x", 1.0, 2.0)
    seconds = size * (0.1 + batch / 128 / g) + np.where(g > 1, 0.1 * np.where(spread, 2, 1), 0)
    bump = 1 + 0.3 * (g == 4) * (1 + (device == "x")) / 2 + 0.2 * (batch / g < 12)
    return known, seconds * bump * np.exp(0.01 * rng.standard_normal(len(rows)))


@pytest.fixture(scope="module")
def left_out():
    known, seconds = odd_jobs()
    left = np.random.default_rng(1).random(len(seconds)) < 0.2
    return known.take(~left), seconds[~left], known.take(left), seconds[left]


@pytest.fixture(scope="module")
def fitted(left_out):
    return ScaledTimes.fit(left_out[0], left_out[1])


def test_it_mends_what_the_fit_gets_wrong_and_knows_how_well(fitted, left_out):
    known, seconds, asked, truth = left_out
    told, sd = fitted.predict(asked)
    error = np.abs(told / truth - 1).mean()
    assert error < 0.5 * np.abs(ScalingFit.fit(known, seconds).predict(asked) / truth - 1).mean()
    assert np.mean(np.abs(np.log(told / truth)) < 1.96 * sd) > 0.8


def test_it_is_the_posterior_of_the_sum_of_kernels(fitted, left_out):
    known, _, asked, _ = left_out
    v = {name: np.exp(value) for name, value in fitted.values.items()}

    def kernel(a, b):
        def matern(d2):
            r = np.sqrt(3 * (d2 + 1e-12))
            return (1 + r) * np.exp(-r)

        K = np.zeros((len(a), len(b)))
        for i in range(len(a)):
            for j in range(len(b)):
                gap = np.log2([a.accelerators[i] / b.accelerators[j],
                               a.batch[i] / a.accelerators[i] / (b.batch[j] / b.accelerators[j])])  # fmt: skip
                size = (gap[0] / v["doublings"]) ** 2 + (a.spread[i] != b.spread[j]) / v["placement"] ** 2
                samples = (gap[1] / v["samples"]) ** 2
                device, model = a.device[i] == b.device[j], a.model[i] == b.model[j]
                K[i, j] = device * (v["of device"] * matern(size) + v["of device and samples"] * matern(size + samples))
                K[i, j] += model * v["of model"] * matern(size + samples)
                K[i, j] += device * model * (v["of job"] * matern(size) + v["of samples"] * matern(samples)
                                             + v["of job and samples"] * matern(size + samples))  # fmt: skip
        return K

    solve = np.linalg.inv(kernel(known, known) + v["noise"] * np.eye(len(known)))
    across = kernel(asked, known)
    told, sd = fitted.predict(asked)
    assert np.log(told / fitted.fit_.predict(asked)) == pytest.approx(across @ solve @ fitted.excess, abs=1e-7)
    variance = np.diag(kernel(asked, asked)) + v["noise"] - np.einsum("ij,jk,ik->i", across, solve, across)
    assert sd**2 == pytest.approx(variance, abs=1e-8)


def stepping(models=4):
    """Jobs on one device that double their time up to four accelerators, and halve it at eight: faster links there."""
    rows = [(f"m{j}", g, (j + 1.0) * {1: 1.0, 2: 2.0, 4: 4.0, 8: 2.0}[g] * (1 + 0.05 * j * (g == 8)))
            for j in range(models) for g in (1, 2, 4, 8)]  # fmt: skip
    model, g, seconds = map(np.array, zip(*rows, strict=True))
    known = ScaledRuns(model, np.full(len(g), "d"), 32.0 * g, g.astype(float), np.zeros(len(g), bool))
    return known, seconds


def test_beyond_its_accelerators_a_job_does_what_others_did():
    known, seconds = stepping()
    out = (known.model == "m0") & (known.accelerators == 8)
    fitted = ScaledTimes.fit(known.take(~out), seconds[~out])
    told, sd = fitted.predict(known.take(out))
    assert told == pytest.approx([2.0 * 1.1], rel=0.15)
    # By hand: the middle of the others' steps, and what the fit is, weighed by how far each is off for others.
    steps = np.log([0.5 * (1 + 0.05 * j) for j in (1, 2, 3)])
    off = fitted.steps.off[(fitted.steps.beyond.model != "m0") & (fitted.steps.beyond.accelerators == 8)]
    assert len(off) == 3

    def variance(values):
        return (3 * (1.48 * np.median(np.abs(values))) ** 2 + 0.2**2) / 4

    weight = 1 / (np.array([variance(steps - steps[1]) * 4 / 3, variance(off)]) + 0.05**2)
    both = np.array([np.log(4.0) + steps[1], np.log(fitted._told(known.take(out))[0][0])])
    assert np.log(told) == pytest.approx([weight @ both / weight.sum()], abs=1e-9)
    assert sd == pytest.approx([weight.sum() ** -0.5], abs=1e-9)


def test_steps_of_others_count_only_beyond_and_only_of_two_models():
    known, seconds = stepping()
    for model, count in (("m0", 8.0), ("m0", 4.0)):  # nothing is beyond eight, and four lies within
        out = (known.model == model) & (known.accelerators == count)
        fitted = ScaledTimes.fit(
            known.take(~out) if count == 4.0 else known, seconds[~out] if count == 4.0 else seconds
        )
        assert np.array_equal(fitted.predict(known.take(out))[0], fitted._told(known.take(out))[0])
    known, seconds = stepping(models=2)
    out = (known.model == "m0") & (known.accelerators == 8)
    fitted = ScaledTimes.fit(known.take(~out), seconds[~out])
    assert np.array_equal(fitted.predict(known.take(out))[0], fitted._told(known.take(out))[0])


@pytest.mark.parametrize("seed", range(4))
def test_any_table_has_answers_and_its_order_is_no_matter(seed):
    """Ties, repeated runs with other seconds, jobs of one size and of several, two batches, one device or two."""
    rng = np.random.default_rng(seed)
    n = 40
    model, device = rng.choice(["a", "b", "c", "d"], n), rng.choice(["x", "y"][: 1 + seed % 2], n)
    g = np.where(model == "a", rng.choice([1.0, 2.0], n), rng.choice([1.0, 2.0, 4.0], n))
    known = ScaledRuns(model, device, g * rng.choice([8.0, 16.0], n), g, np.zeros(n, bool))
    fitted, order = ScaledTimes.fit(known, rng.choice([1.0, 2.0, 3.0], n)), rng.permutation(n)
    own = known.take(np.flatnonzero(model == "a"))
    beyond = ScaledRuns(own.model, own.device, own.batch * 4 / own.accelerators, np.full(len(own), 4.0), own.spread)
    for asked in (known, beyond):
        told, sd = fitted.predict(asked)
        assert (np.isfinite(told) & (told > 0) & np.isfinite(sd) & (sd >= 0)).all()
    assert np.array_equal(fitted.predict(known)[0], fitted._told(known)[0])  # nothing that was measured lies beyond
    shuffled = replace(fitted.steps, known=known.take(order), log_seconds=fitted.steps.log_seconds[order])
    before, spread = np.zeros(len(own)), np.ones(len(own))
    shift, sd = fitted.steps.weighed(beyond, before, spread)
    assert shift.any()
    for mine, other in zip((shift, sd), shuffled.weighed(beyond, before, spread), strict=True):
        assert other == pytest.approx(mine, rel=1e-12)


def test_a_job_that_never_ran_is_refused(fitted, left_out):
    asked = left_out[2].take(np.arange(1))
    other = ScaledRuns(np.array(["other"]), asked.device, asked.batch, asked.accelerators, asked.spread)
    with pytest.raises(DataError, match="no run of other on"):
        fitted.predict(other)


@pytest.mark.parametrize(("accelerators", "spread"), [(1.0, False), (8.0, False), (16.0, True)])
def test_one_configuration_is_said_again_and_two_times_of_one_are_averaged(accelerators, spread):
    def runs(count):
        names = np.array(["m"] * count), np.array(["d"] * count)
        return ScaledRuns(*names, np.ones(count), np.full(count, accelerators), np.full(count, spread))

    told, sd = ScaledTimes.fit(runs(1), np.array([3.0])).predict(runs(1))
    assert told == pytest.approx([3.0], rel=0.01)
    assert np.isfinite(sd).all()
    told, _ = ScaledTimes.fit(runs(2), np.array([1.0, 2.0])).predict(runs(2))
    assert told == pytest.approx([2**0.5] * 2, rel=0.02)
