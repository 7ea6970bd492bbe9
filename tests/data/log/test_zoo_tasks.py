"""Tasks that name a model of the zoo have its figures and graph."""

import pandas as pd
import pytest

from mfcp.data.log.tables import check_tasks
from mfcp.data.log.zoo_tasks import with_zoo_models
from mfcp.errors import DataError


def tasks(**columns):
    return {"tasks": check_tasks(pd.DataFrame(columns), "new.csv")}


def test_figures_are_counted_and_what_a_row_states_stays():
    asked = tasks(
        task_id=["a", "b", "c"], model=["zoo:resnet-18@224", "mine", "zoo:resnet-18@224"], flops=[None, 5e9, 7.0]
    )
    told = with_zoo_models(asked)
    rows = told["tasks"].set_index("task_id")
    assert rows.loc["a", "flops"] == pytest.approx(3.63e9, rel=0.01)  # 2 x 1.8 G multiply-accumulates
    assert rows.loc["a", "param_count"] == pytest.approx(11.7e6, rel=0.01)
    assert (rows.loc["a", "model"], rows.loc["a", "input_size"], rows.loc["a", "domain"]) == ("resnet-18", 224, "cv")
    assert rows.loc["b", "flops"] == 5e9
    assert pd.isna(rows.loc["b", "graph_id"])
    assert rows.loc["c", "flops"] == 7.0
    assert set(told["nodes"]["graph_id"]) == {"resnet-18@224"}
    assert asked["tasks"]["flops"].isna().sum() == 1


def test_others_are_left_alone_and_an_unknown_one_is_named():
    plain = tasks(task_id=["a"], model=["resnet-18@224"])
    assert with_zoo_models(plain) is plain
    with pytest.raises(DataError, match=r"task 'b': no model 'resnet-19' in the zoo; `mfcp capture --list`"):
        with_zoo_models(tasks(task_id=["a", "b"], model=["x", "zoo:resnet-19"]))


def test_a_captured_graph_of_the_same_model_does_not_come_twice():
    first = with_zoo_models(tasks(task_id=["a"], model=["zoo:resnet-18@224"]))
    both = pd.concat([first["tasks"], tasks(task_id=["b"], model=["zoo:resnet-18@224"])["tasks"]], ignore_index=True)
    told = with_zoo_models({**first, "tasks": both})
    assert len(told["nodes"]) == len(first["nodes"])
    assert len(told["edges"]) == len(first["edges"])
    own = told["tasks"].set_index("task_id")
    assert own.loc["b", "graph_id"] == own.loc["a", "graph_id"]
    assert own.loc["b", "flops"] == own.loc["a", "flops"]
