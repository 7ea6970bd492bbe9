"""Losses over plans against PyEPO, an independent implementation: values and gradients on the same choices.

    pip install pyepo && python benchmarks/pyepo_peer.py

A choice among P plans is a linear problem of PyEPO with one-hot solutions: 64 choices of 243 plans with costs as of
rounds of 5 tasks on 3 clusters, in float64. Sampled losses get the same noise on both sides. Printed are the largest
relative differences of the values and of the gradients in the predicted costs; the run fails above 2e-8 (PyEPO adds
1e-8 to the lambda of black-box differentiation and of I-MLE; the others agree to the last digits). `map` is PyEPO's
CMAP on predicted minus true costs. `softmin` is not in PyEPO; `perturbed` perturbs times and reliabilities
here, and costs there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from mfcp.methods.surrogates import Choice, PlanLoss

ROUNDS, PLANS, SAMPLES, LIMIT = 64, 243, 8, 2e-8


def ours(spec: dict[str, Any], predicted: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
    """Values (R,) and gradient (R, P) of a loss of this package."""
    at = predicted.clone().requires_grad_()
    nothing: Any = None  # the losses compared look at costs alone
    choice = Choice(nothing, nothing, nothing, at[None], true[None])
    value = PlanLoss.parse(spec).of(choice, [torch.Generator().manual_seed(1)])[0]
    value.sum().backward()
    assert at.grad is not None
    return value.detach(), at.grad


def peers(pyepo: Any, predicted: Tensor, true: Tensor) -> dict[str, tuple[dict[str, Any], Callable[[Tensor], Tensor]]]:
    """Name → settings here, and the same loss of PyEPO as a function of the predicted costs."""
    from pyepo.data.dataset import optDataset
    from pyepo.model.opt import optModel

    class OnePlan(optModel):
        """min c·w over one-hot w."""

        def _getModel(self) -> tuple[None, range]:  # noqa: N802
            return None, range(PLANS)

        @property
        def num_cost(self) -> int:
            return PLANS

        def setObj(self, c: Any) -> None:  # noqa: N802
            self.c = np.asarray(c, float)

        def solve(self) -> tuple[np.ndarray, float]:
            best = int(self.c.argmin())
            return np.eye(PLANS)[best], float(self.c[best])

    model, every = OnePlan(), torch.eye(PLANS, dtype=torch.float64)
    pool = optDataset(model, np.zeros((PLANS, 1)), 1.0 - np.eye(PLANS))
    best = every[true.argmin(1)]
    least = true.min(1, keepdim=True).values

    def module(kind: str, **settings: Any) -> Any:
        made = getattr(pyepo.func, kind)(model, **settings)
        if getattr(made, "solpool", None) is not None:
            made.solpool = every.clone()
        return made

    def by_solution(kind: str, **settings: Any) -> Callable[[Tensor], Tensor]:
        return lambda c: (module(kind, **settings)(c) * true).sum(1)

    uniform = torch.empty(1, ROUNDS, SAMPLES, PLANS, dtype=torch.float64)
    uniform[0].uniform_(generator=torch.Generator().manual_seed(1))
    gumbel = uniform[0].log().neg().log()

    class Drawn:
        """PyEPO's distribution, with the noise that is drawn here."""

        def sample(self, size: Any, device: Any = None, dtype: Any = None) -> Tensor:
            return gumbel

    pooled = {"dataset": pool, "reduction": "none"}
    return {
        "spo_plus": ({"kind": "spo_plus"}, lambda c: module("SPOPlus", reduction="none")(c, true, best, least)),
        "nce": ({"kind": "nce"}, lambda c: module("noiseContrastiveEstimation", **pooled)(c, best)),
        "map": ({"kind": "map"}, lambda c: module("contrastiveMAP", **pooled)(c - true, best)),
        "listwise": (
            {"kind": "listwise", "temperature": 1.0},
            lambda c: module("listwiseLearningToRank", **pooled)(c, true),
        ),
        "blackbox": ({"kind": "blackbox", "lam": 1.0}, by_solution("blackboxOpt", lambd=1.0)),
        "imle": (
            {"kind": "imle", "lam": 1.0, "sigma": 0.03, "samples": SAMPLES},
            by_solution("implicitMLE", n_samples=SAMPLES, sigma=0.03, lambd=1.0, distribution=Drawn()),
        ),
        "fenchel_young": (
            {"kind": "fenchel_young", "sigma": 0.2, "samples": SAMPLES},
            lambda c: module("perturbedFenchelYoung", n_samples=SAMPLES, sigma=0.2, seed=1, reduction="none")(c, best),
        ),
    }


def main() -> int:
    """Print the table; 1 where a loss differs."""
    try:
        import pyepo
        import pyepo.func
    except ImportError as error:
        print(f"skipped: PyEPO is not installed ({error}); pip install pyepo")
        return 0
    rng = np.random.default_rng(0)
    true = torch.tensor(1.0 + rng.gamma(2.0, 0.3, (ROUNDS, PLANS)))
    predicted = true + 0.2 * torch.tensor(rng.normal(size=true.shape))
    table = Table("loss", "value", "gradient", title=f"largest relative difference to PyEPO {pyepo.__version__}")
    worst = 0.0
    for name, (spec, peer) in peers(pyepo, predicted, true).items():
        at = predicted.clone().requires_grad_()
        value = peer(at)
        value.sum().backward()
        assert at.grad is not None
        own = ours(spec, predicted, true)
        differences = [
            float((mine - theirs).abs().max() / theirs.abs().max())
            for mine, theirs in zip(own, (value.detach(), at.grad), strict=True)
        ]
        worst = max(worst, *differences)
        table.add_row(name, *(f"{each:.0e}" for each in differences))
    Console(width=80).print(table)
    return int(not worst < LIMIT)


if __name__ == "__main__":
    sys.exit(main())
