import pytest
from small_platform import SMALL

from mfcp.data.log.schema import SCHEMA
from mfcp.data.log.tables import read_tables, write_tables
from mfcp.data.sources import Source
from mfcp.data.sources.emulator import EmulatorSource
from mfcp.emulator.platform import emulate
from mfcp.errors import SettingsError

pytestmark = pytest.mark.xdist_group("emulator")  # its graphs are captured once


def test_the_emulator_is_a_source_like_any_other():
    source = Source.build("emulator", tasks=2, families=["distilbert"])
    assert isinstance(source, EmulatorSource)
    assert Source.parse(source.spec()) == source
    assert set(source.read(0)) == set(SCHEMA)


def test_an_unknown_key_is_an_error_that_names_it():
    with pytest.raises(SettingsError, match="task: unknown key"):
        Source.build("emulator", task=2)


def test_tables_survive_writing_and_reading(small, tmp_path):
    write_tables(small, tmp_path)
    again = read_tables(tmp_path)
    assert {name: len(table) for name, table in again.items()} == {name: len(table) for name, table in small.items()}
    assert again["runs"]["duration_s"].equals(small["runs"]["duration_s"])


def test_same_seed_same_bytes(graphs, tmp_path):
    for name in ("one", "two"):
        write_tables(emulate(SMALL, 0, graphs=graphs), tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted(f"{table}.parquet" for table in SCHEMA)
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes(), file
