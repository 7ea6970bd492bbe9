"""`mfcp solve`: plans that hold, JSON that a script can read, and a word where there is no plan."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from commands.called import run

from mfcp.matching.engines.base import Engine
from mfcp.registry import import_members


def test_solve_prints_a_plan_that_holds(matrices, capsys):
    folder, T, A = matrices
    code, out, _ = run(capsys, "solve", "--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0.85)
    assert code == 0
    result = json.loads(out)
    plan = np.array(result["assignment"])
    loads = [T[i, plan == i].sum() for i in range(3)]
    assert result["makespan"] == pytest.approx(max(loads))
    assert result["lower_bound"] <= result["makespan"] + 1e-9
    assert result["reliability"] == pytest.approx(A[plan, range(5)].mean())
    assert result["reliability"] >= 0.85
    assert result["status"] == "optimal"


def test_solve_writes_the_same_to_a_file_and_says_one_line(matrices, capsys):
    folder, *_ = matrices
    arguments = ["solve", "--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0.8]
    _, out, _ = run(capsys, *arguments)
    _, line, _ = run(capsys, *arguments, "--engine", "milp", "--out", folder / "plan.json")
    one, two = json.loads(out), json.loads((folder / "plan.json").read_text())
    assert one.keys() == two.keys()
    assert one["makespan"] == pytest.approx(two["makespan"])
    assert len(line.splitlines()) == 1
    for words in ("optimal", f"makespan {two['makespan']:.6g} s", "bound", "gap", "reliability", "engine milp"):
        assert words in line


def test_a_folder_for_the_plan_is_told_before_anything_is_solved(matrices, capsys):
    folder, *_ = matrices
    files = ("--times", folder / "t.npy", "--reliability", folder / "a.csv")
    code, out, err = run(capsys, "solve", *files, "--gamma", 0.8, "--out", folder)
    assert (code, out, err) == (2, "", f"error: {folder}: a folder; expected the name of a file\n")


def test_solve_takes_all_that_a_platform_adds(matrices, capsys):
    folder, T, _ = matrices
    np.savetxt(folder / "allowed.csv", [[0, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 1, 1, 1]], delimiter=",")
    np.savetxt(folder / "backlog.csv", [0.5, 0.0, 0.25])  # one column
    np.save(folder / "deadline.npy", [np.inf, np.inf, 9.0, np.inf, np.inf])
    np.savetxt(folder / "memory.csv", [[4, 3, 2, 1, 1]], delimiter=",")
    np.savetxt(folder / "room.csv", [[6, 5, 6]], delimiter=",")
    np.savetxt(folder / "cost.csv", T * 2, delimiter=",")
    code, out, err = run(
        capsys, "solve", "--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0.8,
        "--allowed", folder / "allowed.csv", "--backlog", folder / "backlog.csv", "--deadline", folder / "deadline.npy",
        "--capacity", f"memory={folder / 'memory.csv'}:{folder / 'room.csv'}", "--max-tasks", 2,
        "--cost", folder / "cost.csv", "--weights", "makespan=1,cost=0.5",
    )  # fmt: skip
    assert code == 0, err
    result = json.loads(out)
    plan = np.array(result["assignment"])
    counts = np.bincount(plan, minlength=3)
    assert counts.max() <= 2
    assert plan[0] != 0
    assert (np.bincount(plan, [4, 3, 2, 1, 1], 3) <= [6, 5, 6]).all()
    busy = np.bincount(plan, T[plan, range(5)], 3)
    assert result["busy"] == pytest.approx(busy)
    assert result["makespan"] == pytest.approx(max((busy + np.array([0.5, 0, 0.25]))[counts > 0]))
    assert result["objective"] == pytest.approx(result["makespan"] + busy.sum())
    assert result["status"] == "optimal"


def test_solve_runs_tasks_side_by_side(matrices, capsys):
    folder, T, _ = matrices
    np.savetxt(folder / "zeta.csv", [[1.0, 1.0, 0.8, 0.7, 0.6, 0.5]], delimiter=",")
    arguments = ["--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0, "--engine", "greedy"]
    code, out, _ = run(capsys, "solve", *arguments, "--zeta", folder / "zeta.csv")
    assert code == 0
    plan, factor = np.array(json.loads(out)["assignment"]), np.array([1.0, 1.0, 0.8, 0.7, 0.6, 0.5])
    busy = np.bincount(plan, T[plan, range(5)], 3) * factor[np.bincount(plan, minlength=3)]
    assert json.loads(out)["busy"] == pytest.approx(busy)


def test_solve_says_null_where_there_is_no_gap(matrices, capsys):
    """A cost of nothing: the bound is 0, which no ratio can be taken of, but the plan of cost 0 meets it."""
    folder, T, _ = matrices
    np.save(folder / "cost.npy", np.zeros_like(T))
    arguments = ["--times", folder / "t.npy", "--reliability", folder / "a.csv", "--gamma", 0.0]
    code, out, _ = run(capsys, "solve", *arguments, "--cost", folder / "cost.npy", "--weights", "cost=1")
    assert code == 0
    assert json.loads(out)["gap"] == 0.0
    rng = np.random.default_rng(0)
    np.save(folder / "long.npy", rng.lognormal(size=(3, 30)))
    np.save(folder / "sure.npy", np.ones((3, 30)))
    np.save(folder / "cost.npy", np.where(np.arange(3)[:, None] == 0, 0.0, np.ones((3, 30))))
    arguments = ["--times", folder / "long.npy", "--reliability", folder / "sure.npy", "--gamma", 0.0]
    code, out, _ = run(capsys, "solve", *arguments, "--cost", folder / "cost.npy", "--weights", "cost=1",
                       "--max-tasks", 20, "--engine", "greedy")  # fmt: skip
    assert code == 0
    assert json.loads(out)["lower_bound"] == 0.0
    assert json.loads(out)["gap"] is None


def test_the_help_names_every_engine(capsys):
    import_members("mfcp.matching.engines")
    code, out, _ = run(capsys, "solve", "--help")
    assert code == 0
    assert all(re.search(rf"\b{name}\b", out) for name in Engine.members)


def test_what_highs_prints_does_not_spoil_the_json(matrices):
    """Its notes go to the process's own standard output, past Python's."""
    folder, *_ = matrices
    program = (
        "import ctypes, mfcp.matching.planning as p, mfcp.cli as c\n"
        "solve = p.solve\n"
        "p.solve = lambda *a, **k: (ctypes.CDLL(None).puts(b'note'), solve(*a, **k))[1]\n"
        f"c.main(['solve', '--times', '{folder}/t.npy', '--reliability', '{folder}/a.csv', '--gamma', '0.8'])"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(out)["status"] == "optimal"


def test_solve_that_finds_no_plan_says_so(tmp_path, capsys):
    """5 + 5 and 4 + 3 + 3 fit, but a list that balances the clusters parts the fives."""
    np.savetxt(tmp_path / "t.csv", np.ones((2, 5)), delimiter=",")
    np.savetxt(tmp_path / "use.csv", [[5, 5, 4, 3, 3]], delimiter=",")
    arguments = ["solve", "--times", tmp_path / "t.csv", "--reliability", tmp_path / "t.csv", "--gamma", 1,
                 "--capacity", f"memory={tmp_path / 'use.csv'}:10"]  # fmt: skip
    code, _, _ = run(capsys, *arguments, "--engine", "exact")
    assert code == 0
    code, out, err = run(capsys, *arguments, "--engine", "greedy")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "engine 'greedy' found no plan" in err
