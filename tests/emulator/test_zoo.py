import pytest

from mfcp.emulator import zoo
from mfcp.emulator.architectures import FAMILIES

# Parameters of the published checkpoints or papers, in millions; the graph also counts buffers.
PUBLISHED = {
    "resnet-50@224": 25.6,
    "mobilenet_v2-1.0@224": 3.50,
    "vit-base@224": 86.6,
    "swin-tiny@224": 28.3,
    "convnext-tiny@224": 28.6,
    "efficientnet-b0@224": 5.3,
    "bert-base@128": 109.5,
    "t5-small@128": 60.5,
    "gpt2-small@64": 124.4,
}


def test_the_zoo_is_large_and_varied():
    chosen = zoo.variants()
    assert len(FAMILIES) >= 14
    assert 120 <= len(chosen) <= 150
    assert len({variant.graph_id for variant in chosen}) == len(chosen)
    assert {family.domain for family in FAMILIES} == {"cv", "nlp"}


@pytest.mark.parametrize("graph_id", PUBLISHED)
def test_parameter_counts_are_those_published(graph_id):
    variant = next(v for v in zoo.variants() if v.graph_id == graph_id)
    nodes, _ = zoo.capture_all([variant])
    assert nodes["param_count"].sum() / 1e6 == pytest.approx(PUBLISHED[graph_id], rel=0.015)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_the_first_size_of_every_family_is_captured(family):
    variant = zoo.variants([family.name])[0]
    nodes, edges = zoo.capture_all([variant])
    assert nodes["flops"].sum() > 1e6
    assert (edges["src"] < edges["dst"]).all()
    assert set(edges["dst"]) <= set(nodes["node_id"])
