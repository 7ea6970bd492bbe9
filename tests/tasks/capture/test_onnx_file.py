"""ONNX files: read without their weights, refused where they are damaged."""

import time

import pytest
from onnx import TensorProto, helper
from onnx_by_hand import product, save, tensor

from mfcp.errors import DataError
from mfcp.tasks.capture.onnx import capture_onnx

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


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
    with pytest.raises(DataError, match=r"m.onnx: (not a whole ONNX file|an ONNX file without operators|empty file)"):
        capture_onnx(tmp_path / "m.onnx", "g")
    with pytest.raises(DataError, match="no such file"):
        capture_onnx(tmp_path / "n.onnx", "g")


def test_a_chain_of_20000_operators(tmp_path):
    nodes = [relu(f"v{i}", f"v{i + 1}") for i in range(20_000)]
    captured = capture_onnx(save(tmp_path / "m.onnx", nodes, [tensor("v0", "b", 4)], [tensor("v20000", "b", 4)]), "g")
    assert len(captured.nodes) == 20_000
    assert len(captured.edges) == 19_999


def calling(depth, width):
    """Functions that call the next one `width` times each: width^depth operators in a few hundred bytes."""
    own = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    last = [helper.make_node("Relu", ["a"], ["b"])]
    functions = [helper.make_function("own", f"f{depth}", ["a"], ["b"], last, own)]
    for k in range(depth - 1, -1, -1):
        names = ["a", *(f"v{i}" for i in range(width - 1)), "b"]
        nodes = [helper.make_node(f"f{k + 1}", [names[i]], [names[i + 1]], domain="own") for i in range(width)]
        functions.append(helper.make_function("own", f"f{k}", ["a"], ["b"], nodes, own))
    return functions


def hostile(folder, nodes, *, functions=(), dims=("b", 4), opset=17, weights=()):
    graph = helper.make_graph(
        nodes, "g", [tensor("x", *dims)], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], list(weights)
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    path = folder / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=imports, functions=list(functions)).SerializeToString())
    return path


def itself():
    node = helper.make_node("f", ["a"], ["b"], domain="own")
    return [helper.make_function("own", "f", ["a"], ["b"], [node], [helper.make_opsetid("own", 1)])]


def loops(depth):
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [])
    for _ in range(depth):
        inner = helper.make_graph(
            [helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)], "g", [], []
        )
    return [helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)]


CALL = [helper.make_node("f0", ["x"], ["y"], domain="own")]
SHORT = TensorProto(name="w", data_type=TensorProto.INT64, dims=[2], raw_data=b"\1\2\3")
WORDS = TensorProto(name="w", data_type=TensorProto.STRING, dims=[1], string_data=[b"a" * 64 + b"!"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda f: hostile(f, CALL, functions=calling(10, 10)), "10000000000 operators; expected at most 200000"),
        (lambda f: hostile(f, [helper.make_node("f", ["x"], ["y"], domain="own")], functions=itself()), "calls itself"),
        (lambda f: hostile(f, loops(8)), "operators; expected at most|decides at run time|not fit for its inputs"),
        (lambda f: hostile(f, [relu("x", "y")], dims=("b", -3)), "a side of 'x' is -3; expected a length from 0"),
        (lambda f: hostile(f, [relu("x", "y")], dims=("b", 2**62)), "a side of 'x' is 46116860"),
        (lambda f: hostile(f, [relu("x", "y")], opset=0), "operators of no version"),
        (lambda f: hostile(f, [helper.make_node("Reshape", ["x", "w"], ["y"])], weights=[SHORT]), "m.onnx"),
    ],
    ids=["functions", "itself", "branches", "negative", "long", "no version", "short raw data"],
)  # fmt: skip
def test_small_files_that_cost_much_or_mean_nothing_are_told_at_once(tmp_path, make, words):
    path = make(tmp_path)
    assert path.stat().st_size < 100_000
    begin = time.perf_counter()
    with pytest.raises(DataError, match=words):
        capture_onnx(path, "g")
    assert time.perf_counter() - begin < 20


def test_no_regular_expression_of_a_file_is_tried(tmp_path):
    """(a+)+$ against sixty-four a and a bang takes the age of the universe."""
    match = helper.make_node("RegexFullMatch", ["w"], ["m"], pattern="(a+)+$")
    path = hostile(tmp_path, [match, helper.make_node("Where", ["m", "x", "x"], ["y"])], opset=20, weights=[WORDS])
    assert capture_onnx(path, "g").nodes["op"].tolist() == ["where"]
