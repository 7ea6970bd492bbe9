"""Validation of a log whose runs are in parts: the same rules and the same words as `validate`, a part at a time.

A part is checked in a worker as a table is in memory. What no part knows alone comes of two passes: a keyed hash of
every `run_id` first, from which follows which ids occur more than once; and which tasks never succeeded at the end.
"""

from __future__ import annotations

import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mfcp.arrays import Bools, Ints
from mfcp.border.json_text import read_json
from mfcp.border.tables import read_blocks, read_rows, row_groups
from mfcp.data.log.coercion import converted
from mfcp.data.log.expectations import MOST_ROWS, refuse_whole_table, sample, with_held
from mfcp.data.log.formats import WRITERS, is_part, write_part
from mfcp.data.log.parts import PART_ROWS, digest, each_once, link, part_files
from mfcp.data.log.quarantine import no_lines
from mfcp.data.log.schema import RUNS, SCHEMA, SUCCEEDED
from mfcp.data.log.tables import Tables, find_tables, read_table
from mfcp.data.log.validation import (
    ROW,
    check_table,
    drop_tasks,
    left_out,
    misspelt,
    misspelt_in,
    no_success,
    refuse_bad_share,
    unnumbered,
    without_example,
    without_tasks,
)
from mfcp.files import output_folder, replacing, write_json

if TYPE_CHECKING:
    from mfcp.data.log.expectations import Expectations

_KEY = RUNS[RUNS.key[0]]
_BUCKET = 2**23  # hashes that are sorted at once, 64 MiB
_STATUSES = 1000  # different ones of a part that are counted
_TARGETS = {foreign.target: foreign.target_columns for foreign in RUNS.foreign}


@dataclass(frozen=True)
class ValidatedParts:
    """What validation found; attributes as `Validated`, but runs and the quarantine stay in files.

    Attributes:
        tables: valid rows of the other tables.
        report: counts a table and constraint, and warnings.
        before, after: the quarantine of tables that come before and after runs.
        parts: of the runs, in their order.
    """

    tables: Tables
    report: dict[str, Any]
    before: pd.DataFrame
    after: pd.DataFrame
    parts: tuple[CheckedPart, ...]

    @property
    def runs(self) -> int:
        """How many valid ones there are."""
        return sum(sum(row_groups(part.valid)) for part in self.parts)

    def sheets(self) -> Iterator[pd.DataFrame]:
        """The lines of the quarantine, frame by frame; rows count through all parts."""
        yield self.before
        for kind in ("lines", "example", "gone"):
            if kind == "example":
                yield self.after
            for part in self.parts:
                if (lines := part.lines(kind)) is not None:
                    yield lines

    def write_runs(self, folder: Path) -> None:
        """Write the valid runs as parts to a folder `runs` in `folder`; the scratch folder has to be there still."""
        (folder / RUNS.name).mkdir()
        for k, part in enumerate(self.parts):
            link(part.valid, folder / RUNS.name / f"{k:05d}.parquet")


@dataclass(frozen=True)
class CheckedPart:
    """What was found in one part, in files whose names begin with `stem`; `first` is the number of rows before it."""

    stem: Path
    facts: dict[str, Any]
    first: int

    @property
    def valid(self) -> Path:
        """The valid rows, without those of tasks that never succeeded."""
        kept = _file(self.stem, "kept")
        return kept if kept.exists() else _file(self.stem, "valid")

    def lines(self, kind: str) -> pd.DataFrame | None:
        """Lines of the quarantine, None where there are none."""
        path = _file(self.stem, kind)
        if not path.exists():
            return None
        lines = read_rows(path)
        return lines.assign(row=lines["row"].astype(np.int64) + self.first)


@dataclass(frozen=True)
class Repeated:
    """Keys of a table that occur more than once: hashes by two secrets, of which nobody can make two texts collide.

    Attributes:
        secrets: of 16 letters each.
        first, second: sorted hashes of them by either.
    """

    secrets: tuple[str, str]
    first: np.ndarray[Any, np.dtype[np.uint64]]
    second: np.ndarray[Any, np.dtype[np.uint64]]

    def __call__(self, frame: pd.DataFrame) -> Bools:
        """(rows,) which of the rows have such a key."""
        found = np.zeros(len(frame), bool)
        if len(self.first):
            keys = frame[_KEY.name]
            at = np.flatnonzero(keys.notna())
            at = at[np.isin(_hashes(keys.iloc[at], self.secrets[0]), self.first)]
            found[at[np.isin(_hashes(keys.iloc[at], self.secrets[1]), self.second)]] = True
        return found


def validate_parts(
    folder: Path, scratch: Path, *, max_bad_share: float, expectations: Expectations | None = None
) -> ValidatedParts:
    """Check a log whose table runs is a folder of parts.

    Args:
        folder: in the log schema; the other tables are read as a whole.
        scratch: a folder of its own, in which a killed validation has left what it had done.
        max_bad_share, expectations: as `validate`.

    Raises:
        DataError: as `validate`; or an operator expects of the runs what no single row shows.
        TooManyBadRowsError: as `validate`.
    """
    paths = find_tables(folder)
    files = part_files(paths[RUNS.name])
    own = bool(expectations and expectations.own.get(RUNS.name))
    if expectations is not None:
        refuse_whole_table(expectations, RUNS)
    repeated = _repeated(files, scratch)
    valid: Tables = {}
    report: dict[str, Any] = {}
    before, after = [no_lines()], [no_lines()]
    warnings: list[str] = []
    parts: tuple[CheckedPart, ...] = ()
    for name in (name for name in SCHEMA if name in paths):
        if name == RUNS.name:
            parts = _check_parts(files, valid, repeated, scratch, expectations if own else None)
            report[name] = _merged_report(parts)
            if expectations is not None and not own:
                seen = pd.concat([read_rows(_file(part.stem, "sample")) for part in parts], ignore_index=True)
                expectations.check_sample(RUNS, seen, seen)
            warnings += _misspelt(parts)
            continue
        frame = read_table(paths[name], SCHEMA[name])
        warnings += misspelt_in(SCHEMA[name], frame)
        checked = check_table(SCHEMA[name], frame, valid, expectations)
        valid[name], report[name] = checked.valid, checked.report
        (after if parts else before).append(checked.lines)
    examples = _drop_examples(valid, parts, after)
    dropped = _drop_unsuccessful(valid, parts, after)
    statuses = sum((Counter(part.facts["statuses"]) for part in parts), Counter())
    result = ValidatedParts(
        tables={name: unnumbered(frame) for name, frame in valid.items()},
        report={
            "max_bad_share": max_bad_share,
            "tables": report,
            "warnings": [
                *warnings, *no_success(pd.Series(dict(statuses.most_common()))), *left_out(examples), *dropped,
            ],
            "expectations": {} if expectations is None else dict(expectations.report),
        },
        before=pd.concat(before, ignore_index=True),
        after=pd.concat(after, ignore_index=True),
        parts=parts,
    )  # fmt: skip
    refuse_bad_share(result, max_bad_share)
    return result


def _repeated(files: Sequence[Path], scratch: Path) -> Repeated:
    """The keys that occur more than once in all parts together."""
    kept = scratch / "secrets.json"
    if not kept.is_file():
        write_json(kept, [secrets.token_hex(8), secrets.token_hex(8)])
    first, second = read_json(kept)
    folder = output_folder(scratch / "hashes")
    names = [digest(k, _stamp(path), first) for k, path in enumerate(files)]
    each_once(hash_part, [(path, first) for path in files], names, folder)
    hashes = [np.load(folder / f"{name}-keys.npy", mmap_mode="r") for name in names]
    twice = _twice(hashes)
    pairs = [np.empty((0, 2), np.uint64)]
    for path, own in zip(files, hashes, strict=True) if len(twice) else ():
        if np.isin(own, twice).any():
            keys = _keys(path)
            keys = keys[np.isin(_hashes(keys, first), twice)]
            pairs.append(np.column_stack([_hashes(keys, first), _hashes(keys, second)]))
    found, count = np.unique(np.concatenate(pairs), axis=0, return_counts=True)
    sure = found[count > 1]
    return Repeated((first, second), np.unique(sure[:, 0]), np.unique(sure[:, 1]))


def hash_part(path: Path, secret: str, stem: Path) -> dict[str, Any]:
    """Hash the keys of a part into `stem-keys.npy`, sorted."""
    _save(np.sort(_hashes(_keys(path), secret)), stem.with_name(f"{stem.name}-keys.npy"))
    return {}


def _keys(path: Path) -> pd.Series[Any]:
    """The keys of a part that are known, as text."""
    found: pd.Series[Any] = converted(_KEY, _read(path, RUNS.key)[_KEY.name])[0].dropna()
    return found


def _read(path: Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """A part; `write_part` has stored its keys plainly."""
    return pd.concat(list(read_blocks(path, PART_ROWS, columns=columns, plain=RUNS.key)), ignore_index=True)


def _hashes(keys: pd.Series[Any], secret: str) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """SipHash of texts by a secret of 16 letters."""
    found: Any = pd.util.hash_array(keys.to_numpy(object), hash_key=secret, categorize=False)
    return np.asarray(found, np.uint64)


def _twice(hashes: Sequence[np.ndarray[Any, np.dtype[np.uint64]]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The values that occur more than once in all sorted arrays together, sorted; some leading bits at a time."""
    bits = max(0, (sum(map(len, hashes)) // _BUCKET).bit_length())
    starts = np.arange(1, 2**bits, dtype=np.uint64) << np.uint64(64 - bits) if bits else np.empty(0, np.uint64)
    cuts = [[0, *np.searchsorted(own, starts).tolist(), len(own)] for own in hashes]

    def of_bucket(bucket: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
        own = np.concatenate([h[cut[bucket] : cut[bucket + 1]] for h, cut in zip(hashes, cuts, strict=True)])
        own.sort()
        return np.unique(own[1:][own[1:] == own[:-1]])

    with ThreadPoolExecutor(2) as pool:  # sorting frees the interpreter
        return np.concatenate(list(pool.map(of_bucket, range(2**bits))))


def _check_parts(
    files: Sequence[Path],
    valid: Tables,
    repeated: Repeated,
    scratch: Path,
    expectations: Expectations | None,
) -> tuple[CheckedPart, ...]:
    folder = output_folder(scratch / "checked")
    targets = {name: valid[name][list(columns)] for name, columns in _TARGETS.items()}
    inputs = [int(pd.util.hash_pandas_object(frame, index=False).sum()) for frame in targets.values()]
    known = digest(inputs, repeated.first.tobytes(), repeated.second.tobytes(), expectations and expectations.own)
    names = [digest(k, _stamp(path), known) for k, path in enumerate(files)]
    items = [(path, targets, repeated, MOST_ROWS // len(files)) for path in files]
    if expectations is None:
        facts = each_once(check_part, items, names, folder)
    else:  # the package works alone
        facts = each_once(partial(check_part, expectations=expectations), items, names, folder, workers=1)
    firsts = np.cumsum([0, *(own["rows"] for own in facts)]).tolist()
    return tuple(CheckedPart(folder / name, own, first) for name, own, first in zip(names, facts, firsts, strict=False))


def check_part(
    path: Path,
    targets: Tables,
    repeated: Repeated,
    most: int,
    stem: Path,
    expectations: Expectations | None = None,
) -> dict[str, Any]:
    """Check the rows of a part; valid rows, lines of the quarantine and a sample go to files of the stem."""
    frame = _read(path)
    checked = check_table(RUNS, frame, targets, expectations, repeated)
    good, example = without_example(RUNS, checked.valid)
    if len(good) < len(frame) or not is_part(path, unnumbered(good)):
        write_part(unnumbered(good), _file(stem, "valid"), RUNS.key)
    else:  # nothing to leave out or to convert
        with replacing(_file(stem, "valid")) as temporary:
            shutil.copyfile(path, temporary)
    for kind, lines in (("lines", checked.lines), ("example", example)):
        if len(lines):
            _write(lines, _file(stem, kind))
    rows = sample(checked.found, len(frame), most)
    held = with_held(RUNS, checked.coerced, checked.found)
    columns = [name for name in held if name in {c.name for c in RUNS.columns} or name not in frame]
    _write(held[columns].iloc[rows], _file(stem, "sample"))
    _save(good[ROW].to_numpy(np.int64), stem.with_name(f"{stem.name}-rows.npy"))
    won = (good["status"] == SUCCEEDED).groupby(good["task_id"]).any()
    _write(pd.DataFrame({"task_id": won.index, "won": won.to_numpy(np.int64)}), _file(stem, "tasks"))
    statuses = frame["status"].value_counts().head(_STATUSES)
    return {
        **checked.report,
        "example": bool(len(example)),
        "statuses": {str(name): int(count) for name, count in statuses.items()},
        "columns": [str(name) for name in frame],
        "absent": [c.name for c in RUNS.columns if c.name not in frame or frame[c.name].isna().all()],
    }


def _drop_examples(valid: Tables, parts: Sequence[CheckedPart], after: list[pd.DataFrame]) -> list[str]:
    """Take out the rows of `mfcp init`; the tables that had one."""
    found = []
    for name in ("tasks", "clusters"):
        valid[name], line = without_example(SCHEMA[name], valid[name])
        after.append(line)
        found += [name] if len(line) else []
    return found + ([RUNS.name] if any(part.facts["example"] for part in parts) else [])


def _drop_unsuccessful(valid: Tables, parts: Sequence[CheckedPart], after: list[pd.DataFrame]) -> list[str]:
    """Take out tasks that never succeeded; see `validate`."""
    won: set[str] = set()
    tried: list[set[str]] = []
    for part in parts:
        tasks = read_rows(_file(part.stem, "tasks"))
        won.update(tasks.loc[tasks["won"] > 0, "task_id"])
        tried.append(set(tasks["task_id"]))
    names = valid["tasks"].loc[~valid["tasks"]["task_id"].isin(list(won)), "task_id"]
    for part, own in zip(parts, tried, strict=True):
        if own.isdisjoint(names):
            continue
        frame = read_table(_file(part.stem, "valid"), RUNS)
        kept, lines = without_tasks(RUNS, frame.assign(**{ROW: _rows(part)}), names)
        _write(lines, _file(part.stem, "gone"))
        write_part(unnumbered(kept), _file(part.stem, "kept"), RUNS.key)
    without = valid["tasks"]["task_id"].isin(names).to_numpy(bool)
    dropped, lines = drop_tasks(valid, without)
    after.append(lines)
    return dropped


def _rows(part: CheckedPart) -> Ints:
    rows: Ints = np.load(part.stem.with_name(f"{part.stem.name}-rows.npy"))
    return rows


def _merged_report(parts: Sequence[CheckedPart]) -> dict[str, Any]:
    """The counts of all parts, constraints in the schema's order."""
    order = {
        f"{kind}({column.name})": k
        for k, (column, kind) in enumerate(
            (column, kind) for column in RUNS.columns for kind in ("type", "missing", "range", "values")
        )
    }
    merged: dict[str, dict[str, Any]] = {}
    for part in parts:
        for own in part.facts["constraints"]:
            entry = merged.setdefault(own["constraint"], {**own, "bad": 0})
            entry["bad"] += own["bad"]
    rows = sum(part.facts["rows"] for part in parts)
    bad = sum(part.facts["bad_rows"] for part in parts)
    listed = sorted(merged.values(), key=lambda entry: order.get(entry["constraint"], len(order)))
    return {"rows": rows, "bad_rows": bad, "bad_share": bad / rows if rows else 0.0, "constraints": listed}


def _misspelt(parts: Sequence[CheckedPart]) -> list[str]:
    columns = dict.fromkeys(name for part in parts for name in part.facts["columns"])
    absent = [c.name for c in RUNS.columns if all(c.name in part.facts["absent"] for part in parts)]
    return misspelt(RUNS, list(columns), absent)


def _stamp(path: Path) -> tuple[str, int, int]:
    facts = path.stat()
    return path.name, facts.st_size, facts.st_mtime_ns


def _file(stem: Path, kind: str) -> Path:
    return stem.with_name(f"{stem.name}-{kind}.parquet")


def _save(values: np.ndarray[Any, Any], path: Path) -> None:
    with replacing(path) as temporary:
        np.save(temporary, values)


def _write(frame: pd.DataFrame, path: Path) -> None:
    WRITERS[".parquet"](frame, path)
