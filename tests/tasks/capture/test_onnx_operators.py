"""Operators of ONNX, counted by hand."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_by_hand import product, save, tensor

from mfcp.errors import DataError
from mfcp.tasks.capture.onnx import capture_onnx
from mfcp.tasks.capture.onnx_operators import count_flops
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
BYTE = TensorProto.UINT8
QUANTIZED = {  # weight, output, FLOPs of an input 2 × 3 × 8 × 8, or 2 × 3 of a product
    "ConvInteger": ((4, 3, 3, 3), (2, 4, 6, 6), 2 * 2 * 4 * 6 * 6 * 27),
    "QLinearConv": ((4, 3, 3, 3), (2, 4, 6, 6), 2 * 2 * 4 * 6 * 6 * 27),
    "MatMulInteger": ((3, 5), (2, 5), 2 * 2 * 3 * 5),
    "QLinearMatMul": ((3, 5), (2, 5), 2 * 2 * 3 * 5),
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


@pytest.mark.parametrize("operator", QUANTIZED)
def test_quantized_products_count_as_those_that_are_not(tmp_path, operator):
    weight, out, flops = QUANTIZED[operator]
    x = (2, 3, 8, 8) if "Conv" in operator else (2, 3)
    stored, names, kind = [constant("w", *weight, kind=np.uint8)], ["x", "w"], TensorProto.INT32
    if operator.startswith("QLinear"):
        names, kind = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], BYTE
        stored += [constant(name, kind=np.float32 if name[1] == "s" else np.uint8) for name in names if len(name) == 2]
    node = helper.make_node(operator, names, ["y"])
    path = save(tmp_path / "m.onnx", [node], [tensor("x", *x, kind=BYTE)], [tensor("y", *out, kind=kind)], stored)
    captured = capture_onnx(path, "g")
    assert captured.nodes["flops"].sum() * captured.batch == flops


@pytest.mark.parametrize(("heads", "operator"), [((2, 4, 6, 8), "Attention"), ((2, 6, 32), "MultiHeadAttention")])
def test_attention_is_a_product_by_keys_and_one_by_values(heads, operator):
    node = helper.make_node(operator, ["q", "k", "v"], ["y"])
    assert count_flops(node, [heads] * 3, heads) == 2 * (2 * 2 * 4 * 6 * 6 * 8)


def test_attention_of_onnx_runtime_makes_its_queries_itself():
    node = helper.make_node("Attention", ["x", "w", "b"], ["y"], domain="com.microsoft")
    assert count_flops(node, [(2, 6, 32), (32, 96), (96,)], (2, 6, 32)) == 2 * 2 * 6 * 32 * 96 + 2 * (
        2 * 2 * 6 * 6 * 32
    )
    assert count_flops(node, [(32,), (32,), (96,)], (32,)) == 0
