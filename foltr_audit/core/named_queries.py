"""Queries that somebody named: whether there are such."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from foltr_audit.core.records import Collection
from foltr_audit.errors import UsageError

_NEAR = 3  # ids that a message offers
_MOST = 20  # characters of an id that a message quotes: it may be a line of another file


def refuse_unknown_queries(named: Sequence[str], collection: Collection | None) -> None:
    """Refuse the name of a query that a collection does not have; where there is none, any but `part:index`.

    Raises:
        UsageError: with the nearest ids.
    """
    if not named:
        return
    if collection is None:
        wrong = next((name for name in named if not _is_place(name)), None)
        if wrong is not None:
            expected = "without the data set expected PART:INDEX, e.g. test:0"
            raise UsageError(f"--queries: {_shown(wrong)}; {expected}")
        return
    known = {
        collection.query_name(part, query): None
        for part in collection.PARTS
        for query in range(collection.part(part).n_queries)
    }
    wrong = next((name for name in named if name not in known), None)
    if wrong is not None:
        near = get_close_matches(wrong, known, n=_NEAR, cutoff=0.5)
        told = (
            f"did you mean {' or '.join(map(repr, near))}?"
            if near
            else f"expected one like {next(iter(known))!r}"
        )
        raise UsageError(f"--queries: {_shown(wrong)} is no query of {collection.source}; {told}")


def _shown(name: str) -> str:
    return repr(name) if len(name) <= _MOST else f"a line of {len(name)} characters"


def _is_place(name: str) -> bool:
    part, _, index = name.partition(":")
    return part in Collection.PARTS and index.isdecimal()
