"""Clusters from words."""

import pytest

from mfcp.errors import SettingsError
from mfcp.simulator.cluster import Cluster


def test_pools_nodes_and_types():
    assert Cluster.parse("64").size.tolist() == [64]
    assert Cluster.parse("8x8").accelerators == 64
    mixed = Cluster.parse("v100:2x4,k80:36, v100:1")
    assert mixed.types == ("v100", "k80")
    assert mixed.size.tolist() == [4, 4, 36, 1]
    assert mixed.by_type.tolist() == [9, 36]
    assert mixed.largest() == 36


@pytest.mark.parametrize(
    ("text", "why"), [("0", "from 1"), ("8x0", "from 1"), ("0x8", "from 1"), ("9999999", "digits")]
)
def test_sizes_are_numbers_that_a_cluster_has(text, why):
    with pytest.raises(SettingsError, match=why):
        Cluster.parse(text)


@pytest.mark.parametrize("text", ["", "8x", "x8", "a:b", "-4", "8 8"])
def test_other_words_are_an_error_that_shows_some(text):
    with pytest.raises(SettingsError, match=r"expected e\.g\. 64, 8x8 or v100:9x4,k80:36"):
        Cluster.parse(text)
