"""Clusters from tables of nodes."""

import pytest

from mfcp.errors import DataError
from mfcp.simulator.cluster import PLENTY
from mfcp.simulator.traces.nodes import read_nodes

OPENB = "sn,cpu_milli,memory_mib,gpu,model\nn1,32000,262144,0,\nn2,128000,786432,8,G3\nn3,96000,786432,2,V100M32\n"


def written(tmp_path, text):
    (tmp_path / "nodes.csv").write_text(text)
    return tmp_path / "nodes.csv"


def test_nodes_as_alibaba_publishes_them(tmp_path):
    cluster = read_nodes(written(tmp_path, OPENB))
    assert (cluster.size.tolist(), cluster.types, cluster.type.tolist()) == ([8, 2], ("G3", "V100M32"), [0, 1])
    assert (cluster.cpu.tolist(), cluster.memory.tolist()) == ([128000, 96000], [786432, 786432])


def test_a_number_of_accelerators_is_enough(tmp_path):
    cluster = read_nodes(written(tmp_path, "gpus\n4\n8\n"))
    assert (cluster.accelerators, cluster.types, cluster.cpu.tolist()) == (12, ("gpu",), [PLENTY, PLENTY])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n\n1\n", "no column gpus or gpu or .*; there are n"),
        ("gpus\n4\n-1\n", "row 2: gpus is '-1', expected a whole number of 0 or more"),
        ("gpus,cpu_milli\n4,many\n", "row 1: cpu_milli is 'many'"),
        ("gpus\n0\n", "no node has an accelerator"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_nodes(written(tmp_path, text))
