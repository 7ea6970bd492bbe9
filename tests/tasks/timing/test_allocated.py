"""Iteration times by allocation: against a dense posterior written apart, and on times that are known."""

import numpy as np
import pytest

from mfcp.errors import DataError
from mfcp.tasks.timing.allocated import AllocatedTimes, Allocations


def runs(models=8, each=6, repeats=2, seed=0, noise=0.02):
    """Models whose time grows with work and falls with CPU up to a point, each with allocations of its own."""
    rng = np.random.default_rng(seed)
    work = np.exp(rng.normal([4, 20, 15], 0.5, (models, 3))).repeat(each * repeats, axis=0)
    given = np.exp(rng.uniform(-0.7, 0.7, (models * each, 2))).repeat(repeats, axis=0)
    seconds = truth(Allocations(work, given)) * np.exp(noise * rng.standard_normal(len(work)))
    return Allocations(work, given), seconds


def truth(asked):
    return asked.work[:, 0] ** 0.5 * asked.work[:, 1] ** 0.3 / np.minimum(asked.given[:, 0], 1.3)


@pytest.fixture(scope="module")
def fitted():
    return AllocatedTimes.fit(*runs())


def test_other_allocations_of_known_models_are_predicted_and_their_intervals_hold(fitted):
    known, _ = runs()
    asked = Allocations(known.work[::2], np.exp(np.random.default_rng(9).uniform(-0.6, 0.6, (len(known.work) // 2, 2))))
    predicted, sd = fitted.predict(asked), fitted.spread(asked)
    off = np.log(predicted / truth(asked))
    assert np.abs(off).mean() < 0.06
    assert np.mean(np.abs(off) < 1.96 * sd) > 0.85
    unseen = Allocations(asked.work * [2, 3, 2], asked.given)
    assert (fitted.spread(unseen) > sd).all()


def test_it_is_the_posterior_of_the_sum_of_kernels(fitted):
    """Written out in numpy, with every run of its own instead of means."""
    known, seconds = runs()
    asked = known.take(np.arange(0, len(seconds), 7))
    asked = Allocations(np.tile(asked.work, (2, 1)), np.concatenate([asked.given, 1.1 * asked.given]))
    values = {name: np.exp(value) for name, value in fitted.values.items()}

    def features(a):
        seen = fitted.seen
        work = (np.log(a.work) - np.log(seen.work).mean(0)) / np.log(seen.work).std(0)
        given = (np.log(a.given) - np.log(seen.given).mean(0)) / np.log(seen.given).std(0)
        return work, given

    def distance(a, b, length):
        return np.sqrt((((a[:, None] - b[None]) / length) ** 2).sum(-1))

    def smooth(a, b, length):
        r = np.sqrt(3) * distance(a, b, length)
        return (1 + r) * np.exp(-r)

    def kernel(a, b):
        (wa, ga), (wb, gb), same = features(a), features(b), (a.work[:, None] == b.work[None]).all(-1)
        v = values["variance"]
        return (
            v[0] * np.exp(-distance(wa, wb, values["of_model"])) + v[1] * same
            + v[2] * smooth(ga, gb, values["of_allocation"]) + v[3] * same * smooth(ga, gb, values["of_own"])
            + v[4] * smooth(np.hstack([wa, ga]), np.hstack([wb, gb]), values["of_all"])
        )  # fmt: skip

    same = (known.work[:, None] == known.work[None]).all(-1) & (known.given[:, None] == known.given[None]).all(-1)
    covariance = kernel(known, known) + values["noise"][0] * same + values["noise"][1] * np.eye(len(seconds))
    y = (np.log(seconds) - fitted.log_time.mean()) / fitted.log_time.std()
    again = (asked.work[:, None] == known.work[None]).all(-1) & (asked.given[:, None] == known.given[None]).all(-1)
    mean = (kernel(asked, known) + values["noise"][0] * again) @ np.linalg.solve(covariance, y)
    predicted = fitted.predict(asked)
    assert np.log(predicted) == pytest.approx(mean * fitted.log_time.std() + fitted.log_time.mean(), abs=1e-5)


def test_more_runs_of_a_configuration_count_more():
    known, seconds = runs(noise=0.3)
    few, many = (AllocatedTimes.fit(known, seconds) for _ in range(2))
    assert np.array_equal(few.predict(known), many.predict(known))
    many = AllocatedTimes(few.seen, few.log_time, few.runs * 50, few.values)
    residual = [np.abs(np.log(each.predict(each.seen)) - each.log_time).mean() for each in (few, many)]
    assert residual[1] < residual[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, s: (Allocations(a.work * 0, a.given), s), "row 0 of work is not positive"),
        (lambda a, s: (Allocations(a.work, a.given[1:]), s), "96 rows of work and 95 of what is given"),
        (lambda a, s: (a, s - s), "96 runs need as many positive seconds"),
        (lambda a, s: (a.take(np.zeros(3, int)), s[:3]), "1 configurations; there must be two"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(change, message):
    with pytest.raises(DataError, match=message):
        AllocatedTimes.fit(*change(*runs()))
