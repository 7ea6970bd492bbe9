import numpy as np

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.pool.times import measure_cells, or_median


def cells_of(log, pool_size=None):
    tables = {name: coerce(SCHEMA[name], frame).frame for name, frame in log.items()}
    return measure_cells(tables, np.ones(len(tables["clusters"])) if pool_size is None else pool_size)


def test_duration_is_the_mean_of_succeeded_runs(small_log):
    cells = cells_of(small_log())
    np.testing.assert_allclose(cells.duration, [[10, 20], [20, 40]])  # clusters × tasks; the failed run took 1 s
    assert cells.finished.tolist() == [[2, 2], [2, 2]]
    assert cells.succeeded.tolist() == [[2, 2], [2, 1]]
    assert np.isnan(cells.samples).all()


def test_seconds_are_measured_or_by_rate(small_log):
    tables = small_log()
    tables["runs"].loc[:3, "duration_s"] = None  # the first task tells throughputs alone
    cells = cells_of(tables)
    assert np.isnan(cells.duration[:, 0]).all()
    by_rate = 30 * cells.per_unit[:, 0] / [2, 5]
    np.testing.assert_allclose(cells.seconds(np.array([30.0, 7.0]), np.array([2.0, 5.0])).T, [by_rate, [20, 40]])
    assert np.isnan(cells.seconds(np.array([np.nan, 7.0]), np.ones(2))[:, 0]).all()


def test_samples_that_are_not_known_are_the_median_of_the_others():
    assert or_median(np.array([4.0, np.nan, 10.0, 5.0])).tolist() == [4, 5, 10, 5]
    assert or_median(np.full(2, np.nan)).tolist() == [1, 1]


def test_cells_of_chosen_rows_are_those_of_the_log(small_log):
    cells = cells_of(small_log())
    some = cells.at(np.array([1]), np.array([1, 0, 1]))
    assert some.duration.tolist() == [[40, 20, 40]]
    for name in ("per_unit", "finished", "succeeded", "reliability"):
        np.testing.assert_array_equal(getattr(some, name), getattr(cells, name)[1:, [1, 0, 1]])
    for name in ("stepwise", "unit", "samples"):
        np.testing.assert_array_equal(getattr(some, name), getattr(cells, name)[[1, 0, 1]])


def test_reliability_is_unknown_where_nothing_has_finished(small_log):
    tables = small_log()
    tables["runs"].loc[:1, "status"] = "cancelled"  # all of the first task on the first cluster
    np.testing.assert_array_equal(cells_of(tables).reliability, [[np.nan, 1], [1, 0.5]])


def test_cancelled_runs_do_not_count(small_log):
    tables = small_log()
    tables["runs"].loc[7, "status"] = "cancelled"
    cells = cells_of(tables)
    assert cells.finished[1, 1] == cells.succeeded[1, 1] == 1


def test_throughput_is_compared_where_batches_differ(small_log):
    tables = small_log()
    runs = tables["runs"]
    runs["duration_s"] = None
    runs["batch_size"] = [64, 64, 1, 1, 64, 64, 1, 1]
    runs["step_time_s"] = [6.4, 6.4, 0.2, 0.2, 12.8, 12.8, 0.4, 0.4]
    np.testing.assert_allclose(cells_of(tables).per_unit, [[0.1, 0.2], [0.2, 0.4]])
    runs["samples_per_s"] = [5.0] * 8  # stated throughput comes before step time
    np.testing.assert_allclose(cells_of(tables).per_unit, 0.2)


def test_batch_comes_from_the_run_then_the_task_then_a_step_is_the_unit(small_log):
    tables = small_log()
    tables["runs"]["duration_s"] = None
    tables["runs"]["step_time_s"] = 8.0
    tables["tasks"]["batch_size"] = [16, None]
    cells = cells_of(tables)
    np.testing.assert_allclose(cells.per_unit, [[0.5, 8.0], [0.5, 8.0]])
    tables["runs"]["batch_size"] = [None] * 4 + [4, 4, None, None]
    # One run of task b tells its batch: the others' steps do not compare with it.
    np.testing.assert_allclose(cells_of(tables).per_unit, [[0.5, 2.0], [0.5, np.nan]])


def test_samples_are_implied_by_duration_and_throughput(small_log):
    tables = small_log()
    tables["runs"]["samples_per_s"] = [3.0, None, None, None, None, None, None, None]
    np.testing.assert_allclose(cells_of(tables).samples, [30.0, np.nan])
    np.testing.assert_allclose(cells_of(tables, np.array([4.0, 1.0])).samples, [120.0, np.nan])
    tables["tasks"]["samples"] = [99.0, None]
    np.testing.assert_allclose(cells_of(tables).samples, [99.0, np.nan])
