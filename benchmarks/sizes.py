"""`python benchmarks/sizes.py --data DIR`: `mfcp simulate --sizes` on tables of which every size was measured.

Of ElasticFlow's jobs (1 to 64 accelerators, nodes of eight, jobs keep their batch) and Gavel's (1 to 8 in one node, the
batch grows with the accelerators) some sizes are kept, and all others are predicted from them. Beside it stands what is
assumed without measuring: the largest kept size, times accelerators to the power 0.9. Of predicted over measured speed,
the table has the mean of |ratio - 1| and the root mean square of the logarithm, in which half and twice are as wrong.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.families_tables import elastic_jobs, placed_jobs
from mfcp.arrays import Floats
from mfcp.errors import guarded
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.traces.measured_ways import MeasuredWays

KEPT = ((1, 8), (1, 2, 8), (2, 8), (1, 2, 4), (1, 4), (1, 2))


def elastic(folder: Path) -> MeasuredWays:
    """ElasticFlow's table: a job is a model with a batch."""
    runs, seconds = elastic_jobs(folder / "schedulers" / "elasticflow")
    jobs = [f"{model}, batch {batch:g}" for model, batch in zip(runs.model, runs.batch, strict=True)]
    return _ways(np.array(jobs), runs.device, runs.accelerators, 1 / seconds, np.ones(len(seconds)))


def placed(folder: Path) -> MeasuredWays:
    """Gavel's: a job is a model with a batch on each accelerator."""
    runs, seconds = placed_jobs(folder / "gavel")
    runs, seconds = runs.take(~runs.spread), seconds[~runs.spread]
    share = runs.batch / runs.accelerators
    jobs = [f"{model}, batch {each:g}" for model, each in zip(runs.model, share, strict=True)]
    return _ways(np.array(jobs), runs.device, runs.accelerators, runs.accelerators / seconds, runs.batch)


def _ways(jobs: np.ndarray, device: np.ndarray, gpus: Floats, rate: Floats, batch: Floats) -> MeasuredWays:
    names, row = np.unique(jobs, return_inverse=True)
    kind = np.unique(device, return_inverse=True)[1]
    n = len(gpus)
    return MeasuredWays(
        "model", "speed", names, np.arange(len(names)), row, kind, gpus.astype(int), rate, np.zeros(n), batch,
        np.zeros(n, bool),
    )  # fmt: skip


def predicted(ways: MeasuredWays, kept: tuple[int, ...], cluster: Cluster) -> tuple[Floats, Floats]:
    """Of the sizes that are not kept, predicted over measured speed, and the same of the power."""
    keep = np.isin(ways.gpus, kept)
    of = {name: getattr(ways, name)[keep] for name in ("row", "kind", "gpus", "rate", "watts", "batch", "predicted")}
    found = MeasuredWays(ways.by, ways.unit, ways.names, ways.job_row, **of).with_sizes(np.unique(ways.gpus), cluster)
    told = _by_size(found)
    ours, power = [], []
    for (who, kind, gpus), rate in _by_size(ways).items():
        if gpus in kept or (who, kind, gpus) not in told:
            continue
        largest = max(size for size in kept if (who, kind, size) in told)
        ours.append(told[who, kind, gpus] / rate)
        power.append(told[who, kind, largest] * (gpus / largest) ** 0.9 / rate)
    return np.array(ours), np.array(power)


def _by_size(ways: MeasuredWays) -> dict[tuple[int, int, int], float]:
    keys = zip(ways.row.tolist(), ways.kind.tolist(), ways.gpus.tolist(), strict=True)
    return dict(zip(keys, ways.rate.tolist(), strict=True))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with schedulers/elasticflow and gavel")
    options = parser.parse_args()
    table = Table("jobs", "kept", "predicted", "error", "of power", "rms log", "of power")
    for name, ways, shape in (
        ("ElasticFlow", elastic(options.data), "{}:8x8"), ("Gavel", placed(options.data), "{}:8"),
    ):  # fmt: skip
        kinds = range(ways.kind.max() + 1)
        cluster = Cluster.parse(",".join(shape.format(f"type{kind}") for kind in kinds))
        for kept in KEPT:
            both = predicted(ways, kept, cluster)
            error = [f"{np.abs(ratio - 1).mean():.0%}" for ratio in both]
            log = [f"{np.sqrt((np.log(ratio) ** 2).mean()):.2f}" for ratio in both]
            table.add_row(name, ", ".join(map(str, kept)), str(len(both[0])), *error, *log)
    Console(width=80).print(table)


if __name__ == "__main__":
    sys.exit(guarded(main))
