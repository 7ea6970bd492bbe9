import numpy as np
import pandas as pd
import pytest

from mfcp.data.emulator_calibration import fit_speedup, multipliers
from mfcp.emulator.colocation import zeta_of_pairs
from mfcp.errors import DataError
from mfcp.matching.speedup import SpeedUp

pytestmark = pytest.mark.xdist_group("emulator")  # its graphs are captured once


def pairs(*rows):
    columns = ["cluster_id", "task_a", "task_b", "throughput_a", "throughput_b", "isolated_a", "isolated_b"]
    return pd.DataFrame(rows, columns=columns)


def test_zeta_is_the_inverse_of_the_normalised_sum():
    """Half of one's speed and three quarters of the other's: 1.25 times the work in a time."""
    found = multipliers(pairs(("x", "a", "b", 5.0, 15.0, 10.0, 20.0), ("x", "a", "c", 0.0, 0.0, 10.0, 1.0)))
    assert found.tolist() == [pytest.approx(0.8)]


def test_the_curve_passes_through_the_median_pair_of_every_cluster():
    table = pairs(*[(name, "a", str(k), z, z, 1.0, 1.0) for name in "xy" for k, z in enumerate((0.5, 0.6, 0.7))])
    names, curve = fit_speedup(table)
    assert names == ["x", "y"]
    assert isinstance(curve, SpeedUp)
    np.testing.assert_allclose(curve.table(2, 2)[:, 2], 1 / 1.2)


def test_pairs_that_only_hurt_give_no_gain():
    _, curve = fit_speedup(pairs(("x", "a", "b", 0.3, 0.3, 1.0, 1.0)))
    np.testing.assert_allclose(curve.table(1, 3), [[1, 1, 1, 1]])


def test_no_pair_is_an_error():
    with pytest.raises(DataError, match="no pair ran"):
        fit_speedup(pairs(("x", "a", "b", 0.0, 0.0, 1.0, 1.0)))


def test_an_accelerator_without_pairs_takes_the_row_of_all_others():
    zeta, spread = zeta_of_pairs(["K80", "H100", "V100"])
    assert zeta[0] > zeta[1] == zeta[2]
    assert (spread > 0).all()


def test_emulated_pairs_give_back_the_zeta_that_made_them(small):
    """40 pairs a cluster: the median of a log-normal of spread s scatters by 1.25 s / sqrt(40)."""
    found = multipliers(small["colocation"])
    accelerator = small["clusters"].set_index("cluster_id")["accelerator"]
    zeta, spread = zeta_of_pairs(list(accelerator[found.index.unique()]))
    median = np.log(found).groupby(level=0, sort=False).median()
    off = (median.to_numpy() - np.log(zeta)) / (1.25 * spread / np.sqrt(30))
    assert np.abs(off).max() < 4
    assert len(median) == len(accelerator)


def test_pairs_that_do_not_fit_together_are_logged_as_out_of_memory(small):
    table = small["colocation"]
    failed = table[table["status"] == "oom"]
    assert len(failed)
    assert (failed[["throughput_a", "throughput_b"]] == 0).all(axis=None)
    assert (table["isolated_a"] > 0).all()
