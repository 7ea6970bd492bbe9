"""What a job's own numbers tell of others, by regressions that are known beforehand."""

import numpy as np
import pytest

from benchmarks.families_hindsight import best_regressions
from mfcp.tasks.timing.scaling_fit import ScaledRuns


def table(models, seed=0, spread=False):
    """Models with five batches each on 1, 2, 4 and 8 accelerators; the step on 8 is one of 4 and 2, and of a tenth."""
    rng = np.random.default_rng(seed)
    rows, y = [], []
    for model in models:
        for share in 3.0 ** np.arange(5):
            own = rng.normal(size=3)
            for count, value in zip((1, 2, 4, 8), (*own, 1.5 * own[2] - 0.5 * own[1] + 0.1), strict=True):
                rows.append((model, share * count, count))
                y.append(value)
    model, batch, count = zip(*rows, strict=True)
    count = np.array(count, float)
    runs = ScaledRuns(np.array(model), np.full(len(y), "V100"), np.array(batch), count, (count > 4) & spread)
    return runs, np.array(y)


@pytest.mark.parametrize("spread", [False, True])
def test_a_step_that_follows_from_others_is_found(spread: bool) -> None:
    runs, y = table(("a", "b", "c"), spread=spread)
    held = runs.accelerators == 8
    found = best_regressions(runs, y, held)
    assert np.isnan(found[~held]).all()
    np.testing.assert_allclose(found[held], y[held], atol=0.05)


def test_what_is_held_is_learned_from_other_models_alone() -> None:
    """Where numbers say nothing, the answer is the median of what the other models' last steps did."""
    runs, y = table(("a", "b"))
    held = runs.accelerators == 8
    y[~held] = 0.0
    y[held] = np.where(runs.model[held] == "a", 0.2, 0.7)
    found = best_regressions(runs, y, held)
    np.testing.assert_allclose(found[held], np.where(runs.model[held] == "a", 0.7, 0.2))


def test_batches_for_all_accelerators_serve_where_each_has_another_share() -> None:
    runs, y = table(("a", "b", "c"))
    runs = ScaledRuns(runs.model, runs.device, runs.batch / runs.accelerators, runs.accelerators, runs.spread)
    held = runs.accelerators == 8
    np.testing.assert_allclose(best_regressions(runs, y, held)[held], y[held], atol=0.05)


def test_without_another_model_or_an_own_number_there_is_no_answer() -> None:
    runs, y = table(("a",))
    assert np.isnan(best_regressions(runs, y, runs.accelerators == 8)).all()
    runs, y = table(("a", "b"))
    assert np.isnan(best_regressions(runs, y, np.ones(len(y), bool))).all()
