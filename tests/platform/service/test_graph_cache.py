"""A release that remembers graphs predicts as one that does not."""

import numpy as np
import pytest
from platform_log import misled, small_log, small_release

from mfcp.platform.service.graph_cache import RememberingRelease
from mfcp.release.model import Release

LOG = small_log()
NEW = small_log(6, seed=9, start=500)
pytestmark = pytest.mark.xdist_group("api")  # one worker makes what they share


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """Two releases' folders."""
    folder = tmp_path_factory.mktemp("releases")
    small_release(folder / "one", LOG)
    small_release(folder / "two", misled(LOG))
    return folder / "one", folder / "two"


@pytest.fixture(scope="module")
def release(releases):
    return Release.load(releases[0])


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
