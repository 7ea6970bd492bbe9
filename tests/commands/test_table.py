"""`mfcp table` prints a metrics.json, and refuses anything else."""

import json

from commands.called import run


def test_a_table_of_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "m.json").write_text("[1, 2]")
    code, _, err = run(capsys, "table", tmp_path / "m.json")
    assert code == 2
    assert "not a metrics.json" in err


def test_the_pooled_table_or_all_of_them(tmp_path, capsys):
    value = {"mean": 0.25, "std": 0.1, "ci_low": 0.2, "ci_high": 0.3, "n": 4}
    metrics = {name: {"tsm": {"penalised_excess": value}} for name in ("A", "pooled")}
    (tmp_path / "m.json").write_text(json.dumps(metrics))
    code, out, _ = run(capsys, "table", tmp_path / "m.json")
    assert code == 0
    assert "0.250 [0.200, 0.300]" in out
    assert "setting A" not in out
    assert "setting A" in run(capsys, "table", tmp_path / "m.json", "--all")[1]


def test_the_numbers_as_json_and_where_the_log_comes_from(tmp_path, capsys):
    value = {"mean": 0.25, "std": 0.1, "ci_low": 0.2, "ci_high": 0.3, "n": 4}
    (tmp_path / "m.json").write_text(
        json.dumps({name: {"tsm": {"penalised_excess": value}} for name in ("A", "pooled")})
    )
    (tmp_path / "pool.json").write_text('{"emulated": ["runs", "failures"]}')
    assert json.loads(run(capsys, "table", tmp_path / "m.json", "--json")[1])["tsm"]["penalised_excess"] == value
    assert set(json.loads(run(capsys, "table", tmp_path / "m.json", "--json", "--all")[1])) == {"A", "pooled"}
    out = run(capsys, "table", tmp_path / "m.json")[1]
    assert out.startswith("EMULATED LOG: its runs, failures never took place.")
    assert "over 4 pairs of setting and seed" in " ".join(out.split())
