"""Attempts of tasks on real clusters, in the platform's database: what was intended, handed in, and became of it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from mfcp.platform.state.database import Row
from mfcp.platform.state.schema import (
    allowances,
    assignments,
    attempts,
    cancellations,
    health,
    identity,
    outages,
    tasks,
)
from mfcp.platform.state.store import Note, Store, finite, post

UNDELIVERED = 5000  # runs of one delivery at most


class Attempts:
    """The table `attempts` of a platform. Every method is one transaction."""

    def __init__(self, store: Store) -> None:
        self._database = store.database

    def identity(self) -> str:
        """Eight letters in the names of all of this platform's jobs, made once."""

        def work(connection: sa.Connection) -> str:
            first = sa.select(identity.c.name).order_by(identity.c.id).limit(1)
            if (name := connection.scalar(first)) is None:
                connection.execute(sa.insert(identity), [{"name": secrets.token_hex(4)}])
                name = connection.scalar(first)
            return str(name)

        return self._database.write(work)

    def assigned(self, clusters: Collection[str], limit: int = 5000) -> list[dict[str, Any]]:
        """Assigned tasks of these clusters without an attempt: row, cluster, predicted seconds, limits of their own."""
        ended = sa.select(cancellations.c.task_id).where(cancellations.c.task_id == assignments.c.task_id).exists()
        tried = sa.select(attempts.c.task_id).where(attempts.c.task_id == assignments.c.task_id).exists()
        query = (
            sa.select(
                tasks.c.task_id, tasks.c.row, assignments.c.cluster_id, assignments.c.seconds, allowances.c.content
            )
            .join(tasks, tasks.c.task_id == assignments.c.task_id)
            .outerjoin(allowances, allowances.c.task_id == assignments.c.task_id)
            .where(assignments.c.cluster_id.in_(list(clusters)) & ~tried & ~ended)
            .order_by(assignments.c.round_id, tasks.c.id)
            .limit(limit)
        )
        return self._rows(query)

    def plan(self, rows: Sequence[Row]) -> int:
        """Enter attempts; how many are new. One that cannot be run comes as over, with the reason."""
        told = [{"state": "planned", "planned_at": time.time(), "delivered": False, **finite(row)} for row in rows]
        return self._database.write(lambda c: self._database.insert_absent(c, attempts, told))

    def intend(self, ids: Sequence[int], batch: str) -> bool:
        """Say as which batch attempts are about to be handed in, before they are; False where one has another name."""

        def work(connection: sa.Connection) -> bool:
            named = sa.select(attempts.c.id).where(attempts.c.id.in_(list(ids)) & attempts.c.batch.is_not(None))
            if connection.scalar(named.limit(1)) is not None:
                return False
            for place, number in enumerate(ids):
                own = attempts.c.id == number
                connection.execute(sa.update(attempts).where(own).values(batch=batch, place=place))
            return True

        return self._database.write(work)

    def hand(self, batch: str, job: str) -> None:
        """Record the id that a batch got."""
        own = (attempts.c.batch == batch) & attempts.c.state.in_(("planned", "handed"))
        change = sa.update(attempts).where(own).values(state="handed", job=job, handed_at=time.time())
        self._database.write(lambda connection: connection.execute(change))

    def begin(self, moments: Mapping[int, float]) -> None:
        """Note which have begun, and when by their cluster's clock."""

        def work(connection: sa.Connection) -> None:
            for number, at in moments.items():
                own = (attempts.c.id == number) & (attempts.c.state != "over")
                connection.execute(sa.update(attempts).where(own).values(state="begun", begun_at=at))

        if moments:
            self._database.write(work)

    def fence(self, reasons: Mapping[int, str]) -> None:
        """Note that these are told to end and not to start, each with the reason, empty where there is none."""

        def work(connection: sa.Connection) -> None:
            for number, why in reasons.items():
                own = (attempts.c.id == number) & attempts.c.fenced_at.is_(None) & (attempts.c.state != "over")
                connection.execute(sa.update(attempts).where(own).values(fenced_at=time.time(), why=why or None))

        self._database.write(work)

    def finish(self, number: int, end: Row, again: Row | None) -> bool:
        """Say how an attempt ended and, with it, plan the next one; False where that was said before.

        Args:
            number: its id.
            end: `status`, `why` and `receipt`.
            again: the next attempt of the task.
        """

        def work(connection: sa.Connection) -> bool:
            own = (attempts.c.id == number) & (attempts.c.state != "over")
            told = {**end, "state": "over", "ended_at": time.time()}
            if not connection.execute(sa.update(attempts).where(own).values(**told)).rowcount:
                return False
            if again is not None:
                row = {"state": "planned", "planned_at": time.time(), "delivered": False, **finite(again)}
                self._database.insert_absent(connection, attempts, [row])
            row = dict(connection.execute(sa.select(attempts).where(attempts.c.id == number)).mappings().one())
            content = {key: row[key] for key in ("task_id", "cluster_id", "number", "status", "why")}
            post(connection, [Note(f"attempt.{end['status']}", 1.0, content=content)])
            return True

        return self._database.write(work)

    def open(self) -> list[dict[str, Any]]:
        """Attempts that are not over, in order, each with whether it is to be `cancelled`."""
        query = (
            sa.select(attempts, cancellations.c.at.is_not(None).label("cancelled"))
            .outerjoin(cancellations, cancellations.c.task_id == attempts.c.task_id)
            .where(attempts.c.state != "over")
            .order_by(attempts.c.id)
        )
        return self._rows(query)

    def of(self, task_ids: Collection[str] | None = None) -> list[dict[str, Any]]:
        """All attempts of these tasks, or of all, in order."""
        chosen = sa.true() if task_ids is None else attempts.c.task_id.in_(list(task_ids))
        return self._rows(sa.select(attempts).where(chosen).order_by(attempts.c.id))

    def of_batch(self, batch: str) -> list[dict[str, Any]]:
        """All attempts of a batch, by place."""
        return self._rows(sa.select(attempts).where(attempts.c.batch == batch).order_by(attempts.c.place))

    def cancel(self, task_ids: Sequence[str]) -> int:
        """Ask that these tasks end and are not tried again; of how many that was news."""

        def work(connection: sa.Connection) -> int:
            known = connection.execute(sa.select(tasks.c.task_id).where(tasks.c.task_id.in_(list(task_ids)))).scalars()
            rows = [{"task_id": name, "at": time.time()} for name in known]
            return self._database.insert_absent(connection, cancellations, rows)

        return self._database.write(work)

    def undelivered(self) -> tuple[int, list[dict[str, Any]]]:
        """Number and attempts of the next delivery: one that was begun and not written to its end, else a new one.

        Its content never changes, whoever is killed meanwhile. Attempts that never began are not of it.
        """
        ran = (attempts.c.state == "over") & attempts.c.begun_at.is_not(None) & attempts.c.status.is_not(None)

        def work(connection: sa.Connection) -> tuple[int, list[dict[str, Any]]]:
            begun = ran & attempts.c.delivery.is_not(None) & attempts.c.delivered.is_(False)
            number = connection.scalar(sa.select(sa.func.min(attempts.c.delivery)).where(begun))
            if number is None:
                new = sa.select(attempts.c.id).where(ran & attempts.c.delivery.is_(None)).order_by(attempts.c.id)
                ids = list(connection.execute(new.limit(UNDELIVERED)).scalars())
                number = 1 + (connection.scalar(sa.select(sa.func.max(attempts.c.delivery))) or 0)
                for start in range(0, len(ids), 500):
                    own = attempts.c.id.in_(ids[start : start + 500])
                    connection.execute(sa.update(attempts).where(own).values(delivery=number))
            query = sa.select(attempts).where(attempts.c.delivery == number).order_by(attempts.c.id)
            return int(number), [dict(row) for row in connection.execute(query).mappings()]

        return self._database.write(work)

    def deliver(self, number: int) -> None:
        """Note that a delivery is in the inbox."""
        change = sa.update(attempts).where(attempts.c.delivery == number).values(delivered=True)
        self._database.write(lambda connection: connection.execute(change))

    def report(self, cluster: str, *, up: bool, why: str, backlog_s: float | None) -> bool:
        """Say how a cluster is; True where it has come or gone. What its queue holds is kept where it is not known."""

        def work(connection: sa.Connection) -> bool:
            row = {"cluster_id": cluster, "up": up, "why": why, "backlog_s": backlog_s, "at": time.time()}
            own, before = health.c.cluster_id == cluster, True  # as long as nothing was said
            if not self._database.insert_absent(connection, health, [row]):
                before = bool(connection.scalar(sa.select(health.c.up).where(own)))
                told = {key: value for key, value in row.items() if value is not None and key != "cluster_id"}
                connection.execute(sa.update(health).where(own).values(**told))
            if up:
                connection.execute(sa.delete(outages).where(outages.c.cluster_id == cluster))
            else:
                self._database.insert_absent(connection, outages, [{"cluster_id": cluster, "since": time.time()}])
            if before != up:
                content = {"cluster_id": cluster, "why": why}
                post(connection, [Note("cluster_up" if up else "cluster_down", kind="event", content=content)])
            return before != up

        return self._database.write(work)

    def outages(self) -> dict[str, tuple[float, str]]:
        """Clusters that are not up: since when, and why."""
        query = sa.select(outages, health.c.why).join(health, health.c.cluster_id == outages.c.cluster_id)
        return {row["cluster_id"]: (float(row["since"]), row["why"] or "") for row in self._rows(query)}

    def health(self) -> list[dict[str, Any]]:
        """Every cluster that was asked."""
        return self._rows(sa.select(health).order_by(health.c.cluster_id))

    def _rows(self, query: sa.Select[Any]) -> list[dict[str, Any]]:
        (rows,) = self._database.read(query)
        return [dict(row) for row in rows]
