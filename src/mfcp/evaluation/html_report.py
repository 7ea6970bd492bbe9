"""A comparison as one HTML file that needs nothing else: verdict, figures, rounds, data, and how to make it again."""

from __future__ import annotations

import io
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mfcp.errors import DataError
from mfcp.evaluation.compare import POOLED, Summary
from mfcp.evaluation.metric_table import BASELINE
from mfcp.evaluation.table import ABOUT, COLUMNS, cells, verdict
from mfcp.files import read_json, replacing

SHOWN = 5
"""Rounds shown where the best method gains most, and as many where it loses most."""
POINTS = 400  # of a figure over all rounds
TICKS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
FACTS = {
    "tasks": "tasks", "families": "model families", "clusters": "clusters", "runs_per_pair": "runs of a pair, median",
    "filled_share": "pairs of task and cluster that ran", "features": "features of a task",
}  # fmt: skip


def write_report(folder: Path, path: Path) -> None:
    """Write the report on a folder with `metrics.json` and `rounds.parquet`, and `pool.json` if it is there.

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
    pool = read_json(folder / "pool.json") if (folder / "pool.json").is_file() else {}
    try:
        text = render(summary, rounds, pool)
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise DataError(f"{folder}: metrics.json and rounds.parquet are not of one comparison ({error!r})") from None
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def render(summary: Summary, rounds: pd.DataFrame, pool: dict[str, Any]) -> str:
    """The page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    whole = POOLED if POOLED in summary else next(iter(summary))
    methods = summary[whole]
    compared = BASELINE in methods and len(methods) > 1
    best = min((label for label in methods if label != BASELINE), key=lambda label: _ratio(methods[label])[0]) \
        if compared else None  # fmt: skip
    figures = {}
    if best is not None:
        figures["ratios"] = ratio_figure(summary, whole)
        figures["gains"] = gain_figure(rounds, best)
    environment = Environment(loader=PackageLoader("mfcp.evaluation"), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    facts = [(title, _fact(pool[name])) for name, title in FACTS.items() if name in pool]
    return environment.get_template("report.html.j2").render(
        verdict=verdict(methods), about=ABOUT, best=best, baseline=BASELINE, figures=figures,
        titles=["method", *(title for title, *_ in COLUMNS)], rows=cells(summary, whole), facts=facts,
        emulated=pool.get("emulated", []), notes=pool.get("notes", []), settings=pool.get("settings", {}),
        told=[] if best is None else _told(rounds, best), examples=[] if best is None else _examples(rounds, best),
        over=f"{methods[next(iter(methods))]['penalised_excess']['n']} "
             f"{'pairs of setting and seed' if whole == POOLED else 'seeds'}",
        versions=f"mfcp {version('mfcp')}, Python {platform.python_version()}, numpy {np.__version__}",
    )  # fmt: skip


def _ratio(metrics: dict[str, Any]) -> tuple[float, float, float]:
    own = metrics["vs_tsm"]
    low, high = (own["mean"] if own[key] is None else own[key] for key in ("ci_low", "ci_high"))
    return own["mean"], low, high


def _fact(value: Any) -> str:
    return f"{value:.1%}" if isinstance(value, float) and value < 1 else f"{value:,.6g}"


def _paired(rounds: pd.DataFrame, best: str) -> pd.DataFrame:
    """A row a round: excess, makespan and reliability of the baseline and of the best method."""
    key = ["setting", "seed", "round"]
    columns = ["penalised_excess", "makespan", "reliability"]
    one, other = (
        rounds[rounds["method"] == label].set_index(key)[columns].add_suffix(suffix)
        for label, suffix in ((BASELINE, "_base"), (best, "_best"))
    )
    return one.join(other).assign(gain=lambda table: table["penalised_excess_base"] - table["penalised_excess_best"])


def _told(rounds: pd.DataFrame, best: str) -> list[tuple[str, str]]:
    """Shares of rounds in which the best method's plan costs less, the same, or more."""
    gain = _paired(rounds, best)["gain"]
    shares = (("less", gain > 1e-9), ("the same", gain.abs() <= 1e-9), ("more", gain < -1e-9))
    return [(name, f"{mask.mean():.0%}") for name, mask in shares]


def _examples(rounds: pd.DataFrame, best: str) -> list[dict[str, str]]:
    """Rounds with the largest gains and the largest losses."""
    table = _paired(rounds, best).sort_values("gain", ascending=False).reset_index()
    chosen = pd.concat([table.head(SHOWN), table[table["gain"] < 0].tail(SHOWN)])
    return [
        {
            "round": f"{row['setting']}, seed {row['seed']}, round {row['round']}", "gain": f"{row['gain']:+.3f}",
            "base": f"{row['makespan_base']:,.0f} s at {row['reliability_base']:.3f}",
            "best": f"{row['makespan_best']:,.0f} s at {row['reliability_best']:.3f}",
        }
        for row in chosen.to_dict("records")
    ]  # fmt: skip


def ratio_figure(summary: Summary, whole: str) -> str:
    """Ratios to the baseline with their intervals, the best on top; dots are the single settings."""
    methods = [label for label in summary[whole] if label != BASELINE]
    methods.sort(key=lambda label: -_ratio(summary[whole][label])[0])
    figure, axis = _axes(0.42 * len(methods) + 1.0)
    for k, label in enumerate(methods):
        mean, low, high = _ratio(summary[whole][label])
        colour = "#228833" if high < 1 else "#bb5566" if low > 1 else "#777777"
        single = [_ratio(summary[name][label])[0] for name in summary if name != POOLED]
        axis.plot(single, [k] * len(single), "o", color="#aaaaaa", markersize=4)
        axis.plot([low, high], [k, k], color=colour, lw=3, solid_capstyle="butt")
        axis.plot([mean], [k], "o", color=colour, markersize=8)
        axis.annotate(f"{mean:.2f} [{low:.2f}, {high:.2f}]", (1.01, k), xycoords=("axes fraction", "data"), va="center",
                      fontsize=8, color="#777777")  # fmt: skip
    axis.axvline(1.0, color="#777777", lw=1, ls="--")
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(range(len(methods)), methods)
    axis.set_ylim(-0.6, len(methods) - 0.4)
    axis.set_xlabel(f"penalised excess over that of {BASELINE} (left is better)")
    return _svg(figure)


def gain_figure(rounds: pd.DataFrame, best: str) -> str:
    """How much less each round costs under the best method, rounds in order."""
    gain = np.sort(_paired(rounds, best)["gain"].to_numpy())[::-1]
    gain = gain[np.linspace(0, len(gain) - 1, min(len(gain), POINTS)).round().astype(int)]
    figure, axis = _axes(2.6)
    share = (np.arange(len(gain)) + 0.5) / len(gain) * 100
    for mask, colour in ((gain > 0, "#228833"), (gain < 0, "#bb5566")):
        axis.fill_between(share, np.where(mask, gain, 0.0), color=colour, step="mid", lw=0)
    axis.axhline(0.0, color="#777777", lw=1)
    low, high = np.quantile(gain, [0.005, 0.995])
    axis.set_ylim(min(low, 0) * 1.2 - 0.01, max(high, 0) * 1.1 + 0.01)
    axis.set_xlim(0, 100)
    axis.set_xlabel("% of the rounds")
    axis.set_ylabel(f"excess of {BASELINE}\nminus that of {best}")
    return _svg(figure)


def _axes(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, height), layout="constrained")
    axis = figure.subplots()
    grey = "#777777"  # reads on light and on dark
    axis.tick_params(colors=grey)
    axis.xaxis.label.set_color(grey)
    axis.yaxis.label.set_color(grey)
    for side, spine in axis.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(grey)
    return figure, axis


def _svg(figure: Any) -> str:
    """Inline SVG with text as text; the same figure gives the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mfcp"}):
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return text.getvalue().partition("<svg")[1] + text.getvalue().partition("<svg")[2]
