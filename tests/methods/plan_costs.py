"""Rounds, and cost vectors of all their plans, as losses over plans see them."""

from __future__ import annotations

import numpy as np
import torch

from mfcp.matching.problem import MatchingProblem
from mfcp.methods.base import register_members
from mfcp.methods.surrogates import Choice, PlanCosts, PlanLoss
from mfcp.rules.base import Belief

register_members()
PRICE = 4.0


def problems(seed=0, rounds=6, M=3, N=4, *, masked=True, zeta=None):
    """Rounds with tight and loose gammas, some out of reach."""
    rng = np.random.default_rng(seed)
    T, A = np.exp(rng.normal(4, 0.7, (rounds, M, N))), rng.uniform(0.7, 1.0, (rounds, M, N))
    allowed = rng.random(T.shape) > (0.25 if masked else -1)
    allowed[:, 0] = True
    return MatchingProblem(T, A, np.linspace(0.75, 0.99, rounds), allowed, zeta)


def tensors(problem):
    """(1, R, M, N) times and reliabilities as torch sees labels (0 where there is no pair), and their `PlanCosts`."""
    T, A = (np.where(problem.allowed, x, 0.0)[None] for x in (problem.T, problem.A))
    zeta = None if problem.zeta is None else torch.as_tensor(problem.zeta)
    gamma, allowed = torch.tensor(problem.gamma[None]), torch.tensor(problem.allowed[None])
    return torch.as_tensor(T), torch.as_tensor(A), PlanCosts(gamma, allowed, PRICE, zeta)


def vectors(predicted, true):
    """A `Choice` from cost vectors (R, P) alone; the predicted ones a leaf."""
    predicted = torch.as_tensor(np.asarray(predicted, float))[None].requires_grad_()
    nothing = torch.empty(0)
    return Choice(nothing, nothing, None, predicted, torch.as_tensor(np.asarray(true, float))[None])


def gradient(row, choice, seed=0):
    """(R, P) derivative of the summed loss in Ĉ."""
    loss = PlanLoss.parse(row).of(choice, [torch.Generator().manual_seed(seed)])
    return torch.autograd.grad(loss.sum(), choice.predicted)[0][0].numpy()


def drawn(rounds=5, plans=7, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(1, 2, (rounds, plans)), rng.uniform(1, 2, (rounds, plans))


def onehot(index, plans):
    return np.eye(plans)[index]


def belief(problem, spread=0.0):
    none = np.full(problem.T.shape, spread)
    return Belief(problem.T, problem.A, none, none, none, problem.gamma, problem.allowed, problem.zeta)
