"""A command as a shell calls it."""

import pytest

from mfcp.cli import main


def run(capsys, *arguments):
    """Exit code, standard output and standard error of `mfcp` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return ended.value.code, out, err
