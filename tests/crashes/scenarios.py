"""The commands that write, each on a small folder of its own."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # for the flows


@dataclass(frozen=True)
class Scenario:
    """A command.

    Attributes:
        prepare: fills the folder that it works in.
        run: the command itself, in that folder; its exit status.
        volatile: pattern of results that differ from run to run.
        waits: a second one waits for the first, however long.
        done: what it may say, instead of ending well, where all of it is done already.
    """

    prepare: Callable[[], None]
    run: Callable[[], int]
    volatile: str = r"^$"
    done: str = "no word"
    waits: bool = False


def mfcp(*args: str) -> Callable[[], int]:
    """A command of mfcp."""

    def run() -> int:
        from mfcp.cli import main

        try:
            return main(list(args)) or 0
        except SystemExit as end:
            return int(end.code or 0)

    return run


def stage(name: str, *args: str) -> Callable[[], int]:
    """A stage of the pipeline."""

    def run() -> int:
        import importlib

        from mfcp.stages.base import main

        try:
            main(importlib.import_module(f"mfcp.stages.{name}").run, *args)
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    return run


def in_order(*runs: Callable[[], int]) -> Callable[[], None]:
    """What has to have run before."""

    def prepare() -> None:
        for run in runs:
            if run() != 0:
                sys.exit("a command that prepares a scenario failed")

    return prepare


def write_log() -> int:
    """Eight tasks on two clusters, with a failure, a bad row and a task that never succeeded."""
    rng = np.random.default_rng(0)
    Path("log").mkdir()
    tasks = ["task_id,model,batch_size,flops,param_count,samples"]
    runs = ["run_id,task_id,cluster_id,duration_s,status,started_at"]
    for i in range(8):
        tasks.append(f"t{i},net{i % 4}-{i},{8 * (1 + i % 3)},{1e9 * (i + 1)},{10**6 * (i + 1)},{1000 * (i + 1)}")
        for cluster, speed in (("a", 1.0), ("b", 1.7)):
            for k in range(2):
                seconds = 10 * (i + 1) * speed * np.exp(0.05 * rng.normal())
                status = "failed" if (i + k) % 5 == 4 or i == 7 else "succeeded"
                runs.append(f"r{len(runs)},t{i},{cluster},{seconds:.4f},{status},2026-01-{1 + i:02d}T00:00:00Z")
    runs[5] = runs[5].replace("succeeded", "")
    Path("log/tasks.csv").write_text("\n".join(tasks) + "\n")
    Path("log/runs.csv").write_text("\n".join(runs) + "\n")
    Path("log/clusters.csv").write_text("cluster_id,accelerator\na,A100\nb,V100\n")
    Path("new.csv").write_text(
        "task_id,model,batch_size,flops,param_count,samples\nn1,x,8,2e9,1000000,5000\nn2,y,8,3e9,1000000,5000\n"
    )
    return 0


def write_params() -> int:
    """Settings of a small pipeline on that log."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["ingest"] = {"source": {"kind": "folder", "path": "log"}}
    params["validate"]["max_bad_share"] = 0.5
    params["featurize"] |= {"seeds": [0], "operator_times": None}
    params["pretrain"] |= {"forecasts": {}, "training": params["pretrain"]["training"] | {"epochs": 5}}
    params["evaluate"] |= {"rounds": 10, "bootstrap": 100}
    params["methods"] = {name: params["methods"][name] for name in ("tam", "tsm")}
    Path("params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    return 0


def write_model() -> int:
    """A module to capture, and a trace to simulate."""
    Path("net.py").write_text(
        "import torch\nclass Net(torch.nn.Linear):\n    def __init__(self): super().__init__(8, 4)\n"
    )
    Path("trace.csv").write_text("job_id,submit_s,duration_s,gpus\n" + "".join(f"{k},{k},9,1\n" for k in range(5)))
    return 0


def in_small_parts(run: Callable[[], int]) -> Callable[[], int]:
    """The same with parts of twelve runs, all in this process."""

    def parted() -> int:
        from mfcp.data.log import copying, parts

        copying.PART_ROWS, parts.cores = 12, lambda: 1
        return run()

    return parted


def deliver() -> int:
    """Two deliveries in the inbox of a platform, one of which has a bad row."""
    from platform_deliveries import Home, damaged, log

    home = Home(Path.cwd())
    home.put("first", log(0))
    home.put("second", damaged(log(1), "type", 1), "csv")
    return 0


def ingest() -> int:
    """What the flow `ingest` does with them."""
    from platform_deliveries import Home

    from flows.checkout import only_one
    from mfcp.errors import guarded

    def taken() -> None:
        with only_one(Path("repo"), 0.5):
            Home(Path.cwd()).ingest()

    return guarded(taken)


def add_release() -> int:
    """A platform learns of a release."""
    from mfcp.errors import guarded
    from mfcp.platform.releases.models import Models
    from mfcp.platform.state.store import Store

    return guarded(lambda: print(Models(Path.cwd(), Store("sqlite:///platform.db")).add(Path("rel"), {"excess": 0.1})))


STAGES = (
    ("ingest",), ("validate",), ("featurize",), ("pretrain",), ("finetune", "tam"), ("finetune", "tsm"), ("evaluate",),
    ("report",),
)  # fmt: skip
BEFORE = {
    name: in_order(write_log, write_params, *(stage(*own) for own in STAGES[:k])) for k, (name, *_) in enumerate(STAGES)
}
"""What has to have run before a stage; before `finetune` also its first run."""

RELEASE = ("release", "--data", "log", "--out", "rel")
SIMULATE = ("simulate", "--trace", "trace.csv", "--policy", "fifo,srtf", "--out", "simulated")
SCENARIOS: dict[str, Scenario] = {
    "init": Scenario(lambda: None, mfcp("init", "mine")),
    "check --quarantine": Scenario(in_order(write_log), mfcp("check", "log", "--quarantine", "bad.csv")),
    "capture --out": Scenario(
        in_order(write_model),
        mfcp("capture", "net.py:Net", "--input", "1x8", "--out", "graphs", "--name", "net"),
        done="is there already",
        volatile=r"__pycache__",  # Python's own, of the user's module: it holds the time at which that was written
    ),
    "simulate --out": Scenario(
        in_order(write_model),
        mfcp(*SIMULATE, "--cluster", "2"),
        volatile=r"\.(svg|html)$|simulate\.json",
    ),
    "simulate over another": Scenario(
        in_order(write_model, mfcp(*SIMULATE, "--cluster", "3")),
        mfcp(*SIMULATE, "--cluster", "2"),
        volatile=r"\.(svg|html)$|simulate\.json",
    ),
    "release": Scenario(in_order(write_log), mfcp(*RELEASE)),
    "release over another": Scenario(in_order(write_log, mfcp(*RELEASE)), mfcp(*RELEASE)),
    "match --out": Scenario(
        in_order(write_log, mfcp(*RELEASE)), mfcp("match", "--model", "rel", "--tasks", "new.csv", "--out", "plan.csv")
    ),
    "ingest": Scenario(in_order(write_log, write_params), stage("ingest")),
    "ingest in parts": Scenario(in_order(write_log, write_params), in_small_parts(stage("ingest"))),
    "validate": Scenario(
        in_order(write_log, write_params, stage("ingest")), stage("validate"), r"mlruns|^gx/uncommitted"
    ),
    "validate in parts": Scenario(
        in_order(write_log, write_params, in_small_parts(stage("ingest"))),
        in_small_parts(stage("validate")),
        r"mlruns|^gx/uncommitted",
    ),
    "featurize": Scenario(BEFORE["featurize"], stage("featurize")),
    "pretrain": Scenario(BEFORE["pretrain"], stage("pretrain")),
    "finetune": Scenario(BEFORE["finetune"], stage("finetune", "tsm")),
    "evaluate": Scenario(BEFORE["evaluate"], stage("evaluate"), r"mlruns"),
    "report": Scenario(BEFORE["report"], stage("report"), r"\.png$|mlruns"),
    "benchmark": Scenario(
        in_order(write_log, write_params),
        mfcp("benchmark", "--data", "log", "--out", "bench", "--methods", "tam,tsm", "--seeds", "1"),
        r"\.png$|report\.html$",
    ),
    "calibrate": Scenario(lambda: None, mfcp("calibrate", str(ROOT / "data" / "measured"), "--out", "fitted.csv")),
    "deliveries": Scenario(in_order(deliver), ingest, r"\.db|versions"),
    "add a release": Scenario(in_order(write_log, mfcp(*RELEASE)), add_release, r"\.db", waits=True),
}


def careless() -> int:
    """Writes its result under its own name, in two pieces, and makes a folder that must not be there."""
    with Path("result.txt").open("w") as file:
        file.write("half ")
        file.flush()
        Path("mark").mkdir()
        file.write("and half")
    return 0


ALL = SCENARIOS | {"careless": Scenario(lambda: None, careless)}
"""And one that is wrong, by which the campaign is tried itself."""


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work there."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
