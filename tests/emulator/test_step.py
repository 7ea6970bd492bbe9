import pandas as pd
import pytest

from mfcp.emulator import hardware
from mfcp.emulator.step import RUNTIME_BYTES, Workload, training_steps

NODES = pd.DataFrame(
    {
        "graph_id": ["a", "a", "b"],
        "op": ["addmm", "relu", "addmm"],
        "flops": [2e9, 0.0, 2e3],
        "bytes_read": [4e6, 4e6, 4e2],
        "bytes_written": [4e6, 4e6, 4e2],
        "output_numel": [1e6, 1e6, 1e2],
        "param_count": [1e6, 0, 1e3],
    }
)


def tasks(graph, batch, precision="fp32", size=64, domain="nlp"):
    row = {"graph_id": graph, "batch_size": batch, "precision": precision, "input_size": size, "domain": domain}
    return pd.DataFrame([row | {"state_bytes": 8}])


def step(table, *names, **changes):
    platform = hardware.clusters(names).assign(**changes)
    return training_steps(table, Workload.of(table, NODES), platform)


def test_footprint_by_hand():
    """Weights, gradients and AdamW state: 16 bytes a parameter; 0.8 of 8e6 bytes of activations a sample."""
    footprint = step(tasks("a", 10), "aurora-h100x1").footprint[0, 0]
    assert footprint == pytest.approx(RUNTIME_BYTES + 16e6 + 10 * 0.8 * 8e6)


def test_a_large_batch_is_bound_by_work_and_a_small_one_by_launches():
    small, double = (step(tasks("b", b), "aurora-h100x1").seconds[0, 0] for b in (1, 2))
    assert double == pytest.approx(small, rel=0.01)
    large, double = (step(tasks("a", b), "aurora-h100x1").seconds[0, 0] for b in (2048, 4096))
    assert double / large == pytest.approx(2, rel=0.05)


def test_half_precision_helps_only_where_there_is_a_unit_for_it():
    clusters = ["north-k80x8", "meridian-a100x2"]
    full, half = (step(tasks("a", 2048, p), *clusters).seconds[0] for p in ("fp32", "amp_fp16"))
    assert half[0] >= full[0]
    assert half[1] < 0.5 * full[1]


def test_gradients_over_a_slow_link_cost_time():
    nodes_of = tasks("a", 64)
    slow = step(nodes_of, "atelier-3090x4", interconnect_bandwidth=1e8).seconds[0, 0]
    fast = step(nodes_of, "atelier-3090x4", interconnect_bandwidth=1e11).seconds[0, 0]
    assert slow - fast == pytest.approx(2 * 3 / 4 * 4e6 / 1e8, rel=0.1)


def test_images_wait_for_their_hosts():
    images = tasks("a", 64, size=224, domain="cv")
    assert step(images, "aurora-h100x1", host_cores=1).seconds[0, 0] == pytest.approx(64 * 6e-3)
