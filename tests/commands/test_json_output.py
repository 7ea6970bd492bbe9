"""`--json`: one object, whatever the numbers are."""

import argparse
import json

import numpy as np

from mfcp.commands.json_output import add_json, print_json


def test_numbers_of_any_kind_are_plain_and_what_is_not_finite_is_null(capsys):
    given = {"a": np.float64(1.5), 2: [float("nan"), np.array([1, 2]), (float("inf"), None)], "t": {"x": np.int64(3)}}
    print_json(given)
    assert json.loads(capsys.readouterr().out) == {"a": 1.5, "2": [None, [1, 2], [None, None]], "t": {"x": 3}}


def test_the_option_is_off_by_default():
    parser = argparse.ArgumentParser()
    add_json(parser)
    assert (parser.parse_args([]).json, parser.parse_args(["--json"]).json) == (False, True)
