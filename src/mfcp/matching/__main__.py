"""`python -m mfcp.matching`: compile every kernel of matching for this machine, where that is not done yet."""

from __future__ import annotations

from mfcp.environment import same_instructions

same_instructions()  # what the commands and stages use

from mfcp.compiling import compile_modules, prepared  # noqa: E402

if __name__ == "__main__":
    compile_modules(prepared("matching"))
