"""What the decision service takes and what it answers, apart from how that travels."""

from __future__ import annotations

import json
from types import GenericAlias
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, with_config
from typing_extensions import TypedDict

from mfcp.data.log.schema import EDGES, NODES, RUNS, SCHEMA, TASKS, Table
from mfcp.data.log.tables import Tables
from mfcp.errors import DataError, InfeasibleError, MfcpError, SettingsError, UnknownNameError
from mfcp.matching.engines.base import Engine
from mfcp.platform.deciding.explaining import explain
from mfcp.platform.service.champion import Champion
from mfcp.registry import import_members
from mfcp.release.decision import Decision, decide, intervals
from mfcp.release.evidence import Evidence
from mfcp.release.model import Release
from mfcp.release.observing import evidence_of

_LONGEST = 1000  # characters of a text


def _no_other_kind(value: Any) -> Any:
    """A number as JSON has it: neither true nor "12" is one."""
    if isinstance(value, bool | str):
        raise ValueError(f"expected a number, got {type(value).__name__}")
    return value


_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False), BeforeValidator(_no_other_kind)]
_TYPES: dict[str, Any] = {"text": str, "integer": int, "real": float, "time": str}


def _number(kind: Any, **bounds: Any) -> Any:
    """A number within bounds; they stand inside, so that the declared schema has them."""
    if kind is float:
        bounds["allow_inf_nan"] = False
    return Annotated[kind, Field(**bounds), BeforeValidator(_no_other_kind)]


_EXAMPLE: dict[str, Any] = {
    "tasks": [
        {"task_id": "night-1", "model": "resnet-34", "batch_size": 64, "flops": 7.3e9, "samples": 900000},
        {"task_id": "night-2", "model": "resnet-50", "batch_size": 32, "samples": 500000},
    ]
}


class Asked(BaseModel):
    """Base of what can be asked: tasks, the graphs that the service does not know, and runs that it has not learned."""

    model_config = ConfigDict(extra="forbid")
    tasks: list[Any]
    nodes: list[Any] = []
    edges: list[Any] = []
    observed: list[Any] = []
    observed_tasks: list[Any] = []

    def tables(self) -> Tables:
        """The rows as tables of the log schema; they were checked, so plain columns do.

        Raises:
            DataError: two tasks of one name.
        """
        _refuse_twice(self.tasks)
        given = ((TASKS, self.tasks), (NODES, self.nodes), (EDGES, self.edges))
        return {table.name: _table(table, rows) for table, rows in given if rows}

    def evidence(self, release: Release) -> Evidence | None:
        """What was observed, as the release sees it; None where nothing was.

        Raises:
            DataError: an observed task that is described nowhere or twice, or a cluster that the release does not know.
        """
        if not self.observed:
            return None
        _refuse_twice(self.observed_tasks)
        named = {row["task_id"] for row in self.tasks}
        rows = [*self.tasks, *(row for row in self.observed_tasks if row["task_id"] not in named)]
        return evidence_of(release, {**self.tables(), TASKS.name: _table(TASKS, rows)}, _table(RUNS, self.observed))


def _refuse_twice(rows: list[Any]) -> None:
    names = [row["task_id"] for row in rows]
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise DataError(f"task_id '{twice}' occurs twice; name every task once")


class AskedMatch(Asked):
    """Base of what is matched."""

    gamma: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), BeforeValidator(_no_other_kind)] | None = Field(
        None, description="least mean reliability; the release's if left out"
    )
    clusters: list[str] | None = Field(
        None, min_length=1, max_length=10_000, description="at hand; all online if left out"
    )
    backlog: dict[str, _Seconds] | None = Field(
        None,
        max_length=10_000,
        description="cluster → seconds for which it is busy before; what the platform knows if left out",
    )
    engine: str = Field("auto", description="auto for the release's rule, else an engine of mfcp solve")


class AskedExplain(AskedMatch):
    """Base of what is explained."""

    only: list[str] | None = Field(None, min_length=1, description="tasks to explain; all if left out")


def asked_models(tasks: int, operators: int) -> tuple[type[Asked], type[AskedMatch], type[AskedExplain]]:
    """The requests as the log schema has their rows, with limits on how many there are."""
    import_members("mfcp.matching.engines")
    engines = Literal.__getitem__(tuple(sorted(Engine.members)))
    rows: dict[str, Any] = {table.name: GenericAlias(list, (_row(table),)) for table in (TASKS, NODES, EDGES)}
    fields: dict[str, Any] = {"tasks": (rows["tasks"], Field(min_length=1, max_length=tasks))}
    for name in ("nodes", "edges"):
        fields[name] = (rows[name], Field(default=[], max_length=operators, description=SCHEMA[name].meaning))
    runs = GenericAlias(list, (_row(RUNS, optional="run_id"),))
    told = "runs that ended since the release was made, of these tasks or others: predictions follow them"
    fields["observed"] = (runs, Field(default=[], max_length=tasks, description=told))
    told = "tasks of `observed` that are neither among `tasks` nor in the release's log"
    fields["observed_tasks"] = (rows["tasks"], Field(default=[], max_length=tasks, description=told))
    made: list[Any] = []
    for name, base, example in (
        ("Predict", Asked, _EXAMPLE),
        ("Match", AskedMatch, _EXAMPLE | {"gamma": 0.85}),
        ("Explain", AskedExplain, _EXAMPLE | {"only": ["night-1"]}),
    ):
        own = fields | ({} if base is Asked else {"engine": (engines, base.model_fields["engine"])})
        model = create_model(name, __base__=base, **own)
        model.model_config["json_schema_extra"] = {"examples": [example]}
        model.model_rebuild(force=True)
        made.append(model)
    return made[0], made[1], made[2]


def _row(table: Table, optional: str = "") -> Any:
    """A row of a table, as a dictionary: models take three times as long to read and twice the memory.

    Columns that the schema does not know are ignored, as everywhere.
    """
    fields: dict[str, Any] = {}
    for column in table.columns:
        may_lack = column.nullable or column.name == optional
        told = Field(description=f"{column.meaning}{f', {column.unit}' if column.unit else ''}")
        kind = _TYPES[column.kind]
        if column.kind == "text":
            shape = {"pattern": f"^({'|'.join(column.values)})$"} if column.values else {"max_length": _LONGEST}
            kind = Annotated[kind, Field(min_length=None if may_lack else 1, **shape)]
        elif column.low is not None:
            kind = _number(kind, **{"gt" if column.above else "ge": column.low, "le": column.high})
        kind = Annotated[kind | None if may_lack else kind, told]
        fields[column.name] = NotRequired[kind] if may_lack else kind
    ignoring = with_config(ConfigDict(extra="ignore"))
    return ignoring(TypedDict(f"{table.name.capitalize()}Row", fields))  # type: ignore[operator]


def _table(table: Table, rows: list[Any]) -> pd.DataFrame:
    kinds = {"text": object, "time": object, "integer": np.float64, "real": np.float64}
    return pd.DataFrame(
        {c.name: np.array([row.get(c.name) for row in rows], dtype=kinds[c.kind]) for c in table.columns},
        copy=False,
    )


def status_of(error: MfcpError) -> int:
    """What HTTP calls an error: 404 for a name that is not there, 409 for rows or wishes that contradict each other or
    the release, 503 where another moment would do better and not another request.
    """
    if isinstance(error, UnknownNameError):
        return 404
    return 409 if isinstance(error, DataError | InfeasibleError | SettingsError) else 503


class Answers:
    """Answers of the service; each takes tens of milliseconds and is of one release."""

    def __init__(self, champion: Champion, *, time_limit: float) -> None:
        self.champion, self.time_limit = champion, time_limit

    def predict(self, asked: Asked) -> bytes:
        """Time and reliability of every task on every cluster, with 95 % intervals."""
        release, tables = self.champion.release, asked.tables()
        belief = release.predict(tables, asked.evidence(release))
        numbers = {name: _plain(values[0].T) for name, values in intervals(belief).items()}
        answer = {
            **release.provenance(tables),
            "tasks": [
                {
                    "task_id": row["task_id"],
                    "clusters": [
                        {"cluster_id": name} | {key: values[j][i] for key, values in numbers.items()}
                        for i, name in enumerate(release.cluster_id)
                    ],
                }
                for j, row in enumerate(asked.tasks)
            ],
        }
        return _bytes(answer)

    def match(self, asked: AskedMatch) -> bytes:
        """One cluster for every task, with a bound of what any plan can reach."""
        return _bytes(_plan(*self._decided(asked)))

    def explain(self, asked: AskedExplain) -> bytes:
        """The same as match, and why each task goes where it goes, and what would change that."""
        decision, offline = self._decided(asked)
        told = explain(
            decision.belief,
            decision.assignment,
            task_id=decision.task_id,
            cluster_id=decision.clusters,
            price=decision.price,
            tasks=asked.only,
        )
        prices = {"cluster": told[0].prices.cluster, "reliability": told[0].prices.reliability}
        moved = dict(zip(decision.task_id, decision.movers(), strict=True))
        explained = [
            {
                "task_id": one.task_id,
                "options": [vars(option) for option in one.options],
                "text": "\n".join([one.text, *(f"  moved by {mover}" for mover in moved[one.task_id])]),
            }
            for one in told
        ]
        return _bytes(_plan(decision, offline) | {"prices": prices, "explanations": explained})

    def _decided(self, asked: AskedMatch) -> tuple[Decision, list[str]]:
        release, offline = self.champion.release, self.champion.offline
        for field, named in (("clusters", asked.clusters), ("backlog", asked.backlog)):
            if unknown := sorted(set(named or ()) - set(release.cluster_id)):
                known = ", ".join(release.cluster_id)
                raise UnknownNameError(f"{field}: unknown '{unknown[0][:80]}'; release {release.version} knows {known}")
        at_hand = set(release.cluster_id if asked.clusters is None else asked.clusters) - offline
        if not at_hand:
            raise MfcpError(f"no cluster is online of {', '.join(asked.clusters or release.cluster_id)}")
        decision = decide(
            release,
            asked.tables(),
            gamma=asked.gamma,
            clusters=at_hand,
            engine=asked.engine,
            time_limit=self.time_limit,
            backlog=self.champion.backlog if asked.backlog is None else asked.backlog,
            evidence=asked.evidence(release),
        )
        return decision, sorted(offline & set(release.cluster_id))


def _plan(decision: Decision, offline: list[str]) -> dict[str, Any]:
    numbers = {name: _plain(values) for name, values in decision.chosen().items()}
    return {
        **decision.summary(),
        "offline": offline,
        "tasks": [
            {"task_id": task, "cluster_id": cluster}
            | {name: values[j] for name, values in numbers.items()}
            | {"moved_by": [vars(mover) for mover in movers]}
            for j, (task, cluster, movers) in enumerate(
                zip(decision.task_id, decision.cluster_id, decision.movers(), strict=True)
            )
        ],
    }


def _plain(values: Any) -> Any:
    """Nested lists, None where nothing is known."""
    return np.where(np.isnan(values), np.array(None), values).tolist()


def _bytes(answer: dict[str, Any]) -> bytes:
    """JSON, made where it keeps no other request waiting."""
    return json.dumps(answer, allow_nan=False).encode()
