"""A published number beside ours, and what an experiment says of a difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Trial:
    """An experiment on a number that is outside its bound: what we find with one thing changed.

    Attributes:
        what: the thing that was changed.
        found: our numbers with it; one if the change is one switch, several if it is another draw of what is free.
    """

    what: str
    found: tuple[float, ...]

    def __str__(self) -> str:
        low, high = min(self.found), max(self.found)
        return f"{self.what}: {low:,.3f}" + (f" to {high:,.3f}" if high > low else "")


@dataclass(frozen=True)
class Number:
    """One number.

    Attributes:
        policy, trace, quantity: what it is of, as published.
        theirs, ours: the published value and what we find; ours is None where we have no such policy.
        bound: largest difference in the unit; None for none.
        skipped: why there is nothing to compare.
        unit: of the difference: a share of the published value, or the plain one.
        trial: the experiment, if the number is outside; without one, or where it does not bring theirs inside, the
            number is a miss.
    """

    policy: str
    trace: str
    quantity: str
    theirs: float
    ours: float | None
    bound: float | None
    skipped: str = ""
    unit: Literal["%", "points", "ratio"] = "%"
    trial: Trial | None = None

    @property
    def what(self) -> str:
        """Its name in a table."""
        return f"{self.policy}, {self.trace}, {self.quantity}"

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

    @property
    def explained(self) -> bool:
        """Whether it is outside, and the published value lies among the trial's, the bound allowed on both sides."""
        if self.inside is not False or self.trial is None or self.bound is None:
            return False
        slack = self.bound * (self.theirs if self.unit == "%" else 1.0)
        return min(self.trial.found) - slack <= self.theirs <= max(self.trial.found) + slack

    @property
    def missed(self) -> bool:
        """Whether it is outside, and no experiment says why."""
        return self.inside is False and not self.explained

    def record(self, published: str) -> dict[str, Any]:
        """A row for programs, of a set; where nothing could be compared, `ours` is null and `ok` false."""
        ours, relative = self.ours, None
        if ours is not None and self.theirs:
            relative = ours / self.theirs - 1
        return {
            "set": published, "trace": self.trace, "policy": self.policy, "quantity": self.quantity,
            "theirs": self.theirs, "ours": ours, "relative": relative, "bound": self.bound, "unit": self.unit,
            "ok": self.inside is True, "explained": self.explained, "said": self.skipped or str(self.trial or ""),
        }  # fmt: skip

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        if self.difference is None:
            return self.what, f"{self.theirs:,.3f}", "-", "-", "-", f"skipped: {self.skipped}"
        scale, unit = (100, " %") if self.unit == "%" else (1, "")
        bound = "-" if self.bound is None else f"{scale * self.bound:g}{unit}"
        verdict = "" if self.inside in (True, None) else "explained" if self.explained else "MISS"
        verdict = "; ".join(filter(None, [verdict, str(self.trial or "")]))
        difference = f"{scale * self.difference:+.4f}{unit}"
        return self.what, f"{self.theirs:,.3f}", f"{self.ours:,.3f}", difference, bound, verdict


def tried(number: Number, trial: Callable[[], Trial] | None) -> Number:
    """The number with its trial, which is run only if the number is outside."""
    return number if trial is None or number.inside is not False else replace(number, trial=trial())


def summary(numbers: Sequence[Number]) -> str:
    """How many are inside, explained, missed, and skipped."""
    inside, explained = sum(each.inside is True for each in numbers), sum(each.explained for each in numbers)
    missed, skipped = sum(each.missed for each in numbers), sum(each.difference is None for each in numbers)
    return (
        f"{len(numbers)} published numbers: {inside} inside their bound, {explained} outside with an experiment that "
        f"explains it, {missed} missed, {skipped} skipped"
    )
