"""The matching problem of one round from files: .npy or CSV matrices, as `mfcp solve` takes them."""

from __future__ import annotations

import math
import re
from argparse import Namespace
from pathlib import Path

import numpy as np

from mfcp.arrays import Bools, Floats
from mfcp.border.matrices import read_numbers
from mfcp.errors import DataError, InfeasibleError, SettingsError
from mfcp.matching.problem import Capacity, MatchingProblem, Objective

_OBJECTIVES = ("makespan", "total_time", "cost")


def read_problem(options: Namespace) -> MatchingProblem:
    """The problem that the options of `mfcp solve` describe.

    Raises:
        DataError: a file is missing, not a matrix of numbers, of the wrong shape, or has an entry out of range; the
            message names file, row and column.
        SettingsError: an option is not of its form.
        InfeasibleError: a task that no cluster can take.
    """
    times = _matrix(options.times)
    M, N = times.shape
    reliability = _matrix(options.reliability, (M, N))
    try:
        return MatchingProblem(
            times,
            reliability,
            options.gamma,
            None if options.allowed is None else _mask(options.allowed, (M, N)),
            None if options.zeta is None else _zeta(options.zeta, M, N),
            backlog=None if options.backlog is None else _vector(options.backlog, M, "cluster"),
            capacities=_capacities(options, M, N),
            deadline=None if options.deadline is None else _vector(options.deadline, N, "task"),
            objective=None if options.weights is None else _objective(options.weights, options.cost),
            cost=None if options.cost is None else _matrix(options.cost, (M, N)),
        )
    except DataError as error:
        raise DataError(_located(str(error), options)) from None
    except InfeasibleError as error:
        column = re.sub(r"task (\d+)", lambda found: f"task {found[1]} (column {int(found[1]) + 1})", str(error))
        raise InfeasibleError(f"{options.deadline or options.allowed}: {column}") from None


def _capacities(options: Namespace, clusters: int, tasks: int) -> list[Capacity]:
    found = []
    for text in options.capacity:
        name, _, files = text.partition("=")
        use, _, limit = files.rpartition(":")
        if not (name and use and limit):
            raise SettingsError(f"--capacity {text}: expected NAME=USE:LIMIT, as memory=use.csv:limit.csv")
        option = f"--capacity {text}"
        found.append(_capacity(name, _use(use, clusters, tasks), _limit(limit, clusters, option), option))
    if options.max_tasks is not None:
        option = f"--max-tasks {options.max_tasks}"
        found.append(_capacity("tasks", np.ones(()), _limit(options.max_tasks, clusters, option), option))
    return found


def _located(message: str, options: Namespace) -> str:
    """The message with the file that it is about in front, and the entry as a person counts."""
    places = {"T": options.times, "A": options.reliability, "gamma": "--gamma"}
    word = re.match(r"\w+", message)
    key = word.group() if word else ""
    place = places.get(key) or getattr(options, key, None)
    entry = re.match(r"\w+\[(?:(\d+), )?(\d+)\]", message)
    if entry:
        row, column = entry.groups()
        where = f"entry {int(column) + 1}" if row is None else f"row {int(row) + 1}, column {int(column) + 1}"
        closing = "" if row is None else " or close the pair with --allowed"
        message = f"{message}; mend {where}{closing}"
    return f"{place}: {message}" if place else message


def _matrix(path: Path, shape: tuple[int, int] | None = None) -> Floats:
    """(M, N) numbers; .npy files stay on disk until they are read, float32 stays float32."""
    array = read_numbers(path)
    if array.ndim != 2 or 0 in array.shape:
        raise DataError(f"{path}: expected M rows × N columns, got shape {array.shape}")
    if shape is not None and array.shape != shape:
        raise DataError(f"{path}: expected {shape[0]} rows × {shape[1]} columns as --times has, got {_size(array)}")
    return array


def _vector(path: Path, length: int, of: str) -> Floats:
    array = read_numbers(path)
    if array.size != length or max(array.shape, default=1) != length:
        raise DataError(f"{path}: expected {length} numbers, one per {of}, got {_size(array)}")
    return array.reshape(length)


def _mask(path: Path, shape: tuple[int, int]) -> Bools:
    array = _matrix(path, shape)
    wrong = np.argwhere((array != 0) & (array != 1))
    if len(wrong):
        i, j = wrong[0]
        raise DataError(f"{path}: row {i + 1}, column {j + 1} is {array[i, j]:g}; expected 1 (may run there) or 0")
    return array.astype(bool)


def _zeta(path: Path, clusters: int, tasks: int) -> Floats:
    array = read_numbers(path)
    if array.size == tasks + 1 and max(array.shape) == tasks + 1:
        return array.reshape(tasks + 1)
    if array.shape != (clusters, tasks + 1):
        raise DataError(
            f"{path}: expected factors for 0 … {tasks} tasks at once, {tasks + 1} numbers or {clusters} rows of them, "
            f"got {_size(array)}"
        )
    return array


def _use(text: str, clusters: int, tasks: int) -> Floats:
    array = read_numbers(Path(text))
    if array.shape == (clusters, tasks):
        return array
    if array.size == tasks and max(array.shape) == tasks:
        return array.reshape(tasks)
    raise DataError(f"{text}: expected {tasks} numbers, one per task, or {clusters} rows of them, got {_size(array)}")


def _limit(text: str, clusters: int, option: str) -> Floats:
    """A number for every cluster, or the file of one number per cluster."""
    try:
        return np.asarray(float(text))
    except ValueError:
        pass
    if not Path(text).suffix:
        raise SettingsError(f"{option}: expected a number or a .npy or CSV file of {clusters} numbers, got '{text}'")
    return _vector(Path(text), clusters, "cluster")


def _capacity(name: str, use: Floats, limit: Floats, option: str) -> Capacity:
    try:
        return Capacity(name, use, limit)
    except DataError as error:
        raise DataError(f"{option}: {error}") from None


def _objective(text: str, cost: Path | None) -> Objective:
    weights = dict.fromkeys(_OBJECTIVES, 0.0)
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in weights:
            raise SettingsError(f"--weights {text}: unknown '{key}'; known: {', '.join(_OBJECTIVES)}")
        try:
            weights[key] = float(value)
        except ValueError:
            raise SettingsError(f"--weights {text}: expected {key}=NUMBER, got '{part}'") from None
    if weights["cost"] and cost is None:
        raise SettingsError(f"--weights {text}: cost is weighed but not given; add --cost FILE")
    try:
        return Objective(**weights)
    except DataError as error:
        raise SettingsError(f"--weights {text}: {error}") from None


def _size(array: Floats) -> str:
    return " × ".join(map(str, array.shape)) if math.prod(array.shape) else "nothing"
