"""YAML: bombs, loops and what is none."""

import pytest

from mfcp.border.bounds import Limits
from mfcp.border.yaml_text import parse_yaml, read_yaml
from mfcp.errors import DataError

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "more than 1000000 values"),
        ("a: &a [*a]", "more than 100 mappings within each other"),
        ("[" * 99 + "1" + "]" * 99, None),
        ("[" * 101 + "1" + "]" * 101, "more than 100 mappings within each other"),
        ("[" * 50_000, "not valid YAML"),
        ("a: " + "1" * 5000, "not valid YAML .*a number of 5000 characters"),
        ("a: " + ":".join(["59"] * 5000), "not valid YAML .*a number of"),
        ("a: 2020-99-99", "not valid YAML"),
        ("a: !!python/object/apply:os.system [ls]", "not valid YAML"),
        ("{[1]: 2}", "not valid YAML"),
        ("a: b: c", "not valid YAML"),
        (b"\xff", "not valid YAML"),
        ("a: \x00", "not valid YAML"),
    ],
)
def test_what_hangs_others_is_told_at_once(text, message):
    if message is None:
        parse_yaml(text, "p.yaml", Limits())
        return
    with pytest.raises(DataError, match=f"p.yaml: {message}"):
        parse_yaml(text, "p.yaml", Limits())


def test_aliases_are_fine(tmp_path):
    (tmp_path / "p.yaml").write_text("base: &base {lr: 0.1}\nown: {<<: *base, steps: 3}\nagain: *base\n")
    content = read_yaml(tmp_path / "p.yaml", Limits())
    assert content == {"base": {"lr": 0.1}, "own": {"lr": 0.1, "steps": 3}, "again": {"lr": 0.1}}


def test_a_large_file_is_not_read(tmp_path):
    (tmp_path / "p.yaml").write_text("#" * (2 << 20))
    with pytest.raises(DataError, match="2 MiB; expected at most 1, see `limits`"):
        read_yaml(tmp_path / "p.yaml", Limits())
