from typing import ClassVar

import pytest
import torch
from modules_by_hand import Residual
from torch.utils.flop_counter import FlopCounterMode

from mfcp.emulator import zoo
from mfcp.errors import DataError, SettingsError
from mfcp.tasks.capture.model_graph import EDGE_COLUMNS, EXTRA_COLUMNS, NODE_COLUMNS, capture
from mfcp.tasks.graphs.operators import classify


def meta(cls, *args, **kwargs):
    with torch.device("meta"):
        return cls(*args, **kwargs)


def test_operators_of_a_hand_countable_model():
    nodes, edges = capture(meta(Residual), [torch.empty(1, 8, device="meta")], "g")
    assert tuple(nodes) == NODE_COLUMNS + EXTRA_COLUMNS
    assert tuple(edges) == EDGE_COLUMNS
    assert list(nodes["op"]) == ["addmm", "relu", "mm", "add"]
    assert list(nodes["flops"]) == [128, 0, 128, 0]
    assert list(nodes["bytes_read"]) == [32, 32, 32, 64]
    assert list(nodes["bytes_written"]) == [32, 32, 32, 32]
    assert list(nodes["output_numel"]) == [8, 8, 8, 8]
    assert list(nodes["param_count"]) == [72, 0, 64, 0]
    assert set(nodes["part"]) == {"forward"}
    assert set(nodes["dtype"]) == {"float32"}
    assert set(nodes["once"]) == {0}
    assert list(nodes["shape"]) == ["1x8", "8", "1x8", "1x8"]
    # The view is looked through, and the second layer reads what the in-place operator wrote last.
    assert edges[["src", "dst"]].to_numpy().tolist() == [[0, 1], [1, 2], [2, 3]]


def test_a_training_step_counted_by_hand():
    """Linear 8 → 4, batch 2, loss the sum: products forward, of the weight's gradient, and none for the input's."""
    linear = torch.nn.Linear(8, 4)
    nodes, edges = capture(linear, [torch.empty(2, 8)], "g", optimizer="sgd")
    parts = {part: list(rows["op"]) for part, rows in nodes.groupby("part", sort=False)}
    assert parts == {
        "forward": ["addmm", "sum"],
        "backward": ["ones_like", "mm", "sum"],
        "optimizer": ["add", "mul", "add", "add"],  # weight decay, momentum twice, step
    }
    assert nodes.groupby("part")["flops"].sum().to_dict() == {"forward": 128, "backward": 128, "optimizer": 0}
    step = nodes.iloc[-1]
    assert (step["bytes_read"], step["bytes_written"], step["output_numel"]) == (2 * 4 * 36, 4 * 36, 36)
    assert nodes["param_count"].sum() == 36
    ends = {(nodes["op"][src], nodes["op"][dst]) for src, dst in edges[["src", "dst"]].to_numpy()}
    assert {("addmm", "sum"), ("mm", "add"), ("sum", "add")} <= ends  # gradients reach the optimizer


@pytest.mark.parametrize(
    "graph_id",
    [
        "resnet-18@32",
        "vit-tiny@32",
        "bert-mini@32",
        "gpt2-mini@64",
        "mobilenet_v2-0.5@32",
        "swin-nano@32",
        "t5-mini@32",
    ],
)
def test_flops_are_those_of_the_flop_counter_of_torch(graph_id):
    variant = next(v for v in zoo.variants() if v.graph_id == graph_id)
    model, inputs = zoo.build(variant)
    inputs = {name: torch.empty(2, *t.shape[1:], dtype=t.dtype, device="meta") for name, t in inputs.items()}
    nodes, _ = capture(model, inputs, graph_id)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.eval()(**inputs)
    assert nodes["flops"].sum() == counter.get_total_flops() > 0
    step, _ = capture(model, inputs, graph_id, optimizer="sgd", loss=lambda output: output.logits.sum())
    with FlopCounterMode(display=False) as counter:
        model.train()(**inputs).logits.sum().backward()
    assert step["flops"].sum() == counter.get_total_flops() > 2 * nodes["flops"].sum()
    amounts = (step[column].to_numpy(float) for column in ("flops", "output_numel"))
    assert classify(step["op"], *amounts)[1] == {}


def test_the_same_model_gives_the_same_tables():
    variant = zoo.variants(["bert"])[0]
    first, second = (zoo.capture_all([variant]) for _ in range(2))
    assert first[0].equals(second[0])
    assert first[1].equals(second[1])


class Standardised(torch.nn.Linear):
    """Computes its weights in every pass, and a mask for all models of its size in the first one of any."""

    masks: ClassVar[dict[int, torch.Tensor]] = {}

    def forward(self, x):
        if self.out_features not in self.masks:
            self.masks[self.out_features] = torch.ones(1, self.out_features, device=x.device).tril(-1)
        return torch.nn.functional.linear(x, self.weight - self.weight.mean()) * self.masks[self.out_features]


def test_what_a_first_pass_keeps_is_in_no_graph():
    """So a graph does not depend on what was captured before it."""
    Standardised.masks.clear()
    first, second = (capture(Standardised(8, 8, bias=False), [torch.empty(1, 8)], "g")[0] for _ in range(2))
    assert list(first["op"]) == ["mean", "sub", "mm", "mul"]
    assert list(first["once"]) == [1, 1, 0, 0]
    assert first.equals(second)
    step = capture(Standardised(4, 4, bias=False), [torch.empty(1, 4)], "g", optimizer="sgd")[0]
    assert "tril" not in set(step["op"])
    assert set(step.loc[step["part"] == "optimizer", "once"]) == {1}


def test_captures_of_a_family_do_not_depend_on_their_order():
    small, large = (v for v in zoo.variants(["beit"]) if v.shape == 32)
    apart = [zoo.capture_all([v])[0] for v in (large, small)]
    together = zoo.capture_all([small, large])[0]
    for nodes in apart:
        own = together[together["graph_id"] == nodes["graph_id"][0]].reset_index(drop=True)
        assert own.equals(nodes)


class OfValues(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum().item() > 0 else x


class OfOutside(torch.nn.Module):
    outside = (torch.randn(3, 4),)

    def forward(self, x):
        return x + self.outside[0]


class OfNothing(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


@torch.library.custom_op("mfcp_test::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


class OfItsOwn(torch.nn.Module):
    def forward(self, x):
        return double(x)


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (OfValues(), {}, r"graph 'g': OfValues cannot be captured.* at 'aten._local_scalar_dense.*needs the values"),
        (OfOutside(), {}, r"'aten.add.Tensor'.*register it as a buffer"),
        (OfItsOwn(), {}, r"'mfcp_test.double.default'.*shape rule with torch.library.register_fake"),
        (torch.nn.Linear(5, 5), {}, r"'aten.addmm.default'.*check the shapes.*run it for real \(--values\)$"),
        (
            torch.nn.Linear(5, 5),
            {"values": True},
            r"'aten.addmm.default'.*check the shapes and data types of the inputs$",
        ),
        (OfNothing(), {"optimizer": "sgd"}, "no parameter to train"),
        (torch.nn.Linear(4, 4), {"optimizer": "sgd", "loss": lambda output: output}, r"backward pass failed .*scalar"),
        ("model", {}, "expected a torch.nn.Module or an exported program, got str"),
    ],
)
def test_a_pass_that_fails_names_the_operator_and_the_remedy(model, options, words, capfd):
    with pytest.raises(DataError, match=words):
        capture(model, [torch.empty(3, 4)], "g", **options)
    assert capfd.readouterr() == ("", "")


def test_an_unknown_optimizer_is_a_setting():
    with pytest.raises(SettingsError, match="unknown optimizer 'lion'; known: adam, adamw, sgd"):
        capture(torch.nn.Linear(4, 4), [torch.empty(3, 4)], "g", optimizer="lion")
