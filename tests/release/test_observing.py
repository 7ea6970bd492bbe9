"""Observed runs: what they tell in seconds, of which task and cluster, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from observed_runs import NEW, ran
from platform_log import small_log

from mfcp.data.log.tables import write_tables
from mfcp.errors import DataError
from mfcp.release.evidence import STEP_NOISE
from mfcp.release.observing import evidence_of, read_evidence

TABLES = small_log()
pytestmark = pytest.mark.xdist_group("release")  # one worker makes what they share


def test_steps_and_rates_tell_the_seconds_of_the_whole_task(related):
    """500 s for 10,000 samples: as a duration, as a step of 8 samples, as a rate."""
    whole = evidence_of(related, NEW, ran(("task500", "a", 500.0)))
    step = evidence_of(related, NEW, ran(("task500", "a", np.nan), step_time_s=500 / 1e4 * 8, batch_size=np.nan))
    larger = evidence_of(related, NEW, ran(("task500", "a", np.nan), step_time_s=500 / 1e4 * 16, batch_size=16))
    rate = evidence_of(related, NEW, ran(("task500", "a", np.nan), samples_per_s=1e4 / 500))
    for other in (step, larger, rate):
        assert other.cells.residual == pytest.approx(whole.cells.residual)
        assert other.cells.variance == pytest.approx([STEP_NOISE**2])
    assert whole.cells.variance == pytest.approx([related.run_noise**2])


def test_a_cluster_of_several_devices_does_several_times_a_rate(related):
    wide = replace(related, pool_size=np.array([4.0, 1.0, 1.0]))
    one, four = (evidence_of(r, NEW, ran(("task500", "a", np.nan), samples_per_s=20.0)) for r in (related, wide))
    assert one.cells.residual - four.cells.residual == pytest.approx(np.log([4.0]))


def test_runs_of_one_cell_are_one_and_the_surer(related):
    three = evidence_of(related, NEW, ran(*[("task500", "a", s) for s in (90.0, 100.0, 110.0)]))
    assert len(three.cells.cluster) == 1
    assert three.cells.variance == pytest.approx([related.run_noise**2 / 3])


def test_the_log_tells_how_far_runs_of_one_pair_are_apart(release):
    """The formula's noise is 2 % of log time."""
    assert release.run_noise == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize(
    ("row", "message"),
    [(("nobody", "a", 1.0), "task 'nobody' is described nowhere"), (("task500", "z", 1.0), "cluster 'z' is not known")],
)
def test_a_run_of_nobody_is_refused_with_what_to_do(related, row, message):
    with pytest.raises(DataError, match=message):
        evidence_of(related, NEW, ran(row))


def test_runs_are_read_from_a_file_and_with_other_tasks_from_a_folder(related, tmp_path):
    here, other = NEW["tasks"].iloc[:5], NEW["tasks"].iloc[5:]
    rounds = {**NEW, "tasks": here.reset_index(drop=True)}
    runs = ran(("task501", "a", 100.0), ("task509", "b", 50.0))
    runs.iloc[:1].to_csv(tmp_path / "runs.csv", index=False)
    assert len(read_evidence(related, rounds, tmp_path / "runs.csv").cells.cluster) == 1
    columns = small_log(2)["runs"].columns
    write_tables({"tasks": other, "runs": runs.reindex(columns=columns)}, tmp_path / "since")
    read = read_evidence(related, rounds, tmp_path / "since")
    expected = evidence_of(related, NEW, runs)
    assert read.cells.residual == pytest.approx(expected.cells.residual)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no table 'runs' in it"):
        read_evidence(related, rounds, tmp_path / "empty")
    runs.iloc[:1].assign(duration_s=-3.0).to_csv(tmp_path / "wrong.csv", index=False)
    with pytest.raises(DataError, match=r"wrong.csv: runs row 1, duration_s: expected"):
        read_evidence(related, rounds, tmp_path / "wrong.csv")
