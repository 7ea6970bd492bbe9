"""What Algorithm 1 as printed and rounded plans are worth, under the true times and reliabilities.

    python benchmarks/printed.py                 the default platform, settings A to C
    python benchmarks/printed.py --data DIR      a folder in the log schema

Mean penalised excess of validation rounds of tuning settings, for what the paper does not tell: beta, lambda and the
step length, in units of a round's balanced makespan. Beside it that of plans at random. 0 is the best plan; brackets
have how far an entry of X moves in one more step at most. Nothing is predicted here: a predictor makes it worse.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.tuning import TuningLog
from mfcp.errors import guarded
from mfcp.evaluation.metrics import Reference, round_metrics
from mfcp.matching.reference.literal import PRINTED_STEPS, printed_problem, softmax_descent
from mfcp.matching.relaxed.objective import balanced_makespan
from mfcp.study.reference import solved_setting

BETAS, LAMS, RATES = (1.0, 3.0, 10.0, 40.0), (0.003, 0.03), (0.25, 0.5, 2.0, 8.0)


def excess(plan: np.ndarray, reference: Reference, price: float) -> float:
    """Mean penalised excess."""
    return float(round_metrics(plan, reference, price=price)["penalised_excess"].mean())


def main() -> None:
    """Print a table per setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR")
    options = parser.parse_args()
    log = TuningLog(options.data, seeds=(1000, 1001))
    study, price = log.usual, log.plan.base.section("evaluate").shortfall_price
    for name in log.plan.study.tuning:
        setting = solved_setting(study, name, log.plan.base.section("matching"), price=price, exact=True)
        reference = Reference.of(setting, 100, "validation")
        truth = reference.truth
        allowed, A, gamma = (torch.tensor(x) for x in (truth.allowed, truth.A, truth.gamma))
        T = torch.tensor(np.where(truth.allowed, truth.T, 1.0))
        T = T / balanced_makespan(T, allowed)[:, None, None]
        by_chance = (np.random.default_rng(0).random(truth.T.shape) * truth.allowed).argmax(axis=1)
        title = f"setting {name}: plans at random {excess(by_chance, reference, price):.2f}"
        table = Table("beta", "lambda", *(f"step {rate:g}" for rate in RATES), title=title, title_justify="left")
        for beta in BETAS:
            for lam in LAMS:
                problem = printed_problem(T, A, gamma, beta, lam, allowed)
                cells = []
                for rate in RATES:
                    X, later = (softmax_descent(problem, steps=PRINTED_STEPS + k, rate=rate) for k in (0, 1))
                    plan = torch.where(allowed, X, -1.0).argmax(1).numpy()
                    moved = float((later - X).abs().max())
                    cells.append(f"{excess(plan, reference, price):.2f} [{moved:.1f}]")
                table.add_row(f"{beta:g}", f"{lam:g}", *cells)
        Console(width=80).print(table)


if __name__ == "__main__":
    sys.exit(guarded(main))
