"""Local paths of a Spec: where data lie is needed to run it, and is kept out of everything that is shared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import cast

from foltr_audit.utils.rows import JsonValue

LOCAL_PATHS = ("data.source", "data.intents", "train.init")
"""Fields of a Spec that may hold a path."""


def path_name(text: str) -> str:
    """The name of the file or folder at a path; what has no folder stays as it is.

    >>> path_name("/home/ann/letor/MQ2008/"), path_name("synthetic:mq2007:60")
    ('MQ2008', 'synthetic:mq2007:60')
    """
    name = PurePath(text).name
    return name if name.strip(".") else "data"


def without_paths(table: Mapping[str, object]) -> dict[str, JsonValue]:
    """A Spec's plain table with names for `LOCAL_PATHS`."""
    found = cast("dict[str, JsonValue]", dict(table))
    for dotted in LOCAL_PATHS:
        outer, _, inner = dotted.partition(".")
        held = found.get(outer)
        if isinstance(held, Mapping) and isinstance(path := held.get(inner), str):
            found[outer] = {**held, inner: path_name(path)}
    return found
