"""Errors of pydantic as one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from foltr_audit.errors import shorten_value

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


def first_problem(error: ValidationError, names: Mapping[str, str] | None = None) -> str:
    """The first error of pydantic as one short line that names the field and the value.

    `names` maps fields to other names, e.g. the options that set them.
    """
    details: ErrorDetails = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in details["loc"] if not isinstance(part, int))
    where = (names or {}).get(where, where)
    message = details["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    if details["type"] == "missing":
        return f"{where} is missing"
    if not where:
        return message
    if details["type"] == "value_error":
        return f"{where}: {message}"
    return f"{where}={shorten_value(details['input'])}: {message}"
