"""`python -m mfcp.simulator`: compile every kernel of the simulator for this machine, where that is not done yet."""

from __future__ import annotations

from mfcp.environment import collect_seldom, same_instructions

collect_seldom()
same_instructions()  # what the commands use

import numpy as np  # noqa: E402

from mfcp.simulator.cluster import Cluster  # noqa: E402
from mfcp.simulator.jobs import Jobs  # noqa: E402
from mfcp.simulator.policies.base import Ordering, Policy  # noqa: E402
from mfcp.simulator.semantics import PRESETS  # noqa: E402
from mfcp.simulator.simulation import import_policies, simulate  # noqa: E402

if __name__ == "__main__":
    import_policies()
    ones = np.ones(2)
    jobs = Jobs.simple(np.zeros(2), ones.astype(np.int64), ones, deadline=ones, user=np.array(["ann", "bob"]))
    for member in [each for each in Policy.members.values() if issubclass(each, Ordering)]:
        simulate(jobs, Cluster.parse("1"), member())
    simulate(jobs, Cluster.parse("1"), Policy.build("elastic_flow"))
    simulate(jobs, Cluster.parse("1"), Policy.build("las"), semantics=PRESETS["muri"])
    simulate(jobs, Cluster.parse("1"), Policy.build("fifo"), placement="fgd")
