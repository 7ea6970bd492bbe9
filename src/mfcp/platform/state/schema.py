"""The tables of a platform's database. Rows are in order of their ids; times are UTC seconds since the epoch."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

METADATA = sa.MetaData()


def _table(name: str, *columns: sa.Column[Any] | sa.UniqueConstraint) -> sa.Table:
    return sa.Table(name, METADATA, *columns, sqlite_autoincrement=True)  # an id is never given out twice


def _id(name: str = "id") -> sa.Column[int]:
    return sa.Column(name, sa.Integer, primary_key=True, autoincrement=True)


def _text(name: str, **options: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text, **options)


def _real(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Double)


def _key(name: str, *target: Any) -> sa.Column[str]:
    return sa.Column(name, sa.Text, *target, primary_key=True)


tasks = _table(
    "tasks",
    _id(),
    _text("task_id", unique=True, nullable=False),
    _real("submitted_at"),
    sa.Column("row", sa.JSON, nullable=False),
    _text("graph_id"),
    _text("set_aside"),  # why it cannot be matched, null while it can
)
# Tasks that can be matched and are not; kept apart so that a round does not search all that ever were.
queue = _table("queue", sa.Column("id", sa.ForeignKey("tasks.id"), primary_key=True, autoincrement=False))
graphs = _table("graphs", _key("graph_id"), sa.Column("nodes", sa.LargeBinary), sa.Column("edges", sa.LargeBinary))
clusters = _table("clusters", _key("cluster_id"), sa.Column("online", sa.Boolean, nullable=False), _real("changed_at"))
rounds = _table(
    "rounds",
    _id("round_id"),
    _real("matched_at"),
    _text("version"),
    sa.Column("data", sa.JSON),
    _real("gamma"),
    sa.Column("tasks", sa.Integer),
    *(_real(name) for name in ("makespan", "lower_bound", "gap", "mean_reliability", "took_s")),
    _text("status"),
    _text("rule"),
)
INTERVALS = ("seconds", "seconds_low", "seconds_high", "reliability", "reliability_low", "reliability_high")
assignments = _table(
    "assignments",
    _key("task_id", sa.ForeignKey("tasks.task_id")),  # the key IS "exactly once"
    sa.Column("round_id", sa.ForeignKey("rounds.round_id"), nullable=False, index=True),
    _text("cluster_id", nullable=False),
    *(_real(name) for name in INTERVALS),
)
measurements = _table(
    "measurements",
    _id(),
    sa.Column("task_id", sa.ForeignKey("tasks.task_id"), nullable=False, index=True),
    _text("cluster_id", nullable=False),
    sa.Column("steps", sa.Integer, nullable=False),
    _real("asked_at"),
    *(_real(name) for name in ("saves", "saves_s", "takes_s")),  # makespans; seconds
    _text("status", nullable=False),  # asked, measured, failed
    _real("answered_at"),
    _real("step_time_s"),
    sa.Column("batch_size", sa.Integer),
    _text("error"),
    sa.UniqueConstraint("task_id", "cluster_id"),  # a cell is asked for once
)
models = _table(
    "models",
    _id(),
    _text("version", unique=True, nullable=False),
    _real("added_at"),
    _text("folder"),
    sa.Column("metrics", sa.JSON),
    sa.Column("data", sa.JSON),
    _text("refused"),  # why the files are not trusted, null while they are
)
champions = _table("champions", _id(), _text("version", nullable=False), _real("at"), _text("action"), _text("why"))
deliveries = _table(
    "deliveries",
    _id(),
    _text("digest", unique=True, nullable=False),
    _text("name"),
    _real("received_at"),
    sa.Column("rows", sa.JSON),
    sa.Column("quarantined", sa.JSON),
    _text("status"),
)
# What `mfcp platform submit` says of a task beside its row; where it says nothing, the platform's settings hold.
allowances = _table(
    "allowances", _key("task_id", sa.ForeignKey("tasks.task_id")), sa.Column("content", sa.JSON, nullable=False)
)
identity = _table("identity", _id(), _text("name", nullable=False))  # the first row: in the names of all jobs
attempts = _table(
    "attempts",
    _id(),
    sa.Column("task_id", sa.ForeignKey("tasks.task_id"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    _text("cluster_id", nullable=False),
    _text("state", nullable=False, index=True),  # planned, handed, begun, over
    _text("command"),
    sa.Column("limits", sa.JSON),
    _real("seconds"),  # predicted
    _text("batch", index=True),  # intent to hand in: what its job is called, before there is one
    sa.Column("place", sa.Integer),
    _text("job"),  # its id on the cluster, which is given out again after a crash there
    *(_real(name) for name in ("planned_at", "handed_at", "begun_at", "fenced_at", "ended_at")),
    _text("status"),
    _text("why"),
    sa.Column("receipt", sa.JSON),
    sa.Column("delivery", sa.Integer, index=True),
    sa.Column("delivered", sa.Boolean, default=False),
    sa.UniqueConstraint("task_id", "number"),
)
cancellations = _table("cancellations", _key("task_id", sa.ForeignKey("tasks.task_id")), _real("at"))
health = _table(
    "health",
    _key("cluster_id"),
    sa.Column("up", sa.Boolean, nullable=False),
    _text("why"),
    _real("backlog_s"),
    _real("at"),
)
# Clusters that are not up, and since when: a column of `health` would be lacking in databases that are there already.
outages = _table("outages", _key("cluster_id"), _real("since"))
outbox = _table(
    "outbox",
    _id(),
    _real("at"),
    _text("kind"),
    _text("name"),
    _real("value"),
    sa.Column("content", sa.JSON),
    sa.Column("delivered_at", sa.Double, index=True),
    sa.Column("tries", sa.Integer, default=0),
    _text("error"),
)
