"""Gaussian processes: against their textbook formula, and the closed form of leaving out a fold."""

import numpy as np
import pytest
import torch
from toy import toy_setting

from mfcp.methods.pretrain import training_data
from mfcp.predictors.forecast import TaskInputs
from mfcp.predictors.gaussian_process import GaussianProcess, _descend, _Kernel

MEMBERS = {kind: GaussianProcess(clusters=kind, steps=15, sample=40) for kind in ("coregionalised", "independent")}


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.fixture(scope="module")
def known(setting):
    return training_data(setting, 3)


@pytest.fixture(scope="module", params=MEMBERS)
def fitted(request, known):
    """A member, what it fitted, its first seed's labels and the kernel of each of their processes."""
    member = MEMBERS[request.param]
    forecast = member.fit(known)
    return forecast, member._labels(known, 0), forecast.model.kernel.of(0)


def predict(model, Z):
    with torch.no_grad():
        return tuple(x.numpy() for x in model(TaskInputs(torch.as_tensor(Z))))


def joined(labels, standard):
    """Log times (M, n) of standardised values of P processes, by hand."""
    values = standard * labels.sd[:, None].numpy() + labels.mean[:, None].numpy()
    return values[:3] if len(values) == 6 else values[0] + values[1:4]


def test_leaving_out_a_fold_of_a_process_is_a_second_fit_without_it(known, fitted):
    """The closed form against factorising the other folds' covariance alone, at the same lengths and variances."""
    whole, labels, k = fitted
    fold, X = known.fold[0][labels.task], labels.X
    for f in range(known.folds):
        rest, own = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        noise = k.noise.exp()[:, None] + labels.noise[:, rest] + 1e-6
        covariance = k(X[rest], X[rest]) + torch.diag_embed(noise)
        weights = np.linalg.solve(covariance.numpy(), labels.y[:, rest, None].numpy())
        expected = joined(labels, (k(X[own], X[rest]).numpy() @ weights)[..., 0])
        np.testing.assert_allclose(whole.out_of_fold.log_time[0][:, labels.task[own]], expected, rtol=1e-6, atol=1e-8)


def test_a_process_is_its_textbook_formula_with_an_independent_kernel(setting, fitted):
    """Posterior means by plain numpy, the Matérn part from scikit-learn, at the fitted lengths and variances."""
    from sklearn.gaussian_process.kernels import Matern

    whole, labels, k = fitted
    new, X = setting.Z[0], labels.X.numpy()
    standard = np.empty((len(labels.y), len(new)))
    for process in range(len(standard)):
        matern = Matern(k.length[process].exp().numpy(), nu=2.5)
        signal, slopes = float(k.signal[process].exp()), k.linear[process].exp().numpy()

        def covariance(one, two, matern=matern, signal=signal, slopes=slopes):
            return signal * matern(one, two) + (one * slopes) @ two.T + 1.0

        noise = float(k.noise[process].exp()) + labels.noise[process].numpy() + 1e-6
        weights = np.linalg.solve(covariance(X, X) + np.diag(noise), labels.y[process].numpy())
        standard[process] = covariance(new, X) @ weights
    log_t, a = predict(whole.model, setting.Z)
    shares = standard[-3:] * labels.sd[-3:, None].numpy() + labels.mean[-3:, None].numpy()
    np.testing.assert_allclose(log_t[0], joined(labels, standard), rtol=1e-5)
    np.testing.assert_allclose(a[0], np.clip(shares, 1e-3, 1 - 1e-3), rtol=1e-5)


def test_labels_of_level_and_clusters_add_up_to_the_log_times(known):
    """What is measured is the level of its task plus what its cluster adds; the parts are not confounded."""
    labels = MEMBERS["coregionalised"]._labels(known, 0)
    there = known.train[0][:, labels.task]
    np.testing.assert_allclose(
        joined(labels, labels.y.numpy())[there], np.log(known.T[:, labels.task][there]), rtol=1e-9
    )
    added = labels.y[1:4].numpy()
    assert np.abs(added.sum(axis=0)).max() < 1e-9  # over the clusters of each task
    assert np.abs(added.sum(axis=1)).max() < 1e-9  # over the tasks of each cluster
    assert (labels.noise[1:4].numpy()[~there] > 1e5).all()


def test_processes_of_the_same_part_share_a_kernel(fitted):
    _, labels, k = fitted
    equal = [[bool((k.length[p] == k.length[q]).all()) for q in range(len(labels.y))] for p in range(len(labels.y))]
    assert equal == (labels.kernel[:, None] == labels.kernel).tolist()


def test_what_clusters_share_helps_where_tasks_are_few():
    """Times that all clusters scale alike, from a dozen tasks: one level is found better than three by themselves."""
    few = toy_setting(tasks=30, missing=0.0, seeds=tuple(range(6)))
    data, test = training_data(few, 3), few.mask("test")
    truth = np.log(few.T_true)
    apart = {}
    for kind in MEMBERS:
        log_t, _ = predict(GaussianProcess(clusters=kind).fit(data).model, few.Z)
        error = log_t - truth
        error = error - error.mean(axis=1, keepdims=True)  # what a task's clusters do not share
        apart[kind] = (error[test] ** 2).mean()
    assert apart["coregionalised"] < apart["independent"]


@pytest.mark.parametrize("shared", [[0, 1, 1, 2, 2], [0, 1, 2, 3]])
def test_the_gradient_of_lengths_and_variances_is_that_of_the_marginal_likelihood(shared):
    """Written out as a density, and left to automatic differentiation; one label is unknown."""
    torch.manual_seed(0)
    S, n, d, P, shared = 2, 12, 3, len(shared), np.array(shared)
    X, y, noise = (torch.randn(S, *shape, dtype=torch.float64) for shape in ((n, d), (P, n), (P, n)))
    noise = noise.exp()
    noise[0, 0, 0] = 1e6
    kernel = _Kernel.prior(S, int(shared.max()) + 1, d)
    values = [(value + 0.3 * torch.randn_like(value)).requires_grad_() for value in kernel.values()]
    kernel = _Kernel(*values)
    _descend(kernel, X, y, noise, shared)
    found = [value.grad.clone() for value in values]
    total = kernel.surprise().sum()
    for s in range(S):
        for p, k in enumerate(shared):
            own = _Kernel(*(value[s, k] for value in values))
            covariance = own(X[s], X[s]) + torch.diag(own.noise.exp() + noise[s, p] + 1e-6)
            density = torch.distributions.MultivariateNormal(torch.zeros(n, dtype=torch.float64), covariance)
            total = total - density.log_prob(y[s, p])
    for value, expected in zip(found, torch.autograd.grad(total, values), strict=True):
        assert value.numpy() == pytest.approx(expected.numpy(), rel=1e-7, abs=1e-9)
