"""What a log is good for is counted, and every limit that fails is named at once."""

import numpy as np
import pytest
from platform_log import small_log as platform_log

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.pool.coverage import Coverage, refuse_thin
from mfcp.errors import DataError


def valid(tables):
    return {name: coerce(SCHEMA[name], frame).frame for name, frame in tables.items()}


def test_counts_of_a_log(small_log):
    seen = Coverage.of(valid(small_log()))
    assert seen.cluster_id == ("x", "y")
    assert seen.tasks.tolist() == [2, 2]
    assert (seen.shared, seen.timed, seen.pairs, seen.failures) == (2, 2, (4, 4), 1)
    assert seen.runs.tolist() == [2.0, 1.5]
    assert seen.durations


def test_what_is_enough_is_let_through():
    refuse_thin(Coverage.of(platform_log(6)), benchmark=True, where="log")
    refuse_thin(Coverage.of(platform_log(3)), benchmark=False, where="log")


def test_a_release_is_offered_where_a_benchmark_is_not_possible():
    with pytest.raises(DataError) as caught:
        refuse_thin(Coverage.of(platform_log(3)), benchmark=True, where="mine")
    assert "tasks: 3 with a time on two such clusters, 6 needed" in str(caught.value)
    assert "What works on this log: mfcp release --data mine --out my-release" in str(caught.value)


def test_every_limit_is_named_at_once():
    tables = platform_log(2)
    runs = tables["runs"]
    only = {**tables, "runs": runs[runs["cluster_id"] == "a"]}
    with pytest.raises(DataError) as caught:
        refuse_thin(Coverage.of(only), benchmark=True, where="mine")
    text = str(caught.value)
    assert "clusters: 1 of 3 with a time of at least 2 tasks, 2 needed" in text
    assert "tasks: 0 with a time on two such clusters, 6 needed" in text
    assert "mfcp check mine" in text
    nothing = runs.assign(duration_s=np.nan)
    assert "runs: none that succeeded tells duration_s" in Coverage.of({**tables, "runs": nothing}).missing(3)[0]
