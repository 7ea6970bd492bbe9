"""Prices: strong duality, and kernels that survive threads and forks."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from matching.instances import rounds

from mfcp.matching import relaxed_solution
from mfcp.matching.relaxed.objective import relaxed_objective


def test_dual_value_equals_the_objective():
    T, A, gamma = rounds(4, 9, 8)
    beta, lam, tau = 5.0, 0.1, 0.05
    found = relaxed_solution(T, A, gamma, beta, lam, tau)
    p, q = found.p, found.q
    exponent = (q[:, None, None] * A / 9 - p[:, :, None] * T) / tau
    soft = tau * torch.logsumexp(exponent, 1).sum(1)
    # the entropies' conjugates leave lam (1 - log lam), a constant
    dual = -torch.xlogy(p, p).sum(1) / beta + lam * q.log() + gamma * q - soft + lam * (1 - np.log(lam))
    primal = relaxed_objective(found.X, T, A, gamma, beta, lam, tau)
    assert (dual - primal).abs().max() < 1e-9 * primal.abs().max()


def test_prices_are_a_simplex_and_charge_reliability():
    T, A, gamma = rounds(4, 9, 8)
    loose = relaxed_solution(T, A, gamma - 0.1, 5.0, 0.1, 0.05)
    tight = relaxed_solution(T, A, gamma, 5.0, 0.1, 0.05)
    assert (tight.p.sum(1) - 1).abs().max() < 1e-12
    assert (tight.q > loose.q).all()


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
