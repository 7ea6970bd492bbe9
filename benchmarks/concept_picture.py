"""`python benchmarks/concept_picture.py`: two predictions of one task and what they cost, docs/concepts/predict.svg."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mfcp.files import replacing

PICTURE = Path(__file__).parents[1] / "docs/concepts/predict.svg"
TRUTH, P, Q = np.array([40.0, 50.0]), np.array([22.0, 62.0]), np.array([47.0, 44.0])  # those of the page
WRONG, RIGHT, GREY = "#bb5566", "#228833", "#555555"


def main() -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "mfcp"  # the same picture is the same file
    figure = Figure(figsize=(5.2, 4.6), layout="constrained")
    axis = figure.subplots()
    low, high = 10.0, 80.0
    axis.fill_between([low, high], [low, high], [high, high], color=RIGHT, alpha=0.12, lw=0)
    axis.fill_between([low, high], [low, low], [low, high], color=WRONG, alpha=0.12, lw=0)
    axis.plot([low, high], [low, high], color=GREY, lw=1)
    for point in (P, Q):
        axis.add_patch(mpl.patches.Circle(TRUTH, np.hypot(*(point - TRUTH)), fill=False, ls=":", color=GREY))
    for point, name, colour in ((TRUTH, "truth", GREY), (P, "P", RIGHT), (Q, "Q", WRONG)):
        axis.plot(*point, "o", color=colour)
        axis.annotate(name, point, xytext=(6, 4), textcoords="offset points", color=colour)
    axis.text(14, 75, "task goes to cluster 1: regret 0 s", color=RIGHT, fontsize=9)
    axis.text(42, 13, "task goes to cluster 2: regret 10 s", color=WRONG, fontsize=9)
    axis.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    axis.set_xlabel("predicted seconds on cluster 1")
    axis.set_ylabel("predicted seconds on cluster 2")
    with replacing(PICTURE) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
