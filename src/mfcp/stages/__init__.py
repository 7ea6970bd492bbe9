"""The stages of dvc.yaml: each reads its settings, calls the library, writes files. No formula lives here."""

import os
import sys

from mfcp.environment import collect_seldom, same_instructions
from mfcp.errors import quiet_interrupts

if sys.argv[0] == "-m":  # Python is on its way to a stage, whose imports take seconds
    quiet_interrupts()
collect_seldom()

# dvc.lock holds for every machine, whatever its processor and however many: threads that share a sum give it an order.
same_instructions()
for library in ("MKL", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
