"""How many epochs training still needs, told from its losses so far: curves that are measured here.

    python benchmarks/convergence.py [--threshold 0.01] [--curves FILE]

Some fifty small models are trained on four data sets for 300 epochs: linear ones, perceptrons, a convolutional one, by
plain gradient descent, with momentum and by Adam. A run ends when its last 30 losses decline by less than the threshold
an epoch. At half of the epochs to that end each form of curve tells where it will be; the error is a share of all
epochs, and of those that are left. The LSTM of Qore-DL has seen the whole runs of all other models. Runs that do not
end, or within 60 epochs, are left out. `--curves` keeps them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import nn

from mfcp.border.json_text import read_json
from mfcp.files import write_json
from mfcp.progress import progress
from mfcp.simulator.qore.forecasting import LossForecaster
from mfcp.simulator.qore.loss_curves import Form, converged_at, epochs_until, remaining_epochs
from mfcp.threads import one_thread

EPOCHS, BATCH, SHORTEST, BOOTSTRAP = 300, 128, 60, 2000
SETS = ("digits", "cancer", "wine", "made")
KINDS = ("linear", "wide", "deep", "tanh", "convolution")
STEPS: dict[str, dict[str, Any]] = {
    "descent": {"lr": 0.02}, "momentum": {"lr": 0.01, "momentum": 0.9}, "adam": {"lr": 0.001},
}  # fmt: skip


def data(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Features and classes."""
    from sklearn import datasets

    if name == "made":
        x, y = datasets.make_classification(1500, 30, n_informative=12, n_classes=4, random_state=3, flip_y=0.05)
    else:
        found = {"digits": datasets.load_digits, "cancer": datasets.load_breast_cancer, "wine": datasets.load_wine}[
            name
        ]()
        x, y = found.data, found.target
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
def train(x: torch.Tensor, y: torch.Tensor, kind: str, step: str) -> list[float]:
    """Mean loss of every epoch."""
    torch.manual_seed(0)
    network = model(kind, x.shape[1], int(y.max()) + 1)
    optimizer = (torch.optim.Adam if step == "adam" else torch.optim.SGD)(network.parameters(), **STEPS[step])
    losses = []
    for _ in range(EPOCHS):
        total = 0.0
        for batch in torch.randperm(len(x)).split(BATCH):
            loss = nn.functional.cross_entropy(network(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * len(batch)
        losses.append(total / len(x))
    return losses


def curves() -> Iterator[dict[str, Any]]:
    """Name and losses of every run."""
    runs = [(s, k, o) for s in SETS for k in KINDS for o in STEPS if k != "convolution" or s == "digits"]
    with progress("trainings", len(runs)) as advance:
        for name, kind, step in runs:
            yield {"set": name, "model": kind, "step": step, "losses": train(*data(name), kind, step)}
            advance()


def learned(measured: list[dict[str, Any]], threshold: float) -> list[tuple[int, int]]:
    """Told and true ends, by a network that has seen the runs of all other models, whole."""
    result = []
    with progress("LSTM", len(KINDS)) as advance:
        for kind in KINDS:
            network = LossForecaster.fit([np.array(run["losses"]) for run in measured if run["model"] != kind])
            for run in measured:
                losses, end = np.array(run["losses"]), converged_at(run["losses"], threshold)
                if run["model"] == kind and end is not None and end >= SHORTEST:
                    curve = network.continued(losses[: end // 2], 2 * EPOCHS)
                    result.append((end // 2 + epochs_until(curve, end // 2, threshold), end))
            advance()
    return result


def compare(measured: list[dict[str, Any]], threshold: float) -> None:
    """Errors of every form at half of each run that ends."""
    ends = [(np.array(run["losses"]), converged_at(run["losses"], threshold)) for run in measured]
    ending = [(losses, end) for losses, end in ends if end is not None and end >= SHORTEST]
    print(
        f"{len(ending)} of {len(ends)} runs end after {SHORTEST} epochs or more (decline below {threshold:g} an epoch)"
    )
    found: dict[str, Any] = {}
    for form in get_args(Form):
        told = [end // 2 + remaining_epochs(losses[: end // 2], threshold, 2 * EPOCHS, form) for losses, end in ending]
        found[form] = np.array([abs(t - end) / end for t, (_, end) in zip(told, ending, strict=True)])
    found["LSTM"] = np.array([abs(t - end) / end for t, end in learned(measured, threshold)])
    found["limit"] = np.array([(EPOCHS - end) / end for _, end in ending])
    rows = np.random.default_rng(0).integers(0, len(ending), (BOOTSTRAP, len(ending)))
    print(f"{'':10} {'of all epochs: mean':>30} {'median':>8} {'of those left: mean':>22}")
    for name, error in found.items():
        low, high = np.quantile(error[rows].mean(axis=1), [0.025, 0.975])
        mean = f"{error.mean():.1%} [{low:.1%}, {high:.1%}]"
        print(f"{name:10} {mean:>30} {np.median(error):8.1%} {2 * error.mean():22.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threshold", type=float, default=0.01, help="relative decline an epoch (0.01)")
    parser.add_argument("--curves", type=Path, metavar="FILE", help="read from here if it exists, else kept here")
    options = parser.parse_args()
    measured = read_json(options.curves) if options.curves and options.curves.exists() else list(curves())
    if options.curves and not options.curves.exists():
        write_json(options.curves, measured)
    compare(measured, options.threshold)


if __name__ == "__main__":
    main()
