"""Where a task is not expected to fit, in a world whose peaks follow a formula."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from graphs_by_hand import tables
from platform_log import small_log

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import read_tables
from mfcp.data.pool.run_totals import totals_of
from mfcp.errors import DataError
from mfcp.release.decision import decide
from mfcp.release.memory_limits import MemoryLimits, trains
from mfcp.release.model import Release
from mfcp.tasks.features.descriptors import TaskFeatures
from mfcp.tasks.graphs.operators import CLASS_NAMES
from mfcp.tasks.memory import MemoryRisk, PeakMemory, TrainingRuns

OPERATORS = ("mm", "relu", "softmax", "add")
FACTORS = np.log(np.array([4.0, 2.5, 1.2, 1.1, *np.linspace(0.5, 1.5, len(CLASS_NAMES)), 0.2, 2.0]))
CLUSTERS = ("big", "small", "untold")
pytestmark = pytest.mark.xdist_group("release")  # one worker makes what they share


def log(families=8, each=4, seed=0):
    """Each graph at three batches, on a cluster that has room, one that has the median peak, one that says nothing."""
    rng = np.random.default_rng(seed)
    nodes, edges, tasks = [], [], []
    for g in range(families * each):
        chosen = rng.choice(OPERATORS, rng.integers(2, 9)).tolist()
        own, links = tables(chosen, [(i, i + 1) for i in range(len(chosen) - 1)])
        size = np.exp(rng.normal(15, 0.8, len(own))).round()
        nodes.append(own.assign(graph_id=f"g{g}", output_numel=size, param_count=own["param_count"] * 1e6))
        edges.append(links.assign(graph_id=f"g{g}"))
        tasks += [
            {"task_id": f"t{g}-{batch}", "model": f"family{g % families}-{g}", "family": f"f{g % families}",
             "graph_id": f"g{g}", "batch_size": batch, "phase": "train", "precision": "fp32"}
            for batch in (2, 8, 24)
        ]  # fmt: skip
    found = {"tasks": pd.DataFrame(tasks), "nodes": pd.concat(nodes, ignore_index=True),
             "edges": pd.concat(edges, ignore_index=True)}  # fmt: skip
    peak = true_peaks(found) * np.exp(rng.normal(0, 0.03, len(tasks)))
    limit = float(np.median(peak))
    found["clusters"] = pd.DataFrame({"cluster_id": CLUSTERS, "memory_bytes": [1e13, round(limit), None]})
    found["runs"] = pd.DataFrame(
        [
            {"run_id": f"{name}/{task}", "task_id": task, "cluster_id": name, "duration_s": 9.0,
             "status": "succeeded" if peak[j] <= room else "oom",
             "peak_memory_bytes": round(peak[j]) if peak[j] <= room else None}
            for name, room in (("big", 1e13), ("small", limit))
            for j, task in enumerate(found["tasks"]["task_id"])
        ]
    )  # fmt: skip
    whole = {name: coerce(SCHEMA[name], frame).frame for name, frame in found.items()}
    return whole, peak, limit


def true_peaks(found):
    """(n,) bytes by the formula."""
    features = TaskFeatures.of(found, found["tasks"]["task_id"].to_numpy(str))
    runs = TrainingRuns(features.graph_at, found["tasks"]["batch_size"].to_numpy(float), np.ones(len(features.tasks)))
    return PeakMemory(FACTORS).predict(features.graphs, runs)


def learn(found, families=range(5)):
    known = found["tasks"]["family"].isin([f"f{f}" for f in families])
    return MemoryLimits.learn(found, CLUSTERS, frozenset(found["tasks"]["task_id"][known])), known.to_numpy()


def test_tasks_of_unseen_families_are_kept_from_where_they_do_not_fit():
    found, peak, limit = log()
    limits, known = learn(found)
    features = TaskFeatures.of(found, found["tasks"]["task_id"].to_numpy(str))
    assert limits.kind.tolist() == [0, 0, 0]
    told = limits.peaks(features)
    assert (told == told[0]).all()
    assert np.abs(np.log(told[0] / peak))[~known].mean() < 0.1
    lacks = limits.lacking(told)
    assert not lacks[0].any()
    assert not lacks[2].any()  # it does not tell its memory
    new, starved = ~known, peak > limit
    assert lacks[1][new & starved].mean() > 0.9
    assert lacks[1][new & ~starved].mean() < 0.1
    assert not limits.lacking(np.full(told.shape, np.nan)).any()


def test_kinds_of_accelerators_have_peaks_of_their_own():
    """Twice the peaks on another kind; a third kind, without runs, is judged by what every kind would take."""
    found, peak, limit = log()
    kinds = found["clusters"].assign(accelerator=["CPU", "GPU", "new"], memory_bytes=[1e13, 1e13, round(limit)])
    rows = found["runs"].assign(status="succeeded")
    on_gpu = rows["cluster_id"] == "small"
    whole = pd.concat([pd.Series(peak), pd.Series(2 * peak)], ignore_index=True).round()
    rows = rows.assign(peak_memory_bytes=whole.where(rows.index % 2 == 0).astype("Int64"))
    limits, known = learn({**found, "clusters": kinds, "runs": rows}, families=range(6))
    assert on_gpu.sum() * 2 == len(rows)
    assert limits.kind.tolist() == [0, 1, -1]
    told = limits.peaks(TaskFeatures.of(found, found["tasks"]["task_id"].to_numpy(str)))
    assert np.abs(np.log(told[0] / peak))[~known].mean() < 0.1
    assert np.abs(np.log(told[1] / peak / 2))[~known].mean() < 0.1
    assert (told[2] == told[:2].min(axis=0)).all()
    lacks = limits.lacking(told)
    assert not lacks[:2].any()
    assert lacks[2][peak > 1.3 * limit].all()
    assert not lacks[2][peak < limit / 1.3].any()


def test_on_a_real_gpu_most_runs_out_of_memory_are_foreseen():
    """An H100's runs: 168 with all its memory, 248 with 1, 2 or 4 GB, of which 81 failed; six families are unseen."""
    found = read_tables(Path(__file__).parents[2] / "benchmarks" / "measured" / "h100")
    tasks, runs, names = found["tasks"], found["runs"], tuple(found["clusters"]["cluster_id"])
    unseen = set(np.random.default_rng(0).permutation(np.unique(tasks["family"].astype(str)))[:6])
    new = tasks["family"].isin(unseen).to_numpy()
    limits = MemoryLimits.learn(found, names, frozenset(tasks["task_id"][~new]))
    peaks = limits.peaks(TaskFeatures.of(found, tasks["task_id"].to_numpy(str)))
    i = runs["cluster_id"].map({name: place for place, name in enumerate(names)}).to_numpy()
    j = runs["task_id"].map({task: place for place, task in enumerate(tasks["task_id"])}).to_numpy()
    judged = new[j] & trains(tasks)[j]
    failed = (runs["status"] == "oom").to_numpy()
    free = judged & (i == int(np.argmax(found["clusters"]["memory_bytes"].to_numpy(float))))
    error = np.abs(np.log(peaks[i, j] / runs["peak_memory_bytes"].to_numpy(float, na_value=np.nan)))
    assert (free.sum(), (judged & failed).sum()) == (24, 20)
    assert error[free].mean() < 0.2
    lacks = limits.lacking(peaks)[i, j]
    assert lacks[judged & failed].mean() >= 0.9
    assert lacks[judged & ~failed].mean() <= 0.1


def test_too_little_to_learn_from_is_none():
    found, *_ = log()
    every = frozenset(found["tasks"]["task_id"])
    assert MemoryLimits.learn(found, CLUSTERS, every) is not None
    untold = {**found, "clusters": found["clusters"].assign(memory_bytes=pd.array([None] * 3, "Int64"))}
    assert MemoryLimits.learn(untold, CLUSTERS, every) is None
    assert learn(found, families=range(2))[0] is None  # two families
    without = {name: table for name, table in found.items() if name not in ("nodes", "edges")}
    assert MemoryLimits.learn(without, CLUSTERS, every) is None
    other = {**found, "tasks": found["tasks"].assign(precision="amp_fp16")}
    assert MemoryLimits.learn(other, CLUSTERS, every) is None
    silent = {**found, "runs": found["runs"].assign(peak_memory_bytes=pd.array([None] * len(found["runs"]), "Int64"))}
    assert MemoryLimits.learn(silent, CLUSTERS, every) is None


def test_no_run_had_a_limit_that_mattered():
    """Without a run that failed the risk is the usual one: about where the peak passes the limit."""
    found, peak, limit = log()
    runs = found["runs"][found["runs"]["cluster_id"] == "big"].reset_index(drop=True)
    limits, _ = learn({**found, "runs": runs}, families=range(8))
    lacks = limits.lacking(np.tile(peak, (3, 1)))[1]
    assert lacks[peak > 1.3 * limit].all()
    assert not lacks[peak < limit / 1.3].any()


def test_only_training_in_full_precision_counts():
    tasks = pd.DataFrame({"phase": ["train", "infer", "train", None], "precision": ["fp32", "fp32", "bf16", "fp32"]})
    assert trains(tasks).tolist() == [True, False, False, False]
    assert trains(tasks[["phase"]]).tolist() == [False] * 4


def test_totals_of_peaks_and_of_runs_without_memory():
    found, peak, limit = log()
    totals = totals_of(found)
    assert totals.peak.mean[0] == pytest.approx(np.round(peak))
    assert (totals.starved[1] == (peak > limit)).all()
    assert totals.peak.count[1].tolist() == (peak <= limit).astype(int).tolist()


# A release that knows of memory.


def knowing(release, limit=(np.nan, np.nan, np.nan)):
    one = (PeakMemory(FACTORS),), np.zeros(len(limit), int)
    return replace(release, memory=MemoryLimits(*one, MemoryRisk(0.0, 0.1), np.array(limit)))


@pytest.fixture
def unseen():
    own = small_log(12, seed=9, start=500)
    tasks = own["tasks"].assign(phase="train", precision="fp32", batch_size=pd.array([4] * 12, "Int64"))
    of_graph = own["nodes"]["graph_id"].str.removeprefix("g").astype(float)
    return {"tasks": tasks, "nodes": own["nodes"].assign(output_numel=1e8 * 4**of_graph), "edges": own["edges"]}


def test_a_task_is_not_sent_where_it_lacks_memory_and_the_answer_says_so(release, unseen):
    names = release.cluster_id
    free = decide(knowing(release), unseen)
    assert free.assignment.tolist() == decide(release, unseen).assignment.tolist()
    peak = knowing(release).believe(unseen).peak[0]
    middle = float(np.sqrt(peak.min() * peak.max()))
    told = decide(knowing(release, (middle, np.nan, np.nan)), unseen)
    heavy = peak > middle
    assert 0 < heavy.sum() < len(peak)
    assert all(told.cluster_id[j] != names[0] for j in np.flatnonzero(heavy))
    assert not told.belief.allowed[0, 0, heavy].any()
    assert told.belief.allowed[0][:, ~heavy].all()
    said = [line for line in told.provenance["not_measured"] if line.startswith("memory of")]
    assert len(said) == heavy.sum()
    task = unseen["tasks"]["task_id"].iloc[int(np.flatnonzero(heavy)[0])]
    assert f"memory of {task} on {names[0]}: " in said[0]
    assert said[0].endswith("GiB are predicted, so it is not sent there")


def test_what_fits_nowhere_may_run_everywhere(release, unseen):
    told = decide(knowing(release, (1.0, 1.0, 1.0)), unseen)
    assert told.belief.allowed.all()
    assert told.assignment.tolist() == decide(release, unseen).assignment.tolist()
    assert all("expected to fit nowhere" in line for line in told.provenance["not_measured"] if "memory of" in line)
    left = knowing(release, (1.0, np.nan, np.nan))
    only = decide(left, unseen, clusters=[release.cluster_id[0]])  # the others are away
    assert set(only.cluster_id) == {release.cluster_id[0]}


def test_a_run_that_succeeded_counts_more_than_a_prediction(release, folder):
    own = small_log()
    tasks = own["tasks"].assign(phase="train", precision="fp32")
    tables = {"tasks": tasks, "nodes": own["nodes"], "edges": own["edges"]}
    believed = knowing(release, (1.0, 1.0, 1.0)).believe(tables)
    before = release.before(tables)
    done = np.zeros(believed.lacks.shape, bool)
    done[:, before.at >= 0] = release.known.succeeded[:, before.at[before.at >= 0]] > 0
    assert done.any()
    assert (believed.lacks == (~done & np.isfinite(believed.peak))).all()


def test_it_is_written_and_read_with_the_release(release, folder, tmp_path):
    import json
    import shutil

    from mfcp.release.model import MANIFEST, _sha256

    own = tmp_path / "own"
    shutil.copytree(folder, own)
    facts = json.loads((own / "release.json").read_text())
    assert facts["memory"] is None
    assert release.memory is None
    known = knowing(release, (3.0, np.nan, 5.0))

    def write(memory):
        (own / "release.json").write_text(json.dumps({**facts, "memory": memory}))
        names = json.loads((own / MANIFEST).read_text())
        (own / MANIFEST).write_text(json.dumps({**names, "release.json": _sha256(own / "release.json")}))

    write(known.memory.facts())
    again = Release.load(own).memory
    assert again.limit.tolist()[::2] == [3.0, 5.0]
    assert np.isnan(again.limit[1])
    assert [own.coefficients.tolist() for own in again.peak] == [FACTORS.tolist()]
    assert again.kind.tolist() == [0, 0, 0]
    assert again.risk == MemoryRisk(0.0, 0.1)
    write({**known.memory.facts(), "limits": [3.0]})
    with pytest.raises(DataError, match="memory of 1 clusters"):
        Release.load(own)
    write({**known.memory.facts(), "kinds": [0, 1, 0]})
    with pytest.raises(DataError, match="memory of kind 1, where there are 1"):
        Release.load(own)
    write({**known.memory.facts(), "factors": [[1.0]]})
    with pytest.raises(DataError, match="memory of 3 clusters"):
        Release.load(own)
    write({**known.memory.facts(), "factors": [FACTORS.tolist()[:-2]]})  # as peaks were told before
    with pytest.raises(DataError, match="make the release again"):
        Release.load(own)
    older = {name: value for name, value in facts.items() if name != "memory"}
    (own / "release.json").write_text(json.dumps(older))
    names = json.loads((own / MANIFEST).read_text())
    (own / MANIFEST).write_text(json.dumps({**names, "release.json": _sha256(own / "release.json")}))
    assert Release.load(own).memory is None
