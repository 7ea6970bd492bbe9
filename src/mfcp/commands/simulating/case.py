"""What is simulated: the trace, the cluster, and what is known and true of the jobs, from a command's options."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfcp.errors import DataError, SettingsError

if TYPE_CHECKING:
    from mfcp.arrays import Floats
    from mfcp.simulator.batches import Batches
    from mfcp.simulator.beliefs import Durations
    from mfcp.simulator.cluster import Cluster
    from mfcp.simulator.configurations import Configurations
    from mfcp.simulator.outcome import Outcome
    from mfcp.simulator.pairs import JobPairs
    from mfcp.simulator.policies.base import Policy
    from mfcp.simulator.qore.training_losses import TrainingLosses
    from mfcp.simulator.semantics import Semantics
    from mfcp.simulator.traces.measured_ways import MeasuredWays
    from mfcp.simulator.traces.reading import Trace


_SIZES = 100


@dataclass(frozen=True)
class Case:
    """A trace on a cluster, ready to be run under any policy.

    Attributes:
        trace, cluster: what runs where.
        ways: how jobs can run, if a table tells.
        semantics: a preset, or None for each policy's own.
        belief, speed, batches, pairs, losses, placement: as `mfcp.simulator.simulation.simulate`.
    """

    trace: Trace
    cluster: Cluster
    semantics: Semantics | None
    belief: Durations
    speed: Floats | None
    ways: MeasuredWays | None
    batches: Batches | None
    pairs: JobPairs | None
    losses: TrainingLosses | None
    placement: str

    @staticmethod
    def of(options: argparse.Namespace) -> Case:
        """Read everything that the options of `mfcp simulate` name."""
        from mfcp.simulator.cluster import Cluster
        from mfcp.simulator.semantics import preset
        from mfcp.simulator.traces.loss_table import read_losses
        from mfcp.simulator.traces.nodes import read_nodes
        from mfcp.simulator.traces.rates import read_batches, read_configurations, read_pairs
        from mfcp.simulator.traces.reading import read_trace

        table = Path(options.cluster)
        cluster = read_nodes(table) if table.is_file() else Cluster.parse(options.cluster)
        semantics = preset(options.semantics) if options.semantics else None
        trace = read_trace(
            options.trace, columns=_columns(options.columns), leave_out=options.leave_out, most=cluster.largest()
        )
        sizes = _sizes(options.sizes)
        if sizes and not options.configurations:
            raise SettingsError(f"--sizes {options.sizes}: predicted from measured ones; give them by --configurations")
        ways = read_configurations(options.configurations, trace.jobs, cluster) if options.configurations else None
        ways = ways.with_sizes(sizes, cluster) if ways and sizes else ways
        batches = read_batches(options.batches, trace.jobs) if options.batches else None
        pairs = read_pairs(options.pairs, trace.jobs, cluster) if options.pairs else None
        losses = read_losses(options.losses, trace.jobs) if options.losses else None
        belief, speed = _belief(options.belief, trace), _speeds(options.speeds, trace, cluster)
        return Case(trace, cluster, semantics, belief, speed, ways, batches, pairs, losses, options.placement)

    @cached_property
    def configurations(self) -> Configurations | None:
        """The ways by job of the trace."""
        return self.ways.configurations(self.trace.jobs) if self.ways else None

    def run(self, policy: Policy, seed: int) -> Outcome:
        """Simulate one policy."""
        from mfcp.simulator.simulation import simulate

        return simulate(
            self.trace.jobs, self.cluster, policy, semantics=self.semantics, belief=self.belief, speed=self.speed,
            configurations=self.configurations, batches=self.batches, pairs=self.pairs, losses=self.losses,
            placement=self.placement, seed=seed,
        )  # fmt: skip

    def at_load(self, load: float) -> Case:
        """The same jobs, submitted so that they offer this load, until they have converged."""
        from mfcp.simulator.traces.description import at_load

        jobs = self.trace.jobs
        part = 1.0 if self.losses is None else self.losses.ends
        scaled = at_load(replace(jobs, iterations=jobs.iterations * part), self.cluster, load)
        return replace(self, trace=replace(self.trace, jobs=replace(scaled, iterations=jobs.iterations)))


def _columns(text: str | None) -> dict[str, str]:
    """`ROLE=NAME,ROLE=NAME` as a mapping."""
    pairs = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    for role, equals, name in pairs:
        if not (role and equals and name):
            raise SettingsError(f"--columns {text}: expected ROLE=NAME,ROLE=NAME, as submit=when,gpus=n")
    return {role.strip(): name.strip() for role, _, name in pairs}


def _sizes(text: str | None) -> list[int]:
    """`1,2,4` as numbers."""
    sizes = [part.strip() for part in (text or "").split(",") if part.strip()]
    if len(sizes) > _SIZES:
        raise SettingsError(f"--sizes: {len(sizes)} numbers of accelerators; give {_SIZES} at most")
    for size in sizes:
        if not (size.isascii() and size.isdigit() and int(size[:10]) > 0 and len(size) < 10):
            raise SettingsError(f"--sizes {text}: expected numbers of accelerators, as 1,2,4,8; got '{size}'")
    return sorted(set(map(int, sizes)))


def _speeds(path: Path | None, trace: Trace, cluster: Cluster) -> Floats | None:
    """(n, K) from a table, 0 on types that the trace rules out for a job; None if every job runs on all alike."""
    import numpy as np

    from mfcp.simulator.traces.rates import read_speeds

    named = [set(text.split("|")) - {""} for text in trace.models]
    if not any(named):
        return read_speeds(path, trace.jobs, cluster) if path else None
    if not set(cluster.types) & set().union(*named):
        print("the trace names types of accelerators that jobs need, the cluster has none of these; they are ignored")
        return read_speeds(path, trace.jobs, cluster) if path else None
    allowed = np.array([[not names or kind in names for kind in cluster.types] for names in named], float)
    return allowed * read_speeds(path, trace.jobs, cluster) if path else allowed


def _belief(text: str, trace: Trace) -> Durations:
    """A belief by its name, or what a release predicts for the jobs of the trace."""
    from mfcp.simulator.beliefs import Durations, GivenDurations

    spec = spec_of(text)
    if spec["kind"] != "release":
        return Durations.parse(spec)
    if not {"path", "cluster"} <= set(spec) <= {"kind", "path", "cluster", "tasks"}:
        raise SettingsError(f"--belief {text}: expected release:path=DIR;cluster=ID, and ;tasks=FILE if need be")
    seconds = _predicted(Path(str(spec["path"])), str(spec["cluster"]), spec.get("tasks"), trace)
    return GivenDurations(seconds=tuple(seconds))


def _predicted(release: Path, cluster: str, tasks: str | None, trace: Trace) -> list[float]:
    """Seconds of each job on a cluster of the release; a job's task is what column `task` names, else the job."""
    import numpy as np
    import pandas as pd

    from mfcp.data.log.tables import check_tasks, read_new_tasks
    from mfcp.data.log.zoo_tasks import with_zoo_models
    from mfcp.release.model import Release

    model = Release.load(release)
    if cluster not in model.cluster_id:
        raise SettingsError(f"--belief: unknown cluster '{cluster}'; the release knows {', '.join(model.cluster_id)}")
    names, row = np.unique(trace.task, return_inverse=True)
    if tasks is None:
        tables = {"tasks": check_tasks(pd.DataFrame({"task_id": names}), "--belief")}
    else:
        tables = with_zoo_models(read_new_tasks(Path(tasks)))
        known = tables["tasks"]["task_id"].to_numpy(str)
        if missing := sorted(set(names) - set(known)):
            raise DataError(f"{tasks}: no task '{missing[0]}', which the trace has; give it all of the trace's tasks")
        order = np.argsort(known)
        row = order[np.searchsorted(known, names, sorter=order)][row]
    believed = model.predict(tables).T[0, model.cluster_id.index(cluster)]
    return [float(seconds) for seconds in believed[row]]


def spec_of(text: str) -> dict[str, Any]:
    """`name:key=value;key=value` as a mapping with `kind`; values are YAML."""
    from mfcp.border.bounds import Limits
    from mfcp.border.yaml_text import parse_yaml

    kind, _, rest = text.partition(":")
    spec: dict[str, Any] = {"kind": kind.strip()}
    for setting in filter(None, rest.split(";")):
        key, equals, value = setting.partition("=")
        if not equals:
            raise SettingsError(f"'{text}': expected NAME or NAME:KEY=VALUE;KEY=VALUE, got '{setting}'")
        spec[key.strip()] = parse_yaml(value, f"'{text}'", Limits())
    return spec
