"""From a plain table to validated settings, with errors that name the source, the field or the option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import ValidationError

from foltr_audit.core.field_errors import first_problem
from foltr_audit.core.settings.base import SpecTable
from foltr_audit.errors import UsageError, suggest_name

T = TypeVar("T", bound=SpecTable)


def validated(
    kind: type[T], table: Mapping[str, object], source: str = "", names: Mapping[str, str] | None = None
) -> T:
    """The settings of a plain table.

    Args:
        kind: their class.
        table: its fields.
        source: what messages begin with; empty if it is obvious.
        names: the options that set the fields, for messages.

    Raises:
        UsageError: an unknown field (the message names the nearest known one) or a refused value.
    """
    refuse_unknown(kind, table, source)
    try:
        return kind.model_validate(dict(table))
    except ValidationError as error:
        raise UsageError(source + first_problem(error, names)) from error


def refuse_unknown(kind: type[SpecTable], table: Mapping[str, object], source: str = "") -> None:
    """Raise `UsageError` for a field that a class of settings does not have; it names the nearest one."""
    for name in table:
        if name not in kind.model_fields:
            raise UsageError(f"{source}{name}: no such field; {suggest_name(str(name), kind.model_fields)}")


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
