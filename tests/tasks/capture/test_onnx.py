"""ONNX files: held to captures of the same modules, and refused where they are unsafe or broken."""

import warnings

import pytest
import torch
from onnx import helper
from onnx_by_hand import save, tensor

from mfcp.errors import DataError
from mfcp.tasks.capture.onnx import capture_onnx
from mfcp.tasks.capture.scaling import at_batch, capture_scaled
from mfcp.tasks.graphs.operators import classify

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def export(module, inputs, path, dynamic=True):
    """By the exporter that needs no further package."""
    names = [f"x{i}" for i in range(len(inputs))]
    axes = {name: {0: "batch"} for name in names} if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), inputs, str(path), dynamo=False, input_names=names, dynamic_axes=axes)
    return path


class Encoder(torch.nn.Module):
    """Attention and feed-forward, whose export computes shapes at run time."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(50, 32)
        self.layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.head = torch.nn.Linear(32, 50, bias=False)
        for parameter in self.parameters():  # the exporter keeps equal weights once
            torch.nn.init.normal_(parameter)

    def forward(self, tokens):
        return self.head(self.layer(self.embed(tokens)))


def small():
    conv = torch.nn.Conv2d(4, 8, 3, stride=2, groups=2)
    return torch.nn.Sequential(conv, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 9, 10))


@pytest.fixture
def no_fast_path():
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (small(), (torch.zeros(2, 4, 8, 8),)),
        (torch.nn.ConvTranspose2d(4, 6, 3, stride=2), (torch.zeros(2, 4, 5, 5),)),
        (Encoder(), (torch.zeros(2, 7, dtype=torch.long),)),
    ],
    ids=["convolution", "transposed", "attention"],
)
def test_an_exported_module_has_the_flops_and_parameters_of_the_module(model, inputs, tmp_path, no_fast_path):
    ours = capture_onnx(export(model, inputs, tmp_path / "m.onnx"), "g")
    module = capture_scaled(model.eval(), inputs, "g")
    assert ours.only == module.only == ""
    for batch in (1, 16):
        assert at_batch(ours.nodes, batch)["flops"].sum() == at_batch(module.nodes, batch)["flops"].sum() > 0
    assert (
        ours.nodes["param_count"].sum()
        == module.nodes["param_count"].sum()
        == sum(p.numel() for p in model.parameters())
    )
    amounts = (ours.nodes[column].to_numpy(float) for column in ("flops", "output_numel"))
    assert classify(ours.nodes["op"], *amounts)[1] == {}


def test_a_small_file_is_the_same_graph_as_its_module(tmp_path):
    ours = capture_onnx(export(small(), (torch.zeros(2, 4, 8, 8),), tmp_path / "m.onnx"), "g")
    module = capture_scaled(small(), [torch.zeros(2, 4, 8, 8)], "g")
    assert ours.nodes.drop(columns="output_numel").equals(module.nodes.drop(columns="output_numel"))
    assert ours.edges.equals(module.edges)


def test_a_file_with_a_fixed_batch_holds_for_that_batch(tmp_path):
    ours = capture_onnx(export(small(), (torch.zeros(4, 4, 8, 8),), tmp_path / "m.onnx", dynamic=False), "g")
    module = capture_scaled(small(), [torch.zeros(4, 4, 8, 8)], "g")
    assert (ours.batch, ours.nodes["flops"].sum()) == (4, module.nodes["flops"].sum())
    assert "the file fixes the batch" in ours.only


def relu(x, y, **name):
    return helper.make_node("Relu", [x], [y], **name)


@pytest.mark.parametrize(
    ("nodes", "shape", "options", "words"),
    [
        ([relu("x", "y")], ("b", "length"), {}, r"input 'x' is bxlength; give its shape: --input x="),
        ([relu("x", "y")], ("b", 4), {"shapes": {"z": (1, 4)}}, r"no input 'z'; it has x"),
        ([relu("x", "y")], ("b", 4), {"shapes": [(1, 4), (1, 4)]}, r"2 inputs given; it has x"),
        ([relu("x", "y")], ("b", 4), {"shapes": [(1, 5)]}, r"input 'x' is bx4, which 1x5 does not fit"),
        ([relu("z", "y", name="act"), relu("y", "z")], ("b", 4), {}, r"node 'act' \(Relu\) reads 'z', which nothing"),
        ([helper.make_node("NonZero", ["x"], ["y"])], ("b", 4), {}, r"shape of 'y' at a node NonZero cannot be told"),
        ([helper.make_node("MatMul", ["x", "x"], ["y"])], ("b", 4), {}, r"a node MatMul: not fit for its inputs"),
        ([helper.make_node("If", ["x"], ["y"])], ("b", 4), {}, r"a node If decides at run time|not fit"),
        ([helper.make_node("Constant", [], ["y"], value_float=1.0)], (4,), {}, "nothing in it depends on its inputs"),
        ([], ("b", 4), {}, "without operators"),
    ],
)
def test_files_that_cannot_be_counted_say_why(tmp_path, nodes, shape, options, words):
    path = save(tmp_path / "m.onnx", nodes, [tensor("x", *shape)], [tensor("y", *[None] * 2)])
    with pytest.raises(DataError, match=words) as error:
        capture_onnx(path, "g", **options)
    assert str(path) in str(error.value)
