"""A platform's state in a database: tasks in, plans out, each task assigned once by the key of its table.

Order is always that of ids, never of times: a clock that jumps changes what is shown and nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from mfcp.data.log.coercion import coerce
from mfcp.data.log.schema import EDGES, NODES, TASKS
from mfcp.data.log.tables import Tables, check_tasks
from mfcp.platform.state.database import Database, Row
from mfcp.platform.state.graphs import pack, unpack
from mfcp.platform.state.schema import (
    METADATA,
    allowances,
    assignments,
    champions,
    clusters,
    deliveries,
    graphs,
    health,
    measurements,
    models,
    outbox,
    queue,
    rounds,
    tasks,
)

BATCH = 500  # names in one statement; SQLite takes 32766


@dataclass(frozen=True)
class Note:
    """Something for the tracking store, kept until it is there: a metric's value, or an event with its content."""

    name: str
    value: float | None = None
    kind: Literal["metric", "event"] = "metric"
    content: Mapping[str, Any] = field(default_factory=dict)


_COUNTED = (tasks, assignments, rounds, queue, outbox)


class Store:
    """The state of one platform; see `Database` for its arguments and for what happens when it is out of reach."""

    def __init__(self, url: str, *, wait_s: float = 120.0, make: bool = True) -> None:
        self._database = Database(url, METADATA, wait_s=wait_s, make=make)

    @property
    def database(self) -> Database:
        """Where it is kept."""
        return self._database

    def submit(self, tables: Tables, limits: Row | None = None) -> int:
        """Take tasks in; how many are new. A task whose id is known stays as it was first submitted.

        Args:
            tables: `tasks` and, for graphs that are not known yet, `nodes` and `edges`.
            limits: of their runs, as fields of `mfcp.executors.base.JobLimits`; others are those of the settings.

        Raises:
            DataError: a task without id or twice, a missing column, or a cell of another kind or out of bounds.
        """
        frame = check_tasks(tables["tasks"], "tasks submitted")
        names = [column.name for column in TASKS.columns]
        cells = frame[names].astype(object).where(frame[names].notna(), None).to_dict("records")
        rows = [
            {"task_id": row["task_id"], "submitted_at": time.time(), "graph_id": row["graph_id"], "row": row}
            for row in cells
        ]
        used = frame["graph_id"].dropna().unique()
        packed = {t.name: pack(tables[t.name], t, used) if t.name in tables else {} for t in (NODES, EDGES)}
        drawn = [{"graph_id": g, **{name: packed[name].get(g) for name in packed}} for g in packed["nodes"]]

        def work(connection: sa.Connection) -> int:
            self._database.insert_absent(connection, graphs, drawn)
            last = connection.scalar(sa.select(sa.func.coalesce(sa.func.max(tasks.c.id), 0)))
            new = self._database.insert_absent(connection, tasks, rows)
            added = sa.select(tasks.c.id).where(tasks.c.id > last)
            connection.execute(sa.insert(queue).from_select(["id"], added))
            if limits:
                held = [{"task_id": row["task_id"], "content": dict(limits)} for row in rows]
                self._database.insert_absent(connection, allowances, held)
            return new

        return self._database.write(work)

    def pending(self, limit: int | None = None, *, after: str | None = None) -> Tables:
        """Tasks without an assignment, first come first, with their graphs.

        Args:
            limit: as many at most.
            after: only those that came after this task.
        """
        query = sa.select(tasks.c.row, tasks.c.graph_id).join(queue).order_by(queue.c.id).limit(limit)
        if after is not None:
            query = query.where(queue.c.id > sa.select(tasks.c.id).where(tasks.c.task_id == after).scalar_subquery())
        return self._tables(query)

    def tables(self, task_ids: Sequence[str]) -> Tables:
        """These tasks, pending or not, with their graphs; ids that are not known are left out."""
        query = sa.select(tasks.c.row, tasks.c.graph_id).order_by(tasks.c.id)
        return self._tables(*(query.where(tasks.c.task_id.in_(part)) for part in _parts(task_ids)))

    def _tables(self, *queries: sa.Select[Any]) -> Tables:
        found = [row for rows in self._database.read(*queries) for row in rows]
        frame = pd.DataFrame([row["row"] for row in found], columns=[c.name for c in TASKS.columns], dtype=object)
        return {"tasks": coerce(TASKS, frame).frame, **self.graphs({row["graph_id"] for row in found} - {None})}

    def graphs(self, graph_ids: Collection[str]) -> Tables:
        """Tables `nodes` and `edges` of these graphs; ids that are not known are left out."""
        query = (sa.select(graphs).where(graphs.c.graph_id.in_(part)) for part in _parts(sorted(graph_ids)))
        return unpack([row for rows in self._database.read(*query) for row in rows])

    def limits(self, task_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Limits of runs that were given with these tasks; others are left out."""
        query = sa.select(allowances)
        found = self._database.read(*(query.where(allowances.c.task_id.in_(part)) for part in _parts(task_ids)))
        return {row["task_id"]: dict(row["content"]) for rows in found for row in rows}

    def counts(self) -> dict[str, int]:
        """How many tasks, assignments and rounds; tasks in the queue and set aside; notes that wait in the outbox."""
        tables = {table.name: sa.select(sa.func.count().label("n")).select_from(table) for table in _COUNTED}
        tables["outbox"] = tables["outbox"].where(outbox.c.delivered_at.is_(None))
        tables["set_aside"] = tables["tasks"].where(tasks.c.set_aside.is_not(None))
        found = self._database.read(*tables.values())
        return {name: int(rows[0]["n"]) for name, rows in zip(tables, found, strict=True)}

    def assign(self, round_: Row, plan: pd.DataFrame, notes: Sequence[Note] = ()) -> int | None:
        """Write a round, its assignments and what is to be tracked of it, all or nothing.

        Args:
            round_: columns of table `rounds` but its id and time.
            plan: columns of table `assignments` but the round.
            notes: see `Note`.

        Returns:
            The round's id; None when another process assigned one of the tasks meanwhile: nothing was written.
        """
        rows = [{str(k): v for k, v in row.items()} for row in plan.to_dict("records")]

        def work(connection: sa.Connection) -> int:
            values = {**finite(round_), "matched_at": time.time()}
            (number,) = connection.execute(sa.insert(rounds), values).inserted_primary_key or (0,)
            connection.execute(sa.insert(assignments), [{**finite(row), "round_id": number} for row in rows])
            for part in _parts([row["task_id"] for row in rows]):
                done = sa.select(tasks.c.id).where(tasks.c.task_id.in_(part))
                connection.execute(sa.delete(queue).where(queue.c.id.in_(done)))
            post(connection, [Note(n.name, n.value, n.kind, {**n.content, "round_id": number}) for n in notes])
            return int(number)

        try:
            return self._database.write(work)
        except IntegrityError:
            return None

    def ask(self, cells: pd.DataFrame) -> int:
        """Ask for measurements of pending tasks, each cell once; how many are new.

        Args:
            cells: `task_id`, `cluster_id`, `steps`, and what each `saves` (makespans), `saves_s` and `takes_s`.
        """
        rows = [{str(k): v for k, v in row.items()} for row in cells.to_dict("records")]

        def work(connection: sa.Connection) -> int:
            waits = sa.select(tasks.c.task_id).join(queue, queue.c.id == tasks.c.id)
            wanted = waits.where(tasks.c.task_id.in_([row["task_id"] for row in rows]))
            here = {name for (name,) in connection.execute(wanted)}
            mine = [row for row in rows if row["task_id"] in here]
            told = [{**finite(row), "asked_at": time.time(), "status": "asked"} for row in mine]
            new = self._database.insert_absent(connection, measurements, told)
            post(connection, [_of_cell("measure.saves_s", row["saves_s"], row) for row in mine] if new else [])
            return new

        return self._database.write(work)

    def answer(
        self, number: int, *, step_time_s: float | None = None, batch_size: int | None = None, error: str | None = None
    ) -> bool:
        """Say how a measurement came out; False where it was said before.

        Args:
            number: its id.
            step_time_s: seconds of a step; None where it failed.
            batch_size: samples of a step; None where it was the task's own.
            error: why it failed.
        """
        told = {"step_time_s": step_time_s, "batch_size": batch_size, "error": error, "answered_at": time.time()}
        told["status"] = "failed" if step_time_s is None else "measured"

        def work(connection: sa.Connection) -> bool:
            own = (measurements.c.id == number) & (measurements.c.status == "asked")
            if not connection.execute(sa.update(measurements).where(own).values(**told)).rowcount:
                return False
            row = connection.execute(sa.select(measurements).where(measurements.c.id == number)).mappings().one()
            post(connection, [_of_cell("measure.step_time_s", step_time_s, dict(row))])
            return True

        return self._database.write(work)

    def measurements(self, task_ids: Sequence[str] | None = None, *, open_only: bool = False) -> pd.DataFrame:
        """Measurements of these tasks, or all, in order; those that still wait for an answer of pending tasks."""
        query = sa.select(measurements).order_by(measurements.c.id)
        if open_only:
            waits = sa.select(tasks.c.task_id).join(queue, queue.c.id == tasks.c.id)
            query = query.where((measurements.c.status == "asked") & measurements.c.task_id.in_(waits))
        if task_ids is None:
            return self._frame(query)
        parts = [self._frame(query.where(measurements.c.task_id.in_(part))) for part in _parts(list(task_ids))]
        return pd.concat(parts, ignore_index=True) if parts else self._frame(query.where(sa.false()))

    def set_aside(self, reasons: Mapping[str, str]) -> None:
        """Take pending tasks that cannot be matched out of the queue, each with its reason and an event."""

        def work(connection: sa.Connection) -> None:
            for task, why in reasons.items():
                own = sa.select(tasks.c.id).where(tasks.c.task_id == task).scalar_subquery()
                if connection.execute(sa.delete(queue).where(queue.c.id == own)).rowcount:
                    connection.execute(sa.update(tasks).where(tasks.c.task_id == task).values(set_aside=why))
                    post(connection, [Note("task_set_aside", kind="event", content={"task_id": task, "why": why})])

        self._database.write(work)

    def rounds(self, last: int | None = None, *, round_id: int | None = None) -> pd.DataFrame:
        """The rounds, newest first, or the one of an id."""
        chosen = sa.true() if round_id is None else rounds.c.round_id == round_id
        return self._frame(sa.select(rounds).where(chosen).order_by(rounds.c.round_id.desc()).limit(last))

    def loads(self, last: int) -> pd.DataFrame:
        """`round_id`, `cluster_id` and summed predicted `seconds` of the newest rounds, in order of rounds."""
        newest = sa.select(rounds.c.round_id).order_by(rounds.c.round_id.desc()).limit(last)
        of = (assignments.c.round_id, assignments.c.cluster_id)
        total = sa.select(*of, sa.func.sum(assignments.c.seconds).label("seconds"))
        return self._frame(total.where(assignments.c.round_id.in_(newest)).group_by(*of).order_by(*of))

    def assignments(self, *, round_id: int | None = None, after: int = 0) -> pd.DataFrame:
        """Assignments of one round, or of all rounds `after` one, in order of rounds."""
        chosen = assignments.c.round_id > after if round_id is None else assignments.c.round_id == round_id
        joined = sa.select(assignments).join(tasks, tasks.c.task_id == assignments.c.task_id)
        return self._frame(joined.where(chosen).order_by(assignments.c.round_id, tasks.c.id))

    def set_online(self, online: Mapping[str, bool]) -> None:
        """Say which clusters take tasks; one of which nothing was said does."""
        rows = [{"cluster_id": name, "online": bool(value)} for name, value in online.items()]

        def work(connection: sa.Connection) -> None:
            self._database.insert_absent(connection, clusters, [{**row, "changed_at": time.time()} for row in rows])
            for row in rows:
                own = (clusters.c.cluster_id == row["cluster_id"]) & (clusters.c.online != row["online"])
                connection.execute(sa.update(clusters).where(own).values(online=row["online"], changed_at=time.time()))

        self._database.write(work)

    def offline(self) -> frozenset[str]:
        """Clusters that take no tasks now: switched off, or found drained or silent."""
        switched = sa.select(clusters.c.cluster_id).where(~clusters.c.online)
        found = self._database.read(switched, sa.select(health.c.cluster_id).where(~health.c.up))
        return frozenset(row["cluster_id"] for rows in found for row in rows)

    def backlogs(self) -> dict[str, float]:
        """Seconds that each cluster is busy with what is in its queue; those that nobody asked are left out."""
        (rows,) = self._database.read(sa.select(health.c.cluster_id, health.c.backlog_s))
        return {row["cluster_id"]: float(row["backlog_s"]) for row in rows if row["backlog_s"]}

    def add_model(self, version: str, folder: str, metrics: Row, data: Row) -> bool:
        """Enter a release; False where it is known already."""
        row = {"version": version, "added_at": time.time(), "folder": folder, "data": dict(data)}
        return bool(
            self._database.write(
                lambda c: self._database.insert_absent(c, models, [row | {"metrics": finite(metrics)}])
            )
        )

    def models(self) -> pd.DataFrame:
        """Releases in the order in which they were added."""
        return self._frame(sa.select(models).order_by(models.c.id))

    def refuse(self, version: str, why: str | None, notes: Sequence[Note] = ()) -> None:
        """Note why a release is not trusted, or with None that it is again; `notes` only where that is news."""

        def work(connection: sa.Connection) -> None:
            own = (models.c.version == version) & (models.c.refused.is_distinct_from(why))
            if connection.execute(sa.update(models).where(own).values(refused=why)).rowcount:
                post(connection, notes)

        self._database.write(work)

    def crown(self, version: str, action: Literal["promote", "rollback"], why: str, notes: Sequence[Note] = ()) -> None:
        """Write down that a release is champion from now on."""

        def work(connection: sa.Connection) -> None:
            connection.execute(sa.insert(champions).values(version=version, at=time.time(), action=action, why=why))
            post(connection, notes)

        self._database.write(work)

    def champions(self) -> pd.DataFrame:
        """Every promotion and roll-back, in order."""
        return self._frame(sa.select(champions).order_by(champions.c.id))

    def deliver(
        self, digest: str, name: str, status: str, rows: Row, quarantined: Row, notes: Sequence[Note] = ()
    ) -> bool:
        """Note what became of a file of the inbox; False where it is known already with this status.

        Args:
            digest: of the file's content.
            name: of the file.
            status: what was done with it.
            rows, quarantined: table → rows taken, and refused.
            notes: posted where the entry is news.
        """
        entry = {"name": name, "status": status, "rows": dict(rows), "quarantined": dict(quarantined)}

        def work(connection: sa.Connection) -> bool:
            row = {"digest": digest, "received_at": time.time(), **entry}
            news = bool(self._database.insert_absent(connection, deliveries, [row]))
            if not news:
                own = (deliveries.c.digest == digest) & (deliveries.c.status != status)
                news = bool(connection.execute(sa.update(deliveries).where(own).values(**entry)).rowcount)
            post(connection, notes if news else ())
            return news

        return self._database.write(work)

    def deliveries(self, last: int | None = None) -> pd.DataFrame:
        """What came in, newest first."""
        return self._frame(sa.select(deliveries).order_by(deliveries.c.id.desc()).limit(last))

    def post(self, notes: Sequence[Note]) -> None:
        """Keep notes for the tracking store."""
        self._database.write(lambda connection: post(connection, notes))

    def undelivered(self, limit: int | None = None) -> pd.DataFrame:
        """Notes that the tracking store does not have yet, oldest first."""
        return self._frame(sa.select(outbox).where(outbox.c.delivered_at.is_(None)).order_by(outbox.c.id).limit(limit))

    def events(self, name: str) -> pd.DataFrame:
        """Every event of this name, oldest first, whether or not the tracking store has it."""
        own = (outbox.c.kind == "event") & (outbox.c.name == name)
        return self._frame(sa.select(outbox).where(own).order_by(outbox.c.id))

    def latest(self, prefix: str) -> dict[str, float]:
        """The newest value of every metric whose name begins so, whether or not the tracking store has it."""
        own = (outbox.c.kind == "metric") & outbox.c.name.startswith(prefix, autoescape=True)
        newest = sa.select(sa.func.max(outbox.c.id)).where(own).group_by(outbox.c.name)
        (rows,) = self._database.read(sa.select(outbox.c.name, outbox.c.value).where(outbox.c.id.in_(newest)))
        return {row["name"]: float(row["value"]) for row in rows if row["value"] is not None}

    def mark(self, ids: Sequence[int], error: str | None = None) -> None:
        """Note that these notes were delivered, or tried in vain."""
        values = {"delivered_at": time.time(), "error": None} if error is None else {"error": error}

        def work(connection: sa.Connection) -> None:
            for part in _parts(ids):
                change = sa.update(outbox).where(outbox.c.id.in_(part))
                connection.execute(change.values(tries=outbox.c.tries + 1, **values))

        self._database.write(work)

    def _frame(self, query: sa.Select[Any]) -> pd.DataFrame:
        (rows,) = self._database.read(query)
        return pd.DataFrame([dict(row) for row in rows], columns=[column.name for column in query.selected_columns])


def _of_cell(name: str, value: float | None, row: Row) -> Note:
    return Note(name, value, content={key: row[key] for key in ("task_id", "cluster_id")})


def post(connection: sa.Connection, notes: Sequence[Note]) -> None:
    """Keep notes for the tracking store, in a transaction that is under way."""
    rows = [
        finite({"at": time.time(), "kind": n.kind, "name": n.name, "value": n.value}) | {"content": dict(n.content)}
        for n in notes
    ]
    if rows:
        connection.execute(sa.insert(outbox), rows)


def finite(row: Row) -> dict[str, Any]:
    """A row without numbers that JSON and the tracking store cannot hold: unknown instead."""
    return {key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in row.items()}


def _parts(names: Sequence[Any]) -> Iterator[Sequence[Any]]:
    return (names[start : start + BATCH] for start in range(0, len(names), BATCH))
