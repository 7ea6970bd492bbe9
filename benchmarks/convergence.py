"""How many epochs training still needs, told from its losses so far: curves that are measured here.

    python benchmarks/convergence.py [--threshold 0.01] [--curves FILE]
    python benchmarks/convergence.py --choose        which part of the losses is looked at, on other runs than these
    python benchmarks/convergence.py --schedule      what the end that is told is worth to a scheduler

Some fifty small models are trained on four data sets for 300 epochs: linear ones, perceptrons, a convolutional one, by
plain gradient descent, with momentum and by Adam. A run ends when its last 30 losses decline by less than the threshold
an epoch. At half of the epochs to that end each form of curve tells where it will be, and at 40 and 70 %, where a guess
of twice the epochs so far would not do; the error is a share of all epochs. The LSTM of Qore-DL has seen the whole runs
of all other models. Runs that do not end, or within 60 epochs, are left out. `--curves` keeps them.

`--choose` trains 168 models on seven further data sets, with other steps, for 500 epochs, and tries what part of the
losses the curve `power` should not look at: nothing of the runs above is in it.

`--schedule` draws jobs that train as the fifty models do, all of their epochs in some 30 minutes on the accelerators
they ask for, at a load of 1.1 until they have converged, with the deadlines of `benchmarks/ablation.py`. Policies know
the true end, or what curves of the losses so far say, or that a job may take all epochs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from mfcp.border.json_text import read_json
from mfcp.errors import guarded
from mfcp.files import write_json
from mfcp.progress import progress
from mfcp.simulator.beliefs import Durations, GivenDurations, LossDurations, TrueDurations
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.jobs import Jobs
from mfcp.simulator.policies.base import Policy
from mfcp.simulator.qore.forecasting import LossForecaster
from mfcp.simulator.qore.loss_curves import FITS, Curve, converged_at, epochs_left, epochs_until, fit_power
from mfcp.simulator.qore.training_losses import TrainingLosses
from mfcp.simulator.simulation import import_policies, simulate
from mfcp.threads import one_thread

BATCH, SHORTEST, BOOTSTRAP = 128, 60, 2000
CLUSTER, JOBS, LOAD, SEEDS = Cluster.parse("2x8"), 150, 1.1, 10
SCHEDULERS = ("srsf", "optimus", "slaq", "qore_dl", "elastic_flow", "mlfs")
ASKED = (0.5, 0.4, 0.7)  # parts of the epochs to the end at which it is told
SETS = ("digits", "cancer", "wine", "made")
KINDS = ("linear", "wide", "deep", "tanh", "convolution")
STEPS: dict[str, dict[str, Any]] = {
    "descent": {"lr": 0.02}, "momentum": {"lr": 0.01, "momentum": 0.9}, "adam": {"lr": 0.001},
}  # fmt: skip
OTHER_SETS = ("iris", "diabetes", "moons", "circles", "made 2", "made 3", "made 4")
OTHER_STEPS: dict[str, dict[str, Any]] = {
    "descent": {"lr": 0.05}, "slow descent": {"lr": 0.01}, "momentum": {"lr": 0.005, "momentum": 0.9},
    "fast momentum": {"lr": 0.02, "momentum": 0.9}, "adam": {"lr": 0.002}, "slow adam": {"lr": 0.0005},
}  # fmt: skip
PARTS = (0.0, 1 / 3, 0.5, 2 / 3, 0.75, 0.8, 0.85, 0.9)
EPOCHS, OTHER_EPOCHS = 300, 500
MADE = {
    "made": (1500, 30, 12, 4, 3, 0.05), "made 2": (1000, 20, 8, 3, 11, 0.02), "made 3": (2500, 40, 20, 5, 12, 0.0),
    "made 4": (700, 15, 6, 2, 13, 0.1),
}  # fmt: skip


def data(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and classes."""
    from sklearn import datasets

    if name in MADE:
        rows, columns, informative, classes, seed, wrong = MADE[name]
        x, y = datasets.make_classification(
            rows, columns, n_informative=informative, n_classes=classes, random_state=seed, flip_y=wrong
        )
    elif name == "moons":
        x, y = datasets.make_moons(1000, noise=0.2, random_state=1)
    elif name == "circles":
        x, y = datasets.make_circles(800, noise=0.1, factor=0.5, random_state=2)
    else:
        load = {
            "digits": datasets.load_digits, "cancer": datasets.load_breast_cancer, "wine": datasets.load_wine,
            "iris": datasets.load_iris, "diabetes": datasets.load_diabetes,
        }  # fmt: skip
        x, y = load[name](return_X_y=True)
    if name == "diabetes":
        y = np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    x = x / 16 if name == "digits" else (x - x.mean(0)) / x.std(0)
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.long)


def model(kind: str, inputs: int, classes: int) -> nn.Module:
    if kind == "linear":
        return nn.Linear(inputs, classes)
    if kind == "convolution":
        parts = [
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 8, 3),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3),
            nn.ReLU(),
            nn.Flatten(),
        ]
        return nn.Sequential(*parts, nn.Linear(256, classes))
    sizes = {"wide": (64,), "deep": (64, 64, 64), "tanh": (48, 48)}[kind]
    layers: list[nn.Module] = []
    for before, after in zip((inputs, *sizes), sizes, strict=False):
        layers += [nn.Linear(before, after), nn.Tanh() if kind == "tanh" else nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], classes))


@one_thread()
def train(x: torch.Tensor, y: torch.Tensor, kind: str, step: str, settings: dict[str, Any], epochs: int) -> list[float]:
    """Mean loss of every epoch."""
    torch.manual_seed(0)
    network = model(kind, x.shape[1], int(y.max()) + 1)
    optimizer = (torch.optim.Adam if "adam" in step else torch.optim.SGD)(network.parameters(), **settings)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(x)).split(BATCH):
            loss = nn.functional.cross_entropy(network(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(batch)
        losses.append(total / len(x))
    return losses


def curves(sets: Sequence[str], steps: dict[str, dict[str, Any]], epochs: int) -> Iterator[dict[str, Any]]:
    """Name and losses of every run."""
    runs = [(s, k, o) for s in sets for k in KINDS for o in steps if k != "convolution" or s == "digits"]
    with progress("trainings", len(runs)) as advance:
        for name, kind, step in runs:
            losses = train(*data(name), kind, step, steps[step], epochs)
            yield {"set": name, "model": kind, "step": step, "losses": losses}
            advance()


def ending(measured: list[dict[str, Any]], threshold: float) -> list[tuple[np.ndarray, int]]:
    """Losses and ends of the runs that end, and not too early."""
    ends = [(np.array(run["losses"]), converged_at(run["losses"], threshold)) for run in measured]
    return [(losses, end) for losses, end in ends if end is not None and end >= SHORTEST]


def learned(measured: list[dict[str, Any]], threshold: float) -> np.ndarray:
    """(ASKED, runs) errors of a network that has seen the runs of all other models, whole."""
    result = list[list[float]]()
    with progress("LSTM", len(KINDS)) as advance:
        for kind in KINDS:
            network = LossForecaster.fit([np.array(run["losses"]) for run in measured if run["model"] != kind])
            for losses, end in ending([run for run in measured if run["model"] == kind], threshold):
                told = list[float]()
                for done in (int(part * end) for part in ASKED):
                    curve = network.continued(losses[:done], 2 * EPOCHS)
                    told.append(abs(done + epochs_until(curve, done, threshold) - end) / end)
                result.append(told)
            advance()
    return np.array(result).T


def errors(
    runs: list[tuple[np.ndarray, int]], threshold: float, fit: Callable[[np.ndarray], Curve], part: float, limit: int
) -> np.ndarray:
    """Of the end that a fitted curve tells, as a share of all epochs."""
    found = []
    for losses, end in runs:
        seen = losses[: int(part * end)]
        left = epochs_left(seen, fit(seen), threshold, limit)
        found.append(abs(len(seen) + left - end) / end)
    return np.array(found)


def compare(measured: list[dict[str, Any]], threshold: float) -> None:
    """Errors of every form at parts of each run that ends."""
    runs = ending(measured, threshold)
    print(
        f"{len(runs)} of {len(measured)} runs end after {SHORTEST} epochs or more (decline below {threshold:g} "
        "an epoch)"
    )
    found: dict[str, list[np.ndarray]] = {
        name: [errors(runs, threshold, fit, part, 2 * EPOCHS) for part in ASKED] for name, fit in FITS.items()
    }
    found["LSTM"] = list(learned(measured, threshold))
    found["limit"] = [np.array([(EPOCHS - end) / end for _, end in runs])] * len(ASKED)
    rows = np.random.default_rng(0).integers(0, len(runs), (BOOTSTRAP, len(runs)))
    print(f"{'':10} {'at half: mean':>24} {'median':>8}" + "".join(f" {f'at {part:.0%}':>9}" for part in ASKED[1:]))
    for name, (half, *others) in found.items():
        low, high = np.quantile(half[rows].mean(axis=1), [0.025, 0.975])
        mean = f"{half.mean():.1%} [{low:.1%}, {high:.1%}]"
        print(f"{name:10} {mean:>24} {np.median(half):8.1%}" + "".join(f" {each.mean():9.1%}" for each in others))


def choose(measured: list[dict[str, Any]]) -> None:
    """Errors of the curve by what part of the losses it does not look at."""
    print(f"{'threshold':>9} {'runs':>5} {'asked at':>9}" + "".join(f" {part:6.2f}" for part in PARTS))
    every = list[list[float]]()
    for threshold in (0.005, 0.01, 0.02):
        runs = ending(measured, threshold)
        for asked in ASKED:
            means = list[float]()
            for part in PARTS:
                fit = partial(fit_power, old=part)
                means.append(errors(runs, threshold, fit, asked, 2 * OTHER_EPOCHS).mean())
            print(f"{threshold:9g} {len(runs):5} {asked:9.0%}" + "".join(f" {mean:6.1%}" for mean in means))
            every.append(means)
    print(f"{'mean of these':>25}" + "".join(f" {mean:6.1%}" for mean in np.mean(every, axis=0)))


def drawn(measured: list[dict[str, Any]], threshold: float, seed: int) -> tuple[Jobs, TrainingLosses]:
    """Jobs on `CLUSTER`, and their losses."""
    rng = np.random.default_rng(seed)
    of = rng.integers(len(measured), size=JOBS)
    curves = tuple(np.array(run["losses"]) for run in measured)
    losses = TrainingLosses(curves, np.full(len(curves), threshold), of)
    gpus, duration = rng.choice([1, 2, 4], JOBS), 1800.0 * np.exp(rng.normal(0, 0.8, JOBS))
    span = float((gpus * duration * losses.ends).sum()) / (LOAD * CLUSTER.accelerators)
    submit = np.sort(rng.uniform(0, span, JOBS))
    deadline = submit + duration * rng.uniform(0.66, 2.44, JOBS) + 750.0
    return Jobs.simple(submit, gpus, duration, deadline=deadline), losses


def schedule(measured: list[dict[str, Any]], threshold: float) -> None:
    """Completion times and deadlines by what is known of the end, over those where the true end is."""
    import_policies()
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with progress("runs", SEEDS * len(SCHEDULERS)) as advance:
        for seed in range(SEEDS):
            jobs, losses = drawn(measured, threshold, seed)
            beliefs: dict[str, Durations] = {
                "the true end": TrueDurations(), "all epochs": GivenDurations(seconds=tuple(jobs.duration.tolist())),
                **{form: LossDurations(form=form) for form in FITS},
            }  # fmt: skip
            for policy in SCHEDULERS:
                for name, belief in beliefs.items():
                    outcome = simulate(jobs, CLUSTER, Policy.build(policy), losses=losses, belief=belief)
                    metrics = outcome.metrics()
                    kept = (metrics["mean_jct_s"], metrics["deadlines_met"])
                    found.setdefault((policy, name), []).append(kept)
                advance()
    rows = np.random.default_rng(0).integers(0, SEEDS, (BOOTSTRAP, SEEDS))
    print(f"{SEEDS} draws of {JOBS} jobs; mean JCT over that with the true end, and deadlines met")
    for (policy, name), values in found.items():
        jct, met = np.array(values).T
        ratio = jct / np.array(found[policy, "the true end"])[:, 0]
        low, high = np.quantile(ratio[rows].mean(axis=1), [0.025, 0.975])
        print(f"{policy:10} {name:14} {ratio.mean():6.3f} [{low:.3f}, {high:.3f}] {met.mean():8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threshold", type=float, default=0.01, help="relative decline an epoch (0.01)")
    parser.add_argument("--curves", type=Path, metavar="FILE", help="read from here if it exists, else kept here")
    parser.add_argument("--choose", action="store_true", help="on other runs, what part of the losses is looked at")
    parser.add_argument("--schedule", action="store_true", help="what the end that is told is worth to a scheduler")
    options = parser.parse_args()
    which = (OTHER_SETS, OTHER_STEPS, OTHER_EPOCHS) if options.choose else (SETS, STEPS, EPOCHS)
    if options.curves and options.curves.exists():
        measured = read_json(options.curves)
        if {run["set"] for run in measured} != set(which[0]):
            parser.error(f"--curves {options.curves}: of other data sets than {', '.join(which[0])}; give another file")
    else:
        measured = list(curves(*which))
    if options.curves and not options.curves.exists():
        write_json(options.curves, measured)
    if options.choose:
        choose(measured)
    elif options.schedule:
        schedule(measured, options.threshold)
    else:
        compare(measured, options.threshold)


if __name__ == "__main__":
    sys.exit(guarded(main))
