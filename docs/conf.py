"""How Sphinx builds the documentation: `make docs`, without a network."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version as version_of
from typing import Any

project = "foltr-audit"
author = "The foltr-audit authors"
copyright = author
release = version = version_of("foltr-audit")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3  # links as a web page of the repository has them: #a-heading

default_role = "code"  # docstrings write `name`
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 90
autodoc_default_options = {"exclude-members": "model_config, model_post_init"}
napoleon_numpy_docstring = False
napoleon_use_rtype = False
nitpick_ignore_regex = [
    ("py:exc", r"\w+"),  # errors go by their bare names
    (r"py:(class|obj)", r".*"),  # types in signatures: most have no entry of their own
]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"{project} {release}"
html_copy_source = False
html_show_sphinx = False

COLON = "\N{RATIO}"
"""Stands in for a colon while napoleon would take what is before it for a type."""


def before_napoleon(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Attributes become a list; the first line of a property keeps its colon."""
    del app, name, found, options
    if what == "property" and lines:
        lines[0] = lines[0].replace(":", COLON)
    if "Attributes:" in lines:
        start = lines.index("Attributes:") + 1
        end = next((i for i in range(start, len(lines)) if re.match(r"\S", lines[i])), len(lines))
        listed = [re.sub(r"^ {4}(\w[\w, ]*):", r"* ``\1``:", line) for line in lines[start:end]]
        listed = [line if line.startswith("*") else line.removeprefix("      ") for line in listed]
        lines[start - 1 : end] = ["", *listed, ""]


def after_napoleon(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Puts the colons back."""
    del app, what, name, found, options
    lines[:] = [line.replace(COLON, ":") for line in lines]


def plain_class(
    app: Any, what: str, name: str, found: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Classes show the names of their fields; the types of a Spec's fields are long."""
    del app, name, options, signature
    if what != "class":
        return None
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return None
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    return str(inspect.Signature(bare)), returns


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", plain_class)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
