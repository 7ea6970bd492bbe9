"""Batch sizes that jobs want while they train, as accordion and rules on the gradient's noise make them do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mfcp.arrays import Floats, Ints
from mfcp.errors import DataError


@dataclass(frozen=True)
class Batches:
    """Phases of jobs: the batch size that a job wants from an epoch on.

    Attributes:
        job: (P,) rows of the jobs, ascending; jobs without a phase keep their batch.
        epoch: (P,) first epoch of the phase, ascending within a job from 0 on.
        size: (P,) samples of a batch; that of a job's first phase is the one that its iterations are counted in.
        rate: (P,) steps per second.
        samples: (P,) of an epoch, the same within a job.
        ahead: (P,) how many epochs ahead the job looks.

    Raises:
        DataError: phases out of order, or sizes, rates or samples that are not positive.
    """

    job: Ints
    epoch: Ints
    size: Ints
    rate: Floats
    samples: Ints
    ahead: Ints

    def __post_init__(self) -> None:
        """Check what a run relies on."""
        same = np.diff(self.job) == 0
        first = np.concatenate([[True], ~same])[: len(self.job)]
        wrong = {
            "not in the order of their jobs": (np.diff(self.job) < 0).any(),
            "a job's first phase is not at epoch 0": (self.epoch[first] != 0).any(),
            "not in the order of their epochs": (np.diff(self.epoch)[same] <= 0).any(),
            "a size, rate or number of samples is not above 0": min(
                self.size.min(initial=1), self.rate.min(initial=1), self.samples.min(initial=1)
            ) <= 0,
            "a job has epochs of different samples": (np.diff(self.samples)[same] != 0).any(),
        }  # fmt: skip
        for what, found in wrong.items():
            if found:
                raise DataError(f"phases of batch sizes: {what}; mend the table")
