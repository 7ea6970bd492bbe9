"""`mfcp report` writes a page beside the numbers, and refuses a folder without them."""

from commands.called import run


def test_a_folder_without_numbers_is_refused(tmp_path, capsys):
    code, _, err = run(capsys, "report", tmp_path)
    assert code == 2
    assert "no metrics.json; give a folder that" in err
