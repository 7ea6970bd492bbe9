"""Operators of ONNX, counted by hand."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
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


def constant(name, *shape, kind=np.float32):
    return numpy_helper.from_array(np.zeros(shape, kind), name)


CASES = {
    "LSTM": ([5, 2, 4], [(1, 12, 4), (1, 12, 3)], {"hidden_size": 3}, [5, 1, 2, 3], 2 * 5 * 2 * 12 * (4 + 3)),
    "GRU": (
        [5, 2, 4],
        [(2, 9, 4), (2, 9, 3)],
        {"hidden_size": 3, "direction": "bidirectional"},
        [5, 2, 2, 3],
        2 * 5 * 2 * 2 * 9 * (4 + 3),
    ),
    "Einsum": ([2, 3, 4], [(4, 6, 5)], {"equation": "bij, jhk -> bhik"}, [2, 6, 3, 5], 2 * 2 * 3 * 4 * 6 * 5),
    "Erf": ([2, 3], [], {}, [2, 3], 0),
}


@pytest.mark.parametrize("operator", CASES)
def test_recurrent_layers_and_sums_over_letters_count_their_products(tmp_path, operator):
    shape, weights, attributes, out, flops = CASES[operator]
    names = [f"w{k}" for k in range(len(weights))]
    node = helper.make_node(operator, ["x", *names], ["y"], **attributes)
    stored = [constant(name, *sides) for name, sides in zip(names, weights, strict=True)]
    path = save(tmp_path / "m.onnx", [node], [tensor("x", *shape)], [tensor("y", *out)], stored)
    captured = capture_onnx(path, "g")
    assert captured.nodes["flops"].sum() * captured.batch == flops
    assert not classify(captured.nodes["op"], captured.nodes["flops"].to_numpy(float), np.ones(1))[1]
