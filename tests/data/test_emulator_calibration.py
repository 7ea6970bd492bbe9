import numpy as np
import pandas as pd
import pytest

from mfcp.data.emulator_calibration import calibrate, step_logs
from mfcp.emulator.efficiency import Efficiency, nominal
from mfcp.errors import DataError
from mfcp.tasks.graphs.operators import CLASS_NAMES

FAMILIES = 8


@pytest.fixture
def tables():
    """Eight families of four models, of convolutions, products and activations, timed in training on one machine."""
    rng = np.random.default_rng(0)
    nodes, tasks = [], []
    for family in range(FAMILIES):
        for model in range(4):
            graph = f"net{family}-{model}"
            for node, op in enumerate(["convolution", "addmm", "relu"] * 3):
                amount = np.exp(rng.normal(17, 1))
                flops = amount * 300 * (op != "relu")
                nodes.append((graph, node, op, flops, amount, amount, amount / 4, 1000 * (op != "relu")))
            tasks.append((graph, f"net{family}-{model}", f"net{family}", 64, "fp32", "train", graph, "adamw"))
    columns = ["graph_id", "node_id", "op", "flops", "bytes_read", "bytes_written", "output_numel", "param_count"]
    names = ["task_id", "model", "family", "batch_size", "precision", "phase", "graph_id", "optimizer"]
    clusters = pd.DataFrame(
        {"cluster_id": ["m"], "accelerator": ["A100"], "peak_flops": [1e13], "memory_bandwidth": [1e12]}
    )
    found = {
        "nodes": pd.DataFrame(nodes, columns=columns),
        "edges": pd.DataFrame({"graph_id": [], "src": [], "dst": []}).astype({"src": "int64", "dst": "int64"}),
        "tasks": pd.DataFrame(tasks, columns=names),
        "clusters": clusters,
    }
    runs = pd.DataFrame({"task_id": found["tasks"]["task_id"], "cluster_id": "m", "status": "succeeded"})
    log = step_logs(found | {"runs": runs.assign(step_time_s=1.0)})[0]
    truth = nominal(2.0)
    work = truth.work.copy()
    work[CLASS_NAMES.index("matmul")] *= 3
    truth = Efficiency(work, truth.launch_s, 1.0, 1e-3)
    seconds = truth.seconds(log.parts) * np.exp(0.01 * rng.standard_normal(len(runs)))
    return found | {"runs": runs.assign(step_time_s=seconds)}


def test_unseen_families_are_predicted_from_the_others(tables):
    found = calibrate(step_logs(tables)[0])
    assert found.log.phase == "train"
    assert found.mape < 0.03
    assert found.r2 > 0.99
    factor = found.efficiency.work[CLASS_NAMES.index("matmul")]
    assert factor == pytest.approx(9, rel=0.1)


def test_a_family_that_behaves_otherwise_is_judged_without_having_been_seen(tables):
    """Four times slower, whatever the operators: no other family tells, so the error shows it."""
    runs = tables["runs"]
    odd = runs["task_id"].str.startswith("net3-")
    found = calibrate(
        step_logs(tables | {"runs": runs.assign(step_time_s=runs["step_time_s"] * np.where(odd, 4, 1))})[0]
    )
    ratio = found.unseen / found.log.seconds
    np.testing.assert_allclose(ratio[found.log.families == "net3"], 0.25, rtol=0.1)


def test_runs_tell_batch_and_precision_before_their_tasks(tables):
    """Twice the batch doubles the rooflines; half precision halves activations and adds copies to the optimizer."""
    usual = step_logs(tables)[0].parts
    size = len(CLASS_NAMES)
    doubled = step_logs(tables | {"runs": tables["runs"].assign(batch_size=128)})[0].parts
    assert (doubled[:, :size].sum(axis=1) > 1.8 * usual[:, :size].sum(axis=1)).all()
    mixed = step_logs(tables | {"runs": tables["runs"].assign(precision="amp_fp16")})[0].parts
    assert mixed[0, -2] == pytest.approx(usual[0, -2] * 34 / 28)


def test_tasks_of_several_precisions_keep_their_own_element_size(tables):
    """Every third task in half precision: its row is that of a log in half precision, the others' that of FP32."""
    full = step_logs(tables)[0].parts
    half = step_logs(tables | {"runs": tables["runs"].assign(precision="amp_bf16")})[0].parts
    is_half = np.arange(len(full)) % 3 == 0
    runs = tables["runs"].assign(precision=np.where(is_half, "amp_bf16", "fp32"))
    assert (half < full).any(axis=1).all()
    np.testing.assert_array_equal(step_logs(tables | {"runs": runs})[0].parts, np.where(is_half[:, None], half, full))


def test_inference_moves_no_weights(tables):
    log = step_logs(tables | {"tasks": tables["tasks"].assign(phase="infer")})[0]
    assert log.parts[:, -2].max() < 1e-9
    assert log.start.work[0] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: {k: v for k, v in t.items() if k != "nodes"}, "needs operator graphs"),
        (lambda t: t | {"clusters": t["clusters"].assign(peak_flops=np.nan)}, "no cluster has peak_flops"),
        (lambda t: t | {"runs": t["runs"].assign(status="failed")}, "no cluster has peak_flops"),
        (lambda t: t | {"tasks": t["tasks"].assign(batch_size=np.nan)}, "no cluster has peak_flops"),
    ],
)
def test_a_log_that_cannot_calibrate_says_what_is_missing(tables, change, message):
    with pytest.raises(DataError, match=message):
        step_logs(change(tables))


def test_one_family_has_no_unseen_error(tables):
    found = calibrate(step_logs(tables | {"tasks": tables["tasks"].assign(family="net")})[0])
    assert np.isnan(found.mape)
    assert np.isfinite(found.efficiency.log).all()
