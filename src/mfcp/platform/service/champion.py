"""The release that the service decides with: found in a platform or a folder, tried out, then swapped in."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import EDGES, NODES, TASKS, Table
from mfcp.errors import MfcpError
from mfcp.platform.deciding.explaining import explain
from mfcp.platform.releases.models import Models
from mfcp.platform.service.graph_cache import RememberingRelease
from mfcp.platform.state.store import Store
from mfcp.release.decision import decide
from mfcp.release.model import Release

LOG = logging.getLogger("mfcp.serve")
AGAIN_S = 30.0  # until a release that was refused is looked at once more


class Champion:
    """The release that decides, and why there is none.

    Args:
        current: version of the release that should decide, None where there is none.
        load: that release, or one that may stand in for it.
        find_offline: clusters that take no tasks now.
        find_backlog: cluster → seconds for which it is busy.
        remember: gives a release its memory of graphs.

    Attributes:
        offline, backlog: of the last refresh; no request waits for the database.
    """

    def __init__(
        self,
        current: Callable[[], str | None],
        load: Callable[[], Release | None],
        find_offline: Callable[[], frozenset[str]],
        find_backlog: Callable[[], dict[str, float]],
        remember: Callable[[Release], RememberingRelease],
    ) -> None:
        self._current, self._load, self._remember = current, load, remember
        self._find_offline, self._find_backlog = find_offline, find_backlog
        self.offline: frozenset[str] = frozenset()
        self.backlog: dict[str, float] = {}
        self._release: RememberingRelease | None = None
        self._asked: str | None = None
        self._why, self._again = "starting: the champion is being loaded", 0.0

    @staticmethod
    def of_folder(folder: Path, *, graphs: int) -> Champion:
        """One release, for good.

        Raises:
            DataError: not a whole release.
        """
        release = Release.load(folder)
        return Champion(
            lambda: release.version,
            lambda: release,
            frozenset,
            dict,
            lambda own: RememberingRelease.of(own, most=graphs),
        )

    @staticmethod
    def of_platform(home: Path, store: Store, *, graphs: int) -> Champion:
        """The champion of a platform, whichever it is at the moment."""
        models = Models(home, store)
        return Champion(
            models.current,
            models.champion,
            store.offline,
            store.backlogs,
            lambda own: RememberingRelease.of(own, store.graphs, most=graphs),
        )

    @property
    def release(self) -> RememberingRelease:
        """The release that decides.

        Raises:
            MfcpError: there is none yet.
        """
        if self._release is None:
            raise MfcpError(self._why)
        return self._release

    @property
    def version(self) -> str:
        """Of the release that decides, empty where none does."""
        return self._release.version if self._release else ""

    @property
    def state(self) -> dict[str, Any]:
        """What /health answers."""
        if self._release is None:
            return {"status": "not ready", "reason": self._why}
        return {
            "status": "ready",
            "version": self.version,
            "clusters": list(self._release.cluster_id),
            **({"warning": self._why} if self._why else {}),
        }

    def refresh(self) -> None:
        """See what is offline, and load the champion where it is another one; one that cannot be used changes nothing
        but the warning.
        """
        try:
            self.offline, self.backlog = self._find_offline(), self._find_backlog()
            wanted = self._current()
            if wanted == self._asked and (not self._why or time.monotonic() < self._again):
                return
            self._asked, self._again = wanted, time.monotonic() + AGAIN_S
            release = self._load()
            if release is None:
                self._why = "no champion yet: the platform has no release"
                self._again = 0.0
                return
            if release.version != self.version:
                ready = self._remember(release)
                _try_out(ready)
                self._release = ready
                LOG.info("release %s decides", release.version)
            self._why = "" if release.version == wanted else f"release {wanted} is damaged; {release.version} decides"
        except MfcpError as error:
            self._why = str(error)
            LOG.warning("%s", error)
        except Exception as error:  # whatever a damaged or foreign release does, the one that works goes on
            self._why = f"the champion cannot be used ({type(error).__name__})"
            LOG.exception("champion")


def _try_out(release: Release) -> None:
    """Decide and explain a round of nothing in particular: it works, and what is compiled or imported at first is."""
    rows: dict[Table, dict[str, Any]] = {
        TASKS: {"task_id": [str(k) for k in range(20)], "graph_id": ["chain"] * 20, "samples": 1000.0},
        NODES: {"graph_id": ["chain"] * 2, "node_id": [0, 1], "op": "relu", "flops": 1.0, "output_numel": 1},
        EDGES: {"graph_id": ["chain"], "src": [0], "dst": [1]},
    }
    tables = {
        table.name: coerce(table, pd.DataFrame(own, columns=[c.name for c in table.columns])).frame
        for table, own in rows.items()
    }
    decision = decide(release, tables, time_limit=1.0)
    explain(
        decision.belief,
        decision.assignment,
        task_id=decision.task_id,
        cluster_id=decision.clusters,
        price=decision.price,
    )
