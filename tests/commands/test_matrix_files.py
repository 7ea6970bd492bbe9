"""Matrices from files: what is wrong with one is named with file, row and column, in one line."""

import re

import numpy as np
import pytest
from commands.called import run


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--times": "none.npy"}, "none.npy: no such file"),
        ({"--times": "."}, r"\.: a folder; expected a file"),
        ({"--times": "text.csv"}, "text.csv: not a numeric matrix .line 1, column 1: 'a' is not a number.; expected"),
        ({"--times": "header.csv"}, "header.csv: .*line 1, column 1: 'x' is not a number.; expected .* without header"),
        ({"--times": "gap.csv"}, "gap.csv: .*line 2, column 3: '' is not a number"),
        ({"--times": "ragged.csv"}, "ragged.csv: .*line 3 has 4 values, the first has 5"),
        ({"--times": "binary.csv"}, "binary.csv: not a numeric matrix"),
        ({"--times": "empty.csv"}, "empty.csv: empty file; expected a matrix"),
        ({"--times": "empty.npy"}, "empty.npy: empty file; expected a matrix"),
        ({"--times": "zero.npy"}, "zero.npy: expected M rows × N columns"),
        ({"--times": "short.npy"}, "short.npy: not a numeric matrix"),
        ({"--times": "pickle.npy"}, "pickle.npy: not a numeric matrix .*objects|not a numeric matrix .Array can"),
        ({"--times": "complex.npy"}, "complex.npy: not a numeric matrix .its entries are complex128"),
        ({"--times": "words.npy"}, "words.npy: not a numeric matrix .its entries are"),
        ({"--times": "vector.npy"}, "vector.npy: expected M rows × N columns"),
        ({"--times": "negative.csv"}, r"negative.csv: T\[0, 1\] = -2.0: expected a positive .*mend row 1, column 2"),
        ({"--times": "nan.npy"}, r"nan.npy: T\[2, 0\] = nan: expected a positive .*mend row 3, column 1"),
        ({"--times": "wide.csv"}, "a.csv: expected 3 rows × 4 columns as --times has, got 3 × 5"),
        ({"--times": "cube.npy", "--reliability": "cube.npy"}, "cube.npy: expected M rows"),
        ({"--reliability": "t.npy"}, r"t.npy: A\[.*\] = .*: expected a probability in \[0, 1\]; mend row"),
        ({"--gamma": "0.999"}, "best reachable mean reliability .* < gamma 0.999; lower gamma"),
        ({"--gamma": "7"}, r"--gamma: gamma must lie in \[0, 1\], got 7"),
        ({"--gamma": "nan"}, "--gamma: gamma must lie in"),
        ({"--time-limit": "0"}, "--time-limit: expected seconds above 0, got 0"),
        ({"--out": "t.npy/plan.json"}, "cannot write"),
        ({"--out": "."}, "error: .: a folder; expected the name of a file"),
        ({"--allowed": "nowhere.csv"}, r"nowhere.csv: task 1 \(column 2\) has no allowed cluster; allow one or drop"),
        ({"--allowed": "a.csv"}, "a.csv: row 1, column 1 is 0.*; expected 1 .* or 0"),
        ({"--allowed": "wide.csv"}, "wide.csv: expected 3 rows × 5 columns as --times has, got 3 × 4"),
        ({"--backlog": "five.csv"}, "five.csv: expected 3 numbers, one per cluster, got 1 × 5"),
        ({"--backlog": "minus.csv"}, r"minus.csv: backlog\[1\] = -1.0: expected at least 0 seconds.*; mend entry 2"),
        ({"--deadline": "minus.csv"}, "minus.csv: expected 5 numbers, one per task, got 3 × 1"),
        ({"--deadline": "five.csv"}, r"five.csv: task \d \(column \d\) has no allowed cluster that meets its deadline"),
        ({"--max-tasks": "1"}, "capacity 'tasks' is exceeded by 1 under every plan; raise its limits"),
        ({"--max-tasks": "some"}, "--max-tasks some: expected a number or a .npy or CSV file of 3 numbers, got 'some'"),
        ({"--max-tasks": "five.csv"}, "five.csv: expected 3 numbers, one per cluster"),
        ({"--max-tasks": "-1"}, "--max-tasks -1: capacity 'tasks': limit must be at least 0"),
        ({"--capacity": "memory"}, "--capacity memory: expected NAME=USE:LIMIT"),
        ({"--capacity": "memory=five.csv:five.csv"}, "five.csv: expected 3 numbers, one per cluster"),
        ({"--capacity": "memory=minus.csv:3"}, "minus.csv: expected 5 numbers, one per task, or 3 rows"),
        ({"--capacity": "reliability=five.csv:3"}, "capacities need names of their own"),
        ({"--zeta": "five.csv"}, "five.csv: expected factors for 0 … 5 tasks at once, 6 numbers or 3 rows of them"),
        ({"--zeta": "six.csv"}, "six.csv: zeta must hold positive finite factors"),
        ({"--zeta": "t.npy", "--engine": "milp"}, "t.npy: expected factors"),
        ({"--cost": "negative.csv"}, r"negative.csv: cost\[0, 1\] = -2.0: expected finite and at least 0"),
        ({"--weights": "speed=1"}, "--weights speed=1: unknown 'speed'; known: makespan, total_time, cost"),
        ({"--weights": "makespan=fast"}, "--weights makespan=fast: expected makespan=NUMBER"),
        ({"--weights": "makespan=0"}, "--weights makespan=0: weights of the objective must be .* not all 0"),
        ({"--weights": "cost=1"}, "--weights cost=1: cost is weighed but not given; add --cost FILE"),
    ],
)  # fmt: skip
def test_solve_on_bad_input_is_one_line_and_exit_code_2(matrices, capsys, change, words, monkeypatch):
    folder, T, _ = matrices
    monkeypatch.chdir(folder)
    write_bad_files(folder, T)
    options = {"--times": "t.npy", "--reliability": "a.csv", "--gamma": "0.8"} | change
    code, out, err = run(capsys, "solve", *[f"{key}={value}" for key, value in options.items()])
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert re.search(words, err), err


def write_bad_files(folder, T):
    (folder / "text.csv").write_text("a,b\nc,d\n")
    (folder / "header.csv").write_text("x,y,z,v,w\n1,2,3,4,5\n1,2,3,4,5\n")
    (folder / "gap.csv").write_text("1,2,3,4,5\n1,2,,4,5\n1,2,3,4,5\n")
    (folder / "ragged.csv").write_text("1,2,3,4,5\n1,2,3,4,5\n1,2,3,4\n")
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "empty.csv").write_text("")
    (folder / "empty.npy").write_text("")
    (folder / "nowhere.csv").write_text("1,0,1,1,1\n" * 3)
    (folder / "five.csv").write_text("0.1,0.1,0.1,0.1,0.1\n")
    (folder / "minus.csv").write_text("1\n-1\n1\n")
    (folder / "six.csv").write_text("1,1,0.9,0,0.9,0.9\n")
    (folder / "short.npy").write_bytes((folder / "t.npy").read_bytes()[:90])
    np.save(folder / "zero.npy", np.zeros((0, 5)))
    np.save(folder / "vector.npy", np.ones(5))
    np.save(folder / "complex.npy", T + 1j)
    np.save(folder / "words.npy", T.astype(str))
    np.save(folder / "nan.npy", np.where(np.arange(15).reshape(3, 5) == 10, np.nan, T))
    np.save(folder / "pickle.npy", np.array([{"evil": 1}], dtype=object), allow_pickle=True)
    np.savetxt(folder / "negative.csv", np.where(np.arange(5) == 1, -2.0, T), delimiter=",")
    np.savetxt(folder / "wide.csv", T[:, :4], delimiter=",")
    np.save(folder / "cube.npy", np.full((2, 3, 4), 0.9))
