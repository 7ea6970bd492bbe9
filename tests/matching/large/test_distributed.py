"""Prices over Dask workers: the same bits as in this process, whoever dies; and an end where nobody is left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfcp.errors import SettingsError, SolverError
from mfcp.matching.large import distributed, linear_relaxation, pricing, shards
from mfcp.matching.large.candidates import Pricing
from mfcp.matching.problem import MatchingProblem

LocalCluster = pytest.importorskip("distributed").LocalCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("dask")]


@pytest.fixture(autouse=True, scope="module")
def _several_shards() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "_WORTH", 150)
        yield


@contextmanager
def cluster_of(workers: int) -> Iterator[Any]:
    with LocalCluster(
        host="127.0.0.1", n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three processes that a nanny starts again when they die."""
    with cluster_of(3) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def problem() -> MatchingProblem:
    rng = np.random.default_rng(1004)
    T = rng.lognormal(size=300) * rng.lognormal(0.0, 0.5, (4, 300))
    A = 1.0 - 0.3 * rng.random((4, 300)) ** 2
    return MatchingProblem(T, A, 0.95)


def solve(problem: MatchingProblem, place: Callable[..., shards.Shards] = shards.Threads) -> Pricing:
    return pricing.price(problem, candidates=3, tolerance=0.05, time_limit=600.0, place=place)


@pytest.fixture(scope="module")
def alone(problem: MatchingProblem) -> Pricing:
    """What this process makes of it, without a cluster."""
    return solve(problem)


def identical(one: Pricing, other: Pricing) -> bool:
    """To the last bit."""
    pairs = [
        (one.bound, other.bound),
        (one.prices.seconds, other.prices.seconds),
        (one.prices.reliability, other.prices.reliability),
        (one.candidates.cluster, other.candidates.cluster),
        (one.candidates.share, other.candidates.share),
    ]
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


class Calling:
    """Shards that call `event` before their n-th operation."""

    def __init__(self, place: Callable[..., shards.Shards], at: int, event: Callable[[], None]) -> None:
        self.place, self.left, self.event = place, at, event

    def __call__(self, data: linear_relaxation.Relaxation, candidates: int) -> shards.Shards:
        self.shards = self.place(data, candidates)
        return self

    def each(self, operation: str, *args: Any) -> Sequence[Any]:
        self.left -= 1
        if self.left == 0:
            self.event()
        return self.shards.each(operation, *args)


def kill(cluster: Any, *, restart: bool) -> None:
    """The first worker that lives gets no chance to say goodbye."""
    nanny = next(nanny for nanny in cluster.workers.values() if nanny.pid is not None)
    if not restart:
        nanny.close_gracefully()
    os.kill(nanny.pid, signal.SIGKILL)


def test_three_processes_give_the_bits_of_one(cluster: Any, problem: MatchingProblem, alone: Pricing) -> None:
    assert len(shards.cut(problem.tasks, 3)) > 1
    with distributed.dask_shards(cluster.scheduler_address) as place:
        assert identical(solve(problem, place), alone)


def test_a_worker_killed_in_the_middle_and_started_again_changes_nothing(
    cluster: Any, problem: MatchingProblem, alone: Pricing
) -> None:
    with distributed.dask_shards(cluster.scheduler_address) as place:
        calling = Calling(place, 12, lambda: kill(cluster, restart=True))
        assert identical(solve(problem, calling), alone)
    assert calling.left < -5  # it was in the middle


def test_workers_that_die_one_by_one_change_nothing_until_the_last(problem: MatchingProblem, alone: Pricing) -> None:
    with cluster_of(2) as cluster, distributed.dask_shards(cluster.scheduler_address, patience=1.0) as place:
        assert identical(solve(problem, Calling(place, 12, lambda: kill(cluster, restart=False))), alone)
        assert len(cluster.scheduler.workers) == 1
        assert identical(solve(problem, place), alone)
        with pytest.raises(SolverError, match=r"has no worker for 1 s; start workers by `dask worker tcp://127"):
            solve(problem, Calling(place, 12, lambda: kill(cluster, restart=False)))


def test_tables_in_files_are_read_by_the_workers(cluster: Any, problem: MatchingProblem, tmp_path: Path) -> None:
    for name, table in (("T", problem.T), ("A", problem.A)):
        np.save(tmp_path / f"{name}.npy", table.astype(np.float32))
    T, A = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "TA")
    mapped = MatchingProblem(T, A, 0.95)
    stored = distributed._stored(linear_relaxation.relax(mapped, np.ones(4), None, np.inf).T[:, 7:90])
    assert stored is not None
    assert (stored.read() == T[:, 7:90]).all()
    with distributed.dask_shards(cluster.scheduler_address) as place:
        made = place(linear_relaxation.relax(mapped, np.ones(4), None, np.inf), 3)
        assert isinstance(made, distributed.DaskShards)
        assert made.files == {str(tmp_path / "T.npy"), str(tmp_path / "A.npy")}
        assert identical(solve(mapped, place), solve(mapped))


def test_an_operation_leaves_its_input_as_it_was(problem: MatchingProblem) -> None:
    """Else a group that is made again from what is left of its history would differ."""
    data = linear_relaxation.relax(problem, np.ones(4), None, np.inf)
    prices = linear_relaxation.guess(data)
    step = 1e-3 * prices
    rest: dict[str, tuple[Any, ...]] = {
        "normal": (len(prices),),
        "reach": (step,),
        "correct": (step, 1e-3),
        "move": (step, 0.5, 0.5),
        "plan": (),
    }
    twice = [("price", (prices, 0.1, 0)), ("start", (prices, 1e-2))] * 2
    group = distributed._load(data, shards.cut(problem.tasks, 3), 3)
    for operation, args in [*twice, *rest.items(), ("start", (prices, 1e-3))]:
        before = [arrays(shard) for shard in group.shards]
        after = distributed._advance(group, operation, args)
        if operation in distributed._READS:
            assert [arrays(shard) for shard in after.shards] == before, f"{operation} is no read"
        assert [arrays(shard) for shard in group.shards] == before, operation
        group = after
    operations = {
        name for name in vars(shards.Shard) if not name.startswith("_") and callable(vars(shards.Shard)[name])
    }
    assert operations == {"price", "start", *rest}


def arrays(shard: shards.Shard) -> dict[str, bytes]:
    def content(value: Any) -> bytes:
        return b"".join(part.tobytes() for part in (value if isinstance(value, tuple) else (value,)))

    kinds = (np.ndarray, tuple)
    return {name: content(value) for name, value in vars(shard).items() if isinstance(value, kinds)}


def test_a_group_weighs_its_tables_and_its_state(problem: MatchingProblem) -> None:
    group = distributed._load(
        linear_relaxation.relax(problem, np.ones(4), None, np.inf), shards.cut(problem.tasks, 3), 3
    )
    assert sys.getsizeof(group) >= problem.T.nbytes + problem.A.nbytes


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://here", "nonsense"])
def test_without_a_scheduler_the_address_is_named(address: str) -> None:
    with pytest.raises(SettingsError, match=f"scheduler '{address}'"), distributed.dask_shards(address, patience=1.0):
        pass


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with (
        pytest.raises(SettingsError, match=r'pip install "mfcp\[distributed\]"'),
        distributed.dask_shards("tcp://127.0.0.1:1"),
    ):
        pass
