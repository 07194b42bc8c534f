"""`foltr-audit study`: the group of its commands."""

from __future__ import annotations

from foltr_audit.cli.pages import entries_of, lazy_group, new_app

app = new_app(
    cls=lazy_group(entries_of("study ")),
    help="Run published studies, and studies of Runs and of trained models.",
)


@app.callback()
def _group() -> None:
    """Tell typer that this is a group."""
