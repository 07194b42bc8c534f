"""`foltr-audit list`: plug-ins, what a server may know, and what warnings mean."""

from __future__ import annotations

from typing import Annotated

import typer

from foltr_audit.cli.options import Json, words
from foltr_audit.cli.output import print_json, print_line, show, show_table, warn_of_unloadable
from foltr_audit.cli.pages import new_app, page
from foltr_audit.core.warning_kinds import WARNINGS, warning_kind
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.report.table import columns_of, make_table

app = new_app()

_WARNINGS = "warnings"
KINDS = words(
    "attacks defenses scenarios poisonings click-models learners client-steps servers knowledge warnings"
)


@app.command(cls=page("list"))
def listing(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"One of: {', '.join(KINDS)}.")],
    code: Annotated[
        str | None, typer.Argument(help="With warnings: the code of the one to explain, e.g. FA101.")
    ] = None,
    json: Json = False,
) -> None:
    """Show plug-ins with their parameters, what a server may know, or what warnings mean."""
    from foltr_audit.core.plugins.registry import GROUPS
    from foltr_audit.report.lists import list_names

    if kind not in KINDS:
        raise UsageError(f"list: unknown kind {kind!r}; {suggest_name(kind, KINDS)}")
    if kind == _WARNINGS:
        _explain(code, json=json)
        return
    if code is not None:
        raise UsageError(f"list {kind}: unexpected {code!r}; only list warnings takes a code")
    for base, group in GROUPS.items():
        if group.endswith(f".{kind.replace('-', '_')}"):
            warn_of_unloadable(base)
    names = list_names(kind)
    show(names.json, names.show, json=json)


def _explain(code: str | None, *, json: bool) -> None:
    """Print all warnings, or the explanation of one."""
    kinds = list(WARNINGS.values()) if code is None else [warning_kind(code)]
    rows = [{name: getattr(kind, name) for name in ("code", "title", "text", "section")} for kind in kinds]
    if json:
        print_json("explain/1", warnings=rows)
    elif code is not None:
        print_line(kinds[0].explanation)
    else:
        columns = columns_of("code:name; what is wrong=title:words")
        show_table(make_table("warnings; foltr-audit list warnings CODE says more", columns, rows))
