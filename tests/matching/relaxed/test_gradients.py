"""Every rule of differentiation against independent answers."""

import pytest
import torch
from matching.instances import gradients, rounds, weights_like
from torch.autograd import gradcheck

from mfcp.errors import SolverError
from mfcp.matching import Implicit, Unrolled, ZerothOrder, relaxed_matching, relaxed_solution
from mfcp.matching.relaxed.gradients import Gradient

ENGINES = ["torch", "compiled"]


@pytest.mark.parametrize("backend", ENGINES)
def test_gradcheck(backend):
    T, A, gamma = rounds(3, 4, 2, seed=1)
    allowed = torch.ones(2, 3, 4, dtype=torch.bool)
    allowed[0, 1, 2] = False

    def plan(t, a):
        return relaxed_solution(t, a, gamma - 0.05, 5.0, 0.1, 0.1, allowed=allowed, backend=backend, tolerance=1e-13).X

    assert gradcheck(plan, (T.requires_grad_(), A.requires_grad_()), eps=1e-6, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("shape", [(3, 5, 64), (5, 20, 64), (10, 100, 16), (20, 500, 4)], ids=str)
def test_directional_differences_of_a_tight_solve(shape):
    weights = (5.0, 0.1, 0.01)
    T, A, gamma = rounds(*shape)
    grad_T, grad_A = gradients(T, A, gamma, weights, tolerance=1e-13)
    G = weights_like(T)
    for grad, of in ((grad_T, "T"), (grad_A, "A")):
        v = weights_like(T, seed=2) * (T if of == "T" else 0.1)
        exact = (grad * v).sum((1, 2))

        def value(h, of=of, v=v):
            shifted = (T + h * v, A) if of == "T" else (T, A + h * v)
            return (relaxed_solution(*shifted, gamma, *weights, tolerance=1e-13).X * G).sum((1, 2))

        def central(h):
            return (value(h) - value(-h)) / (2 * h)

        # Richardson: the h² error of central differences is itself estimated and removed
        errors = [((4 * central(h / 2) - central(h)) / 3 - exact).norm() / exact.norm() for h in (1e-4, 3e-5, 1e-5)]
        assert min(errors) < 1e-6


@pytest.mark.parametrize(("of", "perturbs"), [("T", "log_time"), ("T", "time"), ("A", "log_time")])
def test_zeroth_order_agrees_with_the_implicit_gradient_on_average(of, perturbs):
    """In direction and in size: a wrong sign, factor or unit of either estimate is seen."""
    T, A, gamma = rounds(3, 3, 64, spread=0.3)
    weights = (5.0, 0.1, 0.1)
    which = "TA".index(of)
    exact = gradients(T, A, gamma, weights)[which]
    rule = ZerothOrder(samples=400, delta=1e-3, perturbs=perturbs)
    estimate = gradients(T, A, gamma, weights, gradient=rule)[which]
    cosine = torch.cosine_similarity(exact.flatten(), estimate.flatten(), dim=0)
    scale = (exact * estimate).sum() / exact.square().sum()  # least squares of the estimate on the exact gradient
    assert cosine > 0.93
    assert scale == pytest.approx(1.0, abs=0.1)


def test_zeroth_order_repeats_with_its_seed_and_follows_a_generator():
    T, A, gamma = rounds(3, 5, 4)
    weights = (5.0, 0.1, 0.1)
    first, again, other = (
        gradients(T, A, gamma, weights, gradient=ZerothOrder(samples=2, seed=seed))[0] for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    generator = torch.Generator().manual_seed(0)
    drawn = [gradients(T, A, gamma, weights, gradient=ZerothOrder(samples=2), generator=generator)[0] for _ in range(2)]
    assert not torch.equal(*drawn)


@pytest.mark.parametrize("rule", [Implicit(), ZerothOrder(samples=2), Unrolled(steps=20)], ids=lambda rule: rule.name)
def test_infeasible_rounds_have_zero_gradient_under_every_rule(rule):
    T, A, gamma = rounds(3, 5, 3)
    gamma = gamma.clone()
    gamma[1] = 0.999
    for gradient in gradients(T, A, gamma, (5.0, 0.1, 0.1), gradient=rule):
        assert gradient.isfinite().all()
        assert gradient[1].abs().max() == 0
        assert gradient[[0, 2]].abs().amax((1, 2)).min() > 0


@pytest.mark.parametrize("rule", [Implicit(), ZerothOrder(samples=2)], ids=lambda rule: rule.name)
def test_double_backward_is_refused(rule):
    T, A, gamma = rounds(3, 5, 1)
    X = relaxed_matching(T.requires_grad_(), A, gamma, 5.0, 0.1, 0.1, gradient=rule)
    with pytest.raises(SolverError, match=r"first derivatives only.*Unrolled"):
        torch.autograd.grad(X.square().sum(), T, create_graph=True)


def test_no_graph_without_need():
    T, A, gamma = rounds(3, 5, 1)
    assert not relaxed_matching(T, A, gamma, 5.0, 0.1, 0.1).requires_grad
    with torch.no_grad():
        assert not relaxed_matching(T.requires_grad_(), A, gamma, 5.0, 0.1, 0.1).requires_grad


def test_rules_are_built_by_name():
    assert isinstance(Gradient.parse("implicit"), Implicit)
    assert Gradient.parse({"kind": "zeroth_order", "samples": 8}) == ZerothOrder(samples=8)
