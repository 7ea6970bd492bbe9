"""Small logs with the quirks of real ones: import the fixtures in a conftest."""

import numpy as np
import pandas as pd
import pytest

from mfcp.data.log.schema import SCHEMA


def table(name, rows):
    """Rows of a table with every column; what a row does not name is empty."""
    frame = pd.DataFrame(rows)
    for column in SCHEMA[name].columns:
        if column.name not in frame:
            frame[column.name] = None
    return frame


def log(tasks, clusters, runs, **others):
    for number, run in enumerate(runs):
        run.setdefault("run_id", f"r{number}")
        run.setdefault("status", "succeeded")
        run.setdefault("attempt", 1)
    rows = {"tasks": tasks, "clusters": clusters, "runs": runs, **others}
    return {name: table(name, content) for name, content in rows.items()}


@pytest.fixture
def small_log():
    """Two tasks on two clusters, each pair run twice, one failure: the least valid log with counts."""

    def make(**others):
        tasks = [{"task_id": t, "model": t, "phase": "train", "batch_size": 8, "flops": 1e9} for t in ("a", "b")]
        clusters = [{"cluster_id": c, "memory_bytes": 2**34} for c in ("x", "y")]
        runs = [
            {"task_id": t, "cluster_id": c, "attempt": k, "duration_s": 10.0 * (1 + (t == "b")) * (1 + (c == "y"))}
            for t in ("a", "b")
            for c in ("x", "y")
            for k in (1, 2)
        ]
        runs[-1] |= {"status": "oom", "duration_s": 1.0}
        return log(tasks, clusters, runs, **others)

    return make


@pytest.fixture
def timm_like():
    """Throughput only, one run a pair and none failed, batches by run, training apart from inference, gaps."""

    def make(tasks=60, seed=0):
        rng = np.random.default_rng(seed)
        words = [f"net{chr(97 + k)}" for k in range(20)]
        rows, runs = [], []
        speed = {"i0": 1.0, "i1": 3.0, "i2": 40.0, "t0": 2.0, "t1": 5.0}
        for k in range(tasks):
            phase = "infer" if k % 3 else "train"
            flops = float(np.exp(rng.normal(21, 1.5)))
            rows.append(
                {
                    "task_id": f"{phase}/{k}",
                    "model": f"{words[k % 20]}_{k}",
                    "phase": phase,
                    "flops": None if k % 10 == 9 else flops,
                    "param_count": int(flops / 100),
                    "activations": flops / 50,
                }
            )
            for cluster, factor in speed.items():
                if cluster.startswith(phase[0]) and rng.random() > 0.1:
                    rate = 1e12 / flops / factor * float(np.exp(rng.normal(0, 0.2)))
                    batch = 1 if cluster == "i2" else 256
                    run = {"task_id": f"{phase}/{k}", "cluster_id": cluster, "batch_size": batch}
                    runs.append(run | {"samples_per_s": rate, "step_time_s": batch / rate})
        rows.append({"task_id": "infer/never", "model": "netz", "phase": "infer"})
        clusters = [{"cluster_id": c, "memory_bytes": None if c == "i2" else 2**34} for c in (*speed, "unused")]
        return log(rows, clusters, runs)

    return make


@pytest.fixture
def gavel_like():
    """Few job types of few models, FLOPs mostly unknown, a task without batch, one failure in single attempts."""

    def make():
        rng = np.random.default_rng(0)
        models = {"resnet-18": 1e9, "lm": None, "a3c": None}
        tasks, runs = [], []
        for model, flops in models.items():
            for batch in [None] if model == "a3c" else [16, 32, 64]:
                name = f"{model}/{batch}"
                tasks.append({"task_id": name, "model": model, "batch_size": batch, "phase": "train", "flops": flops})
                for c in range(4):
                    step = float(np.exp(rng.normal(-2, 0.3))) * (c + 1) * (100 if model == "a3c" else 1)
                    runs.append({"task_id": name, "cluster_id": f"gpu{c}", "batch_size": batch, "step_time_s": step})
        runs[0] |= {"status": "failed", "step_time_s": None}
        clusters = [{"cluster_id": f"gpu{c}", "memory_bytes": 2**34} for c in range(4)]
        return log(tasks, clusters, runs)

    return make
