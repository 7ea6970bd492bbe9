"""Where bytes of a stranger come in: valid examples, and a call that must end in a result or an MfcpError."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import random
import shutil
import tarfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from fuzz.mutation import mutated, restructured, text_of
from fuzz.odd_tables import odd_table

from mfcp.errors import DataError

ROOT = Path(__file__).parents[2]
MADE = ROOT / "tests" / "data" / "sources" / "made_here"
Case = tuple[str, bytes]
"""Name of the file, and its content."""


@dataclass(frozen=True)
class Border:
    """One border.

    Attributes:
        share: of all cases.
        seeds: valid inputs.
        call: what reads one, in a folder of its own.
        value: the JSON value behind each of the seeds that are JSON or YAML, whose structure is changed as well.
        make: cases that are not changes of a seed, or None.
    """

    share: float
    seeds: list[Case]
    call: Callable[[Path], Any]
    value: bool = False
    make: Callable[[random.Random], Case] | None = None

    def case(self, rng: random.Random) -> Case:
        """The next one."""
        if self.make is not None and rng.random() < 0.5:
            return self.make(rng)
        name, content = rng.choice(self.seeds)
        if self.value and rng.random() < 0.6:
            return name, _lines(rng, content) if name.endswith(".jsonl") else _restructured(rng, name, content)
        return name, mutated(rng, content, [own for _, own in self.seeds])


def _restructured(rng: random.Random, name: str, content: bytes) -> bytes:
    return text_of(restructured(rng, _loaded(content) if name.endswith(".yaml") else json.loads(content)))


@cache
def _loaded(content: bytes) -> Any:
    return yaml.safe_load(content)


def _lines(rng: random.Random, content: bytes) -> bytes:
    rows = [json.loads(line) for line in content.splitlines()]
    return b"\n".join(text_of(row) for row in restructured(rng, rows) or [{}])


def borders(folder: Path) -> dict[str, Border]:
    """All of them.

    Args:
        folder: for what has to be made once, such as a release.
    """
    return {
        **_tables(folder),
        "matrices": Border(0.12, _matrices(), _read_matrices),
        "settings": Border(0.08, [_own("params.yaml")], _read_settings, value=True),
        "study": Border(0.03, [_own("src/mfcp/paper/study.yaml")], _read_study, value=True),
        "words": Border(0.12, [(k, w.encode()) for k, words in WORDS.items() for w in words], _read_words),
        "sources": Border(0.05, _sources(), _read_source),
        "receipts": Border(0.02, RECEIPTS, _read_receipt, value=True),
        **_releases(folder),
        **_onnx(folder),
    }


def _own(name: str) -> Case:
    return Path(name).name, (ROOT / name).read_bytes()


# Tables of logs, deliveries, new tasks, traces.


def _tables(folder: Path) -> dict[str, Border]:
    from platform_deliveries import log

    from mfcp.data.log.tables import write_tables

    tables = log()
    seeds: list[Case] = []
    for form in ("csv", "jsonl", "parquet"):
        write_tables(tables, folder / form, format=form)
        seeds += [(path.name, path.read_bytes()) for path in sorted((folder / form).iterdir())]
    beside = folder / "parquet"
    tasks = [seed for seed in seeds if seed[0].startswith("tasks")]
    plain = b"submit,duration,gpus,user\n0,10,1,a\n5,20,2,b\n9,1,4,a\n"
    array = b'[{"submit": 0, "duration": 3, "gpus": 1}, {"submit": "1", "duration": 2, "gpus": 2}]'
    stages = b"submit,duration,gpus,iterations,loading,computing,sending\n0,10,1,5,1,0.5,0\n5,20,2,9,0,2,0.25\n"
    trace = [("trace.csv", plain), ("trace.json", array), ("stages.csv", stages), _philly(), _nodes()]
    trace.append(("jobs.psv", (MADE / "sacct.psv").read_bytes()))
    trace += [("trace.csv.gz", gzip.compress(plain, mtime=0)), ("trace.tar.gz", _archive(plain))]
    return {
        "tables": Border(0.3, seeds, _read_table, make=odd_table),
        "logs": Border(0.03, seeds, lambda path: _check_log(path, beside), make=odd_table),
        "new tasks": Border(0.06, tasks, _read_tasks),
        "deliveries": Border(0.003, seeds, _deliver, make=odd_table),
        "traces": Border(0.12, trace, _read_trace),
        "rates": Border(0.06, RATES, _read_rates),
    }


def _sources() -> list[Case]:
    made = sorted(MADE.iterdir())
    trace = next(path for path in made if path.name == "small-net.json").read_bytes()
    others = [("small-net.json.gz", gzip.compress(trace, mtime=0)), ("small-net-gpu.json", _with_kernels(trace))]
    return [*((path.name, path.read_bytes()) for path in made), *others]


def _with_kernels(trace: bytes) -> bytes:
    """As if each operator of a trace had started a kernel."""
    content = json.loads(trace)
    added: list[dict[str, Any]] = []
    for number, event in enumerate(e for e in content["traceEvents"] if e.get("cat") == "cpu_op"):
        told = {"ph": "X", "ts": event["ts"], "dur": 9.5, "args": {"correlation": number}}
        added += [{**told, "cat": cat, "name": cat} for cat in ("cuda_runtime", "kernel")]
    return json.dumps({**content, "traceEvents": content["traceEvents"] + added}).encode()


def _read_source(path: Path) -> None:
    """Accounting, exports and traces, each by its source."""
    from mfcp.data.sources.kineto import Kineto
    from mfcp.data.sources.mlflow_csv import MlflowCsv
    from mfcp.data.sources.sacct import Sacct

    if path.name.startswith("small-net"):
        Kineto(path=str(path), cluster="c", batch_size=4).read(0)
    elif path.suffix == ".csv":
        MlflowCsv(path=str(path), columns={"batch_size": "params.batch_size", "model": "params.model"}).read(0)
    else:
        Sacct(path=str(path), cluster="c").read(0)


RECEIPTS: list[Case] = [
    ("end.json", b'{"at": 1.5, "wall_s": 2.5, "exit_code": 0, "signal": null, "ended_by": "", "cpu_s": 1.0, '
                 b'"peak_bytes": 1000, "report": {"step_time_s": 0.5, "batch_size": 8}, "error": ""}'),
    ("end.json", b'{"at": 1, "wall_s": 9.0, "exit_code": null, "ended_by": "terminated", "error": "x"}'),
]  # fmt: skip


def _read_receipt(path: Path) -> None:
    """What a job left, from the shared folder to a row of table runs."""
    from mfcp.executors.base import JobSeen
    from mfcp.executors.spool import Spool
    from mfcp.platform.running.judging import Facts, judge
    from mfcp.platform.running.returning import runs_of

    folder = path.parent / "spool"
    for name in ("claims", "ends"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "claims" / "b.0").write_text("{}")
    shutil.copy(path, folder / "ends" / "b.0")
    receipt = Spool(str(folder)).receipts(["b.0"])["b.0"]
    seen = JobSeen("over", ("1",), receipt["begin"], receipt["end"], receipt["silent_s"])
    judged = judge(Facts(seen), asked=True)
    assert judged.act == "over"
    row = {"id": 1, "task_id": "t", "cluster_id": "c", "number": 1, "batch": "b", "place": 0, "begun_at": 1.8e9,
           "limits": {"gpus": 0}}  # fmt: skip
    end = {"status": judged.status, "why": judged.why, "receipt": {"end": seen.end, "wall_s": judged.wall_s}}
    runs_of([{**row, **end}], [{**row, **end}])


RATES: list[Case] = [
    ("speeds.csv", b"model,type,speed\nbert,a,1\nbert,b,0.5\nvgg,b,2e-1\n"),
    (
        "sizes.csv",
        b"model,gpus,type,speed,batch_size\nbert,1,a,2,8\nbert,1,b,3.5,8\nbert,2,b,5,16\nvgg,1,a,1,8\nvgg,1,b,1,8\n",
    ),
    ("configurations.csv", b"model,gpus,type,iterations_per_s,watts\nbert,1,a,2,100\nbert,2,b,3.5,250\nvgg,1,a,1,90\n"),
    ("configurations.csv", b"job,gpus,type,speed\nx,1,a,1\nx,2,a,1.8\ny,1,b,1\n"),
    (
        "batches.csv",
        b"model,first_epoch,batch_size,samples_per_epoch,steps_per_s\nbert,0,16,640,2\nbert,3,32,640,1.5\n",
    ),
    ("losses.csv", b"model,epoch,loss,threshold\nbert,1,0.9,0.02\nbert,2,0.5,0.02\nbert,3,0.4,0.02\nvgg,1,2,0.01\n"),
    ("losses.csv", b"job,epoch,loss\nx,2,1e-3\nx,1,0.5\ny,1,3\n"),
    ("pairs.csv", b"model_a,model_b,type,speed_a,speed_b\nbert,bert,a,0.7,0.7\nbert,vgg,a,0.9,0.5\nvgg,bert,b,1,0\n"),
]


def _archive(content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo("inner/trace.csv")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)  # the same bytes at any time


def _philly() -> Case:
    attempt = {"start_time": "2017-10-07 01:00:00", "end_time": "2017-10-07 02:00:00"}
    attempt |= {"detail": [{"ip": "m1", "gpus": ["g0"]}]}  # type: ignore[dict-item]
    job = {"status": "Pass", "vc": "a", "jobid": "j", "user": "u", "submitted_time": "2017-10-07 00:59:00"}
    return "cluster_job_log", json.dumps([job | {"attempts": [attempt]}]).encode()


def _nodes() -> Case:
    return "nodes.csv", b"sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,V100\nn1,96000,524288,8,A100\n"


def _read_table(path: Path) -> None:
    from mfcp.data.log.schema import SCHEMA
    from mfcp.data.log.tables import read_table, write_tables

    table = SCHEMA.get(path.stem, SCHEMA["runs"])
    frame = read_table(path, table)
    for form in ("parquet", "csv", "jsonl"):  # as quarantine does
        write_tables({table.name: frame}, path.parent / form, format=form)


def _check_log(path: Path, beside: Path) -> None:
    from mfcp.data.log.tables import read_tables
    from mfcp.data.log.validation import validate

    for own in beside.iterdir():
        if own.stem != path.stem:
            shutil.copy(own, path.parent / own.name)
    validated = validate(read_tables(path.parent, name_runs=True), max_bad_share=1.0)
    json.dumps(validated.report)


def _read_tasks(path: Path) -> None:
    from mfcp.data.log.tables import read_new_tasks

    read_new_tasks(path)


def _deliver(path: Path) -> None:
    from platform_deliveries import Home, log

    home = Home(path.parent / "home")
    home.put("first", log())
    path.rename(home.path / "inbox" / path.name)
    home.put("zz", log(1))
    (beside,) = (delivery for delivery in home.ingest() if delivery.name == "zz")
    if beside.status not in ("taken", "partly") or list((home.path / "inbox").iterdir()):
        raise AssertionError(f"the delivery beside it is {beside.status}: {beside.why}")
    home.tables()


def _read_trace(path: Path) -> None:
    from mfcp.simulator.traces.nodes import read_nodes
    from mfcp.simulator.traces.reading import read_trace

    (read_nodes if path.stem == "nodes" else read_trace)(path)


def _read_rates(path: Path) -> None:
    from mfcp.simulator.beliefs import LossDurations
    from mfcp.simulator.cluster import Cluster
    from mfcp.simulator.jobs import Jobs
    from mfcp.simulator.policies.base import Policy
    from mfcp.simulator.simulation import import_policies, simulate
    from mfcp.simulator.traces.loss_table import read_losses
    from mfcp.simulator.traces.rates import read_batches, read_configurations, read_pairs, read_speeds

    import_policies()
    jobs = Jobs(
        np.array(["x", "y"]), np.zeros(2), np.ones(2, np.int64), np.array([50.0, 80.0]), np.array([1.0, 2.0]),
        kind=np.array(["bert", "vgg"]),
    )  # fmt: skip
    cluster, fair = Cluster.parse("a:1,b:2"), Policy.build("max_min_packed")
    if path.stem == "speeds":
        simulate(jobs, cluster, fair, speed=read_speeds(path, jobs, cluster), last=-1)
    elif path.stem == "configurations":
        read_configurations(path, jobs, cluster).configurations(jobs)
    elif path.stem == "sizes":
        read_configurations(path, jobs, cluster).with_sizes([1, 2], cluster).configurations(jobs)
    elif path.stem == "losses":
        simulate(jobs, cluster, fair, belief=LossDurations(), losses=read_losses(path, jobs), last=-1)
    elif path.stem == "batches":
        simulate(jobs, cluster, fair, batches=read_batches(path, jobs), last=-1)
    else:
        simulate(jobs, cluster, fair, pairs=read_pairs(path, jobs, cluster), last=-1)


# Matrices.


def _matrices() -> list[Case]:
    cases = []
    for array in (np.ones((3, 3)), np.ones((2, 4), np.float32), np.full((2, 3), 0.5)):
        buffer = io.BytesIO()
        np.save(buffer, array)
        cases += [("t.npy", buffer.getvalue()), ("t.csv", "\n".join(",".join(map(str, row)) for row in array).encode())]
    return cases


def _read_matrices(path: Path) -> None:
    from mfcp.commands.matrix_files import read_problem
    from mfcp.matching.planning import solve

    own = str(path)
    options = dict.fromkeys(("zeta", "max_tasks", "weights", "cost", "allowed", "backlog", "deadline"))
    options |= {"times": path, "reliability": path, "gamma": 0.5, "capacity": [f"memory={own}:5"]}
    problem = read_problem(Namespace(**options))
    if problem.T.size < 40:
        solve(problem, "auto", time_limit=1.0)


# Settings and words of the command line.


def _read_settings(path: Path) -> None:
    from mfcp.settings import SECTIONS, Settings

    settings = Settings.load(path)
    for name in SECTIONS:
        settings.section(name)
    _ = settings.methods


def _read_study(path: Path) -> None:
    from mfcp.paper.study_file import DEFAULT, StudyPlan
    from mfcp.settings import Settings

    shutil.copy(DEFAULT.with_name("held_out.yaml"), path.parent)
    StudyPlan.load(path, Settings.load(ROOT / "params.yaml"))


WORDS = {
    "policy": ["las:limits=[600,3600]", "fifo", "srsf", "gittins"],
    "cluster": ["64", "8x8", "v100:9x4,k80:36"],
    "belief": ["oracle", "error:mre=0.25", "history", "predicted:seconds=[1,2]"],
    "weights": ["makespan=1,total_time=2"],
}


def _read_words(path: Path) -> None:
    from mfcp.commands.matrix_files import _objective
    from mfcp.commands.simulating.case import spec_of
    from mfcp.simulator.beliefs import Durations
    from mfcp.simulator.cluster import Cluster
    from mfcp.simulator.policies.base import Policy
    from mfcp.simulator.simulation import import_policies

    import_policies()
    text = path.read_bytes().decode("utf-8", "surrogateescape").replace("\0", "")
    match path.name:
        case "policy":
            Policy.parse(spec_of(text))
        case "cluster":
            Cluster.parse(text)
        case "belief":
            Durations.parse(spec_of(text))
        case _:
            _objective(text, None)


# Releases.


def _releases(folder: Path) -> dict[str, Border]:
    from platform_log import small_log, small_release

    made = folder / "release"
    small_release(made, small_log())
    seeds = [(path.name, path.read_bytes()) for path in sorted(made.iterdir())]
    texts = [seed for seed in seeds if seed[0].endswith(".json")]
    call = lambda path: _load_release(path, made)  # noqa: E731
    runs = [seed for seed in _observed_runs(folder) if seed[0].startswith("runs")]
    return {
        "observed runs": Border(0.05, runs, lambda path: _observe(path, made), make=odd_table),
        "releases": Border(0.03, seeds, call),
        "facts of releases": Border(0.03, texts, call, value=True),
        "requests": Border(0.06, _requests(), lambda path: _ask(path, made), value=True),
    }


def _load_release(path: Path, made: Path) -> None:
    """With a manifest of the files as they are: who can change a file can change that as well."""
    from mfcp.release.model import Release

    folder = path.parent / "release"
    shutil.copytree(made, folder)
    shutil.copy(path, folder / path.name)
    if path.name != "manifest.json":
        names = sorted(own.name for own in folder.iterdir() if own.name != "manifest.json")
        digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
        (folder / "manifest.json").write_text(json.dumps(digests))
    Release.load(folder)


def _observed_runs(folder: Path) -> list[Case]:
    from platform_log import small_log

    from mfcp.data.log.tables import write_tables

    runs = small_log(3)["runs"].iloc[:20]
    for form in ("csv", "jsonl", "parquet"):
        write_tables({"runs": runs}, folder / f"observed-{form}", format=form)
    return [(path.name, path.read_bytes()) for path in sorted(folder.glob("observed-*/runs.*"))]


@cache
def _release(made: Path, process: int) -> Any:
    from mfcp.release.model import Release

    return Release.load(made)


def _observe(path: Path, made: Path) -> None:
    from platform_served import NEW

    from mfcp.release.observing import read_evidence

    release = _release(made, os.getpid())
    release.predict(NEW, read_evidence(release, NEW, path))


# Requests to the service.


def _requests() -> list[Case]:
    from platform_served import NEW

    tasks = NEW["tasks"].head(2)
    rows = {}
    for name in ("tasks", "nodes", "edges"):
        own = NEW[name][NEW[name]["graph_id"].isin(tasks["graph_id"])]
        own = own[own["task_id"].isin(tasks["task_id"])] if name == "tasks" else own
        told = json.loads(own.to_json(orient="records", date_format="iso"))
        rows[name] = [{key: cell for key, cell in row.items() if cell is not None} for row in told]
    first = rows["tasks"][0]["task_id"]
    ran = {"task_id": first, "cluster_id": "a", "status": "succeeded", "duration_s": 90.0, "samples_per_s": 3.5}
    seen = rows | {"observed": [ran, ran | {"task_id": "other"}], "observed_tasks": [{"task_id": "other"}]}
    asked = {"predict": seen, "match": rows | {"gamma": 0.7}, "explain": seen | {"only": [first]}}
    return [(f"{name}.json", json.dumps(own).encode()) for name, own in asked.items()]


@cache
def _client(made: Path, process: int) -> Any:
    from fastapi.testclient import TestClient

    from mfcp.platform.service.api import create_app
    from mfcp.platform.service.champion import Champion
    from mfcp.platform.service.desk import Desk
    from mfcp.platform.service.protocol import ServeSettings

    settings = ServeSettings(time_limit=0.5)
    desk = Desk(Champion.of_folder(made, graphs=100), settings)
    desk.refresh()
    client = TestClient(create_app(desk, settings), base_url="http://127.0.0.1", raise_server_exceptions=False)
    client.__enter__()  # for the life of the process
    return client


def _ask(path: Path, made: Path) -> None:
    answer = _client(made, os.getpid()).post(
        f"/v1/{path.stem}", content=path.read_bytes(), headers={"content-type": "application/json"}
    )
    if answer.status_code >= 500:
        raise AssertionError(f"{answer.status_code}: {answer.text[:200]}")
    if answer.status_code >= 400:
        raise DataError(answer.text)


# ONNX models.


def _onnx(folder: Path) -> dict[str, Border]:
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return {}
    weight = numpy_helper.from_array(np.zeros((4, 3), np.float32), "w")
    shape = numpy_helper.from_array(np.array([-1, 3], np.int64), "s")
    own = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    twice = helper.make_function("own", "twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], own)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("twice", ["h"], ["k"], domain="own"),
        helper.make_node("Shape", ["k"], ["n"]),
        helper.make_node("Reshape", ["k", "s"], ["r"]),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("b", 4))]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", given, made, [weight, shape])
    model = onnx.helper.make_model(graph, opset_imports=own, functions=[twice])
    return {"ONNX": Border(0.07, [("m.onnx", model.SerializeToString())], _capture)}


def _capture(path: Path) -> None:
    from mfcp.tasks.capture.onnx import capture_onnx

    capture_onnx(path, "g")
