"""What is recorded of a pass, counted by hand."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from mfcp.tasks.capture.model_graph import capture


class Attention(torch.nn.Module):
    """Three projections and PyTorch's fused attention, 4 heads of 8."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(32, 96, bias=False)

    def forward(self, x):
        heads = self.project(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return scaled_dot_product_attention(*heads)


def test_a_convolution_counted_by_hand():
    """3 → 5 channels, 3 x 3, on 8 x 8: 5 · 36 outputs of 27 products; the input needs no gradient."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3))
    inputs = [torch.empty(2, 3, 8, 8)]
    forward, _ = capture(model, inputs, "g")
    step, _ = capture(model, inputs, "g", optimizer="adam")
    products = 2 * 2 * 5 * 36 * 27
    assert forward["flops"].tolist() == [products]
    assert forward["shape"].tolist() == ["2x5x6x6"]
    assert step.groupby("part")["flops"].sum()[["forward", "backward"]].tolist() == [products, products]


def test_fused_attention_counted_by_hand():
    """Scores and mixing are 2 · 4 · 10 · 10 · 8 each a sample, and twice that backward."""
    step, _ = capture(Attention(), [torch.empty(1, 10, 32)], "g", optimizer="adamw")
    projection, attention = 2 * 10 * 32 * 96, 2 * (2 * 4 * 10 * 10 * 8)
    flops = step.groupby("part")["flops"].sum()
    assert flops["forward"] == projection + attention
    assert flops["backward"] == projection + 2 * attention


def test_shared_parameters_are_counted_once():
    linear = torch.nn.Linear(4, 4, bias=False, device="meta")
    nodes, _ = capture(torch.nn.Sequential(linear, linear), [torch.empty(1, 4, device="meta")], "g")
    assert list(nodes["param_count"]) == [16, 0]


class Groups(torch.nn.Module):
    """Every row times the matrix of its group; rows of a group follow one another."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 16, 8))
        self.register_buffer("ends", torch.tensor([4, 4, 12], dtype=torch.int32))

    def forward(self, x):
        return torch.nn.functional.grouped_mm(x, self.weight, offs=self.ends)


def test_products_of_groups_count_as_the_rows_that_they_have_together():
    x = torch.randn(12, 16, requires_grad=True)
    step, _ = capture(Groups(), [x], "g", values=True, optimizer="sgd", loss=lambda output: output.square().sum())
    products = step[step["op"] == "_grouped_mm"]
    assert products["part"].value_counts().to_dict() == {"forward": 1, "backward": 2}
    assert list(products["flops"]) == [2 * 12 * 16 * 8] * 3
