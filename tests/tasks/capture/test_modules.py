"""Modules without weights: the module stays as it is, and its tensors come along."""

import pytest
import torch
from modules_by_hand import Residual

from mfcp.tasks.capture.model_graph import capture


def test_the_module_is_left_as_it_is():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.eval()
    capture(model, [torch.randn(8, 4)], "g", optimizer="adamw")
    assert not model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None and p.device.type == "cpu" for p in model.parameters())


def test_tensors_that_belong_to_no_device_of_the_module_are_taken_along():
    class Positions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            self.table = torch.randn(4)  # neither parameter nor buffer

        def forward(self, x):
            return self.layer(x) + self.table + torch.arange(4)

    nodes, _ = capture(Positions(), [torch.empty(3, 4)], "g")
    assert list(nodes["op"]) == ["addmm", "add", "arange", "add"]


def test_an_exported_program_is_a_module_too():
    """One that makes a tensor on the device that it was exported on."""

    class Counted(Residual):
        def forward(self, x):
            return super().forward(x) + torch.arange(8, device=x.device)

    program = torch.export.export(Counted().eval(), (torch.empty(1, 8),))
    exported, edges = capture(program, [torch.empty(1, 8)], "g")
    module, module_edges = capture(Counted(), [torch.empty(1, 8)], "g")
    assert exported.equals(module)
    assert edges.equals(module_edges)
    assert {value.device.type for value in program.state_dict.values()} == {"cpu"}


@pytest.mark.parametrize("optimizer", [None, "adamw"])
def test_values_that_are_looked_at_only_where_nothing_traces_are_no_obstacle(optimizer):
    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x, mask):
            if not torch.compiler.is_compiling() and mask.all():
                return self.layer(x)
            return self.layer(x) * mask

    inputs = {"x": torch.empty(3, 4), "mask": torch.ones(3, 4)}
    nodes, _ = capture(Masked(), inputs, "g", optimizer=optimizer)
    assert list(nodes["op"])[:2] == ["addmm", "mul"]
    assert set(nodes["part"]) == ({"forward"} if optimizer is None else {"forward", "backward", "optimizer"})
