"""How `make docs` builds the site: from the pages of this folder, the README, the docstrings and the command's help."""

from __future__ import annotations

import os
import re
from typing import Any

project = "mfcp"
author = "the mfcp authors"
copyright = author
html_title = "mfcp"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinxarg.ext",
]
exclude_patterns = ["_build"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
html_theme = "furo"

# Pages: GitHub's dialect as far as our pages use it; notebooks are run at every build and fail it.
myst_heading_anchors = 3
os.environ.pop("MPLBACKEND", None)  # with the usual one, figures stand in the page
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
suppress_warnings = ["myst.domains"]  # of sphinxarg, which has no target of that kind

# Docstrings: Google's sections; single backticks are code, as everywhere in ours.
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
autodoc_type_aliases = {name: name for name in ("Floats", "Ints", "Bools", "Texts", "Tables", "ArrayLike")}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True


def setup(app: Any) -> None:
    """What Sphinx calls first."""
    app.connect("include-read", _of_the_root)
    app.connect("source-read", _with_records)


PLACES = {
    "docs/": "/",
    "CONTRIBUTING.md": "/contributing.md",
    "SECURITY.md": "/security.md",
    "CHANGELOG.md": "/changes.md",
    "#your-own-logs": "/how-to/own-logs.md",
    "#run-a-platform": "/platform.md",
}
"""Where links of README, CONTRIBUTING and CHANGELOG, which lie a folder above, lead on the site."""


def _of_the_root(app: Any, path: Any, document: str, content: list[str]) -> None:
    for link, place in PLACES.items():
        content[0] = content[0].replace(f"]({link}", f"]({place}")


def _with_records(app: Any, document: str, content: list[str]) -> None:
    """Records are reached from their index: beside every page, a hundred more links would hide the others.

    Links out of the site are text.
    """
    if document.startswith("decisions/0"):
        content[0] = f"---\norphan: true\n---\n{content[0]}"
    content[0] = re.sub(r"\[([^\]]*)\]\((?:\.\./)+data/[\w./-]+\)", r"\1", content[0])
