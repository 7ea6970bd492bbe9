"""Gaussian processes: against their textbook formula, and the closed form of leaving out a fold."""

import numpy as np
import pytest
import torch
from toy import toy_setting

from mfcp.methods.pretrain import training_data
from mfcp.predictors import gaussian_process
from mfcp.predictors.gaussian_process import GaussianProcess

MEMBER = GaussianProcess(steps=15, sample=40)


@pytest.fixture(scope="module")
def setting():
    return toy_setting()


@pytest.fixture(scope="module")
def known(setting):
    return training_data(setting, 3)


def predict(model, Z):
    with torch.no_grad():
        return tuple(x.numpy() for x in model(torch.as_tensor(Z)))


def test_leaving_out_a_fold_of_a_process_is_a_second_fit_without_it(known):
    """The closed form against factorising the other folds' covariance alone, at the same lengths and variances."""
    whole = MEMBER.fit(known)
    kernel = whole.model.kernel
    labels = gaussian_process._Labels.of(known, 0)
    fold = known.fold[0][labels.task]
    k = kernel.of(0)
    for f in range(known.folds):
        rest, own = np.flatnonzero(fold != f), np.flatnonzero(fold == f)
        X = labels.X
        noise = k.noise.exp()[:, None] + labels.noise[:, rest] + 1e-6
        covariance = k(X[rest], X[rest]) + torch.diag_embed(noise)
        weights = np.linalg.solve(covariance.numpy(), labels.y[:, rest, None].numpy())
        expected = (k(X[own], X[rest]).numpy() @ weights)[..., 0]
        scaled = (
            expected[: len(known.T)] * labels.sd[: len(known.T), None].numpy()
            + labels.mean[: len(known.T), None].numpy()
        )
        np.testing.assert_allclose(whole.log_time[0][:, labels.task[own]], scaled, rtol=1e-6, atol=1e-8)


def test_a_process_is_its_textbook_formula_with_an_independent_kernel(known, setting):
    """Posterior means by plain numpy, the Matérn part from scikit-learn, at the fitted lengths and variances."""
    from sklearn.gaussian_process.kernels import Matern

    model = MEMBER.fit(known).model
    labels = gaussian_process._Labels.of(known, 0)
    k = model.kernel.of(0)
    log_t, a = predict(model, setting.Z)
    new, X = setting.Z[0], labels.X.numpy()
    for process, found in enumerate((*log_t[0], *a[0])):
        matern = Matern(k.length[process].exp().numpy(), nu=2.5)
        signal, slopes = float(k.signal[process].exp()), k.linear[process].exp().numpy()

        def covariance(one, two, matern=matern, signal=signal, slopes=slopes):
            return signal * matern(one, two) + (one * slopes) @ two.T + 1.0

        noise = float(k.noise[process].exp()) + labels.noise[process].numpy() + 1e-6
        weights = np.linalg.solve(covariance(X, X) + np.diag(noise), labels.y[process].numpy())
        expected = float(labels.sd[process]) * covariance(new, X) @ weights + float(labels.mean[process])
        is_share = process >= len(known.T)
        np.testing.assert_allclose(found, np.clip(expected, 1e-3, 1 - 1e-3) if is_share else expected, rtol=1e-5)
