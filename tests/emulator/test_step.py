import numpy as np
import pandas as pd
import pytest

from mfcp.emulator import hardware
from mfcp.emulator.efficiency import defaults, nominal
from mfcp.emulator.step import (
    DECODE_S,
    KEPT_ACTIVATIONS,
    LINK_EFFICIENCY,
    MESSAGE_S,
    RUNTIME_BYTES,
    Workload,
    training_steps,
)
from mfcp.tasks.graphs.operator_graphs import build_graphs

NODES = pd.DataFrame(
    {
        "graph_id": ["a", "a", "b"],
        "node_id": [0, 1, 0],
        "op": ["addmm", "relu", "addmm"],
        "flops": [2e9, 0.0, 2e3],
        "bytes_read": [4e6, 4e6, 4e2],
        "bytes_written": [4e6, 4e6, 4e2],
        "output_numel": [1e6, 1e6, 1e2],
        "param_count": [1e6, 0, 1e3],
    }
)
EDGES = pd.DataFrame({"graph_id": ["a"], "src": [0], "dst": [1]})


def tasks(graph, batch, precision="fp32", size=64, domain="nlp"):
    row = {"graph_id": graph, "batch_size": batch, "precision": precision, "input_size": size, "domain": domain}
    return pd.DataFrame([row | {"state_bytes": 8}])


def step(table, *names, efficiencies=None, **changes):
    platform = hardware.clusters(names).assign(**changes)
    return training_steps(table, Workload.of(table, build_graphs(NODES, EDGES)), platform, efficiencies or defaults())


def test_seconds_by_hand():
    """Every class at its roofline: 2e11 FLOPs at 51.2e12, memory-bound ReLU, 28 bytes a parameter of the optimizer."""
    kinds = {"vector": nominal()}
    seconds = step(tasks("a", 100), "aurora-h100x1", efficiencies=kinds).seconds[0, 0]
    work = 2e11 / 51.2e12 + 100 * 8e6 / 2039e9
    assert seconds == pytest.approx(work + 2 * 5e-6 + 28 * 1e6 / 2039e9 + 1e-3, rel=1e-6)


def test_footprint_by_hand():
    """Weights, gradients and AdamW state: 16 bytes a parameter; 8e6 bytes of activations a sample."""
    footprint = step(tasks("a", 10), "aurora-h100x1").footprint[0, 0]
    assert footprint == pytest.approx(RUNTIME_BYTES + 16e6 + 10 * KEPT_ACTIVATIONS * 8e6)
    mixed = step(tasks("a", 10, "amp_bf16"), "aurora-h100x1").footprint[0, 0]
    assert mixed == pytest.approx(RUNTIME_BYTES + 18e6 + 5 * KEPT_ACTIVATIONS * 8e6)


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


def test_gradients_over_a_slow_link_cost_what_a_ring_takes():
    nodes_of = tasks("a", 4)
    slow, fast = (
        step(nodes_of, "atelier-3090x4", interconnect_bandwidth=bandwidth).seconds[0, 0] for bandwidth in (1e7, 1e6)
    )
    ring = 2 * 3 / 4 * 4e6 / LINK_EFFICIENCY
    assert fast - slow == pytest.approx(ring / 1e6 - ring / 1e7, rel=1e-6)
    alone = step(nodes_of, "atelier-3090x4", interconnect_bandwidth=1e15).seconds[0, 0]
    assert slow - alone < ring / 1e7 + 2 * MESSAGE_S  # less what hides behind the backward pass
    assert slow - alone > 0.9 * (ring / 1e7) - alone


def test_an_accelerator_that_was_calibrated_goes_before_its_kind():
    own = defaults() | {"H100": nominal(100.0)}
    usual, calibrated = (
        step(tasks("a", 64), "aurora-h100x1", "meridian-a100x2", efficiencies=e).seconds[0] for e in (defaults(), own)
    )
    assert calibrated[1] > 2 * usual[1]  # the table has the H100 behind the A100
    assert calibrated[0] == usual[0]


def test_images_wait_for_their_hosts():
    images = tasks("a", 64, size=224, domain="cv")
    assert step(images, "aurora-h100x1", host_cores=1).seconds[0, 0] == pytest.approx(64 * DECODE_S[224])


def test_more_of_anything_takes_no_less_time():
    names = list(hardware.clusters()["cluster_id"])
    for precision in hardware.PRECISIONS:
        seconds = np.stack([step(tasks("a", b, precision), *names).seconds[0] for b in (64, 128, 1024)])
        assert (np.diff(seconds, axis=0) >= 0).all()
