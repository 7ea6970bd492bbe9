import json
import re

import pandas as pd
import pytest
from platform_log import small_log, small_release

from mfcp.cli import main
from mfcp.data.log.tables import write_tables

pytestmark = pytest.mark.xdist_group("deciding")  # one worker makes what they share


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "made"
    small_release(folder, small_log())
    return folder


@pytest.fixture
def tasks(tmp_path):
    own = small_log(6, seed=9, start=500)
    write_tables({name: own[name] for name in ("tasks", "nodes", "edges")}, tmp_path / "round")
    own["tasks"].to_csv(tmp_path / "tasks.csv", index=False)
    return tmp_path


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["match", *map(str, arguments)])
    return end.value.code


def test_a_round_as_json_and_as_csv(model, tasks, capsys):
    assert run("--model", model, "--tasks", tasks / "round") == 0
    found = json.loads(capsys.readouterr().out)
    assert run("--model", model, "--tasks", tasks / "tasks.csv", "--out", tasks / "plan.csv") == 0
    assert "6 tasks on" in capsys.readouterr().out
    rows = pd.read_csv(tasks / "plan.csv")
    assert (
        [row["task_id"] for row in found["tasks"]] == rows["task_id"].tolist() == [f"task{j}" for j in range(500, 506)]
    )
    assert found["makespan"] >= found["lower_bound"] > 0
    assert found["status"] in ("optimal", "feasible", "short")
    for row in found["tasks"]:
        assert row["seconds_low"] <= row["seconds"] <= row["seconds_high"]
        assert row["why"].startswith("next best ")
        assert row["cluster_id"] != row["why"].removeprefix("next best ").split(":")[0]


def test_a_cluster_that_is_busy_gets_less_and_is_told(model, tasks, capsys):
    out = tasks / "plan.json"
    plans = {}
    for backlog in ("", "a=0", " a = 1e6, b=20"):
        assert run("--model", model, "--tasks", tasks / "round", "--backlog", backlog, "--out", out) == 0
        plans[backlog] = json.loads(out.read_text())
        told = capsys.readouterr().out
    assert "busy before: a 1e+06 s, b 20 s\n" in told
    assert plans[""] == plans["a=0"]
    assert plans[""]["backlog"] == {}
    busy = plans[" a = 1e6, b=20"]
    assert busy["backlog"] == {"a": 1e6, "b": 20.0}
    assert "a" in {task["cluster_id"] for task in plans[""]["tasks"]}
    assert "a" not in {task["cluster_id"] for task in busy["tasks"]}
    ends = {name: busy["backlog"].get(name, 0.0) for name in "bc"}
    for task in busy["tasks"]:
        ends[task["cluster_id"]] += task["seconds"]
    assert busy["makespan"] == pytest.approx(max(ends.values()))


def test_one_task_is_explained(model, tasks, capsys):
    assert run("--model", model, "--tasks", tasks / "tasks.csv", "--explain", "task503", "--out", tasks / "p.json") == 0
    text = capsys.readouterr().out
    assert text.startswith("task503 → ")
    assert "price of a point of reliability" in text
    assert json.loads((tasks / "p.json").read_text())["rule"] == "expected_cost"


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("phase", "guess", "tasks row 1, phase: expected train or infer or empty, got 'guess'"),
        ("flops", "-3", r"tasks row 1, flops: expected .*, got -3"),
        ("batch_size", "many", r"tasks row 1, batch_size: expected .*, got 'many'"),
        ("task_id", "", "tasks row 1, task_id: expected text, got nothing"),
        ("task_id", "task501", "task_id 'task501' occurs twice"),
    ],
)
def test_a_wrong_cell_is_named(model, tasks, capsys, column, value, said):
    table = pd.read_csv(tasks / "tasks.csv", dtype=str)
    table.loc[0, column] = value
    table.to_csv(tasks / "tasks.csv", index=False)
    assert run("--model", model, "--tasks", tasks / "tasks.csv") == 2
    error = capsys.readouterr().err
    assert re.search(said, error), error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("table", "column", "value", "said"),
    [
        ("nodes", "flops", "many", r"nodes\.csv: nodes row 2, flops: expected a number .*, got 'many'"),
        ("nodes", "flops", "-5", r"nodes row 2, flops: expected a number from 0 .*, got -5"),
        ("nodes", "node_id", "", "nodes row 2, node_id: expected a whole number .*, got nothing"),
        ("edges", "src", "x", r"edges\.csv: edges row 2, src: expected a whole number .*, got 'x'"),
    ],
)
def test_a_wrong_cell_of_a_graph_is_named(model, tasks, capsys, table, column, value, said):
    folder, own = tasks / "given", small_log(6, seed=9, start=500)
    write_tables({name: own[name] for name in ("tasks", "nodes", "edges")}, folder, format="csv")
    frame = pd.read_csv(folder / f"{table}.csv", dtype=str)
    frame.loc[1, column] = value
    frame.to_csv(folder / f"{table}.csv", index=False)
    assert run("--model", model, "--tasks", folder) == 2
    error = capsys.readouterr().err
    assert re.search(said, error), error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gamma", "2"], "gamma: expected a mean reliability in [0, 1], got 2.0"),
        (["--clusters", "a,moon"], "--clusters: unknown 'moon'; the release knows a, b, c"),
        (["--backlog", "a=1,moon=2"], "--backlog: unknown 'moon'; the release knows a, b, c"),
        (["--backlog", "a=1,b"], "--backlog: expected CLUSTER=SECONDS, got 'b'"),
        (["--backlog", "a=1,b=2, a=1"], "--backlog: 'a' is named twice"),
        (["--backlog", " =1"], "--backlog: expected CLUSTER=SECONDS, got '=1'"),
        (["--backlog", "=1"], "--backlog: expected CLUSTER=SECONDS, got '=1'"),
        (["--backlog", "a=long"], "--backlog: expected CLUSTER=SECONDS, got 'a=long'"),
        (["--backlog", "a=-1"], "backlog of a: expected a finite number, at least 0, got -1.0"),
        (["--backlog", "a=nan"], "backlog of a: expected a finite number, at least 0, got nan"),
        (["--out", "plan.xml"], "--out plan.xml: expected a name that ends in .json or .csv"),
        (["--time-limit", "0"], "--time-limit: expected seconds above 0"),
        (["--explain", "nobody"], "nobody"),
    ],
)
def test_bad_options_end_with_2_and_one_line(model, tasks, capsys, arguments, said):
    assert run("--model", model, "--tasks", tasks / "tasks.csv", *arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_no_release_and_no_tasks_are_said_with_a_remedy(model, tasks, capsys):
    assert run("--model", tasks / "none", "--tasks", tasks / "tasks.csv") == 2
    assert "no such release; `mfcp release --data DIR --out " in capsys.readouterr().err
    (tasks / "empty").mkdir()
    assert run("--model", model, "--tasks", tasks / "empty") == 2
    assert "no table 'tasks' in it; expected tasks.csv" in capsys.readouterr().err


def test_runs_since_the_release_move_a_nomination_and_say_so(model, tasks, capsys):
    run("--model", model, "--tasks", tasks / "round")
    before = json.loads(capsys.readouterr().out)["tasks"]
    row = before[2]
    runs = pd.DataFrame([{"task_id": row["task_id"], "cluster_id": row["cluster_id"], "duration_s": 3 * row["seconds"],
                          "status": "succeeded"}])  # fmt: skip
    runs.to_csv(tasks / "runs.csv", index=False)
    assert run("--model", model, "--tasks", tasks / "round", "--observed", tasks / "runs.csv",
               "--explain", row["task_id"]) == 0  # fmt: skip
    text, answer = capsys.readouterr().out.rsplit("\n", 2)[:2]
    after = json.loads(answer)["tasks"]
    assert f"moved by {row['task_id']} on {row['cluster_id']}, time x" in text or after[2] != row
    assert [a for a, b in zip(after, before, strict=True) if a["task_id"] != row["task_id"] and a["seconds"] !=
            b["seconds"] and a["cluster_id"] == b["cluster_id"]] == []  # fmt: skip


def test_what_is_worth_measuring_is_listed_answered_and_not_asked_again(model, tasks, capsys):
    """Steps that cost nothing; their answers go back in, and other cells come next."""
    free = ("--measure", 2, "--measure-start", 0, "--measure-steps", 1)
    where = ("--model", model, "--tasks", tasks / "round")
    assert run(*where, *free, "--measure-out", tasks / "ask.csv") == 0
    asked = json.loads(capsys.readouterr().out)["measure"]
    sheet = pd.read_csv(tasks / "ask.csv")
    assert [one["task_id"] for one in asked] == sheet["task_id"].tolist()
    sheet.assign(step_time_s=0.05).to_csv(tasks / "answers.csv", index=False)
    assert run(*where, *free, "--observed", tasks / "answers.csv") == 0
    again = json.loads(capsys.readouterr().out)["measure"]
    assert not {(o["task_id"], o["cluster_id"]) for o in asked} & {(o["task_id"], o["cluster_id"]) for o in again}
    assert run(*where, "--measure-worth", 0.9, "--out", tasks / "p.json") == 0
    assert "no measurement would save more than it costs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "message"),
    [(("--measure", "0"), "at least 1"), (("--measure-out", "x.csv"), "nothing is to be measured"),
     (("--measure", "1", "--measure-out", "x.txt"), "ends in .csv"), (("--observed", "none.csv"), "no such file")],
)  # fmt: skip
def test_wrong_wishes_about_evidence_are_refused(model, tasks, capsys, more, message):
    assert run("--model", model, "--tasks", tasks / "round", *more) == 2
    assert message in capsys.readouterr().err
