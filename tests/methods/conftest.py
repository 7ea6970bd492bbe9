"""The toy setting with every method trained on it, made once per worker."""

import pytest
from methods.rows import FINETUNE, PRETRAIN, ROWS
from toy import toy_setting

from mfcp.methods.base import Method
from mfcp.methods.pretrain import pretrain


@pytest.fixture(scope="session")
def setting():
    return toy_setting()


@pytest.fixture(scope="session")
def base(setting):
    return pretrain(setting, PRETRAIN)


@pytest.fixture(scope="session")
def trained(setting, base):
    return {label: Method.parse(row).fit(setting, base, FINETUNE) for label, row in ROWS.items()}
