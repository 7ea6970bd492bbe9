"""Constraints of the schema: each bad row is found, with its reason."""

import numpy as np
import pytest

from mfcp.data.log.validation import validate


def with_cell(log, name, column, row, value):
    """The log with one cell changed."""
    tables = log()
    values = tables[name][column].astype(object)
    values.iloc[row] = value
    tables[name][column] = values
    return tables


def lines_of(validated):
    return [
        tuple(line) for line in validated.quarantine[["table", "row", "key", "column", "constraint", "value"]].values
    ]


@pytest.mark.parametrize(
    ("column", "value", "constraint", "expected"),
    [
        ("duration_s", -1.0, "range", "a number above 0 to 1e+09 s or empty"),
        ("duration_s", 0.0, "range", "a number above 0"),
        ("duration_s", 1e12, "range", "to 1e+09 s"),
        ("duration_s", np.inf, "range", "to 1e+09 s"),
        ("duration_s", "NaN", "type", "a number"),
        ("duration_s", "fast", "type", "a number"),
        ("attempt", 1.5, "type", "a whole number"),
        ("status", None, "missing", "text"),
        ("task_id", "ghost", "reference", "a valid row of tasks (task_id)"),
        ("cluster_id", "ghost", "reference", "a valid row of clusters (cluster_id)"),
        ("started_at", "last week", "type", "ISO 8601"),
    ],
)
def test_a_bad_run_is_quarantined_with_its_reason(small_log, column, value, constraint, expected):
    validated = validate(with_cell(small_log, "runs", column, 2, value), max_bad_share=0.2)
    assert lines_of(validated) == [("runs", 3, "r2", column, constraint, "" if value is None else str(value))]
    assert expected in validated.quarantine["expected"].iloc[0]
    assert validated.tables["runs"]["run_id"].tolist() == ["r0", "r1", "r3", "r4", "r5", "r6", "r7"]
    assert validated.report["tables"]["runs"]["bad_rows"] == 1


def test_all_rows_of_a_duplicate_id_are_bad(small_log):
    tables = with_cell(small_log, "runs", "run_id", 4, "r1")
    validated = validate(tables, max_bad_share=0.5)
    assert [line[:5] for line in lines_of(validated)] == [
        ("runs", 2, "r1", "run_id", "unique"),
        ("runs", 5, "r1", "run_id", "unique"),
    ]


def test_a_task_that_never_succeeded_is_left_out_with_a_warning(small_log):
    tables = small_log()
    tables["runs"].loc[tables["runs"]["task_id"] == "b", "status"] = "failed"
    validated = validate(tables, max_bad_share=0.0)
    assert validated.report["warnings"] == [
        "1 of 2 tasks have no succeeded run anywhere and are left out: b",
    ]
    assert validated.tables["tasks"]["task_id"].tolist() == ["a"]
    assert set(validated.tables["runs"]["task_id"]) == {"a"}
    assert validated.quarantine[["table", "constraint"]].value_counts().to_dict() == {
        ("tasks", "no_success"): 1,
        ("runs", "no_success"): 4,
    }
    assert validated.quarantine["row"].tolist() == [2, 5, 6, 7, 8]


def test_dangling_edges_and_duplicate_nodes(small_log):
    nodes = [{"graph_id": g, "node_id": k, "op": "mm"} for g in ("g", "h") for k in range(3)]
    edges = [{"graph_id": "g", "src": 0, "dst": 1}, {"graph_id": "g", "src": 1, "dst": 7}]
    edges += [{"graph_id": "z", "src": 0, "dst": 1}, {"graph_id": "h", "src": 0, "dst": 2}]
    validated = validate(small_log(nodes=nodes, edges=edges), max_bad_share=0.5)
    assert [line[1:] for line in lines_of(validated)] == [
        (2, "g|1|7", "graph_id, dst", "reference", "g|7"),
        (3, "z|0|1", "graph_id, src", "reference", "z|0"),
        (3, "z|0|1", "graph_id, dst", "reference", "z|1"),
    ]
    assert len(validated.tables["edges"]) == 2
    nodes[1]["node_id"] = 0
    validated = validate(small_log(nodes=nodes), max_bad_share=0.5)
    assert [line[1:5] for line in lines_of(validated)] == [
        (1, "g|0", "graph_id, node_id", "unique"),
        (2, "g|0", "graph_id, node_id", "unique"),
    ]
