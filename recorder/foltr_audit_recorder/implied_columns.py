"""Columns that follow from other tables of a part, which are left out of its files.

Most systems record the lists of every message, one after the other. What their rows are about then follows
from the messages, and rows of truth are about the same messages and lists. Whoever writes a part leaves such
columns out if they hold exactly what follows; whoever reads it puts them back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from .table_files import Columns, row_count

_MESSAGES, _LISTS = "observed/messages", "observed/interactions"
_KEYS = {_MESSAGES: ("round", "slot"), _LISTS: ("round", "slot", "step")}

LEFT_OUT: Mapping[str, tuple[tuple[str, ...], ...]] = {
    _MESSAGES: (("slot",),),
    _LISTS: (_KEYS[_LISTS], ("part",)),
    "truth/messages": (_KEYS[_MESSAGES],),
    "truth/clicks": (_KEYS[_LISTS],),
}
"""Columns that a table may lack, those of a group together; each table follows those that it depends on."""

_SOURCE = {_LISTS: _MESSAGES, "truth/messages": _MESSAGES, "truth/clicks": _LISTS}
"""The table that the columns of another one follow from."""


def without_implied(tables: Mapping[str, Columns]) -> dict[str, Columns]:
    """The tables of a part without the columns that follow from others; no array is copied."""
    kept = dict(tables)
    for table, groups in LEFT_OUT.items():
        for group in groups if table in tables else ():
            try:
                implied = _implied(table, group, tables)
            except ValueError:
                continue
            if all(np.array_equal(tables[table][name], implied[name]) for name in group):
                kept[table] = {name: values for name, values in kept[table].items() if name not in group}
    return kept


def with_implied(tables: Mapping[str, Columns]) -> dict[str, Columns]:
    """The tables of a part with the columns that were left out.

    A table that lacks some is left out itself where the one is not there that they follow from.

    Raises:
        ValueError: rows that other tables do not have, or a part of the columns that are left out together.
    """
    whole = dict(tables)
    for table, group in list(_missing(tables)):
        if _SOURCE.get(table, table) in whole:
            whole[table] = {**_implied(table, group, whole), **whole[table]}
        else:
            whole.pop(table, None)
    return whole


def sources_of(tables: Mapping[str, Columns]) -> set[str]:
    """The tables that the columns follow from which these lack.

    Raises:
        ValueError: a part of the columns that are left out together.
    """
    return {_SOURCE[table] for table, _ in _missing(tables) if table in _SOURCE}


def _missing(tables: Mapping[str, Columns]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for table, groups in LEFT_OUT.items():
        for group in groups if table in tables else ():
            lacking = [name for name in group if name not in tables[table]]
            if lacking and len(lacking) < len(group):
                raise ValueError(
                    f"{table}: column {lacking[0]} is missing, but not all of {', '.join(group)}"
                )
            if lacking:
                yield table, group


def _implied(
    table: str, group: tuple[str, ...], tables: Mapping[str, Columns]
) -> dict[str, NDArray[np.generic]]:
    """What a group of columns holds that is left out.

    Raises:
        ValueError: as `with_implied`.
    """
    if group == ("part",):
        return {"part": np.zeros(row_count(tables[table]), dtype=np.uint8)}
    if table == _MESSAGES:
        return {"slot": _places(tables[table]["round"])}
    if table == _LISTS:
        return _lists_of(tables[_MESSAGES], row_count(tables[table]))
    source = _SOURCE[table]
    if row_count(tables[table]) != row_count(tables[source]):
        raise ValueError(f"{table}: rows differ from those of {source}")
    return {name: tables[source][name] for name in group}


def _places(keys: NDArray[np.generic]) -> NDArray[np.int64]:
    """Number of each row among those of its key, whose rows follow each other."""
    begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])[: keys.size])
    lengths = np.diff(np.append(begins, keys.size))
    return np.arange(keys.size) - np.repeat(begins, lengths)


def _lists_of(messages: Columns, rows: int) -> dict[str, NDArray[np.generic]]:
    """Round, slot and step of as many lists as each message counts, one after the other."""
    counts = messages["count"]
    # Before they become int64, which a count of 2^63 would leave.
    fits = not counts.size or (int(counts.min()) >= 0 and int(counts.max()) <= rows)
    times = counts.astype(np.int64) if fits else np.zeros(counts.size, dtype=np.int64)
    if not fits or int(times.sum()) != rows:
        raise ValueError(
            f"{_LISTS}: {rows} rows without round, slot and step, expected as many as the messages count"
        )
    first = np.cumsum(times) - times
    return {
        **{name: np.repeat(messages[name], times) for name in ("round", "slot")},
        "step": np.arange(rows) - np.repeat(first, times),
    }
