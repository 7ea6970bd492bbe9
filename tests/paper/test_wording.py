"""Numbers and verdicts in words."""

from mfcp.paper.wording import judged, listed, number


def test_numbers_have_their_interval_where_there_is_one():
    assert number({"mean": 0.456, "ci_low": 0.4, "ci_high": 0.5}, 2) == "0.46 [0.40, 0.50]"
    assert number({"mean": 1.0, "ci_low": None, "ci_high": None}, 2) == "1.00"
    assert number(None, 2) == number({"mean": None}, 2) == "-"


def test_lists_have_an_and():
    assert [listed(names) for names in ([], ["a"], ["a", "b", "c"])] == ["none", "a", "a, b and c"]


def test_only_sure_differences_are_called_so():
    ratios = {
        "a": {"mean": 0.7, "p": 0.01},
        "b": {"mean": 0.7, "p": 0.2},
        "c": {"mean": 1.2, "p": 0.01},
        "d": {"mean": 0.9, "p": 0.04},
        "e": None,
    }
    assert judged(ratios) == "less on a and d; more on c; no significant difference on b and e"
