"""Plans into jobs, and jobs into rows of the log: each step looks at all clusters once and does what there is to do.

The order is what makes it safe to be killed anywhere: an attempt and its name are committed before anything is handed
in, a job is held until its id is recorded, its own supervisor claims the attempt before the command starts, and a next
attempt is planned in the transaction that says how this one ended.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from mfcp.errors import SettingsError
from mfcp.executors.base import Account, Batch, Executor, JobLimits, JobSeen, RefusedError, UnreachableError
from mfcp.executors.supervise import key_of
from mfcp.platform.running.following import next_cluster, was_lost_unbegun
from mfcp.platform.running.job_settings import ClusterSettings, JobSettings, command_of, rows_of
from mfcp.platform.running.judging import Facts, Judgement, judge
from mfcp.platform.running.returning import deliver_runs
from mfcp.platform.state.attempts import Attempts
from mfcp.platform.state.store import Store

FORGET_EVERY_S = 3600.0
LEFT_S = 10.0  # that the job of an attempt that is over may stay in a queue


@dataclass
class Step:
    """What a step did.

    Attributes:
        planned, handed, begun, over: attempts.
        ended: status → attempts that are over.
        delivered: runs written to the inbox.
        open: attempts that are not over.
        silent: cluster → why it does not answer.
    """

    planned: int = 0
    handed: int = 0
    begun: int = 0
    over: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    delivered: int = 0
    open: int = 0
    silent: dict[str, str] = field(default_factory=dict)

    @property
    def news(self) -> bool:
        """Something has happened."""
        return bool(self.planned or self.handed or self.begun or self.over or self.delivered)

    def add(self, later: Step) -> None:
        """Count what a later step did as well."""
        for name in ("planned", "handed", "begun", "over", "delivered"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        for status, count in later.ended.items():
            self.ended[status] = self.ended.get(status, 0) + count
        self.open, self.silent = later.open, later.silent

    @property
    def idle(self) -> bool:
        """Nothing has happened, and nothing runs."""
        return not (self.news or self.open)

    def __str__(self) -> str:
        ended = ", ".join(f"{count} {status}" for status, count in sorted(self.ended.items()))
        away = "".join(f"; {cluster} does not answer: {why}" for cluster, why in self.silent.items())
        return (
            f"{self.planned} attempts planned, {self.handed} handed in, {self.begun} begun, {self.over} over"
            f"{f' ({ended})' if ended else ''}, {self.delivered} runs delivered, {self.open} open{away}"
        )


class Runner:
    """Runs what is assigned to real clusters.

    What it remembers between steps only saves work: another one may take over at any moment, and two at once are safe.

    Args:
        home: the platform's folder, with `inbox`.
        store: its state.
        clusters: its real clusters.
        settings: how tasks run.
    """

    def __init__(
        self, home: Path, store: Store, clusters: Mapping[str, ClusterSettings], settings: JobSettings
    ) -> None:
        self.home, self.store, self.clusters, self.settings = home, store, dict(clusters), settings
        self.attempts = Attempts(store)
        self.name = self.attempts.identity()
        self._unknown: dict[str, float] = {}  # key → since when its scheduler has not known it
        self._left: dict[str, dict[str, float]] = {name: {} for name in self.clusters}
        self._refused: dict[str, float] = {}  # batch → since when its cluster has not taken it
        self._looked: dict[str, float] = {}  # cluster → when its health was asked for
        self._delivered = self._forgot = time.monotonic()

    def step(self) -> Step:
        """Look at every cluster once, and do what there is to do."""
        done = Step(planned=self._plan())
        rows = self.attempts.open()
        done.open = len(rows)
        for cluster in self.clusters:
            own = [row for row in rows if row["cluster_id"] == cluster]
            try:
                self._tend(cluster, own, done)
            except UnreachableError as error:
                done.silent[cluster] = str(error)
                self._looked.pop(cluster, None)
                self.attempts.report(cluster, up=False, why=str(error), backlog_s=None)
        done.open -= done.over
        if not done.open or time.monotonic() - self._delivered > self.settings.deliver_s:
            done.delivered = deliver_runs(self.home, self.store, self.clusters)
            self._delivered = time.monotonic()
        return done

    def plan(self, pairs: Sequence[tuple[str, str]]) -> int:
        """Attempts of tasks on clusters of one's choice, beside what is assigned; how many are new.

        A pair that has an attempt gets none, unless all that it had were lost before they began.

        Args:
            pairs: task and cluster; the tasks are known and no round has assigned them.

        Raises:
            SettingsError: there is no command for a task.
        """
        tasks = sorted({task for task, _ in pairs})
        known, before = rows_of(self.store.tables(tasks)), self.attempts.of(tasks)
        taken = {(row["task_id"], row["cluster_id"]) for row in before if not was_lost_unbegun(row)}
        number, limits, rows = Counter(row["task_id"] for row in before), self._limits(None), []
        for task, cluster in pairs:
            if (task, cluster) in taken:
                continue
            number[task] += 1
            row = {"task_id": task, "cluster_id": cluster, "number": number[task], "seconds": None}
            row |= {"command": self._command(known[task], cluster, number[task], limits), "limits": vars(limits)}
            rows.append({"state": "planned", "status": None, "why": None, **row})
        return self.attempts.plan(rows)

    def _plan(self) -> int:
        """First attempts of what is assigned."""
        rows = []
        for found in self.attempts.assigned(self.clusters):
            limits = self._limits(found["content"])
            row = {"task_id": found["task_id"], "cluster_id": found["cluster_id"], "number": 1}
            row |= {"seconds": found["seconds"], "limits": vars(limits), "command": None, "status": None, "why": None}
            try:
                row["command"] = self._command(found["row"], found["cluster_id"], 1, limits)
            except SettingsError as error:
                row |= {"state": "over", "status": "failed", "why": str(error)}
            rows.append({"state": "planned", **row})
        return self.attempts.plan(rows) if rows else 0

    def _limits(self, own: Mapping[str, Any] | None) -> JobLimits:
        return JobLimits(**self.settings.limits | dict(own or {}))

    def _command(self, row: Mapping[str, Any], cluster: str, number: int, limits: JobLimits) -> str:
        template = self.clusters[cluster].command or self.settings.command
        return command_of(template, row, cluster, number, limits)

    def _tend(self, cluster: str, rows: list[dict[str, Any]], done: Step) -> None:
        executor: Executor = self.clusters[cluster].executor
        for row in rows:
            if row["batch"] is None and row["cancelled"]:
                done.over += self._finish(
                    row, Judgement("over", "cancelled", "cancelled before it was handed in"), {}, done
                )
        self._intend([row for row in rows if row["batch"] is None and not row["cancelled"]])
        rows = [row for row in rows if row["batch"] is not None]
        keys = {_key(row): row for row in rows}
        # Also where nothing is open: a controller that starts again may bring back jobs that were given up.
        look = keys or self._left[cluster] or self._due(cluster)
        seen = executor.watch(keys, f"mfcp-{self.name}-") if look else {}
        self._clear(cluster, executor, {key: own for key, own in seen.items() if key not in keys})
        self._health(cluster, executor, rows)
        self._begin(rows, seen, done)
        self._move(cluster, executor, [row for row in rows if row["begun_at"] is None], seen)
        self._advance(executor, keys, seen, done)
        self._hand(executor, rows, seen, done)  # last: a cluster that is drained takes nothing, and what runs goes on
        if time.monotonic() - self._forgot > FORGET_EVERY_S:
            executor.forget(self.settings.keep_s)
            self._forgot = time.monotonic()

    def _clear(self, cluster: str, executor: Executor, left: Mapping[str, JobSeen]) -> None:
        """Take jobs of attempts that are over out of a queue: its scheduler may believe them alive and keep places."""
        now = time.monotonic()
        since = {key: self._left[cluster].get(key, now) for key in left}
        self._left[cluster] = since
        if late := {key: left[key].jobs for key in left if now - since[key] > LEFT_S}:
            executor.drop(late)

    def _move(
        self, cluster: str, executor: Executor, waiting: Sequence[dict[str, Any]], seen: Mapping[str, JobSeen]
    ) -> None:
        """Give up attempts that wait on a cluster that takes no jobs, where another one does: they are tried there."""
        waiting = [row for row in waiting if row["fenced_at"] is None and not row["cancelled"]]
        if not waiting or "lost" not in self.settings.retry.after:
            return
        since, why = self.attempts.outages().get(cluster, (None, ""))
        if since is None or time.time() - since < self.settings.move_s or not set(self.clusters) - self.store.offline():
            return
        self.attempts.fence({row["id"]: f"{cluster} took no jobs: {why}" for row in waiting})
        executor.cancel({_key(row): seen[_key(row)].jobs for row in waiting})
        for row in waiting:
            row["fenced_at"] = time.time()

    def _intend(self, new: Sequence[dict[str, Any]]) -> None:
        """Names for what is new, those with the same limits together; what another runner has named waits a step."""
        for _, alike in groupby(sorted(new, key=lambda row: (repr(row["limits"]), row["id"])), _limits_of):
            for part in _parts(list(alike), self.settings.array):
                batch = f"mfcp-{self.name}-{part[0]['id']}"
                if not self.attempts.intend([row["id"] for row in part], batch):
                    continue
                for place, row in enumerate(part):
                    row["batch"], row["place"] = batch, place

    def _hand(
        self, executor: Executor, rows: Sequence[dict[str, Any]], seen: Mapping[str, JobSeen], done: Step
    ) -> None:
        """What is planned: found again by its name, else handed in; recorded, then released."""
        planned = [row for row in rows if row["state"] == "planned" and not (row["cancelled"] or row["fenced_at"])]
        for batch, alike in groupby(sorted(planned, key=lambda row: (row["batch"], row["place"])), _batch_of):
            own = list(alike)
            jobs = [job for row in own for job in seen[_key(row)].jobs]
            if jobs:
                job = min(jobs, key=_order)
            else:
                # Of a batch that was lost after some of it was over, the rest is handed in with it: claims hold.
                whole = self.attempts.of_batch(batch)
                try:
                    job = executor.submit(
                        Batch(batch, [one["command"] for one in whole], JobLimits(**own[0]["limits"]))
                    )
                except RefusedError as error:
                    if time.monotonic() - self._refused.setdefault(batch, time.monotonic()) < executor.outlives:
                        continue  # nodes may just come or go
                    judgement = Judgement("over", "failed", f"refused: {error}")
                    done.over += sum(self._finish(row, judgement, {}, done) for row in own)
                    continue
            self.attempts.hand(batch, job)
            for row in own:
                row["state"], row["job"], row["handed_at"] = "handed", job, time.time()
            done.handed += len(own)
            executor.release([job])

    def _begin(self, rows: Sequence[dict[str, Any]], seen: Mapping[str, JobSeen], done: Step) -> None:
        new = {}
        for row in rows:
            begin = seen[_key(row)].begin
            if row["begun_at"] is None and begin is not None and not begin.get("fenced"):
                new[row["id"]] = row["begun_at"] = float(begin.get("at", time.time()))
        self.attempts.begin(new)
        done.begun += len(new)

    def _advance(
        self, executor: Executor, rows: Mapping[str, dict[str, Any]], seen: Mapping[str, JobSeen], done: Step
    ) -> None:
        """What each attempt needs, by what is known of it now."""
        known = {key: row for key, row in rows.items() if not _waits_for_us(row, seen[key])}
        judgements = {key: judge(self._facts(executor, row, seen[key])) for key, row in known.items()}
        ask = [key for key, judgement in judgements.items() if judgement.act == "ask"]
        if ask:
            accounts = executor.collect(ask, min(rows[key]["planned_at"] for key in ask))
            for key in ask:
                judgements[key] = self._judged(executor, rows[key], seen[key], accounts.get(key))
        if doubles := {key: double for key, row in rows.items() if (double := _doubles(row, seen[key]))}:
            executor.drop(doubles)
        if held := [key for key, judgement in judgements.items() if judgement.act == "release" and seen[key].jobs]:
            self._release(executor, {rows[key]["batch"]: (rows[key]["job"], seen[key].jobs) for key in held})
        if fenced := [key for key, judgement in judgements.items() if judgement.act == "fence"]:
            self.attempts.fence({rows[key]["id"]: judgements[key].why for key in fenced})
            executor.cancel({key: seen[key].jobs for key in fenced})
        for key, judgement in judgements.items():
            if judgement.act == "over":
                receipt = {"begin": seen[key].begin, "end": seen[key].end, "wall_s": judgement.wall_s}
                done.over += self._finish(rows[key], judgement, receipt, done)
                self._unknown.pop(key, None)

    def _release(self, executor: Executor, batches: Mapping[str, tuple[str, Sequence[str]]]) -> None:
        """Batches that are held although they are recorded; where only another id is left, that is recorded first."""
        jobs = []
        for batch, (job, live) in batches.items():
            jobs.append(job if job in live else min(live, key=_order))
            if job not in live:
                self.attempts.hand(batch, jobs[-1])
        executor.release(jobs)

    def _facts(self, executor: Executor, row: Mapping[str, Any], seen: JobSeen) -> Facts:
        now, key = time.time(), _key(row)
        if seen.stage == "unknown":
            self._unknown.setdefault(key, now)
        else:
            self._unknown.pop(key, None)
        fenced = row["fenced_at"]
        return Facts(
            seen, now - self._unknown.get(key, now), None if fenced is None else now - fenced, row["cancelled"],
            row["why"] or "", row["limits"]["seconds"], executor.outlives, executor.lease_s, self.settings.books_s,
        )  # fmt: skip

    def _judged(self, executor: Executor, row: Mapping[str, Any], seen: JobSeen, account: Account | None) -> Judgement:
        return judge(self._facts(executor, row, seen), account, asked=True)

    def _finish(self, row: Mapping[str, Any], judgement: Judgement, receipt: Mapping[str, Any], done: Step) -> bool:
        again = self._again(row, judgement)
        end = {"status": judgement.status, "why": judgement.why, "receipt": dict(receipt)}
        if not self.attempts.finish(row["id"], end, again):
            return False
        done.ended[judgement.status] = done.ended.get(judgement.status, 0) + 1
        return True

    def _again(self, row: Mapping[str, Any], judgement: Judgement) -> dict[str, Any] | None:
        """The next attempt of a task, where the settings want one; most are done, and need no question."""
        if judgement.status == "succeeded" and not self.settings.compare:
            return None
        before, away, busy = self.attempts.of([row["task_id"]]), self.store.offline(), self.store.backlogs()
        cluster = next_cluster(row, judgement.status, before, self.settings, self.clusters, away, busy)
        if cluster is None:
            return None
        number, limits = row["number"] + 1, JobLimits(**self.settings.limits_after(judgement.status, row["limits"]))
        task = rows_of(self.store.tables([row["task_id"]]))[row["task_id"]]
        try:
            command = self._command(task, cluster, number, limits)
        except SettingsError:
            return None
        return {
            "task_id": row["task_id"], "number": number, "cluster_id": cluster, "seconds": row["seconds"],
            "limits": vars(limits), "command": command,
        }  # fmt: skip

    def _due(self, cluster: str) -> bool:
        """Whether it is time for another look at a cluster itself."""
        looked = self._looked.get(cluster)
        return looked is None or time.monotonic() - looked >= self.settings.health_s

    def _health(self, cluster: str, executor: Executor, rows: Sequence[Mapping[str, Any]]) -> None:
        if not self._due(cluster):
            return
        told = executor.health()
        self._looked[cluster] = time.monotonic()
        busy = sum(_left(row) for row in rows) / self.clusters[cluster].slots + told.others_s
        self.attempts.report(cluster, up=told.up, why=told.why, backlog_s=busy)


def _waits_for_us(row: Mapping[str, Any], seen: JobSeen) -> bool:
    """Not handed in yet, as far as anybody knows."""
    return row["state"] == "planned" and seen.stage == "unknown" and seen.begin is None and not row["cancelled"]


def _doubles(row: Mapping[str, Any], seen: JobSeen) -> list[str]:
    """Ids beside the recorded one, of batches that were handed in again since they seemed lost."""
    return [job for job in seen.jobs if job != row["job"]] if row["job"] in seen.jobs else []


def _left(row: Mapping[str, Any]) -> float:
    """Seconds that an attempt still takes: what was predicted, at most its limit, less what has passed."""
    limit = float(row["limits"]["seconds"])
    whole = limit if row["seconds"] is None else min(float(row["seconds"]), limit)
    return max(0.0, whole - (time.time() - row["begun_at"] if row["begun_at"] is not None else 0.0))


def _key(row: Mapping[str, Any]) -> str:
    return key_of(row["batch"], row["place"])


def _batch_of(row: Mapping[str, Any]) -> str:
    return str(row["batch"])


def _limits_of(row: Mapping[str, Any]) -> str:
    return repr(row["limits"])


def _order(job: str) -> tuple[int, str]:
    return (int(job) if job.isdigit() else 0, job)


def _parts(rows: list[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))
