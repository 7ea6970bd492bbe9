from pathlib import Path

from mfcp.data.log.schema import SCHEMA, schema_markdown

CONTRACT = {  # the names that users' logs rely on
    "tasks": "task_id domain model batch_size input_size precision phase param_count flops activations graph_id",
    "clusters": "cluster_id accelerator accelerator_count memory_bytes peak_flops memory_bandwidth "
    "interconnect_bandwidth software",
    "runs": "run_id task_id cluster_id attempt step_time_s samples_per_s duration_s status started_at",
    "nodes": "graph_id node_id op flops bytes_read bytes_written output_numel param_count",
    "edges": "graph_id src dst",
}


def test_the_columns_of_the_contract_are_there_and_only_names_and_outcomes_must_be_filled():
    for name, columns in CONTRACT.items():
        assert set(columns.split()) <= {c.name for c in SCHEMA[name].columns}
    filled = {name: [c.name for c in SCHEMA[name].columns if not c.nullable] for name in ("tasks", "clusters", "runs")}
    assert filled == {
        "tasks": ["task_id"],
        "clusters": ["cluster_id"],
        "runs": ["run_id", "task_id", "cluster_id", "status"],
    }
    assert {t.name for t in SCHEMA.values() if t.required} == {"tasks", "clusters", "runs"}


def test_references_name_columns_of_an_earlier_table():
    seen = []
    for table in SCHEMA.values():
        for foreign in table.foreign:
            assert foreign.target in seen
            for ours, theirs in zip(foreign.columns, foreign.target_columns, strict=True):
                assert table[ours].kind == SCHEMA[foreign.target][theirs].kind
        seen.append(table.name)
        assert all(not table[k].nullable for k in table.key)


def test_every_number_has_bounds():
    for table in SCHEMA.values():
        for column in table.columns:
            bounded = column.low is not None and column.high is not None
            assert bounded == (column.kind in ("integer", "real")), column.name


def test_docs_hold_the_schema_as_it_is():
    docs = Path(__file__).parents[3] / "docs" / "data.md"
    assert schema_markdown().strip() in docs.read_text()
