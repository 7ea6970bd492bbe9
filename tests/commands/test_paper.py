"""`mfcp paper`: what is asked for is checked before the first job; runs themselves are in tests/paper."""

import pytest
from commands.called import run


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seeds", "0"], "--seeds: expected a whole number of at least 1"),
        (["--workers", "0"], "--workers: expected a whole number of at least 1"),
        (["--only", "magic"], "--only"),
        (["--settings", "Z"], "--settings"),
        (["--data", "nowhere"], "--data"),
        (["--data", "x=nowhere"], "nowhere"),
        (["--study", "none.yaml"], "none.yaml"),
        (["--params", "none.yaml"], "none.yaml: no such file"),
    ],
)
def test_a_wrong_option_is_one_line_that_names_it(tmp_path, capsys, arguments, words):
    code, out, err = run(capsys, "paper", "--out", tmp_path / "out", *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert words in err
    assert not (tmp_path / "out" / "paper.json").exists()
