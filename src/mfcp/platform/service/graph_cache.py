"""A release that remembers what it made of operator graphs: encoding them is most of a prediction."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from mfcp.arrays import Floats
from mfcp.data.log.schema import EDGES, NODES
from mfcp.data.log.tables import Tables
from mfcp.errors import UnknownNameError
from mfcp.release.model import Release
from mfcp.tasks.features.descriptors import AMOUNTS, describe_as

_STORED = "stored:"
_TASK_COLUMNS = {f"{kind}_{name}" for kind in ("log", "no") for name in AMOUNTS}
_AMOUNTS = [column.name for column in NODES.columns if column.kind != "text"]
_ENDS = [column.name for column in EDGES.columns if column.kind != "text"]


@dataclass(frozen=True)
class RememberingRelease(Release):
    """A release whose features of graphs are computed once each; predictions are the release's.

    Attributes:
        recall: finds graphs that come without their operators, by id; nothing of a graph of one id may ever change.
        most: graphs that are remembered, the least recently used forgotten first.
    """

    recall: Callable[[Collection[str]], Tables] | None = None
    most: int = 10_000
    _known: OrderedDict[str, Floats] = field(default_factory=OrderedDict, repr=False)
    _lock: Any = field(default_factory=Lock, repr=False)

    @staticmethod
    def of(
        release: Release, recall: Callable[[Collection[str]], Tables] | None = None, *, most: int = 10_000
    ) -> RememberingRelease:
        """The same release with a memory."""
        own = {f.name: getattr(release, f.name) for f in fields(Release)}
        return RememberingRelease(**own, recall=recall, most=most)

    def describe(self, tables: Tables) -> Floats:
        """See `Release.describe`; what a row has of its graph depends on that and its batch alone, and is kept.

        Raises:
            UnknownNameError: a task names a graph that neither came along nor is known.
        """
        names, tasks = self.feature_names[:-1], tables["tasks"]
        ids = tasks["graph_id"].astype(object).where(tasks["graph_id"].notna(), "").to_numpy(str)
        contents = {name: "" for name in ids if not name} | self._inline(tables)
        contents |= {name: f"{_STORED}{name}" for name in ids if name not in contents}
        batch = np.full(len(ids), np.nan)
        if "batch_size" in tasks:
            batch = tasks["batch_size"].to_numpy(np.float64, na_value=np.nan)
        cases = list(zip(ids, np.where(batch > 0, batch, -1.0).tolist(), strict=True))
        keys = {case: f"{contents[case[0]]}/{case[1]}" for case in cases}
        with self._lock:
            rows = {case: self._known[key] for case, key in keys.items() if key in self._known}
            for case in rows:
                self._known.move_to_end(keys[case])
        new = [case for case in keys if case not in rows]
        if new:
            rows |= dict(zip(new, self._of_graphs(new, tables, contents), strict=True))
            with self._lock:
                self._known.update((keys[case], rows[case]) for case in new)
                while len(self._known) > self.most:
                    self._known.popitem(last=False)
        result = np.stack([rows[case] for case in cases])
        of_task = [k for k, name in enumerate(names) if name in _TASK_COLUMNS or "=" in name]
        result[:, of_task] = describe_as(names, tasks, None)[:, of_task]
        return result

    def _of_graphs(self, new: Sequence[tuple[str, float]], tables: Tables, contents: dict[str, str]) -> Floats:
        """(n, ·) rows of tasks of which only the graph and the batch are known; a batch below 0 is none."""
        drawn: Tables = {name: tables[name] for name in ("nodes", "edges") if name in tables}
        stored = sorted({name for name, _ in new if contents[name].startswith(_STORED)})
        if stored:
            found = self.recall(stored) if self.recall is not None else {}
            missing = sorted(set(stored) - set(found["nodes"]["graph_id"] if found else ()))
            if missing:
                raise UnknownNameError(
                    f"graph '{missing[0]}': neither sent along in nodes and edges nor known here; send it"
                )
            drawn = {
                name: pd.concat([drawn[name], found[name]], ignore_index=True) if name in drawn else found[name]
                for name in found
            }
        columns = {
            "task_id": [str(k) for k in range(len(new))],
            "graph_id": [name or None for name, _ in new],
            "batch_size": [batch if batch > 0 else np.nan for _, batch in new],
        }
        return super().describe({"tasks": pd.DataFrame(columns), **drawn})

    def _inline(self, tables: Tables) -> dict[str, str]:
        """Graph → SHA-256 of its operators, for the graphs that came along."""
        if "nodes" not in tables or tables["nodes"].empty:
            return {}
        found = _digests(tables["nodes"], _AMOUNTS, "op")
        ends = _digests(tables["edges"], _ENDS) if "edges" in tables else {}
        return {name: own + ends.get(name, "") for name, own in found.items()}


def _digests(rows: pd.DataFrame, amounts: Sequence[str], text: str | None = None) -> dict[str, str]:
    """Graph → SHA-256 of its rows, in their order."""
    names, code = np.unique(rows["graph_id"].to_numpy(str), return_inverse=True)
    order = np.argsort(code, kind="stable")
    numbers = np.column_stack([rows[name].to_numpy(np.float64, na_value=np.nan) for name in amounts])[order]
    texts = rows[text].astype(object).to_numpy()[order] if text is not None else None
    starts = np.searchsorted(code[order], np.arange(len(names) + 1))
    found = {}
    for name, low, high in zip(names, starts, starts[1:], strict=False):
        content = hashlib.sha256(numbers[low:high].tobytes())
        if texts is not None:
            content.update("\0".join(map(str, texts[low:high])).encode())
        found[str(name)] = content.hexdigest()
    return found
