"""What is recorded of a run."""

import math

from mfcp.profiling.folder import opened
from mfcp.profiling.isolation import Outcome
from mfcp.profiling.running import RunSettings, Session
from mfcp.profiling.subjects import ProfilingRun, subjects

CLUSTER = {"cluster_id": "cuda0", "accelerator": "NVIDIA H100 80GB HBM3", "accelerator_count": 1, "memory_bytes": 1e9}


class OnAGpu:
    """What an isolation says of a device that this machine may not have."""

    def run(self, job, arguments, **_):
        if job != "train":
            return Outcome(error="not asked here")
        host = {"wall_s": 1.2, "cpu_s": 1.4, "peak_bytes": 963_608_576}
        if arguments["batch"] > 8:
            return Outcome(error="OutOfMemoryError: CUDA out of memory", out_of_memory=True, **host)
        return Outcome(result={"step_times": [0.013, 0.012], "train_s": 0.04, "peak_bytes": 450_000_000}, **host)


def test_a_gpus_peak_is_never_the_hosts(tmp_path):
    place = {"device": "cuda:0", "memory_bytes": 10**9}
    (subject,) = subjects(["zoo:resnet-18@224"], [])
    turns = [[ProfilingRun(subject, batch, "fp32", place, None, "cuda0", 1, "") for batch in (8, 64)]]
    settings = RunSettings(warmup=1, steps=2, epochs=None, examples=None, timeout=60, memory=None, seed=0)
    with opened(tmp_path / "log") as folder:
        Session(folder, OnAGpu(), settings, {"cuda0": CLUSTER}, math.inf).go(turns)
        runs = folder.tables["runs"].set_index("batch_size")
    assert runs["status"].to_dict() == {8: "succeeded", 64: "oom"}
    assert runs["peak_memory_bytes"].dropna().to_dict() == {8: 450_000_000}
