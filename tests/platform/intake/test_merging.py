"""Merging a delivery into the log: valid as a whole, graphs whole or not at all."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from platform_deliveries import Home, damaged, digest, log, table

from mfcp.data.log import validation
from mfcp.data.log.tables import Tables
from mfcp.platform.intake import merging

pytestmark = pytest.mark.xdist_group("inbox")


def test_the_same_rows_in_another_form_change_no_byte(home: Home) -> None:
    home.put("one", log())
    home.ingest()
    before = digest(home.log)
    home.put("two", log(), "csv")
    assert [(d.status, d.rows["runs"]) for d in home.ingest()] == [("taken", 6)]
    assert digest(home.log) == before


def test_a_graph_is_taken_whole_or_not_at_all(home: Home) -> None:
    first = log(0)
    first["edges"].loc[0, "dst"] = 7
    home.put("broken", first)
    (delivery,) = home.ingest()
    assert delivery.refused == {"nodes": 3, "edges": 3}
    home.put("mended", log(0))
    assert home.ingest()[0].status == "taken"
    grown = {"nodes": table("nodes", [{"graph_id": "graph0", "node_id": 3, "op": "add"}])}
    home.put("nodes-more.parquet", grown)
    assert home.ingest()[0].refused == {"nodes": 1}
    assert len(home.tables()["nodes"]) == 3


DAMAGE = ("none", "task", "cluster", "type", "key", "graph", "content")


@settings(max_examples=10, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(DAMAGE), st.integers(0, 5)), min_size=1, max_size=3))
def test_judging_a_delivery_beside_what_it_refers_to_keeps_the_whole_log_valid(
    deliveries: list[tuple[int, str, int]],
) -> None:
    whole: Tables = {}
    for k, damage, at in deliveries:
        whole = merged_twice(whole, damaged(log(k), damage, at))
    assert set(validation.validate(whole, max_bad_share=1).quarantine["constraint"]) <= {"no_success"}


def merged_twice(whole: Tables, tables: Tables) -> Tables:
    """The log after a delivery, which is judged alike when it comes again."""
    merged = merging.merge(whole, tables)
    again = merging.merge(merged.log, tables)
    assert (again.accepted, sum(again.new.values())) == (merged.accepted, 0)
    assert {n: f.index.tolist() for n, f in again.refused.items()} == {
        n: f.index.tolist() for n, f in merged.refused.items()
    }
    return merged.log
