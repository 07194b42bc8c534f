"""`foltr-audit list`: list plug-ins, or what a server may know."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from foltr_audit.cli.options import Json
from foltr_audit.cli.output import print_json, print_rows, warn_of_unloadable
from foltr_audit.errors import UsageError, suggest_name

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
    if kind not in KINDS:
        raise UsageError(f"list: unknown kind {kind!r}; {suggest_name(kind, KINDS)}")
    rows = _knowledge_rows() if kind == KNOWLEDGE else _rows(kind)
    if json:
        print_json("list/1", kind=kind, **{KNOWLEDGE if kind == KNOWLEDGE else "plugins": rows})
    else:
        _print(kind, rows)


def _knowledge_rows() -> list[dict[str, Any]]:
    from foltr_audit.core.records.view import KNOWLEDGE as PIECES

    return [{"name": name, "what": what} for name, what in PIECES.items()]


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
            row["stage"] = ", ".join(cls.possible_stages())
        row["summary"] = (inspect.getdoc(cls) or "").split("\n")[0]
        row["parameters"] = parameters(cls)
        rows.append(row)
    return rows


def _print(kind: str, rows: list[dict[str, Any]]) -> None:
    from foltr_audit.report.tables.table import Column

    name = Column[dict[str, Any]]("name", _name, "name")
    if kind == KNOWLEDGE:
        what = Column[dict[str, Any]]("what it is", lambda row: row["what"], "words")
        print_rows("what a server may know; attack --hide NAME,... withholds it", [name, what], rows)
        return
    stage = Column[dict[str, Any]]("stage", lambda row: row["stage"], "name")
    columns = [
        *([name, stage] if rows and "stage" in rows[0] else [name]),
        Column[dict[str, Any]]("what it does", lambda row: row["summary"], "words"),
        Column[dict[str, Any]]("parameters", _parameters, "words"),
    ]
    print_rows(kind, columns, rows)


def _name(row: dict[str, Any]) -> str:
    return str(row["name"]) + (" (experimental)" if row.get("status") == "experimental" else "")


def _parameters(row: dict[str, Any]) -> str:
    described = (
        f"{one['name']} ({'required' if one['required'] else 'default ' + str(one['default'])}): "
        f"{one['description']}"
        for one in row["parameters"]
    )
    return "\n".join(described) or "-"
