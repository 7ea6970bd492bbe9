"""Numbers and page of `benchmarks/evidence.py`, from the rounds that it kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.border.json_text import read_json
from mfcp.evaluation.compare import resample
from mfcp.files import write_json

DOCS = Path(__file__).parents[1] / "docs"
NUMBERS, PAGE, FIGURE = DOCS / "evidence/evidence.json", DOCS / "evidence.md", DOCS / "evidence/budget.png"
LOGS = {"default": "default platform (emulated)", "timm": "timm", "gavel": "gavel"}
BASE, METRIC, BOOTSTRAP = "mfcp_x", "penalised_excess", 2000
PARTS = ((0, 25), (25, 50), (50, 100), (100, 200))


def summarise(rounds: pd.DataFrame) -> dict[str, Any]:
    """Log → tasks of a round → way → its ratio with interval, cells, coverage and own error."""
    result: dict[str, Any] = {}
    for (log, tasks), own in rounds.groupby(["log", "tasks"], sort=False):
        # A draw of test families is what the bootstrap resamples first; its settings and splits are pairs within it.
        pair = own["setting"] + own["seed"].astype(str)
        number = pair.groupby(own["draw"]).transform(lambda each: pd.factorize(each)[0])
        sample = resample(own.assign(setting=own["draw"], seed=number), BOOTSTRAP)
        table = {}
        for way in sample.methods:
            part = own[own["method"] == way]
            ratio = sample.ratio(way, BASE, METRIC)
            total = part[["pairs", "inside", "moved_pairs", "moved_inside", "own", "own_freedom"]].sum()
            table[way] = {
                "excess": float(part[METRIC].mean()),
                **{name: float(ratio[name]) for name in ("mean", "ci_low", "ci_high")},
                "cells": float(part["cells"].mean()),
                "own": float(np.sqrt(total["own"] / max(total["own_freedom"], 1))),
                "coverage": float(total["inside"] / total["pairs"]),
                "moved": float(total["moved_pairs"] / total["pairs"]),
                "moved_coverage": float(total["moved_inside"] / max(total["moved_pairs"], 1)),
                "parts": _parts(part, own[own["method"] == BASE]),
            }
        counts = {name: int(own[name].nunique()) for name in ("draw", "setting")}
        facts = {"rounds": int((own["method"] == BASE).sum()), "ways": table}
        result.setdefault(str(log), {})[str(tasks)] = counts | facts
    return result


def _parts(own: pd.DataFrame, base: pd.DataFrame) -> list[float]:
    """The ratio in each part of the history."""
    found = []
    for low, high in PARTS:
        both = [each[(each["round"] >= low) & (each["round"] < high)][METRIC] for each in (own, base)]
        if len(both[1]):
            found.append(float(both[0].mean() / both[1].mean()))
    return found


def write_page(out: Path) -> None:
    """Numbers from the rounds in a folder, and the page from the numbers."""
    files = sorted(out.glob("*.parquet"))
    if files:
        write_json(NUMBERS, summarise(pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)))
    numbers = read_json(NUMBERS)
    print(json_lines(numbers))


def json_lines(numbers: dict[str, Any]) -> str:
    lines = []
    for log, sizes in numbers.items():
        for tasks, own in sizes.items():
            for way, row in own["ways"].items():
                lines.append(
                    f"{log:8s} {tasks:>3s} {way:45s} {row['mean']:.3f} [{row['ci_low']:.2f}, {row['ci_high']:.2f}] "
                    f"cells {row['cells']:.2f} own {row['own']:.3f} "
                    f"cover {row['coverage']:.3f} {row['moved_coverage']:.3f}"
                )
    return "\n".join(lines)
