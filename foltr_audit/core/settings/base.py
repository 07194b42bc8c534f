"""The base class of the tables of a Spec, with shared checks."""

from __future__ import annotations

import inspect
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, model_validator

from foltr_audit.errors import suggest_name

PARTS = ("train", "vali", "test")
"""Parts of a data set."""


class Flag(NamedTuple):
    """The option that sets a field, where it does not follow from the field: see `cli.field_options`.

    Attributes:
        name: its name without dashes; empty for the name of the field.
        default: words for the default; empty to show the default of the field, None to show none.
        form: `text`, one value in which commas separate several; `list`, values of several options, which
            `+` joins; empty for the form that the type of the field has.
    """

    name: str = ""
    default: str | None = ""
    form: Literal["", "text", "list"] = ""


class SpecTable(BaseModel):
    """A frozen table of validated fields, without unknown fields or NaN.

    What a field means stands in its description: options of the command line show it, and the docstring of
    a table ends with it.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True, validate_default=True
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        said = {name: field.description for name, field in cls.model_fields.items() if field.description}
        if said:
            lines = [f"    {name}: {text}" for name, text in said.items()]
            cls.__doc__ = "\n".join([inspect.getdoc(cls) or "", "", "Attributes:", *lines])

    @model_validator(mode="after")
    def _no_text_with_nul(self) -> Self:
        for value in vars(self).values():
            for text in value if isinstance(value, tuple) else (value,):
                if isinstance(text, str) and "\0" in text:
                    raise ValueError(f"{text[:40]!a}: expected text without NUL")
        return self


def once(values: tuple[str, ...]) -> tuple[str, ...]:
    """Each value once, in order."""
    return tuple(dict.fromkeys(values))


def not_deterministic(value: str | None) -> str | None:
    """None for `deterministic`, the default, so that it is left out of the form of a Spec."""
    return None if value == "deterministic" else value


def only_true(value: bool | None) -> bool | None:
    """None for False, the default, so that it is left out of the form of a Spec."""
    return value or None


def known_parts(values: tuple[str, ...]) -> tuple[str, ...]:
    """Names of `PARTS`, each once.

    Raises:
        ValueError: an unknown name.
    """
    for value in values:
        if value not in PARTS:
            raise ValueError(f"unknown part {value!r}; {suggest_name(value, PARTS)}")
    return once(values)
