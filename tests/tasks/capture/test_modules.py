"""Modules without weights: the module stays as it is, and its tensors come along."""

from types import SimpleNamespace

import pytest
import torch
from modules_by_hand import Residual

from mfcp.errors import DataError
from mfcp.tasks.capture.model_graph import capture
from mfcp.tasks.capture.modules import default_loss


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


class Experts(torch.nn.Module):
    """Sends every sample to the expert that its gate prefers; experts without a sample do not run."""

    def __init__(self):
        super().__init__()
        self.gate = torch.nn.Linear(4, 3)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        chosen, y = self.gate(x).argmax(-1), torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            if (mine := chosen == k).any():
                y[mine] = expert(x[mine])
        return y


def test_a_model_that_looks_at_values_runs_with_its_weights_where_that_is_asked_for():
    model, x = Experts(), torch.randn(32, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    used = len(model.gate(x).argmax(-1).unique())
    nodes, _ = capture(model, [x], "g", values=True)
    assert list(nodes["op"]).count("addmm") == 1 + used
    assert nodes["flops"].sum() == 2 * 32 * (4 * 3 + 4 * 4)
    step, _ = capture(model, [x], "g", values=True, optimizer="adamw")
    forward = step[step["part"] == "forward"]
    assert list(forward["op"]).count("addmm") == 1 + used
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("optimizer", [None, "adamw", "sgd"])
@pytest.mark.parametrize("attends", [False, True])
def test_with_values_an_ordinary_model_runs_what_it_runs_without(attends, optimizer):
    if attends:
        model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        x = torch.empty(3, 5, 8, device="meta")
    else:
        parts = [torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
        model, x = torch.nn.Sequential(*parts), torch.empty(2, 3, 8, 8, device="meta")
    without, with_values = (capture(model, [x], "g", optimizer=optimizer, values=values) for values in (False, True))
    columns = ["op", "flops", "output_numel", "param_count", "part", "shape"]
    assert with_values[0][columns].to_dict("list") == without[0][columns].to_dict("list")


def test_with_values_there_is_no_pass_without_weights():
    with pytest.raises(DataError, match="Linear has its weights on the meta device; with values, it needs them"):
        capture(torch.nn.Linear(4, 4, device="meta"), [torch.empty(3, 4)], "g", values=True)


def test_a_pass_with_values_leaves_random_numbers_and_settings_of_torch_as_they_were():
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    settings = torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.enabled
    capture(Experts(), [torch.empty(8, 4, device="meta")], "g", values=True)
    assert (torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.enabled) == settings
    torch.manual_seed(3)
    capture(torch.nn.Linear(4, 4, device="meta"), [torch.empty(8, 4)], "g")
    assert torch.equal(torch.rand(2), expected)


def test_parameters_get_their_shapes_from_the_first_pass():
    model = torch.nn.Sequential(
        torch.nn.LazyConv2d(4, 3), torch.nn.LazyBatchNorm2d(), torch.nn.Flatten(), torch.nn.LazyLinear(2)
    )
    given = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(144, 2)
    )
    for optimizer in (None, "sgd"):
        lazy, plain = (capture(each, [torch.empty(2, 3, 8, 8)], "g", optimizer=optimizer) for each in (model, given))
        assert lazy[0].equals(plain[0])
        assert lazy[1].equals(plain[1])
    assert model[0].has_uninitialized_params()  # the module is left as it is
    with pytest.raises(DataError, match=r"LazyConv2d cannot be captured.*check the shapes"):
        capture(torch.nn.LazyConv2d(2, 3), [torch.empty(3, 4)], "g")


VALUES = torch.tensor([3.0, -4.0], requires_grad=True)


@pytest.mark.parametrize(
    ("output", "loss"),
    [
        (VALUES, -1.0),
        ((VALUES, {"more": 2 * VALUES}, VALUES.detach()), -3.0),
        (SimpleNamespace(loss=VALUES[0], logits=VALUES), 3.0),
        ({"loss": VALUES[0], "logits": VALUES}, 3.0),
        ({"loss": None, "logits": VALUES}, -1.0),
        ({"loss_of_boxes": VALUES[0], "loss_of_classes": 2 * VALUES[0]}, 9.0),
        (torch.complex(VALUES, torch.zeros(2)), 7.0),
    ],
)
def test_the_loss_of_an_output_is_its_own_or_a_sum(output, loss):
    told = default_loss(output)
    assert told.item() == loss
    told.backward()


def test_an_output_that_needs_no_gradient_is_told():
    with pytest.raises(DataError, match="give a loss"):
        default_loss({"loss": 1.0, "classes": torch.arange(3)})
