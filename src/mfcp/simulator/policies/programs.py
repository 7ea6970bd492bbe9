"""Linear and conic programs of shares, by an interior-point solver: among equal optima it returns a central one."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mfcp.arrays import Floats, Ints
from mfcp.errors import SolverError


class ShareProgram:
    """Shares x (k, K) with 0 <= x, at most 1 a job and `size` a type, and further columns y: minimise a linear cost.

    Args:
        gpus: (k,) accelerators of each job.
        size: (K,) accelerators of each type.
        runs: (k, K) where a job runs; x is 0 elsewhere.
        extra: number of columns y.
    """

    def __init__(self, gpus: Ints, size: Ints, runs: np.ndarray, extra: int) -> None:
        k, kinds = runs.shape
        self.shape, self.columns = (k, kinds), k * kinds + extra
        cells = np.arange(k * kinds)
        job, kind = cells // kinds, cells % kinds
        self._blocks: list[Any] = []
        self._bounds: list[Floats] = []
        self._cones: list[tuple[str, int]] = []
        self.at_most(sp.csr_matrix((np.ones(len(cells)), (job, cells)), (k, self.columns)), np.ones(k))
        taken = sp.csr_matrix((gpus[job].astype(float), (kind, cells)), (kinds, self.columns))
        self.at_most(taken, size.astype(float))
        self.at_most(-sp.eye(k * kinds, self.columns, format="csr"), np.zeros(k * kinds))
        nowhere = np.flatnonzero(~runs.ravel())
        ones = (np.ones(len(nowhere)), (np.arange(len(nowhere)), nowhere))
        self.at_most(sp.csr_matrix(ones, (len(nowhere), self.columns)), np.zeros(len(nowhere)))

    def weighted(self, weight: Floats) -> Any:
        """(k, columns) rows sum over types of weight × x of each job."""
        k, kinds = self.shape
        cells = np.arange(k * kinds)
        return sp.csr_matrix((weight.ravel(), (cells // kinds, cells)), (k, self.columns))

    def column(self, number: int, values: Floats) -> Any:
        """(k, columns) rows with these values in column y_number."""
        rows = np.arange(len(values))
        at = np.full(len(values), self.shape[0] * self.shape[1] + number)
        return sp.csr_matrix((values, (rows, at)), (len(values), self.columns))

    def own_columns(self, first: int, values: Floats) -> Any:
        """(k, columns) rows, each with its value in a column of its own: y_first, y_first + 1, …"""
        rows = np.arange(len(values))
        at = self.shape[0] * self.shape[1] + first + rows
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
        """(k, K) shares of a solution.

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
        k, kinds = self.shape
        shares: Floats = np.clip(np.array(found.x)[: k * kinds].reshape(k, kinds), 0.0, 1.0)
        return shares
