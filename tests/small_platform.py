"""A small emulated platform, made once for the tests of every room that need one: import the fixtures in a conftest."""

import pandas as pd
import pytest

from mfcp.emulator import zoo
from mfcp.emulator.platform import EmulatorSettings, drawn_variants, emulate
from mfcp.files import locked, replacing_folder

SMALL = EmulatorSettings(tasks=24, families=("resnet", "mobilenet_v2", "vit", "bert", "t5"))


@pytest.fixture(scope="session")
def graphs(tmp_path_factory, worker_id):
    """Nodes and edges of the models of the small platform, captured by the first worker that needs them."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder if worker_id == "master" else folder.parent) / "small-platform"
    with locked(folder.with_suffix(".lock"), wait_s=120.0):
        if not folder.exists():
            made = zoo.capture_all({v.graph_id: v for v in drawn_variants(SMALL, 0)}.values())
            with replacing_folder(folder) as new:
                for name, table in zip(("nodes", "edges"), made, strict=True):
                    table.to_parquet(new / f"{name}.parquet")
    return tuple(pd.read_parquet(folder / f"{name}.parquet") for name in ("nodes", "edges"))


@pytest.fixture(scope="session")
def small(graphs):
    """A small platform: 24 tasks of five families on all clusters."""
    return emulate(SMALL, seed=0, graphs=graphs)
