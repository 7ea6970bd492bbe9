import numpy as np
import pytest

from mfcp.emulator import hardware
from mfcp.errors import SettingsError


def test_every_accelerator_states_its_source_and_plausible_figures():
    table = hardware.accelerators()
    assert len(table) >= 12
    assert table["source"].str.len().gt(10).all()
    assert table["peak_fp32"].between(1e12, 1e14).all()
    for column in ("peak_tf32", "peak_fp16", "peak_bf16"):
        known = table[column].dropna()
        assert (known >= table.loc[known.index, "peak_fp32"]).all(), column


def test_owners_and_links_state_their_sources_and_rates_follow_from_them():
    owners = hardware.owners()
    assert owners["source"].str.len().gt(40).all()
    assert set(hardware.clusters()["owner"]) <= set(owners.index)
    north = hardware.clusters(["north-k80x8"]).iloc[0]
    assert north["hazard"] == pytest.approx(32 * hardware.ACCELERATOR_HAZARD + 7.0e-5)
    assert north["outage_rate"] == pytest.approx(1 / 1710)
    assert north["interconnect_bandwidth"] == 15.75e9
    assert np.isnan(hardware.clusters(["aurora-h100x1"])["interconnect_bandwidth"].iloc[0])


def test_units_by_precision():
    kinds = {
        name: [hardware.unit(hardware.clusters([name]), p) for p in hardware.PRECISIONS]
        for name in ("north-k80x8", "north-p100x4", "harbour-v100x2", "river-xeonx4")
    }
    assert kinds["north-k80x8"] == [("vector", 4.0)] * 3
    assert kinds["north-p100x4"] == [("vector", 4.0), ("vector", 2.0), ("vector", 4.0)]
    assert kinds["harbour-v100x2"] == [("vector", 4.0), ("tensor", 2.0), ("vector", 4.0)]
    assert kinds["river-xeonx4"] == [("cpu", 4.0), ("cpu", 4.0), ("cpu", 2.0)]


def test_clusters_keep_the_order_of_the_table_and_refuse_unknown_names():
    names = list(hardware.clusters()["cluster_id"])
    assert list(hardware.clusters(names[::-1][:3])["cluster_id"]) == names[-3:]
    with pytest.raises(SettingsError, match="unknown cluster 'mars'; known: north"):
        hardware.clusters(["mars"])


def test_work_without_a_fast_unit_runs_at_the_fp32_rate():
    platform = hardware.clusters(["north-k80x8", "harbour-v100x2", "meridian-a100x2"])
    np.testing.assert_allclose(hardware.peak_rates(platform, "amp_bf16", False), [4.37e12, 15.7e12, 312e12])
    np.testing.assert_allclose(hardware.peak_rates(platform, "fp32", True), [4.37e12, 15.7e12, 156e12])
    np.testing.assert_allclose(hardware.peak_rates(platform, "fp32", False), [4.37e12, 15.7e12, 19.5e12])
