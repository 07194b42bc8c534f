"""`foltr-audit list` and `foltr-audit explain`: plug-ins, what a server may know, and what warnings mean."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from foltr_audit.cli.options import Json
from foltr_audit.cli.output import print_json, print_line, print_rows, show, warn_of_unloadable
from foltr_audit.core.warning_kinds import WARNINGS, WarningKind, warning_kind
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.report.tables.table import Column

# --- explain ---------------------------------------------------------------------------------------


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="Code of a warning, e.g. FA101. Default: list all.")
    ] = None,
    json: Json = False,
) -> None:
    """Explain a warning by its code, or list all codes."""
    if code is not None:
        kind = warning_kind(code)
        if json:
            print_json("explain/1", warnings=[_row(kind)])
        else:
            print_line(kind.explanation)
        return
    if json:
        print_json("explain/1", warnings=[_row(kind) for kind in WARNINGS.values()])
        return

    columns = [
        Column[WarningKind]("code", lambda kind: kind.code, "name"),
        Column[WarningKind]("what is wrong", lambda kind: kind.title, "words"),
    ]
    print_rows("warnings; foltr-audit explain CODE says more", columns, WARNINGS.values())


def _row(kind: Any) -> dict[str, str]:
    return {"code": kind.code, "title": kind.title, "text": kind.text, "section": kind.section}


# --- list ------------------------------------------------------------------------------------------

KNOWLEDGE = "knowledge"
KINDS = (
    *(
        "attacks",
        "defenses",
        "scenarios",
        "poisonings",
        "click-models",
        "learners",
        "client-steps",
        "servers",
    ),
    KNOWLEDGE,
)


def listing(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(KINDS)}.")],
    json: Json = False,
) -> None:
    """Show plug-ins with their parameters, or what a server may know."""
    from foltr_audit.core.plugins.registry import GROUPS
    from foltr_audit.report.results.plugin_list import list_names

    if kind not in KINDS:
        raise UsageError(f"list: unknown kind {kind!r}; {suggest_name(kind, KINDS)}")
    for base, group in GROUPS.items():
        if group.endswith(f".{kind.replace('-', '_')}"):
            warn_of_unloadable(base)
    names = list_names(kind)
    show(names.json, names.show, json=json)
