"""`foltr-audit study`: the group of its commands."""

from __future__ import annotations

from foltr_audit.cli.pages import Entry, lazy_group, new_app

STUDIES = (
    Entry("Published studies", "list", "List published tables and figures.", "preset"),
    Entry("Published studies", "show", "Show one as TOML, with its published numbers.", "preset"),
    Entry("Published studies", "run", "Run one, and show published numbers beside those found.", "preset"),
    Entry(
        "Runs", "significance", "Test whether recorded systems differ by more than chance.", "significance"
    ),
    Entry("Trained models", "merge", "Train rankers on different topics, and merge them.", "merge"),
    Entry("Trained models", "membership", "Tell from global models who took part.", "membership"),
    Entry(
        "Trained models", "unlearning", "Make a model forget clients, and check whether it has.", "membership"
    ),
)

app = new_app(
    cls=lazy_group(STUDIES), help="Run published studies, and studies of Runs and of trained models."
)


@app.callback()
def _group() -> None:
    """Tell typer that this is a group."""
