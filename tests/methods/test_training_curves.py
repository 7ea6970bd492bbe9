"""Training curves are read back as they were, without the model."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from mfcp.errors import DataError
from mfcp.methods.training_curves import PREFIX, curves_in, read_curves


def test_curves_beside_a_model_are_read_alone(tmp_path):
    curve = np.arange(6.0).reshape(2, 3)
    save_file({f"{PREFIX}train.cost": curve, "weights": np.ones(4)}, tmp_path / "A.safetensors")
    found = read_curves(tmp_path, "A")
    assert list(found) == ["train.cost"]
    np.testing.assert_array_equal(found["train.cost"], curve)
    assert curves_in({"weights": curve}) == {}


@pytest.mark.parametrize("content", [None, b"no tensors"])
def test_a_damaged_model_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "A.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"A\.safetensors: not a complete model .*; run the finetune stage again"):
        read_curves(tmp_path, "A")
