"""Requests: what they refuse is what validation refuses, column by column."""

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from mfcp.data.log.coercion import DTYPES, broken
from mfcp.data.log.schema import SCHEMA
from mfcp.errors import DataError, InfeasibleError, MfcpError, UnknownNameError
from mfcp.platform.service.answers import asked_models, status_of

PREDICT, MATCH, EXPLAIN = asked_models(tasks=3, operators=5)
NUMBERS = [c for c in SCHEMA["tasks"].columns if c.low is not None]
WORDS = [c for c in SCHEMA["tasks"].columns if c.values]


def is_accepted(**cells):
    try:
        PREDICT(tasks=[{"task_id": "a", **cells}])
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("column", NUMBERS, ids=lambda column: column.name)
def test_bounds_of_a_request_are_those_of_validation(column):
    step = 1 if column.kind == "integer" else 1e-6
    for value in (column.low - step, column.low, column.low + step, column.high, column.high * 2):
        value = int(value) if column.kind == "integer" else float(value)
        outside = broken(column, pd.Series([value], dtype=DTYPES[column.kind]))["range"][0]
        assert is_accepted(**{column.name: value}) == (not outside), value


@pytest.mark.parametrize("column", WORDS, ids=lambda column: column.name)
def test_words_of_a_request_are_those_of_validation(column):
    for value in (*column.values, "another", f"{column.values[0]}x"):
        outside = broken(column, pd.Series([value], dtype=DTYPES["text"]))["values"][0]
        assert is_accepted(**{column.name: value}) == (not outside), value


def test_a_request_needs_a_task_each_with_a_name_and_no_more_than_the_limit():
    for wrong in ([], [{"task_id": ""}], [{}], [{"task_id": str(k)} for k in range(4)]):
        with pytest.raises(ValidationError):
            PREDICT(tasks=wrong)
    with pytest.raises(ValidationError):
        MATCH(tasks=[{"task_id": "a"}], gamma=1.5)
    assert not is_accepted(flops=np.nan)


def test_a_number_is_neither_true_nor_text():
    for value in (True, "12", [12]):
        assert not is_accepted(batch_size=value)
        assert not is_accepted(flops=value)
        with pytest.raises(ValidationError):
            MATCH(tasks=[{"task_id": "a"}], gamma=value)
    assert is_accepted(batch_size=12, flops=12)


def test_only_what_another_request_would_change_is_the_clients_error():
    assert status_of(UnknownNameError("")) == 404
    assert status_of(DataError("")) == status_of(InfeasibleError("")) == 409
    assert status_of(MfcpError("")) == 503
