"""Paragraphs, tables, numbers and verdicts in the words of the results pages."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

SURE = 0.05  # largest p-value of a difference that is called sure


def paragraph(*sentences: str) -> str:
    """Sentences as lines of at most 120 characters."""
    text = " ".join(sentences)
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def markdown(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|", *(f"| {' | '.join(row)} |" for row in rows)]


def number(value: dict[str, Any] | None, decimals: int) -> str:
    """A mean with its interval, if it has one; a dash where nothing is known."""
    if value is None or value["mean"] is None:
        return "-"
    text = f"{value['mean']:.{decimals}f}"
    if value["ci_low"] in (None, value["ci_high"]):
        return text
    return f"{text} [{value['ci_low']:.{decimals}f}, {value['ci_high']:.{decimals}f}]"


def listed(names: Iterable[str]) -> str:
    """Names with an `and` before the last."""
    *first, last = [*names] or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def met(reached: bool | None) -> str:
    """Whether a goal is met."""
    return {True: "met", False: "**missed**", None: "not judged"}[reached]


def judged(ratios: dict[str, dict[str, Any] | None]) -> str:
    """Where ratios are significantly below 1, where above, and where the data do not tell.

    Args:
        ratios: log → `mean` and `p`.
    """
    places: dict[str, list[str]] = {"less": [], "more": [], "no significant difference": []}
    for name, ratio in ratios.items():
        if ratio is None or not ratio["p"] < SURE:
            places["no significant difference"].append(name)
        else:
            places["less" if ratio["mean"] < 1 else "more"].append(name)
    return "; ".join(f"{verdict} on {listed(names)}" for verdict, names in places.items() if names)
