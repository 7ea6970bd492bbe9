"""What the page shows: of a platform, or of one release with tasks to try."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from mfcp.data.log.tables import Tables
from mfcp.errors import DataError, UnknownNameError
from mfcp.platform.deciding.explaining import Explanation, explain
from mfcp.platform.deciding.finished import all_observed
from mfcp.platform.deciding.rounds import MatchSettings
from mfcp.platform.page.charts import Chart, draw
from mfcp.platform.releases.models import Models
from mfcp.platform.service.champion import Champion
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.home import log_folder, settings
from mfcp.platform.state.store import Store
from mfcp.release.decision import Decision, decide, under
from mfcp.release.evidence import Believed, Evidence
from mfcp.release.model import Release

ROUNDS = 50  # shown, newest first
_LOADED = 50  # newest rounds whose plans say how long a cluster is still busy
_LARGEST_ID = 2**31  # a database takes no larger integer
_FRESH_S = 1.0  # for which the champion is not looked for again


@dataclass(frozen=True)
class Wish:
    """What a decision is tried under.

    Attributes:
        source: "pending", "given", or the id of a round.
        gamma: least mean reliability; None for that of a round.
        price: of a unit of missing reliability, in makespans; None for the release's.
        backlog: cluster → seconds for which it is busy; None for what a round would know.
        off: clusters that take no task.
    """

    source: str
    gamma: float | None = None
    price: float | None = None
    backlog: Mapping[str, float] | None = None
    off: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Trial:
    """A wish against what would be decided without it.

    Attributes:
        now, then: both decisions.
        before, after: their charts, on one scale.
        moved: a row for each task that goes elsewhere: task, clusters and seconds before and after.
    """

    now: Decision
    then: Decision
    before: Chart
    after: Chart
    moved: tuple[tuple[str, str, str, float, float], ...]


class Board:
    """Looks into a platform, or holds one release and tasks; changes nothing.

    Args:
        champion: the release that decides.
        store, models: of the platform; None for a single release.
        given: tasks to try, where there is no platform.
        log: folder of a platform's log, whose finished runs count as they do in its rounds.
        rounds: what a round takes; asked for at every decision, since it may have been changed.
        time_limit: seconds for a bound.
    """

    def __init__(
        self,
        champion: Champion,
        *,
        store: Store | None = None,
        models: Models | None = None,
        given: Tables | None = None,
        log: Path | None = None,
        rounds: Callable[[], MatchSettings] = MatchSettings,
        time_limit: float = 2.0,
    ) -> None:
        self.champion, self.store, self.models, self.given, self.log = champion, store, models, given, log
        self._rounds, self.time_limit = rounds, time_limit
        self._one, self._looked = Lock(), float("-inf")
        self._believed: tuple[Any, Believed] | None = None
        self._decided: tuple[Any, Decision] | None = None
        self._loaded: Release | None = None

    @staticmethod
    def of_platform(home: Path, store: Store) -> Board:
        """A platform's."""

        @lru_cache(maxsize=1)
        def read(changed_at: int) -> MatchSettings:
            own: MatchSettings = settings(home).section("platform").match
            return own

        def rounds() -> MatchSettings:
            path = home / "repo" / "params.yaml"
            return read(path.stat().st_mtime_ns) if path.exists() else MatchSettings()

        champion = Champion.of_platform(home, store, graphs=10_000)
        return Board(champion, store=store, models=Models(home, store), log=log_folder(home), rounds=rounds)

    @staticmethod
    def of_release(folder: Path, given: Tables | None) -> Board:
        """One release's, with the tasks to try it on.

        Raises:
            DataError: not a whole release.
        """
        return Board(Champion.of_folder(folder, graphs=10_000), given=given)

    @property
    def release(self) -> Release:
        """The release that decides now.

        Raises:
            MfcpError: there is none.
        """
        self.refresh()
        return self.champion.release

    def refresh(self) -> None:
        """See, once a second at most, which release decides and which clusters are offline."""
        with self._one:
            if time.monotonic() - self._looked > _FRESH_S:
                self.champion.refresh()
                self._looked = time.monotonic()

    def sources(self) -> dict[str, str]:
        """What a wish can be tried on → how it is called."""
        if self.store is None:
            return {} if self.given is None else {"given": f"the {len(self.given['tasks'])} tasks given"}
        pending = self.store.counts()["queue"]
        rounds = self.store.rounds(ROUNDS)
        taken = min(pending, self._rounds().tasks)
        found = {"pending": f"the {taken} tasks of the next round"} if pending else {}
        return found | {
            str(row["round_id"]): f"the {row['tasks']} tasks of round {row['round_id']}"
            for row in rounds.to_dict("records")
        }

    def tasks(self, source: str) -> Tables:
        """The tasks of a source.

        Raises:
            UnknownNameError: no such source.
        """
        if source == "given" and self.given is not None:
            return self.given
        if self.store is not None and source == "pending":
            return self.store.pending(self._rounds().tasks)
        if self.store is not None and source.isdecimal() and int(source) <= _LARGEST_ID:
            planned = self.store.assignments(round_id=int(source))
            if len(planned):
                return self.store.tables(list(planned["task_id"]))
        raise UnknownNameError(f"tasks '{source}': there are none; choose one of {', '.join(self.sources()) or 'none'}")

    def completed(self, wish: Wish) -> Wish:
        """With what a round would take where nothing is wished: gamma of its settings, and the backlog that is known.

        A past round's tasks are tried with the backlog that it knew.
        """
        gamma = self._rounds().gamma if wish.gamma is None else wish.gamma
        return replace(wish, gamma=gamma, backlog=self._known(wish.source) if wish.backlog is None else wish.backlog)

    def _known(self, source: str) -> dict[str, float]:
        """The backlog that a round of these tasks knows, or knew."""
        if self.store is None:
            return {}
        if not source.isdecimal():
            return self.store.backlogs()
        with contextlib.suppress(UnknownNameError):  # who asks for its tasks is told
            return dict(self.round(int(source))[0]["data"].get("backlog", {}))
        return {}

    def decide(self, wish: Wish, tables: Tables | None = None) -> Decision:
        """What the champion decides under a wish, completed; clusters that are offline stay so.

        Args:
            wish: what is tried.
            tables: the tasks of its source, where they have been read.

        Raises:
            MfcpError: no champion, no cluster left, or a wish that is out of range.
        """
        release = self.release
        online = frozenset(release.cluster_id) - self.champion.offline - wish.off
        if not online:
            raise DataError("no cluster is left: switch at least one on")
        tables = self.tasks(wish.source) if tables is None else tables
        if tables["tasks"].empty:
            raise UnknownNameError("no task is pending; choose the tasks of a round")
        wish = self.completed(wish)
        return decide(release, tables, gamma=wish.gamma, price=wish.price, backlog=wish.backlog, clusters=online,
                      engine=self._rounds().engine, time_limit=self.time_limit,
                      believed=self._beliefs(release, wish.source, tables))  # fmt: skip

    def _beliefs(self, release: Release, source: str, tables: Tables) -> Believed:
        """What the release believes, remembered until it or the tasks are other ones."""
        key = (release.version, source, self._rounds().observes, tuple(tables["tasks"]["task_id"]))
        found = self._believed  # once: another thread may replace it
        if found is None or found[0] != key:
            seen = self.round(int(source))[0]["data"].get("observed", []) if source.isdecimal() else None
            found = self._believed = key, release.believe(tables, self._observed(release, tables, seen))
        return found[1]

    def _observed(self, release: Release, tables: Tables, only: list[str] | None) -> Evidence | None:
        """The finished runs that count in the next round, or those that counted in a past one."""
        if self.store is None or only == []:
            return None
        log = self.log if only is not None or self._rounds().observes else None
        try:
            return all_observed(self.store, log, release, tables, only)
        except (DataError, OSError):  # a round goes on without them, too
            return None

    def try_out(self, wish: Wish) -> Trial:
        """A wish and what it changes; see `decide`."""
        tables, usual = self.tasks(wish.source), self.completed(Wish(wish.source))
        wish = self.completed(wish)
        now, then = self._as_it_is(usual, tables), self.decide(wish, tables)
        after = dict(zip(then.task_id, then.cluster_id, strict=True))
        seconds = dict(zip(then.task_id, then.chosen()["seconds"].tolist(), strict=True))
        moved = tuple(
            (task, cluster, after[task], length, seconds[task])
            for task, cluster, length in zip(now.task_id, now.cluster_id, now.chosen()["seconds"].tolist(), strict=True)
            if task in after and after[task] != cluster
        )
        names, span = [row[0] for row in moved], max(now.makespan, then.makespan)
        lanes = self.release.cluster_id
        return Trial(now, then, chart_of(now, lanes, span=span, backlog=usual.backlog),
                     chart_of(then, lanes, span=span, moved=names, backlog=wish.backlog), moved)  # fmt: skip

    def _as_it_is(self, usual: Wish, tables: Tables) -> Decision:
        """What the champion decides without any wish, remembered until something changes."""
        key = (self.release.version, usual, self._rounds(), self.champion.offline, tuple(tables["tasks"]["task_id"]))
        found = self._decided
        if found is None or found[0] != key:
            found = self._decided = key, self.decide(usual, tables)
        return found[1]

    def explained(self, decision: Decision, task: str) -> Explanation:
        """Why a task of a decision is where it is.

        Raises:
            UnknownNameError: it has no such task.
        """
        return explain(decision.belief, decision.assignment, task_id=decision.task_id, cluster_id=decision.clusters,
                       price=decision.price, tasks=[task])[0]  # fmt: skip

    def round(self, number: int) -> tuple[dict[str, Any], pd.DataFrame]:
        """A round and its assignments.

        Raises:
            UnknownNameError: there is none of this id.
        """
        rows = None if self.store is None or number > _LARGEST_ID else self.store.rounds(round_id=number)
        if self.store is None or rows is None or rows.empty:
            raise UnknownNameError(f"round {number}: not known here")
        row = {str(name): value for name, value in rows.iloc[0].to_dict().items()}
        return row, self.store.assignments(round_id=number)

    def measured(self, planned: pd.DataFrame) -> list[dict[str, Any]]:
        """The steps that were asked for before a round was decided, in order."""
        rows = [] if self.store is None else self.store.measurements(list(planned["task_id"])).to_dict("records")
        return [{str(name): value for name, value in row.items()} for row in rows]

    def attempts(self, tasks: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """Task → its attempts on real clusters, in order; without tasks that have none."""
        found: dict[str, list[dict[str, Any]]] = {}
        for row in [] if self.store is None else Attempts(self.store).of(tasks):
            found.setdefault(row["task_id"], []).append(row)
        return found

    def explained_then(self, number: int, task: str) -> Explanation:
        """Why a task of a past round went where it went, by the release that decided then.

        What that release believes is computed again, with the finished runs that it saw then. It is the same, but for
        clusters that were offline at the time.

        Raises:
            MfcpError: no such round or task, or its release is no longer whole.
        """
        row, planned = self.round(number)
        release = self._release_of(str(row["version"]))
        assert self.store is not None
        tables = self.store.tables(list(planned["task_id"]))
        gamma = None if pd.isna(row["gamma"]) else float(row["gamma"])
        observed = self._observed(release, tables, row["data"].get("observed", []))
        waits = row["data"].get("backlog", {})
        belief = under(release.predict(tables, observed), release.cluster_id, gamma, waits)
        place = {name: i for i, name in enumerate(release.cluster_id)}
        names = tuple(tables["tasks"]["task_id"].astype(str))
        where = dict(zip(planned["task_id"], planned["cluster_id"], strict=True))
        plan = np.array([place[where[name]] for name in names], np.int64)
        return explain(belief, plan, task_id=names, cluster_id=release.cluster_id, price=release.price, tasks=[task])[0]

    def _release_of(self, version: str) -> Release:
        if self.release.version == version:
            return self.release
        if self._loaded is None or self._loaded.version != version:
            assert self.models is not None
            self._loaded = Release.load(self.models.folder / version, version)
        return self._loaded

    def clusters(self) -> list[dict[str, Any]]:
        """A row for each cluster: whether it takes tasks, how long it is busy, how predictions of it do.

        A real cluster was asked, and says so with `asked_at`; of others plans tell how long they are busy.
        """
        if self.store is None:
            return []
        version = self.champion.version
        names = list(self.champion.release.cluster_id) if version else []
        told = self.store.latest("monitor.time.rms.")
        alarms = [str(content["stream"]) for content in self.store.events("drift")["content"]]
        busy = still_busy(self.store.rounds(_LOADED), self.store.loads(_LOADED), time.time())
        asked = {row["cluster_id"]: row for row in Attempts(self.store).health()}
        names += [name for name in asked if name not in names]
        return [
            {
                "cluster_id": name,
                "online": name not in self.champion.offline,
                "why": asked[name]["why"] if name in asked and not asked[name]["up"] else None,
                "asked_at": asked[name]["at"] if name in asked else None,
                "busy": asked[name]["backlog_s"] if name in asked else busy.get(name, 0.0),
                "rms": told.get(f"monitor.time.rms.{name}"),
                "alarms": [stream.split(" of ")[0] for stream in alarms if stream.endswith(f" of {name}")],
            }
            for name in names
        ]


def chart_of(decision: Decision, lanes: tuple[str, ...], **how: Any) -> Chart:
    """A decision's chart."""
    seconds = decision.chosen()["seconds"]
    return draw(lanes, decision.task_id, decision.cluster_id, seconds, bound=decision.lower_bound, **how)


def still_busy(rounds: pd.DataFrame, loads: pd.DataFrame, now: float) -> dict[str, float]:
    """cluster → predicted seconds until it has done what these rounds gave it, one round after another.

    Args:
        rounds: `round_id` and `matched_at`.
        loads: `round_id`, `cluster_id` and `seconds`.
        now: seconds since the epoch.
    """
    at = dict(zip(rounds["round_id"], rounds["matched_at"], strict=True))
    free: dict[str, float] = {}
    for row in loads.sort_values("round_id").itertuples():
        begin = max(free.get(str(row.cluster_id), 0.0), float(at[row.round_id]))
        free[str(row.cluster_id)] = begin + float(row.seconds)  # type: ignore[arg-type]
    return {name: max(0.0, end - now) for name, end in free.items()}
