"""What torch_geometric says while it is imported reaches nobody."""

import subprocess
import sys


def test_an_import_is_quiet():
    program = "from mfcp.tasks.features.convolutions import SAGEConv; print(SAGEConv.__name__)"
    done = subprocess.run([sys.executable, "-W", "default", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "SAGEConv\n"
    assert "torch.jit.script" not in done.stderr
