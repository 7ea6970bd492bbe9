"""A published number beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Number:
    """One number.

    Attributes:
        what: policy, trace and metric.
        theirs, ours: the published value and what we find; ours is None where we have no such policy.
        bound: largest difference in the unit; None for none.
        cause: why it is outside, or why it was skipped.
    """

    what: str
    theirs: float
    ours: float | None
    bound: float | None
    cause: str = ""
    unit: Literal["%", "points", "ratio"] = "%"  # of the difference: a share of the published value, or the plain one

    @property
    def difference(self) -> float | None:
        """Ours over theirs, minus one; or ours minus theirs."""
        if self.ours is None:
            return None
        return self.ours / self.theirs - 1 if self.unit == "%" else self.ours - self.theirs

    @property
    def inside(self) -> bool | None:
        """Whether it is within its bound; None where there is nothing to say."""
        return None if self.difference is None or self.bound is None else abs(self.difference) <= self.bound

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        if self.difference is None:
            return self.what, f"{self.theirs:,.3f}", "-", "-", "-", f"skipped: {self.cause}"
        scale, unit = (100, " %") if self.unit == "%" else (1, "")
        bound = "-" if self.bound is None else f"{scale * self.bound:g}{unit}"
        verdict = {True: "", False: f"outside: {self.cause}" if self.cause else "OUTSIDE", None: self.cause}[
            self.inside
        ]
        return (
            self.what,
            f"{self.theirs:,.3f}",
            f"{self.ours:,.3f}",
            f"{scale * self.difference:+.4f}{unit}",
            bound,
            verdict,
        )


def outside(numbers: Sequence[Number]) -> list[Number]:
    """Those outside their bound for which no cause is known."""
    return [each for each in numbers if each.inside is False and not each.cause]


def summary(numbers: Sequence[Number]) -> str:
    """How many are inside, outside, and skipped."""
    inside, out = (sum(each.inside is verdict for each in numbers) for verdict in (True, False))
    skipped = sum(each.difference is None for each in numbers)
    return (
        f"{len(numbers)} published numbers: {inside} inside their bound, {out} outside "
        f"({len(outside(numbers))} of them without a known cause), {skipped} skipped"
    )
