import numpy as np
import pandas as pd
import pytest

from mfcp.emulator.efficiency import Efficiency, defaults, load, nominal, save, step_parts
from mfcp.errors import DataError
from mfcp.tasks.graphs.operator_graphs import build_graphs
from mfcp.tasks.graphs.operators import CLASS_NAMES

SIZE = len(CLASS_NAMES)


@pytest.fixture(scope="module")
def operators():
    """Forty graphs of three classes of operator in different amounts."""
    rng = np.random.default_rng(0)
    rows = []
    for g in range(40):
        for node, op in enumerate(["convolution", "addmm", "relu"]):
            amount = np.exp(rng.normal(20, 1.5))
            flops = amount * 100 if op != "relu" else 0.0
            rows.append((f"g{g:02d}", node, op, flops, amount / 10, amount / 10, amount / 1000, 1000 * (op != "relu")))
    columns = ["graph_id", "node_id", "op", "flops", "bytes_read", "bytes_written", "output_numel", "param_count"]
    edges = pd.DataFrame({"graph_id": [], "src": [], "dst": []}).astype({"src": "int64", "dst": "int64"})
    return build_graphs(pd.DataFrame(rows, columns=columns), edges).distinct


def test_a_step_by_hand(operators):
    """One graph, nominal: every operator at its roofline, 5 us a launch, 1 ms a loop, the optimizer's traffic."""
    one = operators.take(np.array([3]))
    peak, bandwidth = 1e12, 1e11
    parts = step_parts(one, peak, bandwidth, 4.0, np.array([2.0]), np.array([1e9]))
    work = np.maximum(2 * one.flops / peak, (2 * one.traffic + 4 * one.params) / bandwidth).sum()
    assert nominal().seconds(parts)[0] == pytest.approx(work + 3 * 5e-6 + 1e9 / bandwidth + 1e-3)
    assert nominal(2.0).seconds(parts)[0] == pytest.approx(3 * (work + 3 * 5e-6) + 1e9 / bandwidth + 1e-3)


def test_half_precision_halves_activations_and_not_weights(operators):
    one = operators.take(np.array([0]))
    full, half = (step_parts(one, 1e30, 1.0, element, np.array([1.0]))[0, :SIZE].sum() for element in (4.0, 2.0))
    weights = 4 * one.params.sum()
    assert half - weights == pytest.approx((full - weights) / 2)


def test_a_fit_finds_the_efficiency_that_made_the_times(operators):
    batch = np.full(40, 8.0)
    parts = step_parts(operators, 1e12, 1e11, 4.0, batch)
    work = np.ones(SIZE)
    work[[CLASS_NAMES.index(name) for name in ("convolution", "matmul", "activation")]] = [2.5, 1.5, 4.0]
    truth = Efficiency(work, np.full(SIZE, 5e-6), 1.0, 1e-3)
    fitted = Efficiency.fit(parts, truth.seconds(parts), nominal(), work_sd=10.0, launch_sd=0.5)
    present = [CLASS_NAMES.index(name) for name in ("convolution", "matmul", "activation")]
    np.testing.assert_allclose(fitted.work[present], work[present], rtol=0.1)
    np.testing.assert_allclose(fitted.seconds(parts), truth.seconds(parts), rtol=0.01)


def test_without_measurements_of_a_class_its_factor_stays_where_it_started(operators):
    parts = step_parts(operators, 1e12, 1e11, 4.0, np.full(40, 8.0))
    fitted = Efficiency.fit(parts, 3 * nominal().seconds(parts), nominal(), work_sd=1.0, launch_sd=0.5)
    assert fitted.work[CLASS_NAMES.index("softmax")] == pytest.approx(1.0)
    assert fitted.work[CLASS_NAMES.index("convolution")] > 2


def test_shipped_efficiencies_have_every_kind_of_hardware_and_say_where_they_are_from():
    shipped = defaults()
    assert {"tensor", "vector", "cpu"} <= set(shipped)
    for own in shipped.values():
        assert (own.work > 0.05).all()
        assert (own.work < 100).all()
        assert (own.launch_s < 1e-3).all()
        assert own.loop_s < 0.1


def test_a_file_keeps_the_numbers(tmp_path):
    path = tmp_path / "found.csv"
    save({"A": nominal(2.0), "B": nominal()}, path, {"A": "here", "B": "there"})
    again = load(path)
    assert list(again) == ["A", "B"]
    np.testing.assert_allclose(again["A"].log, nominal(2.0).log, rtol=1e-3)
    assert set(pd.read_csv(path)["source"]) == {"here", "there"}


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.drop(columns="work"), "column 'work' is missing"),
        (lambda t: t.drop(index=0), "'A' needs one row for each class of operator; check convolution"),
        (lambda t: t.assign(work=t["work"].where(t.index != 1, -1.0)), "'A' has a number that is not positive"),
        (lambda t: t.assign(launch_s="fast"), "'A' has a number that is not positive"),
        (lambda t: pd.concat([t, t.iloc[:1]]), "check twice the same"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path, damage, message):
    path = tmp_path / "found.csv"
    save({"A": nominal()}, path, {"A": "here"})
    damage(pd.read_csv(path)).to_csv(path, index=False)
    with pytest.raises(DataError, match=f"found.csv: .*{message}"):
        load(path)


def test_no_file_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(DataError, match="mfcp calibrate"):
        load(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match=r"empty.csv.*mfcp calibrate"):
        load(tmp_path / "empty.csv")
