"""Plug-ins and their parameters: as rows and as tables."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import GROUPS, loadable, parameters, plugin_class
from foltr_audit.core.records.view import KNOWLEDGE as PIECES
from foltr_audit.errors import UsageError, suggest_name
from foltr_audit.report.render.terminal import BriefAnswer, print_table
from foltr_audit.report.results.plain_report import NotebookReport
from foltr_audit.report.tables.table import Column, make_table
from foltr_audit.utils.formatting import JsonValue, json_text

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console


KNOWLEDGE = "knowledge"
"""What is listed that is no plug-in: the pieces of what a server may know."""


@dataclass(frozen=True, kw_only=True)
class NameList(NotebookReport):
    """Plug-ins of a kind that can be loaded, or pieces of knowledge.

    Attributes:
        kind: `attacks`, `defenses`, `click-models`, ..., or `knowledge`.
        found: one table for each: `name`, `status`, `summary`, `parameters`, of defenses `stage`; of
            knowledge `name` and `what`.
    """

    kind: str
    found: tuple[dict[str, JsonValue], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What Specs call them."""
        return tuple(str(row["name"]) for row in self.found)

    def rows(self) -> list[dict[str, JsonValue]]:
        return [*self.found]

    def to_frame(self) -> pl.DataFrame:
        """One row for each as a polars data frame; parameters by their names."""
        import polars as pl

        return pl.DataFrame([{**row, **_parameter_names(row)} for row in self.found])

    def json(self) -> str:
        key = KNOWLEDGE if self.kind == KNOWLEDGE else "plugins"
        return json_text({"schema": "foltr-audit/list/1", "kind": self.kind, key: self.found})

    def show(self, console: Console) -> None:
        """Print names, what each does, and its parameters."""
        print_list(self, console)

    def short_answer(self) -> BriefAnswer:
        return brief_list(self)


def list_names(kind: str) -> NameList:
    """What there is of a kind.

    Args:
        kind: `attacks`, `defenses`, `scenarios`, `poisonings`, `click-models`, `learners`, `client-steps`,
            `servers` or `knowledge`.

    Raises:
        UsageError: another kind.
    """
    bases = {group.partition(".")[2].replace("_", "-"): base for base, group in GROUPS.items()}
    if kind == KNOWLEDGE:
        pieces: list[dict[str, JsonValue]] = [{"name": name, "what": what} for name, what in PIECES.items()]
        return NameList(kind=kind, found=tuple(pieces))
    if kind not in bases:
        raise UsageError(f"list: unknown kind {kind!r}; {suggest_name(kind, (*bases, KNOWLEDGE))}")
    rows = []
    for name in loadable(bases[kind]):
        cls = plugin_class(bases[kind], name)
        row: dict[str, JsonValue] = {"name": name, "status": cls.status}
        if issubclass(cls, Defense):
            row["stage"] = ", ".join(cls.possible_stages())
        row["summary"] = (inspect.getdoc(cls) or "").split("\n")[0]
        row["parameters"] = [_plain(parameter) for parameter in parameters(cls)]
        rows.append(row)
    return NameList(kind=kind, found=tuple(rows))


def _parameter_names(row: dict[str, JsonValue]) -> dict[str, str]:
    known = cast("list[dict[str, JsonValue]]", row.get("parameters") or [])
    return {"parameters": ", ".join(str(field["name"]) for field in known)} if "parameters" in row else {}


def _plain(parameter: dict[str, object]) -> JsonValue:
    return {
        name: value if value is None or isinstance(value, bool | int | float | str) else str(value)
        for name, value in parameter.items()
    }


def list_attacks() -> NameList:
    """The attacks, with what each does and its parameters.

    Example:
        >>> import foltr_audit as fa
        >>> "olsr" in fa.list_attacks().names
        True
    """
    return list_names("attacks")


def list_defenses() -> NameList:
    """The defenses, with the stage in which each acts and its parameters.

    Example:
        >>> import foltr_audit as fa
        >>> "clip" in fa.list_defenses().names
        True
    """
    return list_names("defenses")


def list_click_models() -> NameList:
    """The click models: how users click.

    Example:
        >>> import foltr_audit as fa
        >>> "perfect" in fa.list_click_models().names
        True
    """
    return list_names("click-models")


Row = Mapping[str, JsonValue]


def print_list(names: NameList, console: Console) -> None:
    """Print names, what each does, and its parameters."""
    title, rows = names.kind, names.found
    name = Column[Row]("name", _name, "name")
    if names.kind == KNOWLEDGE:
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
    described = []
    for parameter in cast("list[dict[str, JsonValue]]", row["parameters"]):
        value = "required" if parameter["required"] else f"default {parameter['default']}"
        described.append(f"{parameter['name']} ({value}): {parameter['description']}")
    return "\n".join(described) or "-"
