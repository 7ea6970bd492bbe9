"""The comparison table in the terminal and as Markdown, from a summary alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from mfcp.evaluation.compare import Summary

# column title, metric, decimals, interval shown
COLUMNS = (
    ("penalised excess", "penalised_excess", 4, True),
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


def rich_table(summary: Summary, setting: str) -> Table:
    """The table of one setting (or `pooled`) for the terminal."""
    from rich.table import Table

    n = next(iter(summary[setting].values()))["penalised_excess"]["n"]
    table = Table(title=f"setting {setting}: mean [95 % interval] over {n} seeds" if setting != "pooled" else
                  f"pooled over settings: mean [95 % interval] over {n} setting × seed pairs")  # fmt: skip
    table.add_column("method")
    for title, *_ in COLUMNS:
        table.add_column(title, justify="right")
    for row in cells(summary, setting):
        table.add_row(*row)
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


def show(summary: Summary, *, everything: bool = False) -> None:
    """Print the pooled table, or every setting's, as wide as it needs when standard output is no terminal."""
    import sys

    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 200)
    names = list(summary) if everything or "pooled" not in summary else ["pooled"]
    for name in names:
        console.print(rich_table(summary, name))
