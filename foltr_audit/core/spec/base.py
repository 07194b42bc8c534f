"""The base class of the tables of a Spec, with shared checks."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from foltr_audit.errors import suggest_name

PARTS = ("train", "vali", "test")
"""Parts of a data set."""


class SpecTable(BaseModel):
    """A frozen table of validated fields, without unknown fields or NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True, validate_default=True
    )

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


def known_parts(values: tuple[str, ...]) -> tuple[str, ...]:
    """Names of `PARTS`, each once.

    Raises:
        ValueError: an unknown name.
    """
    for value in values:
        if value not in PARTS:
            raise ValueError(f"unknown part {value!r}; {suggest_name(value, PARTS)}")
    return once(values)
