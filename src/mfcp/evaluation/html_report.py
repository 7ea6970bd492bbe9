"""A comparison as one HTML file that needs nothing else: verdict, figures, rounds, data, and how to make it again."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.border.json_text import read_json
from mfcp.errors import DataError
from mfcp.evaluation.compare import POOLED, Summary
from mfcp.evaluation.metric_table import BASELINE
from mfcp.evaluation.report_figures import (
    calibration_figure,
    error_figure,
    gain_figure,
    gantt_figure,
    paired,
    ratio_figure,
    ratio_of,
)
from mfcp.evaluation.table import ABOUT, COLUMNS, cells, sample, verdict
from mfcp.files import replacing

SHOWN = 5
"""Rounds shown where the best method gains most, and as many where it loses most."""
PLANS = 2
"""Rounds drawn as Gantt charts, of those that gain most, and of those that lose most."""
FACTS = {
    "tasks": "tasks", "families": "model families", "clusters": "clusters", "runs_per_pair": "runs of a pair, median",
    "filled_share": "pairs of task and cluster that ran", "features": "features of a task",
}  # fmt: skip


def write_report(folder: Path, path: Path) -> None:
    """Write the report on a folder with `metrics.json` and `rounds.parquet`, and what else of a comparison is there.

    `pool.json` tells of the data, `details.json` of predictions, plans and optima.

    Raises:
        DataError: one of the first two is missing, or they are not of one comparison.
    """
    for name in ("metrics.json", "rounds.parquet"):
        if not (folder / name).is_file():
            raise DataError(f"{folder}: no {name}; give a folder that `mfcp benchmark` or the pipeline has written")
    summary = read_json(folder / "metrics.json")
    try:
        rounds = pd.read_parquet(folder / "rounds.parquet")
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{folder / 'rounds.parquet'}: not a whole Parquet file ({reason}); make it again") from None
    pool, details = (
        read_json(folder / name) if (folder / name).is_file() else {} for name in ("pool.json", "details.json")
    )
    try:
        text = render(summary, rounds, pool, details)
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise DataError(f"{folder}: metrics.json and rounds.parquet are not of one comparison ({error!r})") from None
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def render(summary: Summary, rounds: pd.DataFrame, pool: dict[str, Any], details: dict[str, Any] | None = None) -> str:
    """The page; what is not given is left out of it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    whole = POOLED if POOLED in summary else next(iter(summary))
    methods = summary[whole]
    ratios = {label: own[0] for label, metrics in methods.items() if (own := ratio_of(metrics)) and label != BASELINE}
    best = min(ratios, key=lambda label: ratios[label]) if ratios else None
    figures = {}
    if best is not None:
        figures["ratios"] = ratio_figure(summary, whole)
        figures["gains"] = gain_figure(rounds, best)
    predictions, plans = _behind(details or {}, best)
    if predictions:
        figures["errors"] = error_figure(predictions)
        figures["calibration"] = calibration_figure(
            {label: predictions[label] for label in (BASELINE, best) if label in predictions} or predictions
        )
    environment = Environment(loader=PackageLoader("mfcp.evaluation"), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    facts = [(title, _fact(pool[name])) for name, title in FACTS.items() if name in pool]
    return environment.get_template("report.html.j2").render(
        verdict=verdict(methods), about=ABOUT, best=best, baseline=BASELINE, figures=figures,
        titles=["method", *(title for title, *_ in COLUMNS)], rows=cells(summary, whole), facts=facts,
        emulated=pool.get("emulated", []), notes=pool.get("notes", []), settings=pool.get("settings", {}),
        predictions=predictions, plans=plans, solver=_solver(details or {}),
        told=[] if best is None else _told(rounds, best), examples=[] if best is None else _examples(rounds, best),
        over=sample(summary),
        # No patch version of Python: the page is a hashed output, and two machines should agree on its bytes.
        versions=f"mfcp {version('mfcp')}, Python {sys.version_info.major}.{sys.version_info.minor}, "
                 f"numpy {np.__version__}",
    )  # fmt: skip


def pooled_predictions(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """label → `details.prediction_errors` over all settings: means, of factors the geometric one.

    Args:
        found: setting → `details.details`, all of the same methods.
    """
    result = {}
    for label in next(iter(found.values()))["predictions"]:
        own = [one["predictions"][label] for one in found.values()]
        stated = [one["inside"] for one in own if one["inside"] is not None]
        bins = min(len(one["calibration"]) for one in own)
        result[label] = {
            "factor": float(np.exp(np.mean([np.log(one["factor"]) for one in own]))),
            "factor_95": float(np.exp(np.mean([np.log(one["factor_95"]) for one in own]))),
            "inside": float(np.mean(stated)) if stated else None,
            "reliability_rms": float(np.mean([one["reliability_rms"] for one in own])),
            "calibration": np.mean([one["calibration"][:bins] for one in own], axis=0).tolist(),
        }
    return result


def _behind(details: dict[str, Any], best: str | None) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Errors of the predictions by method, and a title and a figure for each round that is shown."""
    if not details:
        return {}, []
    rounds = sorted(
        ((name, found["clusters"], one) for name, found in details.items() for one in found["examples"].get(best, [])),
        key=lambda round_: -round_[2]["gain"],
    )
    gains, losses = ([one for one in rounds if (one[2]["gain"] > 0) == won] for won in (True, False))
    plans = [
        (
            f"Setting {name}, seed {one['seed']}, round {one['round']}: {abs(one['gain']):.2f} "
            f"{'less' if one['gain'] > 0 else 'more'} excess, gamma {one['gamma']:.3f}",
            gantt_figure(one, clusters, (BASELINE, best or "")),
        )
        for name, clusters, one in (*gains[:PLANS], *losses[-PLANS:])
    ]
    return pooled_predictions(details), plans


def _solver(details: dict[str, Any]) -> list[tuple[str, str]]:
    """Setting and how its optima were found, a sentence each."""
    return [
        (name, f"{own['proven']:.0%} of {own['rounds']} rounds proven optimal by '{own['engine']}'"
         + (f", {own['short']:.0%} cannot reach gamma" if own["short"] else ""))
        for name, own in ((name, found["solver"]) for name, found in details.items())
    ]  # fmt: skip


def _fact(value: Any) -> str:
    return f"{value:.1%}" if isinstance(value, float) and value < 1 else f"{value:,.6g}"


def _told(rounds: pd.DataFrame, best: str) -> list[tuple[str, str]]:
    """Shares of rounds in which the best method's plan costs less, the same, or more."""
    gain = paired(rounds, best)["gain"]
    shares = (("less", gain > 1e-9), ("the same", gain.abs() <= 1e-9), ("more", gain < -1e-9))
    return [(name, f"{mask.mean():.0%}") for name, mask in shares]


def _examples(rounds: pd.DataFrame, best: str) -> list[dict[str, str]]:
    """Rounds with the largest gains and the largest losses."""
    table = paired(rounds, best).sort_values("gain", ascending=False).reset_index()
    chosen = pd.concat([table.head(SHOWN), table[table["gain"] < 0].tail(SHOWN)])
    return [
        {
            "round": f"{row['setting']}, seed {row['seed']}, round {row['round']}", "gain": f"{row['gain']:+.3f}",
            "base": f"{row['makespan_base']:,.0f} s at {row['reliability_base']:.3f}",
            "best": f"{row['makespan_best']:,.0f} s at {row['reliability_best']:.3f}",
        }
        for row in chosen.to_dict("records")
    ]  # fmt: skip
