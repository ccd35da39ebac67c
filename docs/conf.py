"""The site that `make docs` builds of these pages, of `README.md` and of docstrings.

Sphinx: it is well kept, fails on a missing anchor, searches without a server, and takes the whole checkout as sources,
so that links are those of the code host. (MkDocs 1 is no longer maintained, and its theme Material has ended.)
"""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from nbclient import NotebookClient
from sphinx.ext.napoleon import Config, GoogleDocstring

project = "moccasin_mzn"
author = "The moccasin_mzn authors"
project_copyright = author

# The sources are the checkout: `sphinx-build -c docs . build/site`.
root_doc = "docs/index"
include_patterns = [
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md", "data/*/README.md", "examples/README.md",
    "models/README.md", "docs/**",
]  # fmt: skip
exclude_patterns = ["docs/_templates", "docs/_static"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_click", "sphinx_copybutton"]
nitpicky = True
smartquotes = False  # "--" is the beginning of an option

# pages: headings have the anchors that the code host gives them, and a link to none is a warning, that is an error
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]  # the doors of the front page
suppress_warnings = ["myst.header"]
highlight_language = "none"
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

# notebooks: kept without outputs and run here, so that what they show is what this version of the package does
nb_execution_mode = "force"
nb_execution_excludepatterns = [] if find_spec("torch") else ["docs/notebooks/pytorch.ipynb"]
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds, of a cell
NotebookClient.coalesce_streams = True  # what a command prints is one text, whatever parts it comes in
logging.getLogger("traitlets").setLevel(logging.WARNING)  # not a line for each notebook

# docstrings: Markdown-like code, so that it reads in an editor as well
default_role = "literal"
autodoc_typehints = "description"  # in the list of arguments; signatures have names and defaults
autodoc_typehints_description_target = "documented_params"
autodoc_typehints_format = "short"
python_display_short_literal_types = True
python_maximum_signature_line_length = 100
# types of the standard library, of PyTorch and of modules that the reference does not show are text
nitpick_ignore_regex = [("py:class", r".*")]
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["torch"]
add_module_names = False

html_theme = "furo"  # light and dark, fonts of the system, wide tables and code scroll within themselves
html_title = "moccasin_mzn"
html_baseurl = ""
html_copy_source = False
html_show_sphinx = False
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "start.html"}


# Kernels read no settings of whoever builds, and do not warn that they talk to this process in the clear.
_ipython = TemporaryDirectory()
_profile = Path(_ipython.name, "profile_default")
_profile.mkdir()
(_profile / "ipython_kernel_config.py").write_text("get_config().IPKernelApp.log_level = 'ERROR'\n", encoding="utf-8")
os.environ["IPYTHONDIR"] = _ipython.name


def google_style(app, what, name, obj, options, lines):
    """Sections of functions and classes; a field has only text, in which napoleon would take "Proven" of "Proven: ..."
    for a type."""
    if what not in ("attribute", "property"):
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, obj, options).lines()


def plain_example(app, context, lines):
    """The example at the end of a command's help, in which "*" is no emphasis."""
    lines[:] = [line.replace("*", r"\*") for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", google_style)
    app.connect("sphinx-click-process-epilog", plain_example)
