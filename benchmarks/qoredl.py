"""Qore-DL's configurator on its public data: seconds of an iteration from a model's figures and its allocation.

    python benchmarks/qoredl.py --data DIR                    three splits, ten draws of five folds each
    python benchmarks/qoredl.py --data DIR --score FILE       learn from all of DIR, score another file of these columns
    python benchmarks/qoredl.py --data DIR --json FILE        the table for programs, too; with --score as well
    python benchmarks/qoredl.py --data DIR --adjuster         how long a decision for 100 running jobs takes

DIR, or `qoredl` in it, holds `iteration_time.parquet`. Rows at random have the same configuration on both sides: a
figure of that split says how noisy runs are, and little else. By configuration, a model was seen with other
allocations; by model, never. R² is of seconds over all rows, MAPE the mean of |predicted / measured - 1|, a share in
the file. Ratios are to the forest's MAPE, the interval is of draws of configurations, or of models where these are left
out. Operator models need graphs, which this log has not. A file that also has peak needs of a worker, in columns
`cpu_peak` and `memory_peak`, gets the same tables of these.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.records import write_records
from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError, guarded
from mfcp.progress import progress
from mfcp.simulator.qore.adjuster import Running, adjust
from mfcp.simulator.qore.equations import RunningJobs
from mfcp.simulator.traces.files import numbers, read_table
from mfcp.tasks.timing.allocated import AllocatedTimes, Allocations

FILE = "iteration_time.parquet"
WORK, GIVEN, SECONDS = ("batch_size", "flops", "param_count"), ("cpu_share", "memory_share"), "iteration_time_raw"
PEAKS = ("cpu_peak", "memory_peak")  # that a file may have; the published one has not
FOLDS, DRAWS, BOOTSTRAP = 5, 10, 2000
_LEAST = 1e-9  # logarithms are taken of all columns
PUBLISHED = 0.979  # R² of the paper's forest, of rows at random
Learner = Callable[[Floats, Floats, Floats], Floats]
Records = list[dict[str, Any]]


def forest(x: Floats, seconds: Floats, asked: Floats) -> Floats:
    """The paper's: 200 trees on the columns as they are."""
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(200, random_state=0).fit(x, seconds).predict(asked)


def extra_trees(x: Floats, seconds: Floats, asked: Floats) -> Floats:
    """Of logarithms, on the mean of every configuration."""
    from sklearn.ensemble import ExtraTreesRegressor

    rows, of = np.unique(x, axis=0, return_inverse=True)
    mean = np.bincount(of.ravel(), np.log(seconds)) / np.bincount(of.ravel())
    model = ExtraTreesRegressor(300, random_state=0).fit(np.log(rows), mean)
    return np.exp(model.predict(np.log(asked)))


def boosted(x: Floats, seconds: Floats, asked: Floats) -> Floats:
    """LightGBM's defaults on logarithms."""
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(verbose=-1, n_jobs=1, random_state=0).fit(np.log(x), np.log(seconds))
    return np.exp(np.asarray(model.predict(np.log(asked))))


def processes(x: Floats, seconds: Floats, asked: Floats) -> Floats:
    """Ours."""
    return AllocatedTimes.fit(_allocations(x), seconds).predict(_allocations(asked))


LEARNERS: dict[str, Learner] = {
    "forest (the paper's)": forest,
    "extra trees, logs": extra_trees,
    "boosted trees, logs": boosted,
    "processes (AllocatedTimes)": processes,
}
FOREST = "forest (the paper's)"


def _allocations(x: Floats) -> Allocations:
    return Allocations(x[:, : len(WORK)], x[:, len(WORK) :])


def file_of(folder: Path) -> Path:
    """The file in a folder, or in `qoredl` in it."""
    for path in (folder / FILE, folder / "qoredl" / FILE):
        if path.exists():
            return path
    raise DataError(f"{folder}: no {FILE} there, nor in qoredl; name the folder that holds it with --data")


def read(path: Path) -> tuple[Floats, dict[str, Floats]]:
    """(n, 5) columns of the runs that succeeded, and what they measured: (n,) seconds, and peaks if there are some."""
    frame = read_table(path, (*WORK, *GIVEN, SECONDS))
    if "status" in frame:
        frame = frame[frame["status"] == "succeeded"]
    measured = (SECONDS, *(name for name in PEAKS if name in frame))
    values = {name: numbers(path, frame, name, least=_LEAST) for name in (*WORK, *GIVEN, *measured)}
    return np.column_stack([values[name] for name in (*WORK, *GIVEN)]), {name: values[name] for name in measured}


def folds(groups: Ints, seed: int) -> Ints:
    """(n,) fold of each row, groups whole."""
    names, of = np.unique(groups, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    return (order % FOLDS)[of]


def score(predicted: Floats, seconds: Floats) -> tuple[float, float]:
    """R² of seconds and MAPE."""
    square = ((predicted - seconds) ** 2).sum() / ((seconds - seconds.mean()) ** 2).sum()
    return float(1 - square), float(np.abs(predicted / seconds - 1).mean())


def interval(model: Floats, peer: Floats, groups: Ints) -> tuple[float, float, float]:
    """Ratio of mean errors (n,) and what 95 % of the draws of groups give."""
    of = np.unique(groups, return_inverse=True)[1]
    sums = np.stack([np.bincount(of, values) for values in (model, peer)])
    count = sums.shape[1]
    weight = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), BOOTSTRAP)
    drawn = (weight @ sums[0]) / (weight @ sums[1])
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(model.sum() / peer.sum()), float(low), float(high)


def splits(x: Floats, target: str, values: Floats, draws: int) -> Records:
    """The table of three splits, of what a run measured."""
    records = Records()
    configuration = np.unique(x, axis=0, return_inverse=True)[1].ravel()
    model = np.unique(x[:, : len(WORK)], axis=0, return_inverse=True)[1].ravel()
    groups = {"rows at random": np.arange(len(x)), "by configuration": configuration, "by model": model}
    counts = f"{target}: {len(x)} runs of {configuration.max() + 1} configurations of {model.max() + 1} models"
    print(f"{counts}; mean ± sd of {draws} draws of {FOLDS} folds\n")
    print(f"{'':28} {'R²':>14} {'MAPE':>16}  MAPE over the forest's")
    for split, own in groups.items():
        if own.max() == 0:
            print(f"{split}: skipped, there is one alone")
            continue
        published = split == "rows at random" and target == SECONDS
        print(split + (f" (published: R² {PUBLISHED})" if published else ""))
        errors: dict[str, Floats] = {}
        count = min(FOLDS, int(own.max()) + 1)
        for name, learner in LEARNERS.items():
            found, error = [], np.zeros(len(x))
            with progress(f"{split}, {name}", draws * count) as advance:
                for seed in range(draws):
                    fold, predicted = folds(own, seed), np.zeros(len(x))
                    for f in range(count):
                        train = fold != f
                        predicted[~train] = learner(x[train], values[train], x[~train])
                        advance()
                    found.append(score(predicted, values))
                    error += np.abs(predicted / values - 1) / draws
            errors[name] = error
            (r2, mape), (r2_sd, mape_sd) = np.mean(found, axis=0), np.std(found, axis=0)
            ratio, low, high = interval(error, errors[FOREST], model if split == "by model" else configuration)
            beside = "" if name == FOREST else f"{ratio:.2f} [{low:.2f}, {high:.2f}]"
            print(
                f"  {name:26} {r2:6.3f} ± {r2_sd:.3f} {100 * mape:6.1f} ± {100 * mape_sd:.1f} %  {beside}", flush=True
            )
            for metric, value, sd in (("r2", r2, r2_sd), ("mape", mape, mape_sd), ("mape_over_forest", ratio, None)):
                records.append(_record(target, split, name, metric, value, sd, len(x)))
            records[-1] |= {"low": low, "high": high}
    return records


def _record(target: str, split: str, model: str, metric: str, value: float, sd: float | None, n: int) -> dict[str, Any]:
    """A row for programs: R², MAPE as a share, or its ratio to the forest's; sd over draws of folds."""
    return {
        "target": target, "split": split, "model": model, "metric": metric, "value": float(value),
        "sd": None if sd is None else float(sd), "n": int(n),
    }  # fmt: skip


def score_file(x: Floats, measured: dict[str, Floats], path: Path) -> Records:
    """What is learned from all rows, on those of another file: all, new configurations only, new models only."""
    records = Records()
    asked, others = read(path)
    known = {tuple(row) for row in x.tolist()}
    models = {row[: len(WORK)] for row in known}
    fresh = np.array([tuple(row) not in known for row in asked.tolist()])
    unseen = np.array([tuple(row[: len(WORK)]) not in models for row in asked.tolist()])
    parts = {"all rows": np.ones(len(asked), bool), "new configurations": fresh, "new models": unseen}
    for target in (name for name in measured if name in others):
        print(f"{target}: learned from {len(x)} runs, scored on {path}")
        for name, learner in LEARNERS.items():
            predicted, truth = learner(x, measured[target], asked), others[target]
            for part, rows in ((part, rows) for part, rows in parts.items() if rows.sum() > 1):
                r2, mape = score(predicted[rows], truth[rows])
                print(f"  {name:26} {part:20} {rows.sum():6d} rows  R² {r2:6.3f}  MAPE {100 * mape:6.1f} %", flush=True)
                records.append(_record(target, part, name, "r2", r2, None, rows.sum()))
                records.append(_record(target, part, name, "mape", mape, None, rows.sum()))
    return records


def decide(x: Floats, seconds: Floats) -> None:
    """Median time of five decisions for 100 jobs, half of them late, by what is learned from the log."""
    learned = AllocatedTimes.fit(_allocations(x), seconds)
    rng, n = np.random.default_rng(0), 100
    rows = rng.integers(0, len(x), n)
    own = _allocations(x[rows])
    now, total = learned.predict(own), rng.uniform(50, 500, n)
    done = total * rng.uniform(0, 0.9, n)
    jobs = RunningJobs(now, total, done, total - done, rng.integers(1, 5, n), rng.uniform(0.01, 0.2, n))
    available = (total - done) * now * rng.uniform(0.5, 1.5, n)
    none = np.zeros(n)  # of accelerators, in a cluster of CPUs
    running = Running(jobs, available, np.column_stack([none, own.given]), np.tile([0.0, 1.0, 1.0], (n, 1)))

    def times(chosen: Ints, sizes: Floats) -> Floats:
        asked = Allocations(np.repeat(own.work[chosen], sizes.shape[1], axis=0), sizes[..., 1:].reshape(-1, len(GIVEN)))
        return learned.predict(asked).reshape(sizes.shape[:2])

    for load in (0.3, 0.6):
        taken = []
        for _ in range(5):
            start = time.perf_counter()
            changes = adjust(running, load, times)
            taken.append(1000 * (time.perf_counter() - start))
        print(f"100 running jobs, load {load}: {len(changes)} changes in {np.median(taken):.0f} ms (median of five)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with iteration_time.parquet")
    parser.add_argument("--score", type=Path, metavar="FILE", help="another file of these columns")
    parser.add_argument("--adjuster", action="store_true", help="time a decision of the adjuster")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"of folds ({DRAWS})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="gets a row for each number of the table")
    options = parser.parse_args()
    if options.data is None:
        print("skipped: no measured allocations here; give a folder with --data")
        return
    x, measured = read(file_of(options.data))
    if options.adjuster:
        decide(x, measured[SECONDS])
        return
    if options.score:
        records = score_file(x, measured, options.score)
    else:
        records = [row for target, values in measured.items() for row in splits(x, target, values, options.draws)]
    if options.json:
        write_records(options.json, records)


if __name__ == "__main__":
    sys.exit(guarded(main))
