"""A trace of a real training loop, made here, and one made while the test runs."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mfcp.data.log.validation import validate
from mfcp.data.sources.kineto import Kineto, flops_of, seconds_of
from mfcp.errors import DataError

MADE = Path(__file__).parent / "made_here" / "small-net.json"
# Of training ResNet-18 with a batch of 512 on an H100, cut down to steps, launches, kernels and one forward pass.
ON_A_GPU = MADE.parents[1] / "made_on_a_gpu" / "h100-resnet-18.json.gz"
TOOK = 0.10205  # seconds of a step, by the clock over 20 steps without a profiler


def test_a_trace_is_a_run_with_the_graph_of_its_forward_pass():
    tables = Kineto(path=str(MADE), cluster="alpha", batch_size=4).read(0)
    (run,) = tables["runs"].to_dict("records")
    assert (run["task_id"], run["cluster_id"], run["batch_size"]) == ("small-net", "alpha", 4)
    assert 1e-4 < run["step_time_s"] < 1.0
    nodes = tables["nodes"]
    assert list(nodes["op"]) == ["convolution", "relu", "addmm", "_log_softmax", "nll_loss_forward"]
    assert nodes["flops"].iloc[0] == 2 * 30 * 30 * 8 * 3 * 3 * 3  # of one sample
    assert nodes["flops"].iloc[2] == 2 * 7200 * 10
    assert nodes[["bytes_read", "bytes_written", "output_numel", "param_count"]].isna().all(axis=None)
    assert list(zip(tables["edges"]["src"], tables["edges"]["dst"], strict=True)) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert len(validate(tables, max_bad_share=0.5).tables["nodes"]) == 5


def test_without_the_batch_nothing_is_said_of_one_sample():
    tables = Kineto(path=str(MADE), cluster="alpha").read(0)
    assert tables["nodes"]["flops"].isna().all()
    assert tables["runs"]["batch_size"].isna().all()


def test_a_step_on_a_gpu_ends_when_its_kernels_do():
    tables = Kineto(path=str(ON_A_GPU), cluster="gpu", batch_size=512).read(0)
    (run,) = tables["runs"].to_dict("records")
    assert run["step_time_s"] == pytest.approx(TOOK, rel=0.01)  # the host was done after 18 ms
    assert tables["clusters"]["accelerator"].tolist() == ["NVIDIA H100 80GB HBM3"]
    nodes = tables["nodes"]
    counts = nodes["op"].value_counts()
    assert (counts["convolution"], counts["cudnn_batch_norm"], counts["relu"], counts["addmm"]) == (20, 20, 17, 1)
    assert nodes["flops"].sum() == 2 * 1_814_073_344  # multiplications with additions of one image


def step(number, ts, dur):
    return {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": ts, "dur": dur}


def launched(correlation, launch, start, dur, category="kernel"):
    return [
        {"ph": "X", "cat": "cuda_runtime", "name": "launch", "ts": launch, "dur": 1,
         "args": {"correlation": correlation}},
        {"ph": "X", "cat": category, "name": "work", "ts": start, "dur": dur, "args": {"correlation": correlation}},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([step(1, 0, 10), step(2, 10, 20)], [10, 20]),  # no GPU
        ([step(1, 0, 10), step(2, 10, 10), *launched(1, 2, 5, 40), *launched(2, 12, 45, 40)], [40]),
        ([step(1, 0, 10), step(2, 10, 10), *launched(2, 12, 45, 40, "gpu_memcpy"), *launched(1, 2, 5, 40)], [40]),
        ([step(1, 0, 10), step(2, 10, 90), *launched(1, 2, 5, 40), *launched(2, 12, 45, 40)], [55]),  # the host is last
        ([step(1, 0, 10), *launched(1, 2, 35, 40), *launched(2, 3, 75, 5)], [45]),  # what came before is not its own
        ([step(1, 0, 10), *launched(1, 2, 5, 2)], [10]),
        ([step(1, 5, 10), step(2, 15, 10), *launched(1, 2, 5, 90), *launched(2, 25, 95, 90)], [10]),  # of no step
        ([step(1, 0, 10), step(2, 10, 20), *launched("1", 2, 5, 90), *launched([1], 2, 5, 90), launched(3, 2, 5, 90)[1],
          {**launched(4, 2, 5, 90)[1], "args": [4]}], [10, 20]),  # started by nothing that is told
    ],
    ids=["host", "gpu", "copies", "host-last", "one-step", "one-step-of-the-host", "between", "unknown"],
)  # fmt: skip
def test_seconds_of_steps(events, expected):
    assert seconds_of(Path("t.json"), {"traceEvents": events}) == pytest.approx([value / 1e6 for value in expected])


PROGRAM = """
import sys, torch
from torch.profiler import ProfilerActivity, profile, schedule
net, samples = torch.nn.Linear(6, 5), torch.ones(3, 6)
for name in ("one", "two"):
    export = lambda made: made.export_chrome_trace(f"{sys.argv[1]}/{name}.json")
    plan = schedule(wait=0, warmup=1, active=2, repeat=1)
    with torch.no_grad(), profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, schedule=plan, on_trace_ready=export
    ) as profiler:
        for _ in range(4):
            net(samples)
            profiler.step()
"""


def test_a_folder_of_packed_traces_and_steps_without_gradients(tmp_path):
    subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], check=True, timeout=100)
    packed = tmp_path / "two.json"
    (tmp_path / "two.pt.trace.json.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    tables = Kineto(path=str(tmp_path), cluster="alpha", batch_size=3).read(0)
    assert sorted(tables["runs"]["task_id"]) == ["one", "two"]
    nodes = tables["nodes"][tables["nodes"]["graph_id"] == "two"]
    assert list(nodes["op"]) == ["linear"]


def test_flops_of_products_and_convolutions_are_those_that_torch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    cases = {
        "convolution": (
            [[2, 6, 9, 8], [4, 3, 3, 2], [4]],
            ["", "", "", "[2, 1]", "[1, 0]", "[1, 2]", "False", "[0, 0]", "2"],
            lambda: torch.nn.functional.conv2d(
                torch.ones(2, 6, 9, 8), torch.ones(4, 3, 3, 2), torch.ones(4), (2, 1), (1, 0), (1, 2), 2
            ),
        ),
        "addmm": ([[5], [7, 3], [3, 5]], [], lambda: torch.addmm(torch.ones(5), torch.ones(7, 3), torch.ones(3, 5))),
        "bmm": ([[2, 7, 3], [2, 3, 5]], [], lambda: torch.bmm(torch.ones(2, 7, 3), torch.ones(2, 3, 5))),
    }
    for name, (shapes, values, run) in cases.items():
        with FlopCounterMode(display=False) as counter:
            run()
        event = {"name": f"aten::{name}", "args": {"Input Dims": shapes, "Concrete Inputs": values}}
        assert flops_of(event) == counter.get_total_flops(), name
    assert flops_of({"name": "aten::relu", "args": {"Input Dims": [[2, 3]]}}) is None
    assert flops_of({"name": "aten::mm", "args": {}}) is None
    assert flops_of({"name": "aten::mm", "args": [1]}) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "expected an object with traceEvents"),
        ('{"traceEvents": []}', "no steps in it"),
        ('{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": "1"}]}',
         "without name, ts or dur"),
        ('{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 1}]}',
         "no operators in its last step"),
        ("{", "not valid JSON"),
    ],
)  # fmt: skip
def test_bad_traces_are_refused(tmp_path, content, message):
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        Kineto(path=str(path), cluster="c").read(0)
    path.with_suffix(".json.gz").write_text(content)
    with pytest.raises(DataError, match="expected what gzip has packed"):
        Kineto(path=str(path.with_suffix(".json.gz")), cluster="c").read(0)


def test_an_empty_folder_and_a_step_of_many_traces(tmp_path):
    with pytest.raises(DataError, match="no trace in it"):
        Kineto(path=str(tmp_path), cluster="c").read(0)
    assert json.loads(MADE.read_text())["traceEvents"]
