"""A release that remembers graphs predicts as one that does not."""

import numpy as np
import pytest
from platform_served import NEW

from mfcp.platform.service.graph_cache import RememberingRelease

pytestmark = pytest.mark.xdist_group("api")  # one worker makes what they share


def test_a_release_remembers_graphs_up_to_its_limit_and_predicts_alike(release):
    calls = []

    def recall(names):
        calls.append(sorted(names))
        return {name: NEW[name][NEW[name]["graph_id"].isin(names)] for name in ("nodes", "edges")}

    quick = RememberingRelease.of(release, recall, most=2)
    truth = release.predict(NEW)
    for tables in ({"tasks": NEW["tasks"]}, NEW, {"tasks": NEW["tasks"]}):
        believed = quick.predict(tables)
        np.testing.assert_allclose(believed.T, truth.T)
        np.testing.assert_allclose(believed.A, truth.A)
    assert len(quick._known) == 2
    one = {"tasks": NEW["tasks"].head(1)}
    quick.predict(one)
    before = len(calls)
    quick.predict(one)
    assert len(calls) == before
    none = NEW["tasks"].assign(graph_id=None)
    np.testing.assert_allclose(quick.predict({"tasks": none}).T, release.predict({"tasks": none}).T)


def test_times_by_operators_are_remembered_by_graph_and_batch(release):
    """Two tasks of one graph with other batches have other times; each is computed once."""
    assert release.operators is not None
    tasks = NEW["tasks"].head(2).assign(graph_id=NEW["tasks"]["graph_id"].iloc[0], batch_size=[1.0, 64.0])
    tables = {**NEW, "tasks": tasks}
    quick = RememberingRelease.of(release)
    for _ in range(2):
        np.testing.assert_allclose(quick.describe(tables), release.describe(tables))
    assert len(quick._known) == 2
    times = quick.describe(tables)[:, len(release.feature_names) - 1 :]
    assert times.shape == (2, len(release.cluster_id))
    assert (times[0] != times[1]).all()
