import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mfcp.emulator import zoo
from mfcp.errors import DataError
from mfcp.tasks.capture import EDGE_COLUMNS, NODE_COLUMNS, capture


class Residual(torch.nn.Module):
    """Two layers, an in-place activation on a view, and a skip connection: small enough to count by hand."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.second = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x):
        y = self.first(x)
        torch.relu_(y.view(-1))
        return self.second(y) + x


def meta(cls, *args):
    with torch.device("meta"):
        return cls(*args)


def test_operators_of_a_hand_countable_model():
    nodes, edges = capture(meta(Residual), [torch.empty(1, 8, device="meta")], "g")
    assert tuple(nodes) == NODE_COLUMNS
    assert tuple(edges) == EDGE_COLUMNS
    assert list(nodes["op"]) == ["addmm", "relu", "mm", "add"]
    assert list(nodes["flops"]) == [128, 0, 128, 0]
    assert list(nodes["bytes_read"]) == [32, 32, 32, 64]
    assert list(nodes["bytes_written"]) == [32, 32, 32, 32]
    assert list(nodes["output_numel"]) == [8, 8, 8, 8]
    assert list(nodes["param_count"]) == [72, 0, 64, 0]
    # The view is looked through, and the second layer reads what the in-place operator wrote last.
    assert edges[["src", "dst"]].to_numpy().tolist() == [[0, 1], [1, 2], [2, 3]]


def test_shared_parameters_are_counted_once():
    linear = torch.nn.Linear(4, 4, bias=False, device="meta")
    nodes, _ = capture(torch.nn.Sequential(linear, linear), [torch.empty(1, 4, device="meta")], "g")
    assert list(nodes["param_count"]) == [16, 0]


@pytest.mark.parametrize(
    "graph_id", ["resnet-18@32", "mobilenet_v2-0.5@32", "swin-nano@32", "bert-mini@32", "t5-mini@32"]
)
def test_flops_are_those_of_the_flop_counter_of_torch(graph_id):
    variant = next(v for v in zoo.variants() if v.graph_id == graph_id)
    model, inputs = zoo.build(variant)
    nodes, _ = capture(model, inputs, graph_id)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(**inputs)
    assert nodes["flops"].sum() == counter.get_total_flops() > 0


def test_the_same_model_gives_the_same_tables():
    variant = zoo.variants(["bert"])[0]
    first, second = (zoo.capture_all([variant]) for _ in range(2))
    assert first[0].equals(second[0])
    assert first[1].equals(second[1])


def test_a_pass_that_needs_values_is_an_error_that_names_the_operator():
    class Data(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum().item() > 0 else x

    with pytest.raises(DataError, match=r"graph 'g': Data cannot be captured.*_local_scalar_dense"):
        capture(Data(), [torch.empty(2, device="meta")], "g")
