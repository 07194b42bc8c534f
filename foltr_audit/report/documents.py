"""Documents: what a command prints with `--json`. Their main rows are those of data frames and CSV.

A document is a table of sections, and a section is a list of rows. Its columns are declared once, as text:

>>> LEAKS = Section("method auc:est ndcg@10:num lists:int")
>>> row = LEAKS.row({"method": "olsr", "auc": Estimate(0.7, (0.6, 0.8)), "ndcg@10": 0.5, "lists": 30})
>>> row.plain()
{'method': 'olsr', 'auc': 0.7, 'auc_ci95': [0.6, 0.8], 'ndcg@10': 0.5, 'lists': 30}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast, get_args

from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.report.notebook import CI95, NotebookReport
from foltr_audit.utils.formatting import JsonValue, json_text

if TYPE_CHECKING:
    from foltr_audit.report.settings import Setting

Schema = dict[str, JsonValue]

_SIMPLE: dict[str, Schema] = {
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "num": {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}, {"type": "null"}]},
    "str": {"type": "string"},
    "null": {"type": "null"},
    "any": {},
    "table": {"type": "object", "additionalProperties": {}},
}
_ENDS: Schema = {"type": "array", "prefixItems": [_SIMPLE["num"]] * 2, "minItems": 2, "maxItems": 2}
_INTERVAL: Schema = {"anyOf": [_ENDS, _SIMPLE["null"]]}
_SIMPLE["interval"] = _INTERVAL


class Field(NamedTuple):
    """A column of a section; an optional one is left out where its value is None or empty."""

    name: str
    schema: Schema
    optional: bool = False
    estimate: bool = False


def _field(text: str) -> Field:
    """A column such as `lists:int`, `finest:num|null`, `shown:[int]`, or `sees:str?` (optional)."""
    name, _, kind = text.partition(":")
    optional, kind = kind.endswith("?"), kind.removesuffix("?") or "str"
    if kind == "est":
        return Field(name, _SIMPLE["num"], estimate=True)
    schema = _schema(kind)
    if optional and not kind.startswith("["):
        schema = {"anyOf": [schema, _SIMPLE["null"]]}
    return Field(name, schema, optional)


def _schema(kind: str) -> Schema:
    if "|" in kind:
        return {"anyOf": [_schema(each) for each in kind.split("|")]}
    if kind.startswith("["):
        return {"type": "array", "items": _schema(kind[1:-1])}
    if kind.startswith("{"):
        return {"type": "object", "additionalProperties": _schema(kind[1:-1])}
    return dict(_SIMPLE[kind])


def one_of(name: str, literal: object) -> Field:
    """A column whose values are those of a Literal."""
    return Field(name, {"enum": [*get_args(literal)]})


def nested(
    name: str, section: Section, *, optional: bool = False, many: bool = True, null: bool = False
) -> Field:
    """A column whose values are rows of a section, or one row, or perhaps none."""
    schema: Schema = {"anyOf": [section.schema(), _SIMPLE["null"]]} if null else section.schema()
    return Field(name, {"type": "array", "items": schema} if many else schema, optional)


class Section:
    """The columns of rows of one kind, in order."""

    def __init__(self, *parts: str | Field | Section, intervals_last: str = "") -> None:
        """Columns as text, see `_field`, of which `...` lets rows have others; or those of another section.

        The intervals of estimates stand behind them, or all together behind the column `intervals_last`.
        """
        self.fields: list[Field] = []
        self.open, self.intervals_last = False, intervals_last
        for part in parts:
            if isinstance(part, Section):
                self.fields += part.fields
                self.open |= part.open
            elif isinstance(part, Field):
                self.fields.append(part)
            else:
                self.fields += [_field(text) for text in part.split() if text != "..."]
                self.open |= "..." in part.split()
        self.optional = frozenset(each.name for each in self.fields if each.optional)
        self._names = frozenset(each.name for each in self.fields)

    def prefixed(self, prefix: str) -> Section:
        """The same columns with longer names."""
        return Section(*(each._replace(name=prefix + each.name) for each in self.fields))

    def requiring(self, name: str) -> Section:
        """The same columns, of which one is shown even where it is null."""
        return Section(
            *(each._replace(optional=each.optional and each.name != name) for each in self.fields),
            intervals_last=self.intervals_last,
        )

    def row(self, values: Mapping[str, Any], setting: Setting | None = None) -> Row:
        """A row, in the order of `values`.

        Raises:
            KeyError: a column is missing or unknown.
        """
        missing = [name for name in self._names - values.keys() if name not in self.optional]
        unknown = [] if self.open else [name for name in values if name not in self._names]
        if missing or unknown:
            raise KeyError(f"columns missing: {sorted(missing)}, unknown: {unknown}")
        return Row(values, self, setting)

    def of(self, result: object, setting: Setting | None = None, /, **more: Any) -> Row:
        """The row of an object with these columns as attributes, after those of a setting.

        `more` has the others, or other values.
        """
        values = {} if setting is None else setting.columns()
        for each in self.fields:
            if each.name in more:
                values[each.name] = more[each.name]
            elif each.name not in values:
                values[each.name] = getattr(result, each.name)
        return self.row(values, setting)

    def schema(self) -> Schema:
        properties, later = dict[str, JsonValue](), dict[str, JsonValue]()
        required: list[JsonValue] = []
        for each in self.fields:
            properties[each.name] = each.schema
            required += [] if each.optional else [each.name]
            if each.estimate:
                (later if self.intervals_last else properties)[each.name + CI95] = _INTERVAL
                required.append(each.name + CI95)
            if each.name == self.intervals_last:
                properties |= later
        return {"type": "object", "properties": properties, "required": required}


class Row(dict[str, Any]):
    """A row of a section: values by column; an `Estimate` is two columns, `NAME` and `NAME_ci95`."""

    def __init__(self, values: Mapping[str, Any], section: Section, setting: Setting | None = None) -> None:
        super().__init__(values)
        self.section = section
        self._setting = setting

    @property
    def setting(self) -> Setting:
        """What was run."""
        if self._setting is None:
            raise KeyError("the row names no setting")
        return self._setting

    def with_values(self, **values: Any) -> Row:
        return Row({**self, **values}, self.section, self._setting)

    def number(self, name: str) -> float:
        """The number of a column; NaN where it is not known."""
        value = self.get(name)
        value = value.value if isinstance(value, Estimate) else value
        return math.nan if value is None else float(value)

    def estimate(self, name: str) -> Estimate:
        """The number of a column with its interval; not defined where it is not known."""
        value = self.get(name)
        if isinstance(value, Estimate):
            return value
        return UNKNOWN if value is None else Estimate(float(value))

    def plain(self) -> dict[str, JsonValue]:
        """The columns as values for JSON, in order; None for NaN."""
        columns, later = dict[str, JsonValue](), dict[str, JsonValue]()
        for name, value in self.items():
            if isinstance(value, Estimate):
                columns[name] = plain_value(value.value)
                intervals = later if self.section.intervals_last else columns
                intervals[name + CI95] = None if value.ci95 is None else list(value.ci95)
            elif name not in self.section.optional or not (value is None or value == () or value == []):
                columns[name] = plain_value(value)
            if name == self.section.intervals_last:
                columns |= later
        return columns


def plain_value(value: object) -> JsonValue:
    """A value for JSON; None for NaN."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Row):
        return value.plain()
    if isinstance(value, Mapping):
        return {str(name): plain_value(inner) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [plain_value(inner) for inner in value]
    return cast(JsonValue, value)


def prefixed(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The same values under longer names."""
    return {prefix + name: value for name, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class Document(NotebookReport):
    """The result of a command: sections of rows, as fields of a subclass.

    The JSON has the name and version `SCHEMA`, and the fields `FIELDS` in this order. The main rows are those
    of the field `MAIN`, else of the last one.
    """

    SCHEMA: ClassVar[str]
    FIELDS: ClassVar[Section]
    MAIN: ClassVar[str] = ""

    def plain(self) -> dict[str, JsonValue]:
        return self.FIELDS.of(self).plain()

    def json(self, more: Mapping[str, object] | None = None) -> str:
        """Everything as one JSON object, with the fields of `more` after it."""
        return json_text({"schema": self.SCHEMA, **self.plain(), **(more or {})})

    def rows(self) -> list[dict[str, JsonValue]]:
        """The main rows with the columns that they have in JSON."""
        return [row.plain() for row in getattr(self, self.MAIN or self.FIELDS.fields[-1].name)]

    @classmethod
    def schema(cls) -> Schema:
        """The whole document as a JSON Schema (draft 2020-12)."""
        fields = cls.FIELDS.schema()
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": cls.SCHEMA,
            "type": "object",
            "properties": {"schema": {"const": cls.SCHEMA}, **cast(Schema, _short(fields["properties"]))},
            "required": ["schema", *cast("list[JsonValue]", fields["required"])],
            "$defs": dict(_DEFINITIONS),
        }


_DEFINITIONS: Schema = {"number": _SIMPLE["num"], "interval": _INTERVAL}


def _short(schema: JsonValue) -> JsonValue:
    """A schema with references to the definitions of numbers and intervals."""
    for name, definition in _DEFINITIONS.items():
        if schema == definition:
            return {"$ref": f"#/$defs/{name}"}
    if isinstance(schema, list):
        return [_short(part) for part in schema]
    return {name: _short(part) for name, part in schema.items()} if isinstance(schema, dict) else schema
