"""A report as typed rows: its form as JSON and its schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, cast

from foltr_audit.report.results.notebook_report import NotebookReport
from foltr_audit.utils.formatting import json_text
from foltr_audit.utils.rows import JsonValue, ResultRow, schema_of


@dataclass(frozen=True, kw_only=True)
class PlainReport(NotebookReport, ResultRow):
    """A result as typed rows, the fields of a subclass, of which the last one holds its main rows.

    Attributes:
        SCHEMA: name and version of its JSON.
    """

    SCHEMA: ClassVar[str]

    def table(self) -> dict[str, JsonValue]:
        """Everything as one plain table with its schema."""
        return {"schema": self.SCHEMA, **self.plain()}

    def json(self, more: Mapping[str, object] | None = None) -> str:
        """Everything as one JSON object, with the fields of `more` after it."""
        return json_text({**self.table(), **(more or {})})

    def rows(self) -> list[dict[str, JsonValue]]:
        """The main rows with the columns that they have in JSON."""
        found = getattr(self, fields(self)[-1].name)
        return [row.plain() if isinstance(row, ResultRow) else row for row in found]

    @classmethod
    def schema(cls) -> dict[str, JsonValue]:
        """The whole document as a JSON Schema (draft 2020-12)."""
        found = super().schema()
        columns = cast("dict[str, JsonValue]", found["properties"])
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": cls.SCHEMA,
            "type": "object",
            "properties": {"schema": {"const": cls.SCHEMA}, **cast("dict[str, JsonValue]", _short(columns))},
            "required": ["schema", *cast("list[JsonValue]", found["required"])],
            "$defs": dict(_DEFINITIONS),
        }


_DEFINITIONS: dict[str, JsonValue] = {
    "number": schema_of(float),
    "interval": schema_of(tuple[float, float] | None),
}


def _short(schema: JsonValue) -> JsonValue:
    """A schema with references to the definitions of numbers and intervals."""
    for name, definition in _DEFINITIONS.items():
        if schema == definition:
            return {"$ref": f"#/$defs/{name}"}
    if isinstance(schema, list):
        return [_short(each) for each in schema]
    return {name: _short(each) for name, each in schema.items()} if isinstance(schema, dict) else schema
