"""Operators of ONNX, counted by hand."""

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_by_hand import product, save, tensor

from mfcp.errors import DataError
from mfcp.tasks.capture.onnx import capture_onnx
from mfcp.tasks.graphs.operators import classify

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_operators_of_a_hand_countable_file(tmp_path):
    captured = capture_onnx(product(tmp_path / "m.onnx"), "g")
    columns = ["op", "flops", "bytes_read", "bytes_written", "param_count", "dtype", "shape"]
    assert captured.nodes[columns].to_numpy().tolist() == [["mm", 24, 16, 12, 12, "float32", "bx3"]]


def test_an_operator_without_a_class_is_counted_when_the_file_tells_its_shape(tmp_path):
    nodes = [helper.make_node("Fancy", ["x"], ["y"], domain="mine"), helper.make_node("Relu", ["y"], ["z"])]
    graph = ([tensor("x", "b", 4)], [tensor("z", "b", 4)])
    path = save(tmp_path / "m.onnx", nodes, *graph)
    with pytest.raises(DataError, match=r"shape of 'y' at a node Fancy cannot be told"):
        capture_onnx(path, "g")
    model = onnx.load(path)
    model.graph.value_info.append(tensor("y", "b", 4))
    onnx.save(model, path)
    captured = capture_onnx(path, "g")
    assert list(captured.nodes["op"]) == ["Fancy", "relu"]
    assert captured.only == ""
    assert classify(captured.nodes["op"], np.zeros(2), np.ones(2))[1] == {"Fancy": 1}
