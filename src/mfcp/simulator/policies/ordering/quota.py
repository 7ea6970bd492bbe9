"""Guaranteed accelerators of each user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from mfcp.arrays import Floats
from mfcp.errors import SettingsError
from mfcp.simulator.policies.base import Instant, Keys, Ordering, View

_BEYOND = 1e10  # seconds behind all that are within their quota


class Quota(Ordering):
    """Jobs within their users' quotas first, in order of submission; the others take what is left, and give it back.

    A user's jobs are within the quota as long as these and all earlier ones of the user fit into it; a job that is
    larger than the quota never is. Quotas of virtual clusters are Philly's (Jeon et al., ATC 2019) and HiveD's (Zhao et
    al., OSDI 2020), whose cells, buddies of accelerators, are not looked at.
    """

    name: ClassVar[str] = "quota"
    preempts: ClassVar[bool] = True
    asks: ClassVar[bool] = True
    of: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, description="accelerators of users, as {ann: 16, bob: 8}; the others share the rest alike"
    )

    def check(self, view: View) -> None:
        """Users must be known, and quotas there.

        Raises:
            SettingsError: they are not.
        """
        super().check(view)
        if not (view.user != "").any():
            raise SettingsError("policy 'quota' needs users; the trace has no column user")
        for name in sorted(set(self.of) - set(view.user.tolist()))[:1]:
            raise SettingsError(f"policy 'quota': no job of the trace is of user '{name}'")
        if (given := sum(self.of.values())) > view.cluster.accelerators:
            raise SettingsError(
                f"policy 'quota': {given} accelerators are promised, and the cluster has {view.cluster.accelerators}"
            )

    def keys(self, view: View) -> Keys:
        """Unknown before the first event."""
        return Keys(np.zeros(len(view.submit)))

    def quotas(self, view: View) -> Floats:
        """(n,) accelerators of each job's user."""
        names, who = np.unique(view.user, return_inverse=True)
        others = sum(name not in self.of for name in names.tolist())
        rest = (view.cluster.accelerators - sum(self.of.values())) // max(others, 1)
        return np.array([self.of.get(name, rest) for name in names.tolist()], float)[who]

    def watch(self, view: View) -> Callable[[Instant], Floats]:
        """Submission, far behind for jobs beyond their quota."""
        quota, user = self.quotas(view), np.unique(view.user, return_inverse=True)[1]
        counted = np.where(view.gpus <= quota, view.gpus, 0)

        def values(instant: Instant) -> Floats:
            rows = instant.active
            order = np.lexsort((rows, user[rows]))  # rows are in order of submission
            own = user[rows][order]
            taken = np.cumsum(counted[rows][order])
            taken -= np.concatenate([[0], taken])[np.searchsorted(own, own)]
            within = np.empty(len(rows), bool)
            within[order] = taken <= quota[rows][order]
            return np.asarray(view.submit[rows] + np.where(within & (counted[rows] > 0), 0.0, _BEYOND))

        return values
