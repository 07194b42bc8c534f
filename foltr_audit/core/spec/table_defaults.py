"""Defaults of one table of a Spec that follow from another one."""

from __future__ import annotations

from collections.abc import Mapping


def with_default(table: Mapping[str, object], name: str, field: str, value: object) -> Mapping[str, object]:
    """A table in which a field of an inner table has a value if none is given.

    Args:
        table: the table of a Spec.
        name: of an inner table, which is made if it is missing.
        field: of the inner table.
        value: that the field gets.
    """
    inner = table.get(name) or {}
    if not isinstance(inner, Mapping) or field in inner:
        return table
    return {**table, name: {**inner, field: value}}
