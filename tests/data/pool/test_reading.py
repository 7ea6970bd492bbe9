import numpy as np
import pytest
from data.pool.test_run_totals import CLUSTERS, TASKS, log_of

from mfcp.data.log.formats import write_part
from mfcp.data.log.schema import RUNS
from mfcp.data.log.tables import write_tables
from mfcp.data.pool import reading
from mfcp.data.pool.reading import read_totalled
from mfcp.data.pool.run_totals import TotalledLog, totals_of
from mfcp.data.pool.times import measure_cells
from mfcp.errors import DataError


def test_a_folder_of_parts_gives_what_one_file_gives(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    runs = [
        {
            "task_id": TASKS[rng.integers(4)],
            "cluster_id": CLUSTERS[rng.integers(3)],
            "status": "failed" if rng.random() < 0.2 else "succeeded",
            "duration_s": float(rng.lognormal(3)),
            "samples_per_s": float(rng.lognormal()),
            "started_at": f"2026-01-{rng.integers(1, 29):02d}T00:00:00Z",
        }
        for _ in range(60)
    ]
    log = log_of(runs, [{"batch_size": None, "samples": None}] * 4)
    write_tables(log, tmp_path / "one")
    write_tables({name: frame for name, frame in log.items() if name != "runs"}, tmp_path / "parts")
    (tmp_path / "parts" / "runs").mkdir()
    for k in range(3):
        write_part(log["runs"].iloc[20 * k : 20 * k + 20], tmp_path / "parts" / "runs" / f"{k}.parquet", RUNS.key)
    monkeypatch.setattr(reading, "PART_ROWS", 7)  # of a block
    one, several = read_totalled(tmp_path / "one"), read_totalled(tmp_path / "parts")
    assert set(one) == set(several) == {"tasks", "clusters"}
    sizes = np.ones(3)
    for a, b in ((one, several), (TotalledLog(log, totals_of(log)), one)):
        left, right = measure_cells(a, sizes), measure_cells(b, sizes)
        for name in ("duration", "per_unit", "finished", "succeeded", "samples", "unit"):
            np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-12, err_msg=name)
        np.testing.assert_array_equal(a.totals.first, b.totals.first)
    write_tables({"runs": log["runs"].iloc[:0]}, tmp_path / "one")
    with pytest.raises(DataError, match="no rows"):
        read_totalled(tmp_path / "one")
