"""A release of the small log, made once, and the same as if families shared some of their error."""

from dataclasses import replace

import numpy as np
import pytest
from platform_log import small_log, small_release

from mfcp.predictors.residuals import ResidualProcess
from mfcp.release.model import Release


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "made"
    small_release(folder, small_log())
    return folder


@pytest.fixture(scope="session")
def release(folder):
    return Release.load(folder)


@pytest.fixture(scope="session")
def related(release):
    family = np.array([[0.04, 0.02, 0.0], [0.02, 0.05, 0.01], [0.0, 0.01, 0.03]])
    process = ResidualProcess(family, 0.5 * family, 0.3 * family, 0.5)
    return replace(release, trained=replace(release.trained, errors=(process,)))
