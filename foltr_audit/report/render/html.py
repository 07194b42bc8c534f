"""A document as one HTML file that needs nothing else: no network, no script."""

from __future__ import annotations

from foltr_audit.report.pictures.style import COLOURS
from foltr_audit.report.render.document import ReportDocument


def html_page(document: ReportDocument) -> str:
    """A document as the text of an HTML page. The same document gives the same page.

    The template escapes every value, so that whatever the document quotes is shown as text. A value that the
    document lacks is an error. Pictures are SVG inside the page, in the colours of the reader's theme.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("foltr_audit.report.render", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("document.html.j2").render(document=document, colours=len(COLOURS))
