from dataclasses import replace

import pytest

from mfcp.emulator import zoo
from mfcp.emulator.architectures import FAMILIES
from mfcp.emulator.platform import drawn_variants
from mfcp.emulator.settings import EmulatorSettings
from mfcp.tasks.capture.model_graph import capture

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


def test_the_default_has_300_tasks_and_every_graph_of_the_zoo():
    drawn = drawn_variants(EmulatorSettings(), seed=0)
    assert len(drawn) >= 300
    assert {variant.graph_id for variant in drawn} == {variant.graph_id for variant in zoo.variants()}


def test_tasks_vary_in_batch_precision_optimizer_and_epochs(small):
    tasks = small["tasks"]
    assert set(tasks["optimizer"]) == {"sgd", "adamw"}
    assert set(tasks["precision"]) == {"fp32", "amp_fp16", "amp_bf16"}
    assert tasks["batch_size"].nunique() >= 4
    cifar = tasks[tasks["dataset"] == "cifar10"]
    assert (cifar["epochs"] * 50_000).tolist() == pytest.approx(cifar["samples"].tolist())
    assert tasks["epochs"].nunique() > len(tasks) / 2


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


@pytest.mark.parametrize("family", ["convnext", "albert", "marian"])
def test_a_training_step_has_the_models_own_loss(family):
    variant = zoo.variants([family])[0]
    model, inputs = zoo.build(variant)
    nodes, _ = capture(model, zoo.with_labels(variant, inputs), "g", optimizer="adamw")
    assert "nll_loss_forward" in set(nodes["op"])
    assert set(nodes["part"]) == {"forward", "backward", "optimizer"}


def test_a_side_that_the_zoo_has_not_takes_classes_of_its_own():
    resnet = next(family for family in FAMILIES if family.name == "resnet")
    model, inputs = zoo.build(zoo.Variant(replace(resnet, shapes={128: {}}), "18", 128), classes={128: 7})
    assert model.config.num_labels == 7
    assert inputs["pixel_values"].shape == (1, 3, 128, 128)
    assert 128 not in zoo.CLASSES
