"""`python benchmarks/round_picture.py`: one round as two Gantt charts, docs/round.svg.

The round is the median one of all test rounds of the default pipeline in which plain two-stage learning and `mfcp_x`
give different plans that both reach gamma, by how much longer the first takes. Durations are the true ones. Run it
after `make run`: it reads the pipeline's models.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.files import replacing

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/round.svg"
METHODS = {"tsm": "plain prediction (TSM)", "mfcp_x": "mfcp (mfcp_x)"}


@dataclass(frozen=True)
class Round:
    """A round with a plan of each method.

    Attributes:
        clusters: M names.
        T, A: (M, N) true seconds and probabilities.
        gamma: asked for.
        plans: label → (N,) cluster of each task.
        longer: first method's makespan over the second's.
    """

    clusters: tuple[str, ...]
    T: Floats
    A: Floats
    gamma: float
    plans: dict[str, Ints]
    longer: float

    def makespan(self, label: str) -> float:
        """Seconds until the last cluster is through."""
        plan = self.plans[label]
        seconds = self.T[plan, np.arange(len(plan))]
        return float(np.bincount(plan, seconds, len(self.clusters)).max())

    def reliability(self, label: str) -> float:
        """Mean probability of success."""
        plan = self.plans[label]
        return float(self.A[plan, np.arange(len(plan))].mean())


def different_rounds() -> list[Round]:
    """All test rounds in which the plans differ and reach gamma."""
    from mfcp.methods.base import Trained
    from mfcp.settings import Settings
    from mfcp.stages.base import FEATURES, MODELS
    from mfcp.study.reference import solved_setting
    from mfcp.study.study_data import Study

    settings = Settings.load(ROOT / "params.yaml")
    section, study, found = settings.section("evaluate"), Study.load(ROOT / FEATURES), list[Round]()
    for name in study.settings:
        setting = solved_setting(study, name, settings.section("matching"), price=section.shortfall_price)
        rounds = setting.rounds("test", section.rounds)
        truth = setting.problem(rounds, truth=True)
        plans = {label: Trained.load(ROOT / MODELS / label, name).plan(setting, rounds) for label in METHODS}
        for b in np.flatnonzero((plans["tsm"] != plans["mfcp_x"]).any(axis=1)):
            own = {label: plan[b] for label, plan in plans.items()}
            one = Round(setting.cluster_id, truth.T[b], truth.A[b], float(truth.gamma[b]), own, 1.0)
            first, second = (one.makespan(label) for label in METHODS)
            if min(one.reliability(label) for label in METHODS) >= one.gamma:
                found.append(Round(one.clusters, one.T, one.A, one.gamma, own, first / second))
    return found


def draw(one: Round, path: Path) -> None:
    """Both plans, one above the other, on one axis of time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes: Any = figure.subplots(2, 1, sharex=True)
    colours = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
    for axis, (label, title) in zip(axes, METHODS.items(), strict=True):
        ends = np.zeros(len(one.clusters))
        for task, cluster in enumerate(one.plans[label]):
            seconds = one.T[cluster, task] / 60
            axis.barh(cluster, seconds, left=ends[cluster], color=colours[task % 7], edgecolor="white", height=0.7)
            axis.text(ends[cluster] + seconds / 2, cluster, f"task {task + 1}" if seconds > ends.max() / 12 else "",
                      ha="center", va="center", color="white", fontsize=8)  # fmt: skip
            ends[cluster] += seconds
        axis.axvline(ends.max(), color="black", lw=1.2, ls="--")
        axis.set_yticks(range(len(one.clusters)), one.clusters, fontsize=8)
        axis.set_ylim(len(one.clusters) - 0.5, -0.5)
        axis.set_title(
            f"{title}: all done after {ends.max():.0f} minutes, mean reliability {one.reliability(label):.2f} "
            f"(asked for {one.gamma:.2f})", fontsize=9, loc="left",
        )  # fmt: skip
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("minutes")
    with replacing(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None}, facecolor="white")


def main() -> None:
    """Choose the round and draw it."""
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = "mfcp"  # the same picture is the same file
    rounds = sorted(different_rounds(), key=lambda one: one.longer)
    chosen = rounds[len(rounds) // 2]
    draw(chosen, PICTURE)
    print(
        f"{PICTURE.relative_to(ROOT)}: the median of {len(rounds)} rounds; TSM takes {chosen.longer:.2f} times as long"
    )


if __name__ == "__main__":
    main()
