"""Modules out of a user's file: built without weights, refused with file, line and reason."""

import pytest
import torch

from mfcp.errors import DataError
from mfcp.tasks.capture.user_module import load_module

NETS = """
import torch
import beside_these_nets

class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(3, beside_these_nets.WIDTH)

ready = torch.nn.Linear(2, 2)
number = 7

def needs_values():
    net = torch.nn.Linear(2, 2)
    net.scale = float(net.weight.sum())
    return net

def gives_text():
    return "no module"

def fails():
    return 1 / 0
"""


@pytest.fixture
def nets(tmp_path):
    (tmp_path / "beside_these_nets.py").write_text("WIDTH = 5")
    (tmp_path / "nets.py").write_text(NETS)
    return tmp_path / "nets.py"


def test_a_class_is_built_without_weights_and_what_is_ready_stays_where_it_is(nets):
    built = load_module(nets, "Net")
    assert built.weight.device.type == "meta"
    assert built.out_features == 5
    assert load_module(nets, "ready").weight.device.type == "cpu"
    assert isinstance(load_module(nets, "needs_values").scale, float)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Missing", "has no 'Missing'; it has .*Net"),
        ("number", "'number' is a int; expected a module"),
        ("gives_text", r"gives_text\(\) gave a str; expected a torch.nn.Module"),
        ("fails", r"fails\(\) failed, line 21 \(ZeroDivisionError"),
    ],
)
def test_what_is_no_module_is_named(nets, name, words):
    with pytest.raises(DataError, match=words):
        load_module(nets, name)


def test_a_file_that_cannot_be_executed_is_named_with_its_line(tmp_path):
    (tmp_path / "bad.py").write_text("import torch\nx = (\n")
    with pytest.raises(DataError, match=r"bad\.py: cannot be executed, line 2 \(SyntaxError"):
        load_module(tmp_path / "bad.py", "Net")
    with pytest.raises(DataError, match="no such file"):
        load_module(tmp_path / "none.py", "Net")


def test_the_callers_device_is_left_alone(nets):
    load_module(nets, "Net")
    assert torch.zeros(1).device.type == "cpu"
