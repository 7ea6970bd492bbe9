"""What joining.py makes of a log: a cluster of few runs, judged on families that the release has not seen."""

from dataclasses import replace

import numpy as np
import pytest
from platform_log import small_log, small_settings

from benchmarks import joining
from mfcp.errors import DataError


@pytest.fixture
def log(tmp_path, monkeypatch):
    for name, table in small_log().items():
        table.to_parquet(tmp_path / f"{name}.parquet")
    monkeypatch.setitem(joining.STATE, "settings", small_settings())
    return tmp_path


def test_a_release_of_few_runs_is_judged_there_and_elsewhere(log):
    joining.prepare(log, 400)
    few, every = (joining.joined("c", runs, 0) for runs in (18, joining.ALL))
    for mape, holds in (few, every):
        assert mape.shape == holds.shape == (3,)
        assert (mape > 0).all()
        assert ((holds >= 0) & (holds <= 1)).all()
    pool = joining.STATE["pool"]
    slow = np.where((pool.cluster_id == "c")[:, None], 1000.0, 1.0) * pool.T
    joining.STATE["pool"] = replace(pool, T=slow)  # as if the one that joins, the first, had been told a thousandth
    assert joining.joined("c", 18, 0)[0] == pytest.approx([99.9, *few[0][1:]], abs=0.1)


def test_too_few_runs_and_too_few_clusters_are_said(log):
    joining.prepare(log, 400)
    with pytest.raises(DataError, match="3 runs on c: too few for a release, which left out c"):
        joining.joined("c", 3, 0)
    runs = small_log()["runs"]
    runs[runs["cluster_id"] != "c"].to_parquet(log / "runs.parquet")
    with pytest.raises(DataError, match="2 clusters with enough tasks, 3 needed"):
        joining.prepare(log, 400)


def test_ratios_are_of_the_cluster_that_joins():
    mape = {20: np.array([[20.0, 5.0], [30.0, 7.0]]), joining.ALL: np.array([[10.0, 7.0], [15.0, 9.0]])}
    holds = {20: np.array([[0.75, 0.8], [0.85, 0.8]]), joining.ALL: np.full((2, 2), 0.5)}
    few, every = joining.judged(mape, holds)
    assert (every["runs"], every["mape"], every["ratio"], every["low"], every["high"]) == (None, 12.5, 1, 1, 1)
    assert (few["runs"], few["mape"], few["others"], few["holds"]) == (20, 25, 6, pytest.approx(0.8))
    assert (few["ratio"], few["low"], few["high"]) == (2, 2, 2)
