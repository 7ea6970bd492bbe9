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
