"""A delivery's rows judged in the context of the log: which are new, known, or refused and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Ints
from mfcp.data.log.coercion import Coerced, coerce
from mfcp.data.log.schema import RUNS, SCHEMA, Table
from mfcp.data.log.tables import Tables
from mfcp.data.log.validation import validate

if TYPE_CHECKING:
    from mfcp.data.log.expectations import Expectations

REASON = "reason"
GRAPHS = ("nodes", "edges")
"""A graph comes whole: one bad row, or another graph of its name in the log, and none of its rows is taken."""
STEPS = {"queued": 0, "pending": 0, "running": 1}
"""Status → how far a run is; any other status is its end."""
END = 2


@dataclass(frozen=True)
class Merged:
    """What became of a delivery.

    Attributes:
        log: the tables of the log with the rows taken at their ends; those that gained none are as they were.
        new: table → rows that the log did not have.
        accepted: table → rows that the log has now, new or known; the same when a delivery is judged again.
        refused: the other rows as they were read, with a column `reason`; only tables that have some.
    """

    log: Tables
    new: dict[str, int]
    accepted: dict[str, int]
    refused: Tables


def merge(log: Tables, delivered: Tables, expectations: Expectations | None = None) -> Merged:
    """Judge a delivery and append what is good of it.

    A row whose key the log has with the same content is known and changes nothing; with other content it is refused,
    since the first one stays. Only a run goes on: a later status of it takes the place of an earlier one, at the end of
    the log, and an earlier one that comes late counts as known. Content is what the schema's columns hold. The rest is
    validated like any log, but only beside those rows of the log that it refers to, which were validated when they
    came.

    Args:
        log: valid tables in the schema's types, some or all missing.
        delivered: tables as `read_table` gives them, at least one.
        expectations: see `mfcp.data.log.validation.validate`.
    """
    coerced = {name: _distinct(SCHEMA[name], frame) for name, frame in delivered.items()}
    compared = {name: _compare(SCHEMA[name], own, log.get(name)) for name, own in coerced.items()}
    known = {name: same for name, (same, _) in compared.items()}
    reasons = {
        name: pd.Series(np.where(clash, _clash(SCHEMA[name]), ""), dtype="str") for name, (_, clash) in compared.items()
    }
    fresh = {name: np.flatnonzero(~known[name] & (reasons[name] == "").to_numpy()) for name in coerced}
    if any(len(rows) for rows in fresh.values()):
        for name, found in _judge(log, coerced, fresh, expectations).items():
            reasons[name][found.index] = found
        _refuse_whole_graphs(coerced, known, reasons)
    good = {name: (own == "").to_numpy() for name, own in reasons.items()}
    new = {name: coerced[name].frame[good[name] & ~known[name]] for name in coerced}
    grown = {
        name: pd.concat([_without(SCHEMA[name], log[name], own), own], ignore_index=True) if name in log else own
        for name, own in new.items()
        if len(own)
    }
    merged = log | {name: own.reset_index(drop=True) for name, own in grown.items()}
    return Merged(
        log={name: merged[name] for name in SCHEMA if name in merged},
        new={name: len(own) for name, own in new.items()},
        accepted={name: int(own.sum()) for name, own in good.items()},
        refused={
            name: coerced[name].raw[~own].assign(**{REASON: reasons[name][~own].to_numpy()})
            for name, own in good.items()
            if not own.all()
        },
    )


def _distinct(table: Table, frame: pd.DataFrame) -> Coerced:
    """The rows without those that an earlier one of the delivery equals."""
    own = coerce(table, frame)
    again = _hashes(table, own.frame).duplicated().to_numpy() & _converted(own) & table.unique
    return coerce(table, frame[~again]) if again.any() else own


def _converted(own: Coerced) -> Bools:
    """(rows,) no cell had to be emptied: of other rows only validation may say what they hold."""
    result: Bools = ~np.logical_or.reduce([np.zeros(len(own.frame), bool), *own.wrong.values()])
    return result


def _compare(table: Table, own: Coerced, old: pd.DataFrame | None) -> tuple[Bools, Bools]:
    """(rows,) the log has the row, and (rows,) the log has another one in its place."""
    frame = own.frame
    if old is None:
        return np.zeros(len(frame), bool), np.zeros(len(frame), bool)
    group = ["graph_id"] if table.name in GRAPHS else list(table.key)
    keyed = frame[group].notna().all(axis=1).to_numpy(bool)
    names = pd.MultiIndex.from_frame(frame[group])
    near = old[pd.MultiIndex.from_frame(old[group]).isin(names[keyed])]
    held = keyed & names.isin(pd.MultiIndex.from_frame(near[group]))
    content = _hashes(table, frame)
    times = content.map(_hashes(table, near).value_counts()).fillna(0).to_numpy()
    nth = content.groupby(content).cumcount().to_numpy()  # an operator may read the same tensor twice
    same: Bools = held & _converted(own) & (nth < times)
    if table is not RUNS:
        return same, held & ~same
    later, earlier = _progress(frame, near)
    return same | earlier, held & ~same & ~later & ~earlier


def _progress(runs: pd.DataFrame, old: pd.DataFrame) -> tuple[Bools, Bools]:
    """(rows,) the run is further than in the log, and (rows,) the log is further."""
    names = ["run_id", "task_id", "cluster_id"]  # with another task or cluster it is another run
    status = runs[names].merge(old[[*names, "status"]], how="left", on=names)["status"]
    before, now = (column.map(STEPS).fillna(END).to_numpy() for column in (status, runs["status"]))
    known = status.notna().to_numpy()
    return known & (now > before), known & (now < before)


def _without(table: Table, old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    """The rows of the log that no new one takes the place of."""
    if table is not RUNS:
        return old
    return old[~old["run_id"].isin(new["run_id"])]


def _hashes(table: Table, frame: pd.DataFrame) -> pd.Series[int]:
    """64 bits of the content of each row."""
    hashes = pd.util.hash_pandas_object(frame[[column.name for column in table.columns]], index=False)
    return hashes.reset_index(drop=True)


def _clash(table: Table) -> str:
    what = "graph_id" if table.name in GRAPHS else ", ".join(table.key)
    return f"{what}: the log holds other content under this key; the first one stays"


def _judge(
    log: Tables, coerced: dict[str, Coerced], fresh: dict[str, Ints], expectations: Expectations | None
) -> dict[str, pd.Series[str]]:
    """table → row → what validation holds against it."""
    rows = {name: own.lenient.iloc[fresh[name]] for name, own in coerced.items()}
    beside = _context(log, rows)
    tables = {
        name: pd.concat([beside[name], rows[name]], ignore_index=True)
        if name in rows and len(beside[name])
        else rows.get(name, beside[name])
        for name in beside
    }
    lines = validate(tables, max_bad_share=1.0, expectations=expectations).quarantine
    lines = lines[lines["constraint"] != "no_success"]  # a task may come before its runs
    found = {}
    for name, own in lines.groupby("table"):
        said = own["column"] + ": expected " + own["expected"] + ", got '" + own["value"] + "'"
        at = own["row"].to_numpy(np.int64) - 1 - len(beside[str(name)])
        joined = said[at >= 0].groupby(at[at >= 0]).agg("; ".join)
        joined.index = pd.Index(fresh[str(name)][joined.index])
        found[str(name)] = joined
    return found


def _context(log: Tables, rows: Tables) -> Tables:
    """The required tables, those of `rows` and those referred to, with the rows of the log that are referred to."""
    named: dict[str, list[pd.Series[str]]] = {name: [] for name in SCHEMA if name in rows or SCHEMA[name].required}
    for name, own in rows.items():
        for foreign in SCHEMA[name].foreign:
            named.setdefault(foreign.target, []).append(own[foreign.columns[0]])
    result = {}
    for table in (SCHEMA[name] for name in SCHEMA if name in named):
        names = [column.name for column in table.columns]
        old = log[table.name] if table.name in log else coerce(table, pd.DataFrame(columns=names)).frame
        values = pd.concat(named[table.name]) if named[table.name] else pd.Series(dtype="str")
        # What refers to a table names the first column of its key, alone or first.
        result[table.name] = old[old[table.key[0]].isin(values)][names]
    return result


def _refuse_whole_graphs(
    coerced: dict[str, Coerced], known: dict[str, Bools], reasons: dict[str, pd.Series[str]]
) -> None:
    graphs = {name: coerced[name].frame["graph_id"] for name in GRAPHS if name in coerced}
    bad = {graph for name, own in graphs.items() for graph in own[(reasons[name] != "").to_numpy()].dropna()}
    for name, own in graphs.items():
        also = own.isin(bad).to_numpy() & ~known[name] & (reasons[name] == "").to_numpy()
        reasons[name][also] = "graph_id: another row of this graph is refused; a graph is taken whole"
