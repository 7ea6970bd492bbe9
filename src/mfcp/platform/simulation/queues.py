"""The queue inside a simulated cluster: its own scheduler decides when an assigned task runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mfcp.errors import SettingsError

if TYPE_CHECKING:
    from mfcp.arrays import Floats

_PASSES = 4  # durations may depend on the start, which depends on the durations of others


class ClusterQueues:
    """Tasks that wait or run on each cluster, as `mfcp.simulator` schedules them.

    Policies look at no later submission, so what has happened stays as it was when tasks come in.

    Args:
        policy: name of a scheduling policy, with settings as a mapping.
        servers: tasks that a cluster runs at once.
        waiting: cluster → (task, moment of its assignment) since it was last empty; changed in place.

    Raises:
        SettingsError: an unknown policy, or one that needs what tasks here do not have.
    """

    def __init__(self, policy: Any, servers: int, waiting: dict[str, list[list[Any]]]) -> None:
        from mfcp.simulator.policies.base import Policy
        from mfcp.simulator.simulation import import_policies

        import_policies()
        self.policy, self.servers, self.waiting = Policy.parse(policy), servers, waiting
        if "deadline" in self.policy.uses:
            raise SettingsError(f"policy '{self.policy.name}' needs deadlines; tasks of the simulation have none")

    def add(self, cluster: str, task: str, moment: float) -> None:
        """A task was assigned; call `times` for its cluster then."""
        self.waiting.setdefault(cluster, []).append([task, moment])

    def forget(self, cluster: str, ends: dict[str, float], now: float) -> None:
        """Start a new list if all tasks of a cluster have ended by now."""
        if all(ends.get(task, np.inf) <= now for task, _ in self.waiting.get(cluster, [])):
            self.waiting.pop(cluster, None)

    def times(self, cluster: str, duration: Callable[[list[str], Floats], Floats]) -> dict[str, tuple[float, float]]:
        """Start and end of each task of a cluster.

        Args:
            cluster: which.
            duration: seconds of tasks that start at these moments.
        """
        from mfcp.simulator.cluster import Cluster
        from mfcp.simulator.jobs import Jobs
        from mfcp.simulator.simulation import simulate

        tasks, moments = (list(column) for column in zip(*self.waiting[cluster], strict=True))
        submit = begin = np.array(moments, float)
        seconds = duration(tasks, begin)
        for _ in range(_PASSES):
            jobs = Jobs.simple(submit, np.ones(len(tasks), np.int64), seconds)
            outcome = simulate(jobs, Cluster.parse(str(self.servers)), self.policy)
            again = duration(tasks, outcome.started)
            if (again == seconds).all():
                break
            seconds = again
        return {
            task: (float(start), float(end))
            for task, start, end in zip(tasks, outcome.started, outcome.finished, strict=True)
        }
