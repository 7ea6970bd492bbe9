"""ONNX files: read without their weights, refused where they are damaged."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from mfcp.errors import DataError
from mfcp.tasks.capture.onnx import capture_onnx

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def tensor(name, *shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def save(path, nodes, inputs, outputs, weights=(), *, external=None):
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights))
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=9)
    for weight in model.graph.initializer if external else ():
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=external)
    path.write_bytes(model.SerializeToString())
    return path


def product(path, external=None, shape=("b", 4)):
    weight = numpy_helper.from_array(np.zeros((4, 3), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    return save(path, [node], [tensor("x", *shape)], [tensor("y", None, None)], [weight], external=external)


def test_weights_in_a_file_of_their_own_are_not_read(tmp_path):
    path = product(tmp_path / "m.onnx", external="weights.bin")
    (tmp_path / "weights.bin").write_bytes(b"")  # too short to hold them
    assert capture_onnx(path, "g").nodes["param_count"].tolist() == [12]


@pytest.mark.parametrize(
    ("external", "words"),
    [
        ("weights.bin", r"tensor 'w' has its data in 'weights.bin', which is missing; copy it"),
        ("../weights.bin", r"tensor 'w' has its data in '../weights.bin', outside of the model's folder"),
        ("/etc/hostname", r"'/etc/hostname', outside of the model's folder"),
        ("link.bin", r"'link.bin', outside of the model's folder"),
    ],
)
def test_external_data_that_are_missing_or_elsewhere(tmp_path, external, words):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(bytes(48))
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(DataError, match=words):
        capture_onnx(product(folder / "m.onnx", external=external), "g")


def relu(x, y, **name):
    return helper.make_node("Relu", [x], [y], **name)


@pytest.mark.parametrize("content", [b"", b"not a model", bytes(range(256))])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(DataError, match=r"m.onnx: (not a whole ONNX file|an ONNX file without operators)"):
        capture_onnx(tmp_path / "m.onnx", "g")
    with pytest.raises(DataError, match="no such file"):
        capture_onnx(tmp_path / "n.onnx", "g")


def test_a_chain_of_20000_operators(tmp_path):
    nodes = [relu(f"v{i}", f"v{i + 1}") for i in range(20_000)]
    captured = capture_onnx(save(tmp_path / "m.onnx", nodes, [tensor("v0", "b", 4)], [tensor("v20000", "b", 4)]), "g")
    assert len(captured.nodes) == 20_000
    assert len(captured.edges) == 19_999
