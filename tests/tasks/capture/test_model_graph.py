import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import FlopCounterMode

from mfcp.emulator import zoo
from mfcp.errors import DataError, SettingsError
from mfcp.tasks.capture.model_graph import EDGE_COLUMNS, EXTRA_COLUMNS, NODE_COLUMNS, capture
from mfcp.tasks.graphs.operators import classify


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


class Attention(torch.nn.Module):
    """Three projections and PyTorch's fused attention, 4 heads of 8."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(32, 96, bias=False)

    def forward(self, x):
        heads = self.project(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return scaled_dot_product_attention(*heads)


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
        (torch.nn.Linear(5, 5), {}, r"'aten.addmm.default'.*check the shapes"),
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
