"""One capture for all batch sizes: held to captures at batch sizes that it was not made from."""

import re

import pytest
import torch

from mfcp.emulator import zoo
from mfcp.errors import DataError
from mfcp.tasks.capture.model_graph import capture
from mfcp.tasks.capture.scaling import at_batch, capture_scaled


def at(inputs, batch):
    return {name: torch.empty(batch, *t.shape[1:], dtype=t.dtype, device="meta") for name, t in inputs.items()}


def sides_at(shape, batch):
    return re.sub(r"(\d*)b", lambda found: str(int(found[1] or 1) * batch), shape)


@pytest.mark.parametrize(
    ("graph_id", "optimizer"),
    [("resnet-18@32", "sgd"), ("beit-small@32", None), ("gpt2-mini@64", None), ("bert-mini@32", "adamw")],
)
def test_amounts_are_those_of_a_capture_at_that_batch(graph_id, optimizer):
    variant = next(v for v in zoo.variants() if v.graph_id == graph_id)
    model, inputs = zoo.build(variant)
    scaled = capture_scaled(model, inputs, "g", optimizer=optimizer)
    assert (scaled.only, scaled.batch) == ("", 1)
    for batch in (2, 7):
        nodes, edges = capture(model, at(inputs, batch), "g", optimizer=optimizer)
        told = ["shape", "once"]  # in backward passes, gradients that are summed depend on the inputs and do not grow
        assert at_batch(scaled.nodes, batch).drop(columns=told).equals(nodes.drop(columns=told))
        assert scaled.edges.equals(edges)
        assert [sides_at(shape, batch) for shape in scaled.nodes["shape"]] == list(nodes["shape"])


def test_what_does_not_grow_is_kept_apart():
    """Linear 8 → 4 without bias: the gradient and the optimizer are as large for one sample as for many."""
    nodes = capture_scaled(torch.nn.Linear(8, 4, bias=False), [torch.empty(5, 8)], "g", optimizer="sgd").nodes
    product = nodes[(nodes["op"] == "mm") & (nodes["part"] == "backward")].iloc[0]
    assert (product["bytes_written"], product["bytes_written_fixed"]) == (4 * 32, 4 * 32)
    assert (product["flops"], product["flops_fixed"]) == (2 * 32, 0)
    assert nodes["shape"][0] == "bx4"
    optimizer = nodes[nodes["part"] == "optimizer"]
    assert (optimizer["bytes_read"] == optimizer["bytes_read_fixed"]).all()


class Pairs(torch.nn.Module):
    """Every sample with every other, as contrastive losses do."""

    def forward(self, x):
        return x @ x.mT


class Special(torch.nn.Module):
    def forward(self, x):
        return x if x.shape[0] == 2 else torch.relu(x) + x


class Reshaped(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x.view(4, 8))


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Pairs(), "grows faster than the batch"),
        (Special(), "run different operators"),
        (Reshaped(), r"another batch fails: .*aten\.view"),
    ],
)
def test_what_does_not_scale_is_captured_for_its_batch_and_says_so(model, why):
    captured = capture_scaled(model, [torch.empty(4, 8)], "g")
    nodes, _ = capture(model, [torch.empty(4, 8)], "g")
    assert captured.nodes["bytes_written"].tolist() == (nodes["bytes_written"] / 4).tolist()
    assert captured.nodes["flops_fixed"].isna().all()
    assert captured.batch == 4
    assert re.search(why, captured.only)
    with pytest.raises(DataError, match="one batch size only"):
        at_batch(captured.nodes, 8)


def test_inputs_without_a_common_first_side_are_one_sample():
    class Gather(torch.nn.Module):
        def forward(self, x, index):
            return x[index]

    captured = capture_scaled(Gather(), [torch.empty(6, 2), torch.zeros(3, dtype=torch.long)], "g")
    assert "no first side in common" in captured.only
    assert captured.nodes["bytes_written"].tolist() == [24]


def test_a_pass_that_fails_at_its_own_batch_is_an_error():
    with pytest.raises(DataError, match="check the shapes"):
        capture_scaled(torch.nn.Linear(3, 3), [torch.empty(4, 8)], "g")
