"""Typed rows of results: frozen dataclasses whose columns are those of JSON, data frames and CSV.

>>> @dataclass(frozen=True, kw_only=True)
... class LeakRow(ResultRow):
...     method: str
...     auc: Estimate
...     ndcg: float = column("ndcg@10")
>>> LeakRow(method="olsr", auc=Estimate(0.7, (0.6, 0.8)), ndcg=0.5).plain()
{'method': 'olsr', 'auc': 0.7, 'auc_ci95': [0.6, 0.8], 'ndcg@10': 0.5}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from foltr_audit.core.results import Estimate
from foltr_audit.utils.formatting import JsonValue

if TYPE_CHECKING:
    from dataclasses import _MISSING_TYPE

    from pydantic import TypeAdapter

T = TypeVar("T")
R = TypeVar("R", bound="ResultRow")

CI95 = "_ci95"
"""Ending of the column that holds the 95 % interval of the column before it."""


def column(
    name: str | None = None,
    *,
    optional: bool = False,
    embedded: bool = False,
    default: T | _MISSING_TYPE | None = MISSING,
) -> T:
    """A field of a row whose column differs from it.

    Args:
        name: name of the column, if it is no Python name; of an embedded row, what stands before the names of
            its columns.
        optional: the column is left out where the value is None or an empty list.
        embedded: the value is a row or a mapping whose columns stand in place of this one; if the values of
            a mapping are rows, the name of each of their columns ends in `_` and the key.
        default: the value if none is given; None if `optional`.
    """
    details = {"name": name, "optional": optional, "embedded": embedded}
    if optional and default is MISSING:
        default = None
    if isinstance(default, Mapping):
        return cast(T, field(metadata=details, default_factory=lambda: dict(default)))
    return cast(
        T, field(metadata=details) if default is MISSING else field(metadata=details, default=default)
    )


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One row of a result. Subclasses are frozen dataclasses with keyword-only fields.

    A field is a column. An `Estimate` is two columns; a row or a list of rows as a value is nested.

    Attributes:
        INTERVALS_LAST: whether the intervals of all estimates stand after the other columns.
    """

    INTERVALS_LAST: ClassVar[bool] = False

    def plain(self) -> dict[str, JsonValue]:
        """The columns as values for JSON, in the order of the fields; None for NaN."""
        return dict(self._columns())

    def _columns(self) -> Iterator[tuple[str, JsonValue]]:
        later: list[tuple[str, JsonValue]] = []
        for attribute, name, embedded, optional in _layout(cast(type, type(self))):
            value = getattr(self, attribute)
            if embedded and isinstance(value, ResultRow):
                yield from ((name + inner, found) for inner, found in value.plain().items())
            elif embedded:
                yield from ((name + inner, _plain(found)) for inner, found in _of_mapping(value))
            elif isinstance(value, Estimate):
                yield name, _plain(value.value)
                ends: JsonValue = None if value.ci95 is None else list(value.ci95)
                if self.INTERVALS_LAST:
                    later.append((name + CI95, ends))
                else:
                    yield name + CI95, ends
            elif not optional or (value is not None and value != () and value != []):
                yield name, _plain(value)
        yield from later

    @classmethod
    def of_plain(cls: type[R], table: Mapping[str, object]) -> R:
        """The row with these columns, as `plain` gave them or as they were read from JSON.

        Raises:
            ValueError: a column is missing, unknown, or has a value of another type.
        """
        left = dict(table)
        row = _read(cls, left, _names(cast(type, cls)))
        if left:
            raise ValueError(f"unknown column {next(iter(left))!r} in a {cls.__name__}")
        return row

    @classmethod
    def schema(cls) -> dict[str, JsonValue]:
        properties: dict[str, JsonValue] = {}
        required: list[JsonValue] = []
        more = _describe(cls, properties, required)
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": more,
        }


def _of_mapping(value: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, inner in value.items():
        if isinstance(inner, ResultRow):
            yield from ((f"{name}_{key}", found) for name, found in inner.plain().items())
        elif isinstance(inner, Estimate):
            yield from ((key, inner.value), (key + CI95, inner.ci95))
        else:
            yield key, inner


def _name(each: Field[object]) -> str:
    name = each.metadata.get("name")
    return each.name if name is None else str(name)


class _FieldLayout(NamedTuple):
    """A field: its name, that of its column or what its columns begin with, embedded, optional."""

    attribute: str
    name: str
    embedded: bool
    optional: bool


@cache
def _layout(cls: type) -> tuple[_FieldLayout, ...]:
    layout = []
    for each in fields(cls):
        embedded, optional = bool(each.metadata.get("embedded")), bool(each.metadata.get("optional"))
        name = _prefix(each) if embedded else _name(each)
        layout.append(_FieldLayout(each.name, name, embedded, optional))
    return tuple(layout)


def _prefix(each: Field[object]) -> str:
    return each.metadata.get("name") or ""


def _plain(value: object) -> JsonValue:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, ResultRow):
        return value.plain()
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [_plain(inner) for inner in value]
    return cast(JsonValue, value)


@cache
def _types(cls: type) -> dict[str, object]:
    """The type of each field, which is written as text in the class."""
    return get_type_hints(cls)


@cache
def _names(cls: type) -> frozenset[str]:
    """The names of all columns but those of embedded mappings."""
    found: set[str] = set()
    for each in fields(cls):
        kind = _types(cls)[each.name]
        if not each.metadata.get("embedded"):
            found |= {_name(each), _name(each) + CI95} if kind is Estimate else {_name(each)}
        elif isinstance(kind, type) and issubclass(kind, ResultRow):
            found |= {_prefix(each) + name for name in _names(cast(type, kind))}
    return frozenset(found)


def _read(cls: type[R], left: dict[str, object], known: frozenset[str], prefix: str = "") -> R:
    """A row made of the columns that it takes out of `left`; a mapping takes those that are not `known`."""
    found: dict[str, object] = {}
    for each in fields(cls):
        kind, name = _types(cast(type, cls))[each.name], prefix + _name(each)
        if each.metadata.get("embedded"):
            if isinstance(kind, type) and issubclass(kind, ResultRow):
                found[each.name] = _read(kind, left, known, prefix + _prefix(each))
            else:
                rest = {name: left.pop(name) for name in list(left) if name not in known}
                found[each.name] = rest if _row_in(kind) is None else _rows_by_key(kind, rest)
        elif kind is Estimate:
            if name not in left:
                raise ValueError(f"no column {name!r} for a {cls.__name__}")
            ends = left.pop(name + CI95, None)
            number = cast(float, _validated(float, left.pop(name), name))
            pair = _validated(tuple[float, float] | None, ends, name + CI95)
            found[each.name] = Estimate(number, cast("tuple[float, float] | None", pair))
        elif name in left:
            found[each.name] = _validated(kind, left.pop(name), name)
        elif each.metadata.get("optional"):
            found[each.name] = None
        elif each.default is MISSING and each.default_factory is MISSING:
            raise ValueError(f"no column {name!r} for a {cls.__name__}")
    return cls(**found)


def _rows_by_key(kind: object, table: Mapping[str, object]) -> dict[str, ResultRow]:
    """The rows of an embedded mapping, by their keys."""
    row = _row_in(kind) or ResultRow
    columns = sorted(_names(cast(type, row)), key=len, reverse=True)
    found: dict[str, dict[str, object]] = {}
    for name, value in table.items():
        column = next((one for one in columns if name.startswith(f"{one}_")), None)
        if column is None:
            raise ValueError(f"unknown column {name!r} before those of a {row.__name__}")
        found.setdefault(name.removeprefix(f"{column}_"), {})[column] = value
    return {key: row.of_plain(inner) for key, inner in found.items()}


def _validated(kind: object, value: object, name: str) -> object:
    """A value of JSON as its Python type; a missing number is NaN where None is not allowed."""
    from pydantic import ValidationError

    inner = _row_in(kind)
    if inner is not None and value is not None:
        rows = cast("Sequence[Mapping[str, object]]", value if isinstance(value, list | tuple) else [value])
        read = tuple(inner.of_plain(row) for row in rows)
        return read if get_origin(kind) is not None and isinstance(value, list | tuple) else read[0]
    if kind is float and value is None:
        return math.nan
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        raise ValueError(f"column {name!r}: {error.errors()[0]['msg']}; got {value!r}") from error


@cache
def _adapter(kind: object) -> TypeAdapter[object]:
    from pydantic import TypeAdapter

    return TypeAdapter(cast("type[object]", kind))


def _row_in(kind: object) -> type[ResultRow] | None:
    """The kind of row that a type is, or is a sequence or optional of; None for another type."""
    if isinstance(kind, type) and issubclass(kind, ResultRow):
        return kind
    return next((row for row in map(_row_in, get_args(kind)) if row is not None), None)


def _describe(
    cls: type[ResultRow], properties: dict[str, JsonValue], required: list[JsonValue], prefix: str = ""
) -> bool:
    """Add the columns of a row to a schema; whether it may have others."""
    more = False
    later: dict[str, JsonValue] = {}
    for each in fields(cls):
        kind, name = _types(cast(type, cls))[each.name], prefix + _name(each)
        if each.metadata.get("embedded"):
            if isinstance(kind, type) and issubclass(kind, ResultRow):
                more |= _describe(kind, properties, required, prefix + _prefix(each))
            else:
                more = True
        elif kind is Estimate:
            properties[name] = schema_of(float)
            (later if cls.INTERVALS_LAST else properties)[name + CI95] = schema_of(tuple[float, float] | None)
            required += [name, name + CI95]
        else:
            properties[name] = schema_of(kind)
            required += [] if each.metadata.get("optional") else [name]
    properties |= later
    return more


_SIMPLE: dict[object, dict[str, JsonValue]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}, {"type": "null"}]},
    str: {"type": "string"},
    type(None): {"type": "null"},
}


def schema_of(kind: object) -> dict[str, JsonValue]:
    """The JSON Schema of a type; numbers may be `inf`, `-inf` or null, see `formatting.json_ready`."""
    if kind in _SIMPLE:
        return dict(_SIMPLE[kind])
    if isinstance(kind, type) and issubclass(kind, ResultRow):
        return kind.schema()
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, UnionType) and not any(get_origin(each) is dict for each in inner):
        return {"anyOf": [schema_of(each) for each in inner]}
    if origin is tuple and Ellipsis not in inner:
        ends: list[JsonValue] = [schema_of(each) for each in inner]
        return {"type": "array", "prefixItems": ends, "minItems": len(ends), "maxItems": len(ends)}
    if origin in (tuple, list, Sequence):
        return {"type": "array", "items": schema_of(inner[0])}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    return {}  # any value
