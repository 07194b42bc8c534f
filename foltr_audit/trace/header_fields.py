"""The fields of a trace header: their types, and the data that the clients searched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from foltr_audit.errors import TraceError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST_PARTS = 256  # a part's index is stored in 8 bits

Fact = str | int | float | bool | list[str]


@dataclass(frozen=True, kw_only=True)
class TraceDataset:
    """The data that the clients searched.

    Attributes:
        source: where it came from, e.g. a path or `synthetic:mq2007`.
        fold: number of the fold, from 1; 0 where the source has none.
        fingerprint: SHA-256 (hex) of the parsed content.
        normalised: `none`, `zscore`, `zscore-parts` or `query-minmax`.
        parts: names of the parts; an interaction's `part` is an index into them.
    """

    source: str
    fold: int
    fingerprint: str
    normalised: str
    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        check_types(self, "dataset.")
        check(self.fold >= 0, "dataset.fold", self.fold, "0 or more")
        check(len(set(self.parts)) == len(self.parts), "dataset.parts", self.parts, "different names")
        check(0 < len(self.parts) <= MOST_PARTS, "dataset.parts", self.parts, f"1 to {MOST_PARTS} names")


def check(good: bool, name: str, value: object, expected: str) -> None:
    """Refuse a field that is not good.

    Raises:
        TraceError: it is not; the line says what was expected.
    """
    if not good:
        raise TraceError(f"trace: header: {name} is {shortened(value)}, expected {expected}")


def shortened(value: object) -> str:
    """A value as Python writes it, at most 80 characters of it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def check_names(table: Mapping[str, object], names: list[str], prefix: str) -> None:
    """Refuse a table that lacks a field or has another one.

    Raises:
        TraceError: it is such a table.
    """
    for name in names:
        if name not in table:
            raise TraceError(f"trace: header: field {prefix}{name} is missing")
    for name in table:
        if name not in names:
            raise TraceError(f"trace: header: unknown field {prefix}{name}")


_TYPES: dict[str, tuple[type, str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "bool": (bool, "true or false"),
    "dict[str, Fact]": (dict, "a table"),
}


def check_types(record: DataclassInstance, prefix: str) -> None:
    """Refuse a record whose plain fields have other types than they should.

    Raises:
        TraceError: it has.
    """
    for item in fields(record):
        value = getattr(record, item.name)
        if str(item.type) not in _TYPES and item.name != "parts":
            continue  # a record, which checks itself
        if item.name == "parts":
            check(all(isinstance(part, str) for part in value), prefix + "parts", value, "a list of texts")
            continue
        kind, expected = _TYPES[str(item.type)]
        good = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        check(good, prefix + item.name, value, expected)


def check_fact(name: str, value: object) -> None:
    """Refuse a fact that is neither text, a number, true or false, nor a list of texts.

    Raises:
        TraceError: it is.
    """
    texts = isinstance(value, list) and all(isinstance(text, str) for text in value)
    good = texts or (
        isinstance(value, str | int | float) and not (isinstance(value, float) and math.isnan(value))
    )
    check(good, f"knowledge.{name}", value, "text, a number (not NaN), true or false, or a list of texts")
