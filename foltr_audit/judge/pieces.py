"""Evidence in pieces: rows of a record, and pieces of several rounds or repetitions put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Record = TypeVar("Record", bound=DataclassInstance)

SUMMED = {"summed": True}
"""Metadata of a field that counts something: the counts of several pieces are added."""


def find_refusals(pieces: Iterable[object]) -> dict[str, str]:
    """Why attacks could not run in any of several pieces of evidence, by label."""
    return {label: why for piece in pieces for label, why in getattr(piece, "refused", {}).items()}


def join_pieces(pieces: Sequence[Record], refused: Mapping[str, str] | None = None) -> Record:
    """Several pieces of evidence, or of what one attack answered, as one record, in their order.

    Arrays are concatenated, `SUMMED` counts are added, and other values are those of the first piece. Of
    values by label, those remain that every piece has and whose attack no piece refused.

    Args:
        pieces: records of one class, at least one.
        refused: why attacks could not run, by label; by default what the pieces themselves say.
    """
    refused = find_refusals(pieces) if refused is None else refused
    whole: dict[str, Any] = {}
    for each in fields(pieces[0]):
        values = [getattr(piece, each.name) for piece in pieces]
        whole[each.name] = sum(values) if "summed" in each.metadata else _join(values, refused)
    if "refused" in whole:
        whole["refused"] = dict(refused)
    return type(pieces[0])(**whole)


def _join(values: Sequence[Any], refused: Mapping[str, str]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        labels = [name for name in first if name not in refused and all(name in each for each in values)]
        return {label: _join([each[label] for each in values], refused) for label in labels}
    if any(value is None for value in values):
        return None
    if isinstance(first, np.ndarray):
        return np.concatenate(values)
    return join_pieces(values, refused) if hasattr(first, "__dataclass_fields__") else first


def take_rows(record: object, names: Iterable[str], rows: Any) -> dict[str, Any]:
    """Some rows of the named arrays of a record, by name; None where a record lacks an array."""
    values = {name: getattr(record, name) for name in names}
    return {name: None if value is None else value[rows] for name, value in values.items()}
