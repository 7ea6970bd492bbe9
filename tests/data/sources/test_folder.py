import pytest

from mfcp.data.log.tables import write_tables
from mfcp.data.sources import Source
from mfcp.errors import DataError, SettingsError
from mfcp.registry import import_members


def test_a_folder_is_read_through_the_door_of_sources(tmp_path, small_log):
    import_members("mfcp.data.sources")
    write_tables(small_log(), tmp_path)
    source = Source.parse({"kind": "folder", "path": str(tmp_path)})
    assert set(source.read(seed=0)) == {"tasks", "clusters", "runs"}
    assert Source.parse(source.spec()) == source
    with pytest.raises(DataError, match="no such folder"):
        Source.build("folder", path=str(tmp_path / "none")).read(seed=0)
    with pytest.raises(SettingsError, match="unknown key"):
        Source.build("folder", url="x")
