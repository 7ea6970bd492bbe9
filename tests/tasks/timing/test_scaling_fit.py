"""Iteration times by number of accelerators: against the formula in a loop, and on jobs whose times are known."""

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.tasks.timing.scaling_fit import ScaledRuns, ScalingFit

COUNTS = (1, 2, 4, 8, 16, 32)


def plainly(c, f, n, k, r, q, w, batch, largest, g):
    """The formula of the module's head, for one configuration."""
    compute = c * (f + (1 - f) * batch / (largest * g))
    if g == 1:
        return compute
    talk = n * (1 + r * (g - 2)) if g <= 8 else k * n * (1 + q * (g - 2))
    return (compute**w + talk**w) ** (1 / w)


def jobs(count=6, seed=0):
    """ScaledRuns of jobs that are all alike but for their size, two batches each, and their seconds."""
    rng = np.random.default_rng(seed)
    rows, seconds = [], []
    for j in range(count):
        c, f, n = np.exp(rng.normal(0, 1)), rng.uniform(0.02, 0.08), rng.uniform(0.15, 0.25)
        numbers = (c, f, n * c, rng.uniform(1.3, 1.6), 0.1, 0.01, 2.0)
        for batch in (64.0, 128.0):
            for g in COUNTS:
                rows.append((f"job {j}", batch, g))
                seconds.append(plainly(*numbers, batch, 128.0, g))
    name, batch, g = zip(*rows, strict=True)
    device = np.full(len(name), "gpu")
    return ScaledRuns(np.array(name), device, np.array(batch), np.array(g, float), np.array(g) > 8), np.array(seconds)


def test_a_fit_says_what_the_formula_says_of_its_numbers():
    known, seconds = jobs()
    fitted = ScalingFit.fit(known, seconds)
    for name, batch, g, told in zip(known.job, known.batch, known.accelerators, fitted.predict(known), strict=True):
        log_c, logit, log_n, log_k, log_r, log_q, log_w = fitted.values[list(fitted.jobs).index(name)]
        c, f, n = np.exp(log_c), 1 / (1 + np.exp(-logit)), np.exp(log_c + log_n)
        plain = plainly(c, f, n, np.exp(log_k), np.exp(log_r), np.exp(log_q), 1 + np.exp(log_w), batch, 128.0, g)
        assert told == pytest.approx(plain, rel=1e-9)


def test_configurations_that_were_left_out_are_predicted():
    known, seconds = jobs()
    left = np.random.default_rng(1).random(len(seconds)) < 0.2
    told = ScalingFit.fit(known.take(~left), seconds[~left]).predict(known.take(left))
    assert np.abs(told / seconds[left] - 1).mean() < 0.06


def test_other_jobs_tell_of_numbers_of_accelerators_that_one_never_had():
    known, seconds = jobs()
    beyond = (known.model == "job 3") & (known.accelerators > 8)
    with_others = ScalingFit.fit(known.take(~beyond), seconds[~beyond]).predict(known.take(beyond))
    own = (known.model == "job 3") & ~beyond
    alone = ScalingFit.fit(known.take(own), seconds[own]).predict(known.take(beyond))
    error = [np.abs(np.log(told / seconds[beyond])).mean() for told in (with_others, alone)]
    assert error[0] < 0.1
    assert error[0] < 0.7 * error[1]


def test_seconds_of_the_network_are_those_of_the_model_on_other_devices():
    """Devices of very different speed, one network: what is spread takes the same seconds on all of them."""
    rows, seconds = [], []
    for j, network in enumerate((0.2, 0.5, 1.0)):
        for device, c in (("slow", 4.0), ("middle", 1.0), ("fast", 0.2)):
            for g in (1, 2, 4, 8):
                for spread in (False, True) if g > 1 else (False,):
                    rows.append((f"model {j}", device, 64.0 * g, float(g), spread))
                    talk = network if spread else 0.1 * c
                    seconds.append((c**2 + (talk if g > 1 else 0) ** 2) ** 0.5)
    known = ScaledRuns(*map(np.array, zip(*rows, strict=True)))
    seconds = np.array(seconds)
    hidden = (known.model == "model 1") & (known.device == "fast") & known.spread
    alone = known.model == "model 1", (known.model == "model 1") & (known.device == "fast")
    errors = []
    for left in (hidden, hidden | (alone[0] & ~alone[1] & known.spread)):  # then nobody has spread it
        told = ScalingFit.fit(known.take(~left), seconds[~left]).predict(known.take(hidden))
        errors.append(np.abs(np.log(told / seconds[hidden])).mean())
    assert errors[0] < 0.4
    assert errors[0] < 0.5 * errors[1]


def test_units_of_time_do_not_matter():
    known, seconds = jobs(3)
    left = np.arange(len(seconds)) % 4 == 0
    told = [
        ScalingFit.fit(known.take(~left), u * seconds[~left]).predict(known.take(left)) / u for u in (1.0, 1e-3, 1e4)
    ]
    assert told[0] == pytest.approx(told[1], rel=0.02)
    assert told[0] == pytest.approx(told[2], rel=0.02)


def test_one_configuration_of_a_job_is_enough():
    known, seconds = jobs(4)
    rows = (known.model != "job 0") | ((known.accelerators == 4) & (known.batch == 64))
    told = ScalingFit.fit(known.take(rows), seconds[rows]).predict(known.take(known.model == "job 0"))
    assert np.isfinite(told).all()
    assert told[2] == pytest.approx(seconds[2], rel=0.1)


def test_what_is_wrong_is_named():
    known, seconds = jobs(1)
    with pytest.raises(DataError, match="positive seconds"):
        ScalingFit.fit(known, np.where(np.arange(len(seconds)) == 2, 0.0, seconds))
    with pytest.raises(DataError, match="positive seconds"):
        ScalingFit.fit(known.take(np.arange(0)), seconds[:0])
    with pytest.raises(DataError, match="no run of other on gpu"):
        ScalingFit.fit(known, seconds).predict(
            ScaledRuns(np.array(["other"]), np.array(["gpu"]), np.ones(1), np.ones(1), np.zeros(1, bool))
        )
    with pytest.raises(DataError, match="accelerators of row 1"):
        ScaledRuns(known.model[:2], known.device[:2], known.batch[:2], np.array([1.0, 0.0]), known.spread[:2])
    with pytest.raises(DataError, match="spread has shape"):
        ScaledRuns(known.model[:2], known.device[:2], known.batch[:2], np.ones(2), known.spread[:1])
    with pytest.raises(DataError, match="batch has shape"):
        ScaledRuns(known.model[:2], known.device[:2], known.batch[:1], np.ones(2), known.spread[:2])
