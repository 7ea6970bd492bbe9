from dataclasses import replace

import numpy as np
import pytest
import torch
from encoded_graphs import QUICK
from graphs_by_hand import BLOCK

from mfcp.errors import DataError, SettingsError
from mfcp.tasks.features.encoder import TARGETS, Encoder, FittedEncoder, roofline_times
from mfcp.tasks.graphs.operator_graphs import build_graphs

pytestmark = pytest.mark.xdist_group("encoder")  # one worker makes what they share


def test_roofline_times_by_hand():
    """First accelerator: batch 1, 3e12 FLOP/s, 1.5e11 B/s, 2 us a launch; a group of mm + relu, and one of mm + add."""
    seconds = roofline_times(build_graphs(*BLOCK))
    assert seconds.shape == (2, TARGETS)
    light = (8 + 4 + 4 * 2) / 1.5e11
    assert seconds[:, 0] == pytest.approx([1e9 / 3e12 + light + 2 * 2e-6] * 2)


def test_vectors_predict_roofline_times_of_unseen_graphs(graphs, fitted):
    from mfcp.tasks.features.graph_network import apply_network

    _, predicted = apply_network(fitted.encoder, fitted.weights, graphs.coarse, roofline_times(graphs))
    owner = np.repeat(np.arange(48), np.diff(graphs.coarse.ptr))
    actual = np.log(np.stack([np.bincount(owner, column) for column in roofline_times(graphs).T], axis=1))
    unseen = slice(40, 48)
    residual = ((predicted - actual)[unseen] ** 2).sum()
    assert residual < 0.2 * ((actual[unseen] - actual[:40].mean(axis=0)) ** 2).sum()


def test_the_seed_decides_and_the_callers_random_state_is_left_alone(graphs, fitted):
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    again, other = (QUICK.fit(graphs, np.arange(40), seed=seed) for seed in (0, 1))
    assert torch.rand(1) == expected
    np.testing.assert_array_equal(again.transform(graphs), fitted.transform(graphs))
    assert not np.allclose(other.transform(graphs), fitted.transform(graphs))


def test_training_reads_training_graphs_only(graphs, fitted):
    """Other graphs with other amounts in the held-out places change nothing in the weights."""
    factor = np.where(graphs.graph >= 40, 100.0, 1.0)
    changed = replace(graphs, flops=graphs.flops * factor, read=graphs.read * factor)
    again = QUICK.fit(changed, np.arange(40), seed=0)
    for name, value in fitted.weights.items():
        np.testing.assert_array_equal(value, again.weights[name])


def test_saved_and_loaded_encoders_agree(graphs, fitted, tmp_path):
    fitted.save(tmp_path / "encoder.safetensors")
    loaded = FittedEncoder.load(tmp_path / "encoder.safetensors")
    assert loaded.encoder == QUICK
    np.testing.assert_array_equal(loaded.transform(graphs), fitted.transform(graphs))


def test_a_file_that_is_no_encoder_is_an_error(tmp_path):
    path = tmp_path / "encoder.safetensors"
    with pytest.raises(DataError, match="not an encoder"):
        FittedEncoder.load(path)
    path.write_bytes(b"\x00" * 20)
    with pytest.raises(DataError, match="run featurize again"):
        FittedEncoder.load(path)


@pytest.mark.parametrize("kind", sorted(Encoder.members))
def test_every_encoder_gives_finite_vectors_of_one_length(kind, graphs, tmp_path):
    fields = {"gnn": {"steps": 2}}.get(kind, {})
    fitted = Encoder.build(kind, **fields).fit(graphs, np.arange(5), seed=0)
    z = fitted.transform(graphs)
    assert z.shape[0] == 48
    assert z.dtype == np.float64
    assert np.isfinite(z).all()
    fitted.save(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(FittedEncoder.load(tmp_path / "e.safetensors").transform(graphs), z)


def test_nothing_to_learn_from_and_unknown_kinds_are_errors(graphs):
    with pytest.raises(DataError, match=r"choose featurize\.encoder: none"):
        QUICK.fit(graphs, np.arange(0), seed=0)
    with pytest.raises(SettingsError, match="unknown encoder kind 'gin'; known: gnn, none"):
        Encoder.build("gin")
