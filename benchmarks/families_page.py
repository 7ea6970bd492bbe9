"""docs/families.md and its plot, from the kept numbers of families.py."""
# ruff: noqa: E501 (tables of Markdown)

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.families_hindsight import HINDSIGHT

DOCS = Path(__file__).parents[1] / "docs"
NUMBERS, PAGE, PLOT = DOCS / "families/families.json", DOCS / "families.md", DOCS / "families/cost.svg"

HEAD = """# Every family of performance models on the same data

The survey of task scheduling by performance models (Yang et al., J. of Software 36(4), 2025) sets systems side by side
by errors that each measured on its own data and splits. Here all families have the same data and the same folds, and
what an answer costs stands beside its error. `python benchmarks/families.py --data DIR --page` wrote this page.

| row | stands for | in this library |
|---|---|---|
| median, one tree, nearest, boosted trees | metadata: MLaaS, Helios, Harmony, GENIE | forecasts `boosted_trees` (one tree: `{trees: 1, lr: 1, leaves: 31}`) and `nearest`; method `task_agnostic` |
| graph vector + trees | Horus, DNNAbacus | `boosted_trees` on counts of operators |
| graph network + heads | DNNPerf, Driple | encoder `gnn` with forecast `cross_fitted`; a new cluster has a new linear head |
| roofline | SEER | `mfcp.tasks.timing.roofline`; `featurize.operator_times: {roofline_share: 1}` |
| known device, scaled | Habitat | `mfcp.tasks.timing.wave_scaling`: one step of the task on the most alike cluster, operator by operator |
| learned operators | PerfNet, NeuSight's form; ours | `mfcp.tasks.timing.operator_times`, `mfcp.tasks.timing.new_cluster`; forecast `operator_times` |
| learned operators + a run elsewhere | ours, with evidence | the same, corrected by one step of the task on the most alike other cluster, as far as errors are shared |
| known devices + a new head | Driple; ours | `mfcp.tasks.timing.linear_head` over times on known devices |
| learned kernels | NeuSight's form; ours | `mfcp.tasks.timing.kernel_times` |
| replayed, learned kernels | Daydream, Proteus | `KernelTimes.replayed`: a step measured on the device, changed kernel by kernel |
| profiled mean | Chronus, Hydra, AlloX | the mean of other runs of the same configuration |
| profiled fit | Pollux, Optimus, Shockwave | `mfcp.tasks.timing.scaling_fit`; *of all jobs*: with what jobs have in common |
| profiled fit + processes | ours | `mfcp.tasks.timing.scaled_times`; `--sizes` of `mfcp simulate` |
| processes | ours | `mfcp.tasks.timing.allocated` |

MAPE is the mean of |predicted / measured - 1|, of clusters alike; R² is of log seconds per sample and, in brackets where
it differs, of a step. Ratios are to the best of our rows, with a paired 95 % bootstrap over families, devices, jobs or
configurations. A row that a table lacks has no input there: graphs and kernels are not in the logs of D and E, and no
cluster of A has another number of accelerators.

Forecasts are rows of `params.yaml`, for `mfcp benchmark`, the pipeline and releases:

```yaml
pretrain:
  forecasts:
    tree: {kind: boosted_trees, trees: 1, lr: 1.0, leaves: 31}
    trees: {kind: boosted_trees}
    near: {kind: nearest}
methods:
  tsm_tree: {kind: two_stage, forecasts: [tree]}
  tsm_near: {kind: two_stage, forecasts: [near]}
  mixed: {kind: two_stage, forecasts: [trees, near], rule: {kind: expected_cost}}
```

Rows that need a run of the task itself cannot be forecasts, since the tasks of a comparison have run nowhere. A release
takes such runs as evidence (`--observed` of `mfcp match`), and `mfcp simulate` takes profiled sizes (`--sizes`).
"""

SECTIONS = {
    "A": """## A. A family that nobody has run

Timm's models on seven clusters of inference, then training steps on two layouts of an RTX 3090; five folds by family.
Rows whose clusters share a network, *learned operators* and *graph network + heads*, learn from both, as a release does.
Then training steps that `mfcp profile` measured on an H100, of small models at two batches in two precisions, which wait
for their host: `python benchmarks/families.py --steps benchmarks/measured/h100 --seeds 0,1,2`. There metadata have the
batch, and all launches together are most of a step.
""",
    "B": """## B. A device that hardly anybody has run on

Each of the seven clusters in turn; the families of the test fold were run nowhere but, for *known device* and *a run
elsewhere*, one step of the task itself on the most alike other cluster. 20 runs are of tasks that
`NewCluster.worth_profiling` names; 10 % are drawn at random. One of the clusters is a compiled RTX 4090 with the public
figures of the eager one: nothing without a run can tell them apart. Last, Gavel's 26 types of training jobs on three kinds of accelerator, without graphs.
""",
    "C": """## C. A device without any run

NeuSight's measured latencies of transformers. First the devices that its authors, and we, did not learn from, with
their published predictions; then every known device left out in turn, which is harder: each was the only one of its
kind, and published predictions had seen it. [How devices differ](decisions/0103-levels-of-devices-are-a-process.md) can
be told to some 15 % at best from seven others, and the deviation that `KernelTimes` gives says so. So the first table
flatters: its devices lie between known ones. They were open while this was built; devices that are kept back are not.
""",
    "D": """## D. An allocation, a model

Qore-DL's published log (`data1`). By configuration a model was seen with other CPU and memory; by model, never.
*Profiled mean* is what other runs of the same configuration say: it needs them, and shows how noisy a run is.
""",
    "E": """## E. A number of accelerators, a placement

Throughputs of ElasticFlow (1 to 64 accelerators, nodes of eight) and Gavel (1 to 8, in one node or spread). First
configurations at random, then the largest number of each job, then everything that is spread of each job. *In
hindsight* is no forecast: for every device, placement and number, a regression of the step on the job's own other
numbers, learned from other models, of all those the one that turned out best.
""",
    "R": """## Replayed: a measured step with something changed

NeuSight's cases again: a step was measured on the device with another batch, or without the fusion of operators that is
asked about (which operators are fused is told; a fused group goes over memory once). Nothing else of the model is known,
on any device. *Same seconds a sample* scales the measured step by the batch.
""",
    "M": """## Peak memory

Runs of a machine without GPU, some twenty minutes each: `mfcp profile --out DIR --batch 2,8,24 --threads 1 --steps 1`,
then with `--memory-limit 8e8` and `1.6e9`; runs of one with a GPU: `mfcp profile --out DIR --device cuda --batch 8,64`
for seven minutes, then two minutes each with `--memory-limit 1e9`, `2e9` and `4e9`. The latter are kept:
`python benchmarks/families.py --memory benchmarks/measured/h100 --draws 10` prints their tables. Small models come
first, so those that are left out by the end of the budget are the largest of the zoo. Families of the test folds are
unseen.
*Everything kept once* adds weights, gradients, optimizer and outputs with factors of 1, and a process's own memory as
fitted; DNNMem counts alike. A GPU's peak is what PyTorch reserved: blocks that its allocator keeps, too.
""",
}
_SAME = 5e-4  # of an R²
SURVEY = """## The survey's Table 5

| it says | here |
|---|---|
"""


def write_page(kept: dict[str, Any]) -> None:
    """Write page and plot of what was kept."""
    text = [HEAD]
    for letter, section in SECTIONS.items():
        parts = {name: part for name, part in kept.items() if name.split()[0] == letter}
        if not parts:
            continue
        text.append(section)
        text += [_table(part) + ("\n" + _memory(part["limited"]) if letter == "M" else "") for part in parts.values()]
    if "A infer" in kept:
        text += [_costs(kept), _survey(kept), _short(kept)]
        _plot(kept)
    PAGE.write_text("\n".join(text).rstrip() + "\n", encoding="utf-8")
    print(f"wrote {PAGE}")


def _table(part: dict[str, Any]) -> str:
    draws = f", {part['draws']} draws of folds" if part["draws"] > 1 else ""
    lines = [
        f"**{part['title'][0].upper() + part['title'][1:]}**: {part['n']} runs, {part['groups']} groups{draws}.\n",
        "| | MAPE | median | R² | MAPE over that of ours |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in sorted(part["rows"].items(), key=lambda item: -item[1]["mape"]):
        bold = "**" if name in part["ours"] else ""
        some = "" if row["n"] == part["n"] else f" ({row['n']} runs)"
        ratio = "1" if name == part["best"] or not row["ratio"] else "{:.2f} [{:.2f}, {:.2f}]".format(*row["ratio"])
        steps = "" if abs(row["r2_steps"] - row["r2"]) < _SAME else f" ({row['r2_steps']:.3f})"
        figures = f"{row['mape']:.1f} % | {row['median']:.1f} % | {row['r2']:.3f}{steps}"
        lines.append(f"| {bold}{name}{bold}{some} | {figures} | {ratio} |")
    return "\n".join(lines) + "\n"


def _memory(limited: dict[str, Any]) -> str:
    one = next(iter(limited.values()))
    lines = [
        f"Of {one['runs']} runs with a limit, {one['failed']} ended for want of memory. At a risk above one half:\n",
        "| | of these foreseen | false alarms |", "|---|---|---|",
    ]  # fmt: skip
    lines += [f"| {name} | {row['foreseen']:.1%} | {row['false']:.1%} |" for name, row in limited.items()]
    return "\n".join(lines) + "\n"


def _costs(kept: dict[str, Any]) -> str:
    rows = kept["A infer"]["rows"]
    lines = [
        "## F. What an answer costs\n",
        "Of column A. Profiling is of a new task: ten steps to warm up and ten that are timed, of the median step, on the",
        "most alike cluster. Training is processor time of one fold, an answer that of one task on one cluster.\n",
        "| | MAPE | profiling | training | an answer |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["mape"]):
        training, answer = row["cost"] or (float("nan"), float("nan"))
        cells = (f"{row['mape']:.1f} %", f"{row['profiled_s']:.1f} s", f"{training:.1f} s", f"{1000 * answer:.1f} us")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append("\n![error against cost](families/cost.svg)")
    return "\n".join(lines) + "\n"


def _short(kept: dict[str, Any]) -> str:
    def mape(part: str, row: str) -> str:
        return _mape(kept, part, row)

    return f"""## What falls short

- Of models that nobody has run, extra trees have {mape("D model", "extra trees")}, our processes
  {mape("D model", "processes")}; fifty models are too few for an interval of the ratio that is clear of 1.
- Learned operators alone have {mape("A infer", "learned operators")} of unseen families. Of their squared error
  {_worst(kept, "A infer", "learned operators")} ([features](features.md)). Training steps have
  {mape("A train", "learned operators")}: only the forward graphs are known there.
- A kind of accelerator that a job was never spread on costs {mape("E Gavel placement", "profiled fit + processes")}, and
  the largest count of Gavel's jobs {mape("E Gavel count", "profiled fit + processes")}: most of its models are faster on
  eight V100 than on four, its language model several times, and what other models did there says a part of it.
  Regressions on a job's own numbers would be off by {mape("E Gavel placement", HINDSIGHT)} and
  {mape("E Gavel count", HINDSIGHT)} even if the best one were known for every device and placement.
- Releases learn peak memory from logs that tell it, of training steps in full precision alone, with factors for each
  kind of accelerator; only one GPU was measured.
"""


def _worst(kept: dict[str, Any], part: str, row: str) -> str:
    """What the groups that are off most have of a row's squared error."""
    found = kept.get(part, {}).get("rows", {}).get(row, {}).get("worst", [])
    return ", ".join(f"{name} has {100 * share:.0f} %" for name, share in found) or "n/a"


def _mape(kept: dict[str, Any], part: str, row: str) -> str:
    found = kept.get(part, {}).get("rows", {}).get(row)
    return f"{found['mape']:.1f} %" if found else "n/a"


def _survey(kept: dict[str, Any]) -> str:
    def mape(part: str, row: str) -> str:
        return _mape(kept, part, row)

    claims = [
        ("profiling: low error, high cost",
         f"**confirmed** for what was profiled: {mape('D configuration', 'profiled mean')} where the configuration has "
         f"other runs; a fit has {mape('E ElasticFlow configuration', 'profiled fit')} of configurations that were not"),
        ("profiling: poor on new resources",
         f"**refuted** for a fit of all jobs where placement is known: {mape('E ElasticFlow count', 'profiled fit, of all jobs')} "
         f"beyond the largest number tried; **confirmed** where it is not: {mape('E Gavel placement', 'profiled fit, of all jobs')} of "
         "jobs that were never spread"),
        ("metadata: poor on new models",
         f"**confirmed**: the best row has {mape('A infer', BOOSTED)} of unseen families and "
         f"{mape('D model', BOOSTED)} of unseen models, learned operators {mape('A infer', 'learned operators')}"),
        ("graph: in the middle",
         f"**confirmed**: {mape('A infer', 'graph network + heads')} and {mape('A infer', 'graph vector + trees')} of unseen "
         "families; trees on counts of operators are no worse than a network with few tasks"),
        ("operator: highest error",
         f"**refuted** where operators are learned from whole steps: {mape('A infer', 'learned operators')}, the lowest; "
         f"confirmed of scaling by figures alone ({mape('A infer', 'known device, scaled')})"),
        ("operator: best without data of the device",
         f"**confirmed**: {mape('B 0', 'learned operators')} without a run, trees over devices' figures "
         f"{mape('B 0', BOOSTED)}; by kernels {mape('C', 'learned kernels')}, trees {mape('C', BOOSTED)}"),
    ]  # fmt: skip
    return SURVEY + "\n".join(f"| {said} | {found} |" for said, found in claims) + "\n"


BOOSTED = "boosted trees"


def _plot(kept: dict[str, Any]) -> None:
    """Error against processor seconds of training, with profiled rows marked."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "mfcp"  # the same picture is the same file
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    part = kept["A infer"]
    rows = {name: row for name, row in part["rows"].items() if row["cost"] and row["mape"] < 60}
    at = {name: (max(row["cost"][0], 1e-2), row["mape"]) for name, row in rows.items()}
    for name, (seconds, mape) in at.items():
        ours, profiled = name in part["ours"], rows[name]["profiled_s"] > 0
        axes.plot(seconds, mape, "s" if profiled else "o", color="tab:blue" if ours else "tab:gray")
        label, below = (
            name.replace("operators + ", "operators\n+ "),
            name in ("nearest", "learned operators + a run elsewhere"),
        )
        where = {"xytext": (6, -4 if below else 4), "va": "top" if below else "bottom"}
        axes.annotate(label, (seconds, mape), textcoords="offset points", fontsize=8, **where)
    front = sorted(at.values())
    best = [point for k, point in enumerate(front) if point[1] <= min(y for _, y in front[: k + 1])]
    axes.step(*zip(*best, strict=True), where="post", color="tab:blue", linewidth=0.8)
    axes.set(xscale="log", xlabel="processor seconds of training, one fold", ylabel="MAPE, unseen families, %")
    axes.set_xlim(right=max(x for x, _ in front) * 30)
    axes.set_ylim(0, 1.2 * max(y for _, y in front))
    axes.set_title("squares: the task itself is profiled on one other cluster", fontsize=9)
    PLOT.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})
