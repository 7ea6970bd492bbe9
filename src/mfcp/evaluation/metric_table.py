"""The table of metrics: name, unit, direction and meaning of each. Data only, so that reports need no solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mfcp.arrays import Floats

BASELINE = "tsm"  # the method that ratios are taken to


@dataclass(frozen=True)
class Metric:
    """A row of the metric table.

    Attributes:
        unit: as printed.
        better: which direction is better.
        meaning: one line for documents and figures.
        least, most: values that it can have; intervals end there.
    """

    unit: str
    better: Literal["low", "high"]
    meaning: str
    least: float = -math.inf
    most: float = math.inf


METRICS = {
    "penalised_excess": Metric("-", "low", "cost of the plan over the least cost of any plan (headline)", 0.0),
    "regret": Metric("s/task", "low", "extra makespan per task over the exact optimum, Eq. (6)"),
    "relative_regret": Metric("-", "low", "extra makespan over optimal makespan, summed over rounds"),
    "regret_equal_violation": Metric("-", "low", "relative regret at the baseline's violation rate"),
    "regret_equal_shortfall": Metric("-", "low", "relative regret at the baseline's mean shortfall"),
    "reliability": Metric("-", "high", "mean true success probability of the plan", 0.0, 1.0),
    "violation_rate": Metric("-", "low", "share of rounds below gamma", 0.0, 1.0),
    "shortfall": Metric("-", "low", "mean missing reliability", 0.0, 1.0),
    "utilization": Metric("-", "high", "busy time over M times the makespan", 0.0, 1.0),
}
# Metrics that are ratios of sums over a seed's rounds, by the makespan that is held against the optimal one.
RELATIVE = {
    "relative_regret": "makespan",
    "regret_equal_violation": "makespan_equal_violation",
    "regret_equal_shortfall": "makespan_equal_shortfall",
}
# What methods are brought to equal levels of, by the metric that is then told; of missing reliabilities (R,).
LEVELS: dict[str, Callable[[Floats], float]] = {
    "regret_equal_violation": lambda missing: float((missing > 0).mean()),
    "regret_equal_shortfall": lambda missing: float(missing.mean()),
}
