"""Plug-ins, or what a server may know, as a table on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from foltr_audit.report.render.terminal import print_table
from foltr_audit.report.results.plugin_list import KNOWLEDGE, NameList
from foltr_audit.report.tables.brief.short_answer import BriefAnswer
from foltr_audit.report.tables.table import Column, make_table
from foltr_audit.utils.rows import JsonValue

if TYPE_CHECKING:
    from rich.console import Console

Row = Mapping[str, JsonValue]


def print_list(found: NameList, console: Console) -> None:
    """Print names, what each does, and its parameters."""
    title, rows = found.kind, found.found
    name = Column[Row]("name", _name, "name")
    if found.kind == KNOWLEDGE:
        title = "what a server may know; attack --hide NAME,... withholds it"
        columns = [name, Column[Row]("what it is", lambda row: str(row["what"]), "words")]
    else:
        stage = Column[Row]("stage", lambda row: str(row["stage"]), "name")
        columns = [
            *([name, stage] if rows and "stage" in rows[0] else [name]),
            Column[Row]("what it does", lambda row: str(row["summary"]), "words"),
            Column[Row]("parameters", _parameters, "words"),
        ]
    print_table(make_table(title, columns, rows), console)


def brief_list(found: NameList) -> BriefAnswer:
    """The names, and what each does."""
    does = "what" if found.kind == KNOWLEDGE else "summary"
    columns = [
        Column[Row]("name", _name, "name"),
        Column[Row]("what it is", lambda row: str(row[does]), "words"),
    ]
    return BriefAnswer(
        conclusion=(f"{found.kind}: {', '.join(found.names)}",),
        about="",
        table=make_table("", columns, found.found),
        left_out=() if found.kind == KNOWLEDGE else ("parameters",),
    )


def _name(row: Row) -> str:
    return str(row["name"]) + (" (experimental)" if row.get("status") == "experimental" else "")


def _parameters(row: Row) -> str:
    described = (
        f"{one['name']} ({'required' if one['required'] else 'default ' + str(one['default'])}): "
        f"{one['description']}"
        for one in cast("list[dict[str, JsonValue]]", row["parameters"])
    )
    return "\n".join(described) or "-"
