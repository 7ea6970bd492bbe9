"""Rounds over threads: the same result whatever their number, in a forked child too."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import torch
from matching.instances import rounds

from mfcp.matching import relaxed_solution


def test_threads_do_not_change_the_result(monkeypatch):
    T, A, gamma = rounds(5, 40, 33)
    alone = relaxed_solution(T, A, gamma, 5.0, 0.1, 0.01)
    monkeypatch.setattr("mfcp.matching.relaxed.compiled._WORTH", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert torch.equal(relaxed_solution(T, A, gamma, 5.0, 0.1, 0.01).X, alone.X)
    with ThreadPoolExecutor(3) as pool:  # callers may be threads themselves
        for found in pool.map(lambda _: relaxed_solution(T, A, gamma, 5.0, 0.1, 0.01), range(6)):
            assert torch.equal(found.X, alone.X)


def _solve_in_child(queue):
    T, A, gamma = rounds(5, 40, 9)
    queue.put(float(relaxed_solution(T, A, gamma, 5.0, 0.1, 0.01).X.sum()))


def test_a_forked_child_can_solve(monkeypatch):
    monkeypatch.setattr("mfcp.matching.relaxed.compiled._WORTH", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    T, A, gamma = rounds(5, 40, 9)
    relaxed_solution(T, A, gamma, 5.0, 0.1, 0.01)  # the parent's pool has threads, the child's must be its own
    context = multiprocessing.get_context(
        "forkserver" if "fork" not in multiprocessing.get_all_start_methods() else "fork"
    )
    queue = context.SimpleQueue()
    child = context.Process(target=_solve_in_child, args=(queue,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert abs(queue.get() - 9 * 40) < 1e-6
