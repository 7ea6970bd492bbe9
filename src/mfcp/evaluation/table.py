"""The comparison table in the terminal and as Markdown, from a summary alone."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any

from mfcp.evaluation.metric_table import BASELINE
from mfcp.progress import console

if TYPE_CHECKING:
    from rich.table import Table

    from mfcp.evaluation.compare import Summary

FEW = ("ratio to TSM", "penalised excess", "reliability", "violations")
"""What a table of 80 columns holds; the others come with `--wide`."""
ABOUT = (
    "Penalised excess: what a round's plan costs beyond the best plan, in makespans, with a price on missing"
    " reliability. Ratio to TSM: that over the excess of plain two-stage learning. Lower is better."
)

# column title, metric, decimals, interval shown
COLUMNS = (
    ("penalised excess", "penalised_excess", 3, True),
    ("ratio to TSM", "vs_tsm", 2, True),
    ("regret [s/task]", "regret", 1, True),
    ("regret ratio", "regret_vs_tsm", 2, True),
    ("at equal violation", "regret_equal_violation", 4, False),
    ("at equal shortfall", "regret_equal_shortfall", 4, False),
    ("reliability", "reliability", 3, False),
    ("violations", "violation_rate", 2, False),
    ("utilization", "utilization", 3, False),
)


def cells(summary: Summary, setting: str) -> list[list[str]]:
    """One row per method: its label and a cell per column, "mean [low, high]" where an interval is shown."""
    rows = []
    for method, metrics in summary[setting].items():
        row = [method]
        for _, metric, decimals, with_interval in COLUMNS:
            value = metrics.get(metric)
            if value is None or value["mean"] is None:
                row.append("-")
                continue
            text = f"{value['mean']:.{decimals}f}"
            if with_interval and value["ci_low"] is not None:
                text += f" [{value['ci_low']:.{decimals}f}, {value['ci_high']:.{decimals}f}]"
            row.append(text)
        rows.append(row)
    return rows


def verdict(methods: Mapping[str, Mapping[str, Any]]) -> str:
    """Which method has the least excess, and how sure that is, in a sentence; empty without anything to compare."""
    ratio = {label: own["vs_tsm"] for label, own in methods.items() if own.get("vs_tsm") and label != BASELINE}
    ratio = {label: value for label, value in ratio.items() if value["mean"] is not None}
    if not ratio:
        perfect = len(methods) > 1 and methods.get(BASELINE, {}).get("penalised_excess", {}).get("mean") == 0
        told = f"There is no ratio: {BASELINE} has no excess, its plan is the best one in every round."
        return told if perfect else ""
    best = min(ratio, key=lambda label: ratio[label]["mean"])
    mean, low, high = (ratio[best][key] for key in ("mean", "ci_low", "ci_high"))
    if mean >= 1:
        interval = "" if low is None else f" [{low:.2f}, {high:.2f}]"
        return f"No method has less excess than {BASELINE}; {best} comes next with {mean:.2f}{interval} of it."
    if low is None:
        return f"{best} has the least excess, {mean:.2f} of that of {BASELINE}; one seed gives no interval."
    told = f"{best} has the least excess: {mean:.2f} [{low:.2f}, {high:.2f}] of that of {BASELINE}"
    if high >= 1:
        return f"{told}, which is no significant difference."
    close = [label for label, own in ratio.items() if label != best and own["ci_low"] <= high]
    if close:
        return f"{told}. {', '.join(close)} may be as good: the intervals overlap."
    return f"{told}. No other method's interval reaches that."


def sample(summary: Summary) -> str:
    """What means and intervals are over, and what intervals then cannot tell."""
    whole = "pooled" if "pooled" in summary else next(iter(summary))
    n = next(iter(summary[whole].values()))["penalised_excess"]["n"]
    if whole != "pooled":
        return f"{n} seeds"
    if n > len(summary) - 1:
        return f"{n} pairs of setting and seed"
    return f"{n} settings with one seed, that is, one split of the tasks: what another would give, no interval tells"


def rich_table(summary: Summary, setting: str, *, wide: bool = False) -> Table:
    """The table of one setting (or `pooled`) for the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title=None if setting == "pooled" else f"setting {setting}",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    table.add_column("method", overflow="fold", min_width=14)
    shown = [k for k, (title, *_) in enumerate(COLUMNS) if wide or title in FEW]
    shown = shown if wide else sorted(shown, key=lambda k: FEW.index(COLUMNS[k][0]))
    for k in shown:
        table.add_column(COLUMNS[k][0].replace(" ", "\n", 1), justify="right", no_wrap=True)
    for label, *row in cells(summary, setting):
        table.add_row(label, *(row[k] for k in shown))
    return table


def markdown(summary: Summary) -> str:
    """All settings as Markdown tables."""
    lines = []
    for setting in summary:
        lines += [f"## {setting}", "", "| method | " + " | ".join(title for title, *_ in COLUMNS) + " |"]
        lines.append("|---" * (len(COLUMNS) + 1) + "|")
        lines += ["| " + " | ".join(row) + " |" for row in cells(summary, setting)]
        lines.append("")
    return "\n".join(lines)


def show(summary: Summary, *, everything: bool = False, wide: bool = False) -> None:
    """Print what is compared, the pooled table or every setting's, and the verdict; within 80 columns if not wide."""
    import sys

    terminal = sys.stdout.isatty() and not wide
    screen = console(None if terminal else 200 if wide else 80)
    names = list(summary) if everything or "pooled" not in summary else ["pooled"]
    print(fill(f"{ABOUT} Mean [95 % interval] over {sample(summary)}.", 80))
    for name in names:
        screen.print(rich_table(summary, name, wide=wide))
    if sentence := verdict(summary[names[-1]]):
        print(fill(sentence, 80))
