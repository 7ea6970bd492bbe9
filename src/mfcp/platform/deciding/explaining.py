"""Why a task runs where it runs: its clusters ranked, what they cost, and what would change the choice."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mfcp.arrays import Ints
from mfcp.border.columns import column_width, padded
from mfcp.errors import DataError, UnknownNameError
from mfcp.matching.planning import quick, solve_or_fall_back
from mfcp.platform.deciding.what_if import Moves, RoundPrices, evaluate_moves, relaxed_prices
from mfcp.release.decision import intervals
from mfcp.rules.base import Belief
from mfcp.rules.expected_cost import moments_of


@dataclass(frozen=True)
class Option:
    """One cluster for one task; numbers are None where the task may not run there, and those of
    reliability where nothing is known of it.

    Attributes:
        cluster_id: its name.
        chosen, allowed, online: the plan's; a pair that may run; a cluster that takes part now.
        seconds, seconds_low, seconds_high: median and 95 % interval of the predicted time.
        reliability, reliability_low, reliability_high: predicted probability of success and 95 % interval.
        makespan_change: seconds of expected makespan that moving only this task here adds; also None if offline.
        reliability_change: what that adds to the round's mean reliability.
        cost_change: what that adds to the round's cost, in makespans; negative where the move would pay.
        time_factor: the move pays once this cluster's time for the task is below this share of the predicted one; 1
            where it pays as it is, None where no time would do.
        reliability_needed: the move pays once the probability of success here is above; None where none would do.
    """

    cluster_id: str
    chosen: bool
    allowed: bool
    online: bool
    seconds: float | None
    seconds_low: float | None
    seconds_high: float | None
    reliability: float | None
    reliability_low: float | None
    reliability_high: float | None
    makespan_change: float | None
    reliability_change: float | None
    cost_change: float | None
    time_factor: float | None
    reliability_needed: float | None

    @property
    def text(self) -> str:
        """Its line but for the name."""
        if not self.allowed:
            return "may not run here"
        line = f"{_seconds(self.seconds):>6} s ({_seconds(self.seconds_low)} to {_seconds(self.seconds_high)})"
        if self.reliability is not None:
            line += f"  success {self.reliability:.3f} ({self.reliability_low:.2f} to {self.reliability_high:.2f})"
        if self.chosen or not self.online or self.cost_change is None:
            return f"{line}  {'chosen' if self.chosen else 'offline'}"
        line += f"  move: makespan {_seconds(self.makespan_change, '+')} s"
        if self.reliability is not None:
            line += f", reliability {self.reliability_change:+.4f}"
        if self.cost_change < 0:
            return f"{line}; pays as it is"
        ways = [] if self.time_factor is None else [f"below {self.time_factor:.2f} of its time"]
        ways += [] if self.reliability_needed is None else [f"with success above {self.reliability_needed:.3f}"]
        return f"{line}; pays {' or '.join(ways)}" if ways else f"{line}; never pays"


@dataclass(frozen=True)
class Explanation:
    """One task of a round.

    Attributes:
        task_id: its name.
        cluster_id: where the plan has it.
        options: every cluster, in order of what moving there would cost; those that cannot be had last.
        prices: what is scarce in the round.
    """

    task_id: str
    cluster_id: str
    options: tuple[Option, ...]
    prices: RoundPrices

    @property
    def text(self) -> str:
        """One line a cluster, and the prices."""
        width = column_width((option.cluster_id for option in self.options), 1)
        lines = [f"{self.task_id} → {self.cluster_id}"]
        lines += [f"  {padded(option.cluster_id, width)}  {option.text}" for option in self.options]
        scarce = sorted(self.prices.cluster.items(), key=lambda item: -item[1])[:5]
        dear = ", ".join(f"{price:.2f} s on {name}" for name, price in scarce if price >= 0.005)
        lines.append(f"  price of a second of load: {dear}")
        if any(option.reliability is not None for option in self.options):
            lines.append(f"  price of a point of reliability: {self.prices.reliability / 100:.3g} s")
        return "\n".join(lines)


# Over 60 lines: half of them say what each argument is.
def explain(
    belief: Belief,
    plan: Ints,
    *,
    task_id: Sequence[str],
    cluster_id: Sequence[str],
    price: float,
    online: Collection[str] | None = None,
    tasks: Sequence[str] | None = None,
) -> list[Explanation]:
    """Explain tasks of one round.

    Costs are in the decision rule's unit, the makespan of the best plan of the means that meets gamma; where only slow
    clusters are reliable, it is many times this plan's. Intervals of reliability are normal ones, cut to [0, 1]: the
    standard deviation is the root mean square error of a cluster's predictions, whether they say 0.7 or 0.99, and
    near 1 no Beta distribution may have that deviation. The rule takes a plan's reliability for normal as well.

    Args:
        belief: of one round, B = 1.
        plan: (N,) cluster of each task.
        task_id: N names.
        cluster_id: M names.
        price: of a unit of missing reliability, in makespans.
        online: clusters that take part; None for all. The others stay listed.
        tasks: names of those to explain; None for all.

    Raises:
        UnknownNameError: a task to explain that is not in the round.
        DataError: a plan that uses a pair that is not allowed.
        InfeasibleError: a task that no cluster online may run.
    """
    N = belief.T.shape[2]
    position = {name: j for j, name in enumerate(task_id)}
    unknown = [name for name in tasks or () if name not in position]
    if unknown:
        raise UnknownNameError(f"no task '{unknown[0]}' in this round of {N}; name one of its tasks")
    here = np.array([online is None or name in online for name in cluster_id])
    possible = replace(belief, allowed=belief.allowed & here[:, None])
    wrong = np.flatnonzero(~possible.allowed[0, plan, np.arange(N)])
    if len(wrong):
        j = wrong[0]
        raise DataError(f"the plan has task '{task_id[j]}' on '{cluster_id[plan[j]]}', where it may not run now")
    moments = moments_of(possible, 0.0)
    point = moments.point()
    unit = float(solve_or_fall_back(point, quick(point)).makespan[0])
    prices = relaxed_prices(point, price=price * unit, cluster_id=cluster_id)
    chosen = np.array([position[name] for name in (task_id if tasks is None else tasks)], np.int64)
    numbers = _numbers(belief, plan, chosen, evaluate_moves(moments, plan, chosen, price=price, unit=unit))

    def options(k: int, j: int) -> list[Option]:
        every = [
            Option(
                cluster_id=name,
                chosen=bool(i == plan[j]),
                allowed=bool(belief.allowed[0, i, j]),
                online=bool(here[i]),
                **{field: value[i][k] for field, value in numbers.items()},
            )
            for i, name in enumerate(cluster_id)
        ]
        return sorted(every, key=lambda o: (not o.allowed, not o.online, o.cost_change or 0.0, not o.chosen))

    return [Explanation(task_id[j], cluster_id[plan[j]], tuple(options(k, j)), prices) for k, j in enumerate(chosen)]


def _numbers(belief: Belief, plan: Ints, tasks: Ints, moves: Moves) -> dict[str, list[list[float | None]]]:
    """The numbers of every `Option`, by name, cluster and task; None where there is none."""
    allowed, stays = belief.allowed[0][:, tasks], np.arange(len(belief.T[0]))[:, None] == plan[tasks]
    columns = {name: np.where(allowed, value[0][:, tasks], np.nan) for name, value in intervals(belief).items()}
    columns |= {f"{name}_change": getattr(moves, name) for name in ("makespan", "reliability", "cost")}
    columns |= {name: np.where(stays, np.nan, getattr(moves, name)) for name in ("time_factor", "reliability_needed")}
    if not belief.reliability_known:
        columns |= {name: np.full(allowed.shape, np.nan) for name in ("reliability_change", "reliability_needed")}
    return {name: np.where(np.isnan(value), np.array(None), value).tolist() for name, value in columns.items()}


def _seconds(value: float | None, sign: str = "") -> str:
    """Three digits at least, and no power of ten."""
    return "" if value is None else f"{value:{sign}.0f}" if abs(value) >= 100 else f"{value:{sign}.3g}"
