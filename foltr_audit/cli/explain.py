"""`foltr-audit explain`: what a warning means, by its code."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from foltr_audit.cli.options import Json
from foltr_audit.cli.output import print_json, print_line, print_rows


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="Code of a warning, e.g. FA101. Default: list all.")
    ] = None,
    json: Json = False,
) -> None:
    """Explain a warning by its code, or list all codes."""
    from foltr_audit.core.warning_codes import warning_kind
    from foltr_audit.core.warning_kinds import WARNINGS, WarningKind

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
    from foltr_audit.report.tables.table import Column

    columns = [
        Column[WarningKind]("code", lambda kind: kind.code, "name"),
        Column[WarningKind]("what is wrong", lambda kind: kind.title, "words"),
    ]
    print_rows("warnings; foltr-audit explain CODE says more", columns, WARNINGS.values())


def _row(kind: Any) -> dict[str, str]:
    return {"code": kind.code, "title": kind.title, "text": kind.text, "section": kind.section}
