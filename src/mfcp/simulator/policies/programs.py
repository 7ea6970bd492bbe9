"""Linear and conic programs of shares, by an interior-point solver: among equal optima it returns a central one."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mfcp.arrays import Bools, Floats, Ints
from mfcp.errors import SolverError

NO_PAIRS: Ints = np.empty((0, 2), np.int64)


class ShareProgram:
    """Shares x (k, K) with 0 <= x, at most 1 a job and `size` a type, and further columns y: minimise a linear cost.

    Args:
        gpus: (k,) accelerators of each job.
        size: (K,) accelerators of each type.
        runs: (k, K) where a job runs; x is 0 elsewhere.
        extra: number of columns y.
        pair: (p, 2) jobs that may share accelerators, as positions; a pair takes those of one, and its share is one
            of both.
        together: (p, K) where a pair runs.
    """

    def __init__(
        self, gpus: Ints, size: Ints, runs: Bools, extra: int, pair: Ints = NO_PAIRS, together: Bools | None = None
    ) -> None:
        k, kinds = runs.shape
        alone = np.arange(k * kinds)
        self._pair, (self._of, on) = pair, np.nonzero(np.zeros((0, kinds)) if together is None else together)
        self.shape, self.shares = (k + len(pair), kinds), k * kinds + len(self._of)
        self.columns = self.shares + extra
        job, kind = np.concatenate([alone // kinds, pair[self._of, 0]]), np.concatenate([alone % kinds, on])
        self._kind, cells = kind, np.arange(self.shares)
        other = cells[k * kinds :]
        self._blocks: list[Any] = []
        self._bounds: list[Floats] = []
        self._cones: list[tuple[str, int]] = []
        rows = (np.concatenate([job, pair[self._of, 1]]), np.concatenate([cells, other]))
        self.at_most(sp.csr_matrix((np.ones(len(rows[0])), rows), (k, self.columns)), np.ones(k))
        taken = sp.csr_matrix((gpus[job].astype(float), (kind, cells)), (kinds, self.columns))
        self.at_most(taken, size.astype(float))
        self.at_most(-sp.eye(self.shares, self.columns, format="csr"), np.zeros(self.shares))
        nowhere = np.flatnonzero(~runs.ravel())
        ones = (np.ones(len(nowhere)), (np.arange(len(nowhere)), nowhere))
        self.at_most(sp.csr_matrix(ones, (len(nowhere), self.columns)), np.zeros(len(nowhere)))

    def weighted(self, weight: Floats, both: Floats | None = None) -> Any:
        """(k, columns) rows sum over types of weight (k, K) × x of each job, and of both (p, K, 2) × x of its pairs."""
        k, kinds = weight.shape
        cells = np.arange(self.shares)
        values, rows, columns = [weight.ravel()], [cells[: k * kinds] // kinds], [cells[: k * kinds]]
        if both is not None:
            for side in (0, 1):
                values.append(both[self._of, self._kind[k * kinds :], side])
                rows.append(self._pair[self._of, side])
                columns.append(cells[k * kinds :])
        place = (np.concatenate(rows), np.concatenate(columns))
        return sp.csr_matrix((np.concatenate(values), place), (k, self.columns))

    def column(self, number: int, values: Floats) -> Any:
        """(k, columns) rows with these values in column y_number."""
        rows = np.arange(len(values))
        at = np.full(len(values), self.shares + number)
        return sp.csr_matrix((values, (rows, at)), (len(values), self.columns))

    def own_columns(self, first: int, values: Floats) -> Any:
        """(k, columns) rows, each with its value in a column of its own: y_first, y_first + 1, …"""
        rows = np.arange(len(values))
        at = self.shares + first + rows
        return sp.csr_matrix((values, (rows, at)), (len(values), self.columns))

    def at_most(self, rows: Any, bound: Floats) -> None:
        """rows · (x, y) <= bound."""
        if rows.shape[0]:
            self._add(rows, bound, "nonnegative")

    def product_at_least_one(self, first: Any, second: Any) -> None:
        """(first · (x, y)) (second · (x, y)) >= 1 row by row, both positive: second-order cones."""
        k = first.shape[0]
        zero = sp.csr_matrix((k, self.columns))
        by_cone = np.arange(3 * k).reshape(3, k).T.ravel()
        rows = sp.vstack([-(first + second), -(first - second), zero], format="csr")[by_cone]
        self._add(rows, np.tile([0.0, 0.0, 2.0], k), "second order", k)

    def _add(self, rows: Any, bound: Floats, cone: str, times: int = 1) -> None:
        self._blocks.append(rows)
        self._bounds.append(bound)
        self._cones += [(cone, rows.shape[0] // times)] * times

    def minimise(self, cost: Floats) -> Floats:
        """(k + p, K) shares of a solution.

        Raises:
            SolverError: there is none, or the solver gave up.
        """
        import clarabel

        cone = {"nonnegative": clarabel.NonnegativeConeT, "second order": clarabel.SecondOrderConeT}
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        matrix = sp.vstack(self._blocks, format="csc")
        nothing = sp.csc_matrix((self.columns, self.columns))
        cones = [cone[name](size) for name, size in self._cones]
        found = clarabel.DefaultSolver(nothing, cost, matrix, np.concatenate(self._bounds), cones, settings).solve()
        if str(found.status) not in ("Solved", "AlmostSolved"):
            raise SolverError(f"shares of {self.shape[0]} jobs: the solver ended with {found.status}")
        cells, kinds = np.clip(np.array(found.x)[: self.shares], 0.0, 1.0), self.shape[1]
        shares, alone = np.zeros(self.shape), self.shares - len(self._of)
        shares[: alone // kinds] = cells[:alone].reshape(-1, kinds)
        shares[alone // kinds + self._of, self._kind[alone:]] = cells[alone:]
        return shares
