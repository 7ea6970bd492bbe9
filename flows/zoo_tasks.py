"""Small training tasks of the zoo for clusters of CPUs: what `make platform CLUSTERS=slurm` feeds its platform with.

`python -m flows.zoo_tasks --home H` submits one after the other until it is interrupted, as fast as they are run.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from functools import cache

import pandas as pd

from flows.first_runs import first_runs
from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import TASKS
from mfcp.data.log.tables import Tables
from mfcp.data.log.zoo_tasks import PREFIX, with_zoo_models
from mfcp.emulator import zoo
from mfcp.errors import guarded
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.home import home_folder, open_store, settings

FAMILIES = ("resnet", "mobilenet_v2", "vit", "distilbert", "efficientnet")
COMMAND = "{python} -m mfcp.profiling.task --model {{graph_id}} --batch {{batch_size}} --samples {{samples}}"
LEAST, LARGEST = 3e8, 4e9  # FLOP of one sample's forward pass: a step takes a core some tenths of a second
BUDGET = 8e10  # FLOP of a task's forward passes, about: some ten seconds


@cache
def small_models() -> list[zoo.Variant]:
    """Models whose steps a core does in less than a second or two, in order of their names."""
    families = [variant for variant in zoo.variants() if variant.family.name in FAMILIES]
    nodes, _ = zoo.capture_all(families)
    flops = nodes.groupby("graph_id")["flops"].sum()
    return sorted((one for one in families if LEAST <= flops[one.graph_id] <= LARGEST), key=lambda one: one.graph_id)


def draw(numbers: range, seed: int = 0) -> Tables:
    """Tasks by number, each drawn on its own: model, batch, and samples that take some seconds."""
    models = small_models()
    names = [column.name for column in TASKS.columns]
    rows = []
    for number in numbers:
        rng = random.Random(f"{seed}/{number}")
        model, batch = rng.choice(models), rng.choice((2, 4))
        told = {"task_id": f"zoo-{number:05d}", "model": f"{PREFIX}{model.graph_id}", "batch_size": batch}
        rows.append({**told, "phase": "train", "precision": "fp32"})
    tables = with_zoo_models({"tasks": coerce(TASKS, pd.DataFrame(rows, columns=names, dtype=object)).frame})
    tasks = tables["tasks"]
    steps = []
    for number, flops, batch in zip(numbers, tasks["flops"], tasks["batch_size"], strict=True):
        wished = random.Random(f"{seed}/{number}/steps").uniform(0.5, 1.5) * BUDGET / (float(flops) * float(batch))
        steps.append(min(20, max(4, round(wished))))
    samples = [float(count * batch) for count, batch in zip(steps, tasks["batch_size"], strict=True)]
    return {**tables, "tasks": tasks.assign(samples=samples)}


def main() -> None:
    """Submit for good."""
    parser = argparse.ArgumentParser(prog="python -m flows.zoo_tasks", description=__doc__)
    parser.add_argument("--home", default="", metavar="DIR", help="folder of the platform")
    parser.add_argument("--every", type=float, default=20.0, metavar="S", help="seconds between two tasks (20)")
    parser.add_argument("--open", type=int, default=6, metavar="N", help="none while so many runs are not over (6)")
    parser.add_argument(
        "--first-runs", type=int, default=0, metavar="N", help="tasks that every cluster runs first (0)"
    )
    options = parser.parse_args()
    home = home_folder(options.home)
    store = open_store(home)
    if options.first_runs:
        section = settings(home).section("platform")
        first = draw(range(options.first_runs))
        first_runs(home, first, section.clusters, section.run, say=lambda text: print(text, flush=True))
    number = options.first_runs + store.counts()["tasks"]
    attempts = Attempts(store)
    while True:
        # Tasks that queue for long are of no use: what is learned and compared is what has run.
        if len(attempts.open()) < options.open:
            store.submit(draw(range(number, number + 1)))
            number += 1
        time.sleep(options.every)


if __name__ == "__main__":
    sys.exit(guarded(main))
