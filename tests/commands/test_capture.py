"""`mfcp capture` as a user meets it: a module of one's own, ONNX, the zoo, a folder; and what it refuses."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from graphs_by_hand import BLOCK, tables
from test_cli import run
from torch.optim import SGD, Adam, AdamW

from mfcp.commands.capture import DTYPES, OPTIMIZERS
from mfcp.data.log.captured import read_graphs
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import read_table, write_tables
from mfcp.emulator import zoo
from mfcp.tasks.capture import modules
from mfcp.tasks.capture.model_graph import NODE_COLUMNS
from mfcp.tasks.capture.scaling import at_batch

NET = '''
import torch

from beside import WIDTH


class Net(torch.nn.Module):
    """Linear 8 → 4 → 2 with a mask that takes part."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, WIDTH), torch.nn.Linear(WIDTH, 2)

    def forward(self, x, mask=None):
        hidden = torch.relu(self.first(x))
        return self.second(hidden if mask is None else hidden * mask)


class OfValues(Net):
    def forward(self, x):
        return super().forward(x) if x.sum().item() > 0 else x


def built_from_values():
    return torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(int(torch.tensor(3).item()))))


def wants(width):
    return torch.nn.Linear(width, width)


ready = Net()
number = 3
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "beside.py").write_text("WIDTH = 4\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_options_name_what_exists():
    """They are static, so that --help imports no torch."""
    assert modules.OPTIMIZERS == OPTIMIZERS
    assert {cls.__name__.lower() for cls in (SGD, Adam, AdamW)} == set(OPTIMIZERS)
    assert "float32" in DTYPES


@pytest.mark.parametrize("name", ["Net", "ready"])
def test_a_module_of_ones_own(folder, capsys, name):
    code, out, err = run(capsys, "capture", f"net.py:{name}", "--input", "16x8", "--out", "log")
    assert (code, err) == (0, "")
    assert f"{name}: holds for every batch size" in out
    assert f"{name}/train: holds for every batch size" in out
    graphs = read_graphs(folder / "log")
    forward = graphs["nodes"][graphs["nodes"]["graph_id"] == name]
    assert list(forward["op"]) == ["addmm", "relu", "addmm"]
    assert list(forward["flops"]) == [64, 0, 16]
    assert list(at_batch(forward, 16)["bytes_written"]) == [256, 256, 128]
    step = graphs["nodes"][graphs["nodes"]["graph_id"] == f"{name}/train"]
    assert set(step["part"]) == {"forward", "backward", "optimizer"}
    task = read_table(folder / "log/tasks.parquet", SCHEMA["tasks"]).iloc[0]
    expected = {
        "task_id": name, "batch_size": 16, "input_size": 8, "precision": "fp32", "phase": "train", "param_count": 46,
        "flops": 80, "activations": 6, "graph_id": name, "optimizer": "adamw", "flops_train": 80 + 64 + 2 * 16,
    }  # fmt: skip
    assert {key: task[key] for key in expected} == expected


def test_inputs_by_name_and_type_and_without_training(folder, capsys):
    inputs = ["--input", "x=2x8:float32", "--input", "mask=2x4"]
    code, out, err = run(capsys, "capture", "net.py:Net", *inputs, "--phase", "infer", "--batch", 32, "--out", "log")
    assert (code, err) == (0, "")
    assert "train" not in out.split("log")[0].replace("FLOPs training", "")
    assert list(read_graphs(folder / "log")["nodes"]["op"]) == ["addmm", "relu", "mul", "addmm"]
    task = read_table(folder / "log/tasks.parquet", SCHEMA["tasks"]).iloc[0]
    assert (task["phase"], task["batch_size"]) == ("infer", 32)


def test_what_needs_values_to_be_built_is_built_on_the_host(folder, capsys):
    code, out, _ = run(capsys, "capture", "net.py:built_from_values", "--input", "2x8", "--phase", "infer")
    assert code == 0
    assert re.search(r"built_from_values . +3 ", out)


def test_a_model_of_the_zoo(folder, capsys):
    code, out, _ = run(capsys, "capture", "--list")
    assert code == 0
    assert out.splitlines() == [f"zoo:{variant.graph_id}" for variant in zoo.variants()]
    code, out, err = run(capsys, "capture", "zoo:bert-mini@32", "--optimizer", "sgd", "--out", "log")
    assert (code, err) == (0, "")
    assert "counted as other" not in out
    nodes = read_graphs(folder / "log")["nodes"]
    ingested, _ = zoo.capture_all([v for v in zoo.variants() if v.graph_id == "bert-mini@32"])
    columns = list(NODE_COLUMNS)
    own = nodes[nodes["graph_id"] == "bert-mini@32"].reset_index(drop=True)
    assert own[columns].astype(ingested[columns].dtypes).equals(ingested[columns])
    assert "bert-mini@32: holds for batch 1 only: larger batches run 91 operators instead of 79" in out
    assert len(at_batch(nodes[nodes["graph_id"] == "bert-mini@32/batch"], 8)) == 91
    step = nodes[nodes["graph_id"] == "bert-mini@32/train"]
    assert "nll_loss_forward" in set(step["op"])  # it has labels, and so its own loss
    assert step["flops"].sum() == 3 * step.loc[step["part"] == "forward", "flops"].sum()


def test_captures_add_up_in_a_folder_of_any_format(folder, capsys):
    nodes, edges = BLOCK
    tasks = pd.DataFrame({column.name: [None] for column in SCHEMA["tasks"].columns})
    tasks = tasks.assign(task_id="007", graph_id="g", owner="somebody")
    write_tables({"nodes": nodes, "edges": edges, "tasks": tasks}, folder / "log", format="csv")
    for name in ("Net", "ready"):
        assert run(capsys, "capture", f"net.py:{name}", "--input", "2x8", "--out", "log")[0] == 0
    assert sorted(path.name for path in (folder / "log").glob("[!.]*")) == ["edges.csv", "nodes.csv", "tasks.csv"]
    assert set(read_graphs(folder / "log")["nodes"]["graph_id"]) == {"g", "Net", "Net/train", "ready", "ready/train"}
    table = read_table(folder / "log/tasks.csv", SCHEMA["tasks"])
    assert list(table["task_id"]) == ["007", "Net", "ready"]
    assert table["owner"][0] == "somebody"
    assert run(capsys, "capture", "log")[0] == 0


def test_another_capture_of_the_same_name_needs_force(folder, capsys):
    first = ["capture", "net.py:Net", "--input", "2x8", "--out", "log"]
    assert run(capsys, *first)[0] == 0
    before = {path.name: path.read_bytes() for path in (folder / "log").iterdir()}
    code, _, err = run(capsys, *first, "--phase", "infer")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "'Net' is there already; pass --force" in err
    assert {path.name: path.read_bytes() for path in (folder / "log").iterdir()} == before
    assert run(capsys, *first, "--phase", "infer", "--force")[0] == 0
    assert set(read_graphs(folder / "log")["nodes"]["graph_id"]) == {"Net"}
    assert run(capsys, *first, "--name", "other")[0] == 0
    assert list(read_table(folder / "log/tasks.parquet", SCHEMA["tasks"])["task_id"]) == ["Net", "other"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected MODEL: FILE.py:NAME, FILE.onnx, zoo:ID or a folder"),
        (["nowhere"], "'nowhere': expected FILE.py:NAME"),
        (["net.py", "--input", "2x8"], "net.py: which module of it"),
        (["none.py:Net", "--input", "2x8"], "none.py: no such file"),
        (["net.py:Nyet", "--input", "2x8"], "has no 'Nyet'; it has Net, OfValues, built_from_values, wants, ready"),
        (["net.py:number", "--input", "2x8"], "'number' is a int; expected a module"),
        (["net.py:wants", "--input", "2x8"], r"wants\(\) failed \(TypeError: .*'width'\); it must work without"),
        (["net.py:Net"], "expected --input for each input"),
        (["net.py:Net", "--input", "2xeight"], "--input 2xeight: expected .NAME=.SIDES"),
        (["net.py:Net", "--input", "0x8"], "--input 0x8: expected"),
        (["net.py:Net", "--input", "2x8:float"], "--input 2x8:float: expected .*data types are float32"),
        (["net.py:Net", "--input", "x=2x8", "--input", "2x4"], "give every input a NAME of its own, or none"),
        (["net.py:Net", "--input", "2x9"], r"Net cannot be captured, .*'aten.addmm.default'.*check the shapes"),
        (["net.py:OfValues", "--input", "2x8"], r"OfValues cannot be captured.*_local_scalar_dense.*needs the values"),
        (["net.py:Net", "--input", "2x8", "--batch", "0"], "--batch: expected a whole number of at least 1"),
        (["net.py:Net", "--input", "2x8", "--phase", "infer", "--optimizer", "sgd"], "--optimizer does not go with"),
        (["net.py:Net", "--input", "2x8", "--out", "net.py/log"], "cannot write"),
        (["broken.py:Net", "--input", "2x8"], r"broken.py: cannot be executed, line 2 \(ZeroDivisionError"),
        (["syntax.py:Net", "--input", "2x8"], r"syntax.py: cannot be executed, line 1 \(SyntaxError"),
        (["ends.py:Net", "--input", "2x8"], r"ends.py: cannot be executed, line 1 \(SystemExit"),
        (["net.onnx", "--values"], "--values does not go with net.onnx"),
        (["zoo:resnet-18@32", "--values"], "--values does not go with zoo:resnet-18@32"),
        (["empty", "--values"], "--values does not go with empty"),
        (["zoo:resnet-19@224"], "no model 'resnet-19@224' in the zoo; `mfcp capture --list` names them"),
        (["zoo:resnet-18@32", "--input", "1x3x32x32"], "--input does not go with zoo:resnet-18@32"),
        (["none.onnx"], "none.onnx: no such file"),
        (["net.onnx", "--phase", "train"], "net.onnx: an ONNX file holds the forward pass only"),
        (["empty", "--out", "log"], "--out does not go with empty"),
        (["empty"], "empty: no table 'nodes'; expected nodes.parquet"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(folder, capsys, arguments, words):
    (folder / "broken.py").write_text("x = 1\n1 / 0\n")
    (folder / "syntax.py").write_text("def\n")
    (folder / "ends.py").write_text("raise SystemExit('no')\n")
    (folder / "empty").mkdir()
    code, _, err = run(capsys, "capture", *arguments)
    assert code == 2
    assert len(err.splitlines()) == 1, err
    assert re.search(words, err), err
    assert not (folder / "log").exists()


def change(nodes, edges, **columns):
    return nodes.assign(**columns), edges


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (tables(["mm", "relu"], [(0, 1), (1, 0)]), "graph 'g' has a cycle"),
        (tables(["mm", "relu"], [(0, 0)]), "graph 'g' has a cycle"),
        (tables(["mm", "relu"], [(0, 7)]), "row 0 of graph 'g' names dst 7, which is no node_id"),
        (change(*tables(["mm", "relu"], []), flops=-1.0), "nodes.parquet: row 1, flops is '-1.0', expected a number"),
        (change(*tables(["mm", "relu"], []), node_id=0), r"row 1, graph_id, node_id is 'g\|0', expected occurs once"),
        (change(*tables(["mm", "relu"], []), op=None), "nodes.parquet: row 1, op is '', expected text"),
        (tables([], []), "table 'nodes' has no rows"),
    ],
)  # fmt: skip
def test_a_folder_with_a_bad_graph_is_refused(folder, capsys, graph, words):
    write_tables(dict(zip(("nodes", "edges"), graph, strict=True)), folder)
    code, out, err = run(capsys, "capture", ".")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert re.search(words, err), err


def test_a_folder_with_a_large_graph_unknown_operators_and_no_flops(folder, capsys):
    n = 20_000
    chain = tables(
        ["relu"] * (n - 2) + ["warp", "warp"], np.column_stack([np.arange(n - 1), np.arange(1, n)]), flops=0.0
    )
    write_tables(dict(zip(("nodes", "edges"), chain, strict=True)), folder)
    code, out, err = run(capsys, "capture", ".")
    assert (code, err) == (0, "")
    assert re.search(r"g +│ +20000 │ +0 │ +- │ +160k │ +80k │ +40k │ +2 │", out), out
    assert "operators without a class, counted as other and without FLOPs: warp (2)" in out


def test_with_values_a_model_that_looks_at_them_is_captured_the_same_every_time(folder, capsys):
    told, values = [], ("--input", "2x8", "--phase", "infer", "--values")
    for _ in range(2):
        code, out, err = run(capsys, "capture", "net.py:OfValues", *values, "--json")
        assert code == 0, err
        assert "OfValues: holds for batch 2 only: its operators depend on values, here on one draw of inputs" in err
        told.append(json.loads(out))  # what is under way is told elsewhere
    assert told[0] == told[1]
    assert [graph["graph"] for graph in told[0]["graphs"]] == ["OfValues"]


def test_json_has_the_numbers_of_the_table(folder, capsys):
    write_tables(dict(zip(("nodes", "edges"), tables(["relu", "warp"], [(0, 1)]), strict=True)), folder)
    code, out, err = run(capsys, "capture", ".", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    (row,) = told["graphs"]
    assert (row["graph"], row["operators"], row["flops_training"], row["other"]) == ("g", 2, None, 1)
    assert told["operators_without_a_class"] == {"warp": 1}
