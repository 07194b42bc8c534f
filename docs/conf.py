"""How Sphinx builds the documentation: `make docs`, without a network."""

from __future__ import annotations

import inspect
import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

# For `generate` and `benchmarks`; last, since an installed foltr_audit has folders that the checkout's lacks.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import generate

project = "foltr-audit"
author = "The foltr-audit authors"
copyright = author
release = version = version_of("foltr-audit")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["templates"]
exclude_patterns = ["templates"]
myst_heading_anchors = 3  # links as a web page of the repository has them: #a-heading

default_role = "code"  # docstrings write `name`
smartquotes_action = "qe"  # two hyphens begin an option
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 90
autodoc_default_options = {"exclude-members": "model_config, model_post_init, show, short_answer, figure, of"}
autodoc_inherit_docstrings = False  # what all reports have is on the page of their base class
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes as a list; their own entries come from the class
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


def write_pages(app: Any, config: Any) -> None:
    """Make docs/generated before Sphinx looks for pages."""
    del app, config
    generate.write()


def before_napoleon(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Keep what is taken for a type: words before a colon in a property, and the first of several names."""
    del app, name, found, options
    lines[:] = [
        re.sub(r"^ {4}\w+(?:, \w+)+(?=:)", lambda names: names[0].replace(", ", "/"), line) for line in lines
    ]
    if what == "property":
        lines[:0] = ["..", ""]


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


def after_theme(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Name the level of the theme's captions as headings, and let the keyboard scroll wide lines."""
    del app, page, template, doctree
    captions = context["furo_navigation_tree"]
    context["furo_navigation_tree"] = captions.replace('role="heading"', 'role="heading" aria-level="2"')
    body = context.get("body", "")
    context["body"] = re.sub(r'<pre(?=>)|<div(?= class="table-wrapper)', r'\g<0> tabindex="0"', body)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", plain_class)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("config-inited", write_pages)
    app.connect("html-page-context", after_theme, priority=900)
