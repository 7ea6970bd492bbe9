"""Borders against the corpus of what once broke them, and against some thousands of new inputs (`make fuzz`: more)."""

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest
from fuzz.borders import borders
from fuzz.campaign import CPU_S, Tally, campaign, summary
from fuzz.mutation import VALUES, restructured, text_of

from mfcp.errors import MfcpError

CORPUS = Path(__file__).with_name("corpus")
CASES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())

pytestmark = pytest.mark.xdist_group("fuzz")


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    return borders(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_broke_a_border_is_answered(known, tmp_path, case):
    """The name of a case is a word and the name of the file: `word-tasks.csv`."""
    path = tmp_path / case.name.partition("-")[2]
    path.write_bytes(case.read_bytes())
    begin = time.process_time()
    with suppress(MfcpError):
        known[case.parent.name.replace("_", " ")].call(path)
    assert time.process_time() - begin < CPU_S


def test_every_seed_is_valid(known, tmp_path):
    """A border whose examples are refused tries nothing but its first check."""
    for name, border in known.items():
        for k, (file, content) in enumerate(border.seeds):
            folder = tmp_path / f"{name} {k}"
            folder.mkdir()
            (folder / file).write_bytes(content)
            border.call(folder / file)


def test_a_case_does_not_depend_on_those_before_it():
    """Nor can it hold itself: it is written as JSON."""
    value = {"a": [1, {"b": []}], "c": {}}
    before = text_of(VALUES)
    cases = [[text_of(restructured(random.Random(f"{k}"), value)) for k in range(3000)] for _ in range(2)]
    assert cases[0] == cases[1]
    assert text_of(VALUES) == before


def test_a_campaign_is_told_to_programs():
    tried = {"logs": Tally(3, 1, 0.5, 10, 1.0, ["logs: KeyError"]), "rates": Tally(2)}
    told = summary(tried)
    assert (told["cases"], told["findings"]) == (5, ["logs: KeyError"])
    assert {name: (own["cases"], own["findings"]) for name, own in told["kinds"].items()} == {
        "logs": (3, 1), "rates": (2, 0)
    }  # fmt: skip


@pytest.mark.slow
def test_five_thousand_inputs_end_in_an_answer(known, tmp_path):
    tallies = campaign(5000, found=tmp_path, known=known)
    assert sum(tally.cases for tally in tallies.values()) >= 5000
    assert [text for tally in tallies.values() for text in tally.findings] == []
    for name, tally in tallies.items():
        assert tally.refused < tally.cases, f"{name}: nothing gets through"
