"""`foltr-audit list`: list plug-ins, or what a server may know."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from foltr_audit.cli.options import Json
from foltr_audit.cli.output import print_json, stdout_console, warn_of_unloadable
from foltr_audit.errors import UsageError, suggest_name

KNOWLEDGE = "knowledge"
KINDS = ("attacks", "defenses", "scenarios", "click-models", "learners", KNOWLEDGE)


def listing(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(KINDS)}.")],
    json: Json = False,
) -> None:
    """Show plug-ins with their parameters, or what a server may know."""
    if kind not in KINDS:
        raise UsageError(f"list: unknown kind {kind!r}; {suggest_name(kind, KINDS)}")
    rows = _knowledge_rows() if kind == KNOWLEDGE else _rows(kind)
    if json:
        print_json("list/1", kind=kind, **{KNOWLEDGE if kind == KNOWLEDGE else "plugins": rows})
    elif kind == KNOWLEDGE:
        _print_knowledge(rows)
    else:
        _print(kind, rows)


def _knowledge_rows() -> list[dict[str, Any]]:
    from foltr_audit.core.records.view import KNOWLEDGE as PIECES

    return [{"name": name, "what": what} for name, what in PIECES.items()]


def _print_knowledge(rows: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table(title="what a server may know; attack --hide NAME,... withholds it", title_justify="left")
    table.add_column("name", no_wrap=True)
    table.add_column("what it is")
    for row in rows:
        table.add_row(row["name"], row["what"])
    stdout_console().print(table)


def _rows(kind: str) -> list[dict[str, Any]]:
    from foltr_audit.core.plugins import Defense
    from foltr_audit.core.plugins.registry import GROUPS, loadable, parameters, plugin_class

    base = next(base for base, group in GROUPS.items() if group.endswith(kind.replace("-", "_")))
    warn_of_unloadable(base)
    rows = []
    for name in loadable(base):
        cls = plugin_class(base, name)
        row: dict[str, Any] = {"name": name, "status": cls.status}
        if issubclass(cls, Defense):
            row["stage"] = " or ".join(cls.possible_stages())
        row["summary"] = (inspect.getdoc(cls) or "").split("\n")[0]
        row["parameters"] = parameters(cls)
        rows.append(row)
    return rows


def _print(kind: str, rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=kind, title_justify="left")
    table.add_column("name", no_wrap=True)
    if rows and "stage" in rows[0]:
        table.add_column("stage")
    table.add_column("what it does")
    table.add_column("parameters")
    for row in rows:
        stage = [row["stage"]] if "stage" in row else []
        listed = "\n".join(escape(_parameter(parameter)) for parameter in row["parameters"]) or "-"
        mark = " (experimental)" if row["status"] == "experimental" else ""
        table.add_row(row["name"] + mark, *stage, escape(row["summary"]), listed)
    stdout_console().print(table)


def _parameter(row: dict[str, Any]) -> str:
    default = "required" if row["required"] else f"default {row['default']}"
    return f"{row['name']} ({default}): {row['description']}"
