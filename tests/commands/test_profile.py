"""`mfcp profile` with real processes: what a run leaves, what its end leaves, and going on after a kill."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from running import alive, until
from test_cli import run

from mfcp.commands.profile import alike
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import read_tables
from mfcp.data.log.validation import validate
from mfcp.data.pool.times import measure_cells
from mfcp.errors import DataError, SettingsError
from mfcp.profiling import profile, session
from mfcp.profiling.folder import opened
from mfcp.profiling.isolation import Isolation
from mfcp.threads import cores

NETS = '''
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import torch

HERE = os.path.dirname(__file__)


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


class Wide(Net):
    def __init__(self):
        super().__init__()
        self.append(torch.nn.Linear(2, 1 << 12))


class Raises(Net):
    def forward(self, x):
        if x.is_meta:
            return super().forward(x)
        raise ValueError("no luck today\\nand no other day")


class Hungry(Net):
    def forward(self, x):
        return super().forward(x) if x.is_meta else [torch.empty(1 << 28) for _ in range(64)]


class Segfault(Net):
    def forward(self, x):
        return ctypes.string_at(0)


class Killed(Net):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGKILL)


class Exits(Net):
    def forward(self, x):
        os._exit(3)


class Sleeps(Net):
    """Does not end, nor does the process that it starts."""

    def forward(self, x):
        if x.is_meta:
            return super().forward(x)
        grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(os.path.join(HERE, "pids"), "a") as file:
            file.write(f"{os.getpid()} {grandchild.pid}\\n")
        time.sleep(600)


class Late(Net):
    """Sleeps at the first run only."""

    def forward(self, x):
        if not x.is_meta and not os.path.exists(os.path.join(HERE, "slept")):
            open(os.path.join(HERE, "slept"), "w").close()
            time.sleep(600)
        return super().forward(x)
'''
LINEAR = {"param_count": 46, "flops": 2 * (8 * 4 + 4 * 2), "activations": 6.0}

pytestmark = pytest.mark.xdist_group("profile")  # one worker makes what they share


class MeasuredOnce(Isolation):
    """Measures what the machine reaches once, not for every folder: that takes seconds."""

    def __init__(self):
        super().__init__()
        self.figures = {}

    def run(self, job, arguments, **options):
        if job != "figures":
            return super().run(job, arguments, **options)
        asked = json.dumps(arguments)
        if asked not in self.figures:
            self.figures[asked] = super().run(job, arguments, **options)
        return self.figures[asked]


@pytest.fixture(scope="module")
def server():
    """One server for all tests: each start takes seconds."""
    with MeasuredOnce() as isolation:
        yield isolation


@pytest.fixture
def nets(tmp_path, monkeypatch, server):
    """A folder with nets.py; profiles in this process run on the server at hand."""
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.setattr(session, "Isolation", lambda: nullcontext(server))
    return tmp_path


def started(*arguments):
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "mfcp.cli", "profile", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def slept(nets):
    """The processes of a run of Sleeps, once it is under way."""
    pids = nets / "pids"
    until(lambda: pids.exists() and pids.read_text().endswith("\n"), "a run hangs", 60)
    return list(map(int, pids.read_text().split()))


def test_zoo_runs_are_plausible_and_valid(tmp_path):
    options = {"batches": [2], "steps": 2, "threads": [1], "device": "cpu"}
    done = profile(["zoo:resnet-18@32", "zoo:t5-mini@32"], out=tmp_path, **options)
    assert done.left == 0
    validated = validate(read_tables(tmp_path), max_bad_share=0.0)
    assert len(validated.quarantine) == 0
    tasks, clusters, runs = (validated.tables[name] for name in ("tasks", "clusters", "runs"))
    assert set(tasks["task_id"]) == {"resnet-18@32/b2/fp32", "t5-mini@32/b2/fp32"}
    assert tasks.set_index("family")["optimizer"].to_dict() == {"resnet": "sgd", "t5": "adamw"}
    assert tasks["samples"].isna().all()
    cluster = clusters.iloc[0]
    assert re.fullmatch(r"cpu-[0-9a-f]{8}-t1", cluster["cluster_id"])
    assert 1e8 < cluster["peak_flops_fp32"] <= cluster["peak_flops"] < 1e14
    assert 1e8 < cluster["memory_bandwidth"] < 1e13
    assert "measured" in cluster["figures"]
    assert (runs["status"] == "succeeded").all()
    rate = 3 * 2 * runs.merge(tasks, on="task_id")["flops"] / runs["step_time_s"]
    assert (rate < cluster["peak_flops"] * 1.5).all()
    assert np.allclose(runs["samples_per_s"], 2 / runs["step_time_s"])
    assert (runs["step_time_p10_s"] <= runs["step_time_s"]).all()
    assert (runs["step_time_s"] <= runs["step_time_p90_s"]).all()
    assert (runs["wall_s"] > 3 * runs["step_time_p10_s"]).all()
    assert (runs["peak_memory_bytes"] > 4 * 4 * tasks["param_count"].min()).all()
    assert runs["duration_s"].isna().all()
    assert set(validated.tables["nodes"]["graph_id"]) == {"resnet-18@32", "t5-mini@32"}
    text = " ".join(map(str, [*clusters.to_numpy().ravel(), *runs.to_numpy().ravel()]))
    assert os.uname().nodename not in text
    assert "/home" not in text
    assert str(tmp_path) not in text


def test_every_end_of_a_run_is_recorded_and_ends_nothing_else(nets):
    names = ("Net", "Raises", "Hungry", "Segfault", "Killed", "Exits", "Sleeps")
    done = profile(
        [f"{nets}/nets.py:{name}" for name in names],
        inputs=["4x8"], out=nets / "log", steps=2, threads=[1], device="cpu", timeout=5, memory_limit=2_000_000_000,
    )  # fmt: skip
    runs = done.tables["runs"].assign(name=lambda frame: frame["task_id"].str.partition("@")[0]).set_index("name")
    assert set(runs.index) == set(names)
    assert runs["status"].to_dict() == {
        "Net": "succeeded", "Raises": "failed", "Hungry": "oom", "Segfault": "failed", "Killed": "failed",
        "Exits": "failed", "Sleeps": "timeout",
    }  # fmt: skip
    errors = runs["error"].dropna().to_dict()
    assert errors["Raises"] == "ValueError: no luck today"
    assert errors["Segfault"] == "SIGSEGV"
    assert errors["Killed"] == "SIGKILL"
    assert errors["Exits"].endswith("exit code 3")
    assert "1073741824 bytes" in errors["Hungry"]
    assert runs["peak_memory_bytes"].drop("Sleeps").max() < 2e9
    assert done.tables["clusters"]["memory_bytes"].tolist() == [2_000_000_000]
    for pid in map(int, (nets / "pids").read_text().split()):
        until(lambda pid=pid: not alive(pid), "what timed out is gone, and what it had started")
    # What cannot be captured is measured all the same, as a task without graph.
    assert set(done.without_graph) == {"Segfault@8", "Killed@8", "Exits@8"}
    tasks = done.tables["tasks"].set_index("model")
    assert tasks.loc["Net", list(LINEAR)].to_dict() == LINEAR
    assert tasks["graph_id"].isna().to_dict() == {name: name in ("Segfault", "Killed", "Exits") for name in names}
    validate(read_tables(nets / "log"), max_bad_share=0.0)


def test_a_task_of_which_no_run_succeeds_is_told_as_well(nets, capsys):
    """The zoo's columns hold missing numbers of their own kind, of which a median is not a float."""
    limits = ("--memory-limit", "450e6", "--batch", "1024", "--steps", "1", "--threads", "1", "--device", "cpu")
    code, out, error = run(capsys, "profile", "zoo:resnet-18@32", "--out", nets / "log", *limits)
    assert (code, error) == (0, "")
    assert "1 oom" in out


def test_a_model_that_never_runs_is_an_error_after_its_table(nets, capsys):
    one = ("--input", "2x8", "--out", nets / "log", "--steps", "1", "--threads", "1", "--device", "cpu")
    code, out, error = run(capsys, "profile", f"{nets}/nets.py:Raises", *one)
    assert code == 1
    assert "1 failed" in out
    assert f"error: none of 1 runs succeeded. {nets / 'log'} has them as failed" in error
    assert run(capsys, "profile", f"{nets}/nets.py:Net", *one)[0] == 0
    assert run(capsys, "profile", f"{nets}/nets.py:Raises", *one)[0] == 0  # done before: nothing was run


def test_killed_in_the_middle_and_resumed_loses_and_doubles_nothing(nets, capsys):
    folder = nets / "log"
    models = [f"{nets}/nets.py:Net", f"{nets}/nets.py:Sleeps"]  # Net first, then in turn
    options = {"inputs": ["2x8"], "out": folder, "batches": [2, 4], "steps": 1, "threads": [1], "device": "cpu"}
    arguments = ("--input", "2x8", "--batch", "2,4", "--steps", 1, "--threads", 1, "--device", "cpu")
    first = started(*models, *arguments, "--out", folder)
    child, grandchild = slept(nets)
    code, _, error = run(capsys, "profile", f"{nets}/nets.py:Net", "--input", "2x8", "--out", folder)
    assert (code, len(error.splitlines())) == (2, 1)
    assert "another `mfcp profile`" in error
    server = parent(child)
    assert alive(server)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    for pid in (server, child, grandchild):
        until(lambda pid=pid: not alive(pid), "no process is left", 10)
    (folder / ".runs.left.parquet").write_bytes(b"half")  # as a kill between writing and renaming leaves
    before = read_tables(folder)["runs"]
    assert before["task_id"].tolist() == ["Net@8/b2/fp32"]
    done = profile(models, timeout=2, **options)
    assert len(done.ran) == 3
    runs = read_tables(folder)["runs"]
    assert runs.iloc[0].equals(before.iloc[0])
    assert sorted(runs["task_id"]) == [f"{name}@8/b{batch}/fp32" for name in ("Net", "Sleeps") for batch in (2, 4)]
    assert runs["status"].value_counts().to_dict() == {"succeeded": 2, "timeout": 2}
    assert runs["run_id"].is_unique
    assert {path.name for path in folder.iterdir()} == {
        ".writing.lock", *(f"{name}.parquet" for name in ("tasks", "clusters", "runs", "nodes", "edges"))
    }  # fmt: skip
    content = (folder / "runs.parquet").read_bytes()
    again = profile(models, **options)
    assert (again.ran, again.left) == ([], 0)
    assert (folder / "runs.parquet").read_bytes() == content


def test_a_killed_server_takes_its_child_along_and_is_replaced(nets):
    killed = []

    def kill():
        killed.extend(slept(nets))
        os.kill(parent(killed[0]), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    models = [f"{nets}/nets.py:Sleeps", f"{nets}/nets.py:Wide"]  # in this order: Wide is more work
    done = profile(models, inputs=["2x8"], out=nets / "log", threads=[1], device="cpu")
    killer.join()
    until(lambda: not alive(killed[0]), "the child is gone with its server", 10)
    os.kill(killed[1], signal.SIGKILL)  # what a child starts outlives a server that is killed, but no other end
    runs = done.tables["runs"].set_index("task_id")
    assert runs["status"].to_dict() == {"Sleeps@8/b2/fp32": "failed", "Wide@8/b2/fp32": "succeeded"}
    assert "ended with code -9" in runs.loc["Sleeps@8/b2/fp32", "error"]


def test_the_budget_ends_a_run_and_forgets_it(nets):
    options = {"inputs": ["2x8"], "out": nets / "log", "steps": 1, "threads": [1], "device": "cpu"}
    start = time.monotonic()
    done = profile([f"{nets}/nets.py:Net"], **options)
    assert len(done.ran) == 1
    budget = 3 + time.monotonic() - start  # enough for a start, whatever else this machine does
    start = time.monotonic()
    done = profile([f"{nets}/nets.py:Net", f"{nets}/nets.py:Late"], repeats=3, budget=budget, **options)
    assert time.monotonic() - start < budget + 60  # the sleep of 600 s was cut
    assert done.cut == "Late@8/b2/fp32"
    assert done.left == 5 - len(done.ran)
    runs = done.tables["runs"]
    assert not runs["task_id"].str.startswith("Late").any()
    done = profile([f"{nets}/nets.py:Net", f"{nets}/nets.py:Late"], repeats=3, **options)
    assert done.left == 0
    assert done.tables["runs"].groupby("task_id")["attempt"].apply(sorted).to_dict() == {
        "Late@8/b2/fp32": [1, 2, 3],
        "Net@8/b2/fp32": [1, 2, 3],
    }


def test_whole_epochs_fill_durations_of_tasks(nets):
    options = {"inputs": ["4x8"], "out": nets / "log", "threads": [1], "device": "cpu"}
    done = profile([f"{nets}/nets.py:Net"], batches=[2, 4], epochs=3, examples=8, warmup=2, **options)
    tasks, runs = done.tables["tasks"].set_index("task_id"), done.tables["runs"].set_index("task_id")
    assert list(tasks["samples"]) == [24, 24]
    assert runs["steps"].to_dict() == {"Net@8/b2/fp32/e3x8": 12 - 2, "Net@8/b4/fp32/e3x8": 6 - 2}
    assert (runs["duration_s"] > runs["steps"] * runs["step_time_p10_s"]).all()
    assert (runs["duration_s"] < runs["wall_s"]).all()
    cells = measure_cells(validate(read_tables(nets / "log"), max_bad_share=0.0).tables, np.ones(1))
    assert np.allclose(cells.duration[0], runs.loc[tasks.index, "duration_s"])
    # Steps of the same model in the same folder: another task, without samples.
    done = profile([f"{nets}/nets.py:Net"], steps=3, precisions=["fp32", "amp_bf16"], **options)
    tasks, runs = done.tables["tasks"], done.tables["runs"]
    assert tasks.set_index("task_id")["samples"].isna().sum() == 2
    assert set(tasks["precision"]) == {"fp32", "amp_bf16"}
    assert runs.set_index("task_id")["duration_s"].isna().sum() == 2
    assert len(done.tables["clusters"]) == 1


def test_threads_and_machines_are_clusters(nets, monkeypatch):
    options = {"inputs": ["4x8"], "out": nets / "log", "steps": 1, "device": "cpu"}
    threads = list(range(1, min(cores(), 2) + 1))
    done = profile([f"{nets}/nets.py:Net"], threads=threads, **options)
    names = list(done.tables["clusters"]["cluster_id"])
    assert [name.partition("-t")[2] for name in names] == [str(count) for count in threads]
    # As if it were another machine: the same folder gets another cluster, and the run is not taken for done.
    real = session.cluster
    monkeypatch.setattr(session, "cluster", lambda place, *rest: real({**place, "kernel": "other"}, *rest))
    done = profile([f"{nets}/nets.py:Net"], threads=[1], **options)
    assert len(done.ran) == 1
    assert len(done.tables["clusters"]) == len(names) + 1
    assert done.tables["runs"]["cluster_id"].nunique() == len(names) + 1


def test_a_module_that_cannot_be_captured_may_be_all_there_is(nets):
    done = profile(
        [f"{nets}/nets.py:Exits"], inputs=["4x8"], out=nets / "log", steps=1, threads=[1], device="cpu", timeout=60
    )
    assert done.tables["runs"]["status"].tolist() == ["failed"]
    assert done.tables["tasks"][["graph_id", "param_count"]].isna().all(axis=None)
    assert done.without_graph


def test_errors_that_differ_in_numbers_are_told_once():
    out_of_memory = "OutOfMemoryError: CUDA out of memory. Tried to allocate {} MiB. GPU 0 has 79.18 GiB."
    errors = {out_of_memory.format("20.00"): 2, "SIGSEGV": 1, out_of_memory.format("1.50"): 3, "exit code 3": 1}
    assert alike(errors | {"KeyError: " + "long " * 99: 1}) == [
        f"5 x {out_of_memory.format('20.00')} (and others like it)",
        "1 x SIGSEGV",
        "1 x exit code 3",
        f"1 x KeyError: {'long ' * 27}…",
    ]


def test_a_folder_keeps_its_format_and_its_rows(nets, capsys):
    folder = nets / "log"
    folder.mkdir()
    for name in ("tasks", "clusters", "runs"):
        header = ",".join(column.name for column in SCHEMA[name].columns)
        mine = "\nmine,cv,m,8,32,fp32,train,5,1.0,2.0,,," if name == "tasks" else ""
        (folder / f"{name}.csv").write_text(f"{header}{mine}\n")
    for batch in ("2", "4"):
        arguments = (f"{nets}/nets.py:Net", "--input", "2x8", "--steps", 1, "--threads", 1, "--device", "cpu")
        code, out, error = run(capsys, "profile", *arguments, "--batch", batch, "--out", folder)
        assert (code, error) == (0, "")
        assert f"Net@8/b{batch}/fp32" in out
    code, out, _ = run(capsys, "profile", *arguments, "--batch", 8, "--out", folder, "--json")
    told = json.loads(out)
    assert (code, told["added"], told["runs"], told["left"], told["errors"]) == (0, 1, 3, 0, {})
    tables = read_tables(folder)
    assert (folder / "runs.csv").is_file()
    assert list(tables["tasks"]["task_id"]) == ["mine", "Net@8/b2/fp32", "Net@8/b4/fp32", "Net@8/b8/fp32"]
    assert tables["runs"]["status"].tolist() == ["succeeded"] * 3
    last = tables["runs"].iloc[-1]
    assert [(row["task"], row["statuses"], row["step_time_s"]) for row in told["measured"]] == [
        ("Net@8/b8/fp32", {"succeeded": 1}, pytest.approx(last["step_time_s"]))
    ]
    with opened(folder) as read:
        assert read.tables["runs"]["wall_s"].dtype == float


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["zoo:resnet-51"], "no model or family 'resnet-51'"),
        (["resnet"], "expected zoo:ID, zoo:FAMILY or FILE.py:NAME"),
        (["none.py:Net", "--input", "1x8"], "no such file"),
        (["nets.py:Net"], "expected --input"),
        (["nets.py:Net", "--input", "1x0"], "with sides of at least 1"),
        (["nets.py:Net", "--input", f"1x{10**20}"], "--input: expected sides of at most 1000000000"),
        (["zoo:resnet", "--input", "1x8"], "no such model is named"),
        (["nets.py:Net", "other.py:Net", "--input", "1x8"], "another model is named Net@8"),
        (["--threads", "1,4096"], f"at most this machine's {cores()} cores"),
        (["--threads", "0"], "--threads: expected a whole number from 1"),
        (["--batch", "4,0"], "--batch: expected a whole number from 1"),
        (["--batch", f"{10**20}"], "--batch: expected a whole number from 1 to 1000000000"),
        (["--precision", "fp31"], "expected fp32, amp_fp16, amp_bf16"),
        (["--repeats", "0"], "--repeats: expected a whole number from 1"),
        (["--repeats", f"{10**9}"], "--repeats: expected a whole number from 1 to 10000"),
        (["--steps", "0"], "--steps: expected a whole number from 1"),
        (["--warmup", "-1"], "--warmup: expected a whole number from 0"),
        (["--seed", "-1"], "--seed: expected a whole number from 0"),
        (["--seed", f"{2**64}"], "--seed: expected a whole number from 0 to 9223372036854775807"),
        (["--timeout", "0"], "--timeout: expected a positive number"),
        (["--budget", "-5"], "--budget: expected a positive number"),
        (["--budget", "nan"], "--budget: expected a positive number"),
        (["--epochs", "2"], "--epochs and --examples go together"),
        (["--epochs", "0", "--examples", "8"], "--epochs: expected a whole number from 1"),
        (["--epochs", "2", "--examples", "12"], "--examples 12 is no multiple of batch 8"),
        (["--device", "cuda", "--threads", "1"], "leave them out"),
    ],
)
def test_bad_usage_is_one_line(nets, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(nets)
    (nets / "other.py").write_text(NETS)
    code, out, error = run(capsys, "profile", *arguments, "--out", nets / "log")
    assert code == 2, out
    assert words in error
    assert len(error.splitlines()) == 1
    assert not (nets / "log").exists()


def test_bad_options_are_told_by_the_parser(nets, capsys):
    for option in ("--threads", "--batch", "--memory-limit"):
        code, _, error = run(capsys, "profile", "--out", "log", option, "many")
        assert code == 2
        assert option in error


def test_bad_folders_and_files_are_errors(nets):
    options = {"inputs": ["1x8"], "device": "cpu", "threads": [1]}
    (nets / "file").write_text("")
    with pytest.raises(DataError, match="expected a folder"):
        profile([f"{nets}/nets.py:Net"], out=nets / "file", **options)
    (nets / "damaged").mkdir()
    (nets / "damaged" / "runs.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"runs\.parquet: not a whole Parquet file"):
        profile([f"{nets}/nets.py:Net"], out=nets / "damaged", **options)
    with pytest.raises(DataError, match="has no 'Nett'"):
        profile([f"{nets}/nets.py:Nett"], out=nets / "log", **options)
    with pytest.raises(SettingsError, match="--memory-limit"):
        profile([f"{nets}/nets.py:Net"], out=nets / "log", memory_limit=1 << 60, **options)
