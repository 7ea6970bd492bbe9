"""Times by operators as a forecast: one factor per cluster, and another forecaster where there is no graph."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import toy_setting

from mfcp.errors import SettingsError
from mfcp.methods.pretrain import training_data
from mfcp.predictors.forecast import TaskInputs
from mfcp.predictors.gaussian_process import GaussianProcess
from mfcp.predictors.operator_times import OperatorForecast

OTHER = GaussianProcess(steps=10, sample=40)
MEMBER = OperatorForecast(fallback=OTHER)


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.fixture(scope="module")
def data(setting):
    return training_data(setting, 3, "learned")


def predict(model, setting, times):
    with torch.no_grad():
        return tuple(x.numpy() for x in model(TaskInputs.of(setting.Z, times)))


def test_times_are_those_of_operators_times_one_factor_per_cluster(setting, data):
    forecast = MEMBER.fit(data)
    log_t, _ = predict(forecast.model, setting, setting.operator_times)
    factor = log_t - setting.operator_times
    told = np.isfinite(setting.operator_times)
    for s in range(2):
        for i in range(setting.clusters):
            pairs = data.train[s, i] & told[s, i]
            gap = np.log(setting.T[i][pairs]) - setting.operator_times[s, i][pairs]
            np.testing.assert_allclose(factor[s, i][told[s, i]], np.median(gap), rtol=1e-9)


def test_without_a_graph_and_for_reliability_the_other_forecaster_speaks(setting, data):
    forecast, other = MEMBER.fit(data), OTHER.fit(data)
    bare = ~np.isfinite(setting.operator_times)
    assert bare.any()
    found, expected = (predict(each.model, setting, setting.operator_times) for each in (forecast, other))
    np.testing.assert_array_equal(found[0][bare], expected[0][bare])
    np.testing.assert_array_equal(found[1], expected[1])
    learned = bare & (data.fold >= 0)[:, None]
    np.testing.assert_array_equal(forecast.out_of_fold.log_time[learned], other.out_of_fold.log_time[learned])
    for one, two in zip(predict(forecast.model, setting, None), expected, strict=True):  # a release without networks
        np.testing.assert_array_equal(one, two)


def test_a_cluster_without_a_time_of_a_task_with_a_graph_has_the_other_forecasters(setting, data):
    times = setting.operator_times.copy()
    times[:, 1] = np.nan
    forecast = MEMBER.fit(replace(data, operator_times=times))
    log_t, _ = predict(forecast.model, setting, times)
    np.testing.assert_array_equal(log_t[:, 1], predict(OTHER.fit(data).model, setting, None)[0][:, 1])
    assert np.isfinite(forecast.out_of_fold.log_time).all()


def test_on_a_log_without_graphs_it_is_the_other_forecaster(setting, data):
    nothing = np.full_like(setting.operator_times, np.nan)
    forecast, other = MEMBER.fit(replace(data, operator_times=nothing)), OTHER.fit(data)
    for times in (nothing, setting.operator_times):  # of tasks to come, even with a graph: nothing was learned
        for one, two in zip(predict(forecast.model, setting, times), predict(other.model, setting, None), strict=True):
            np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(forecast.out_of_fold.log_time, other.out_of_fold.log_time)


def test_features_without_times_by_operators_name_the_key_to_set(data):
    with pytest.raises(SettingsError, match=r"set featurize\.operator_times"):
        MEMBER.fit(replace(data, operator_times=None))


def test_it_cannot_hold_out_labels_that_the_features_learned():
    with pytest.raises(ValueError, match="validation"):
        OperatorForecast(validation="held_out")
