"""Ways to run that were measured, of jobs or of models; and others, at the speed that is to be expected of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Floats, Ints, Texts
from mfcp.errors import DataError
from mfcp.simulator.cluster import Cluster
from mfcp.simulator.configurations import Configurations
from mfcp.simulator.jobs import Jobs

_APART = 1e12  # the fastest and the slowest rate
_LEARNED = 1000  # rows to predict from: what learning takes grows with the third power of their number


@dataclass(frozen=True)
class MeasuredWays:
    """A table of r ways to run: of whom, on which accelerators, how fast.

    Attributes:
        by: `job` or `model`, what `names` are of.
        unit: `speed` or `iterations_per_s`, that of `rate`; speed 1 is that of a job's duration in the trace.
        names: (u,) whom rows are about, ascending.
        job_row: (n,) the one of them that each job of the trace is.
        row, kind, gpus: (r,) of each row: one of `names`, the type, and how many accelerators of it.
        rate, watts: (r,) how fast, 0 where it does not run so, and the watts of the accelerators.
        batch: (r,) samples of an iteration over all accelerators, in any unit; it matters for what is predicted alone.
        predicted: (r,) whether the rate was predicted from others.
    """

    by: str
    unit: str
    names: Texts
    job_row: Ints
    row: Ints
    kind: Ints
    gpus: Ints
    rate: Floats
    watts: Floats
    batch: Floats
    predicted: Bools

    def configurations(self, jobs: Jobs) -> Configurations:
        """The same by job of the trace."""
        own = np.unique(np.stack([self.kind, self.gpus, self.watts]), axis=1)
        place = {tuple(column): c for c, column in enumerate(own.T.tolist())}
        each = zip(self.kind.tolist(), self.gpus.tolist(), self.watts.tolist(), strict=True)
        table = np.zeros((len(self.names), own.shape[1]))
        table[self.row, [place[column] for column in each]] = self.rate
        rates = table[self.job_row]
        if self.unit == "speed":
            rates = rates / jobs.step[:, None]
        return Configurations(own[1].astype(np.int64), own[0].astype(np.int64), rates, own[2])

    def frame(self, cluster: Cluster) -> pd.DataFrame:
        """A row per way, in order: a table that is read as this one was, and whether a row is `predicted`."""
        columns = {self.by: self.names[self.row], "type": np.array(cluster.types)[self.kind], "gpus": self.gpus,
                   self.unit: self.rate}  # fmt: skip
        if self.watts.any():
            columns["watts"] = self.watts
        if (self.batch != 1).any():
            columns["batch_size"] = self.batch
        frame = pd.DataFrame(columns | {"predicted": self.predicted})
        return frame.sort_values([self.by, "type", "gpus"], ignore_index=True)

    @property
    def beyond(self) -> int:
        """How many predicted ways have more accelerators than any measured way of the same on the same type."""
        most = np.zeros((len(self.names), self.kind.max(initial=0) + 1), np.int64)
        known = (self.rate > 0) & ~self.predicted
        np.maximum.at(most, (self.row[known], self.kind[known]), self.gpus[known])
        return int((self.predicted & (self.gpus > most[self.row, self.kind])).sum())

    def with_sizes(self, sizes: Sequence[int], cluster: Cluster) -> MeasuredWays:
        """The same, and numbers of accelerators that were not measured, at the speed that is to be expected.

        Whoever the trace has gets each size on the types where a speed above 0 was measured, as far as the cluster has
        so many accelerators of the type. The batch is that of the nearest size; or as many samples an accelerator, if
        all sizes have so. What all rows say about computing and communicating is learned together, see
        `mfcp.tasks.timing.scaled_times`. More accelerators than the largest node has are taken to be on several.

        Raises:
            DataError: nobody was measured in two sizes, which is what scaling is learned from; there are watts, which
                are not predicted; there are more than 1,000 rows; or they are too far apart to learn from.
        """
        known = self.rate > 0
        if self.watts.any():
            raise DataError("sizes: the watts of sizes that were not measured are not known; drop the column watts")
        least, most = self.rate[known].min(), self.rate[known].max()
        if least < most / _APART:
            raise DataError(f"sizes: speeds from {least:g} to {most:g} are too far apart to learn from; mend them")
        if known.sum() > _LEARNED:
            raise DataError(
                f"sizes: {known.sum():,} ways to learn from, and at most {_LEARNED:,} are looked at; give rows of "
                "models instead of jobs"
            )
        who = np.unique(np.stack([self.row[known], self.kind[known]]), axis=1)
        if who.shape[1] == known.sum():
            raise DataError("sizes: all were measured in one size; measure one of them in another to learn from")
        who = who[:, np.isin(who[0], self.job_row)]
        row, kind = np.repeat(who, len(sizes), axis=1)
        gpus = np.tile(np.array(sizes, np.int64), who.shape[1])
        told = set(zip(self.row.tolist(), self.kind.tolist(), self.gpus.tolist(), strict=True))
        new = [each not in told for each in zip(row.tolist(), kind.tolist(), gpus.tolist(), strict=True)]
        new = np.array(new, bool) & (gpus <= cluster.by_type[kind])
        more = replace(
            self, row=np.append(self.row[known], row[new]), kind=np.append(self.kind[known], kind[new]),
            gpus=np.append(self.gpus[known], gpus[new]), rate=np.append(self.rate[known], np.full(new.sum(), np.nan)),
            watts=np.zeros(known.sum() + new.sum()), predicted=np.arange(known.sum() + new.sum()) >= known.sum(),
            batch=np.append(self.batch[known], np.full(new.sum(), np.nan)),
        )  # fmt: skip
        return more._filled(cluster) if new.any() else self

    def _filled(self, cluster: Cluster) -> MeasuredWays:
        """The rates that are to be predicted, from the others."""
        from mfcp.tasks.timing.scaled_times import ScaledTimes
        from mfcp.tasks.timing.scaling_fit import ScaledRuns

        batch = self.batch.copy()
        for asked in np.flatnonzero(self.predicted):
            own = ~self.predicted & (self.row == self.row[asked]) & (self.kind == self.kind[asked])
            share = batch[own] / self.gpus[own]
            nearest = np.abs(np.log(self.gpus[own] / self.gpus[asked])).argmin()
            even = len(share) > 1 and np.ptp(share) <= 1e-6 * share[0]
            batch[asked] = share[0] * self.gpus[asked] if even else batch[own][nearest]
        largest = np.array([cluster.size[cluster.type == kind].max() for kind in range(len(cluster.types))])
        ways = ScaledRuns(
            self.names[self.row], np.array(cluster.types)[self.kind], batch, self.gpus.astype(float),
            self.gpus > largest[self.kind],
        )  # fmt: skip
        # Seconds of an iteration in units of a job's own, which the fit takes as they are: rates are of its progress.
        rate, new, most = self.rate.copy(), self.predicted, self.rate[~self.predicted].max()
        learned = ScaledTimes.fit(ways.take(~new), most / rate[~new] * batch[~new])
        for rows in np.array_split(np.flatnonzero(new), 1 + new.sum() // _LEARNED):  # pairs of them are in memory
            rate[rows] = most / learned.predict(ways.take(rows))[0] * batch[rows]
        return replace(self, rate=rate, batch=batch)
