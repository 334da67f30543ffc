"""How Sphinx makes the site of the pages in this folder; ``make docs`` calls it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# The API is read, not run: nothing is compiled, and no process beside this one compiles.
os.environ["NUMBA_DISABLE_JIT"] = "1"

from nicscope import __version__

project = "nicscope"
version = release = __version__
project_copyright = "the authors of nicscope, Apache License 2.0"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build", "pictures"]
# Every interface has a Cluster and an Endpoint: which one an annotation means, Sphinx cannot tell.
suppress_warnings = ["ref.python"]

myst_heading_anchors = 4  # the names that GitHub gives to headings, which links here use
myst_enable_extensions = ["colon_fence", "deflist"]
nb_execution_mode = "off"  # the notebook is kept with what it printed, and a test runs it
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
maximum_signature_line_length = 100  # a longer one has a line for each argument

# The dollar, and what a command prints, are not part of what is copied.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "nicscope"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
html_static_path = ["style"]
html_css_files = ["pages.css"]

# Pages that lie beside this folder, and the ones here that show them.
BESIDE = {
    "../README.md": "index.md",
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changes.md",
}
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def _turn_links(app: Sphinx, docname: str, source: list[str]) -> None:
    """Point links that lead out of this folder to the pages of the site that show the same.

    On GitHub, and in an editor, they lead to the files themselves.
    """
    here = (Path(app.srcdir) / docname).parent

    def turned(link: re.Match[str]) -> str:
        target = link[1]
        for beside, page in BESIDE.items():
            if (here / target).resolve() == (Path(app.srcdir) / beside).resolve():
                target = os.path.relpath(Path(app.srcdir) / page, here)
        return f"]({target}{link[2] or ''})"

    source[0] = LINK.sub(turned, source[0])


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _turn_links)
