"""The `data` table of a Spec: the data, their preparation and their intents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field

from foltr_audit.core.settings.base import Flag, SpecTable, left_out
from foltr_audit.utils.formatting import JsonValue
from foltr_audit.utils.reading import whole_number

if TYPE_CHECKING:
    from foltr_audit.core.records import Collection


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


FEWEST_INTENTS, MOST_INTENTS, USUAL_INTENTS = 2, 10, 4
"""Limits and default of the number of intents: TREC topics have up to ten; studies use four."""

SYNTHETIC = "synthetic"
"""Kind of data and intents that are made and not read: `synthetic:NAME`."""
ARRAYS = "arrays:"
"""What the source of data begins with that were made of arrays, and that only one process has."""


def canonical_intents(text: str) -> str:
    """The same text with every default spelt out."""
    number = synthetic_count(text)
    if not text.strip():
        raise ValueError(f"intents {text!r}: expected a folder or file of qrels, or synthetic:I")
    if number is None:
        return text
    count = whole_number(number, FEWEST_INTENTS, MOST_INTENTS)
    if count is None:
        raise ValueError(
            f"intents {text[:40]!r}: expected synthetic:I with I from {FEWEST_INTENTS} to {MOST_INTENTS}"
        )
    return f"synthetic:{count}"


def synthetic_count(text: str) -> str | None:
    """Number of synthetic intents, as text; None for qrels."""
    _, colon, count = text.partition(":")
    return (count if colon else str(USUAL_INTENTS)) if are_synthetic(text) else None


def are_synthetic(text: str) -> bool:
    """Whether data, or intents, that a text names are synthetic.

    >>> are_synthetic("synthetic:mq2007:60"), are_synthetic("synthetic/train.txt")
    (True, False)
    """
    return text.partition(":")[0] == SYNTHETIC


LARGEST_FEATURE = float.fromhex("0x1.fffffep+127")
"""The largest value of a feature, and the smallest with a minus sign: those of float32."""

FILLS = ("min", "mean")
"""What a missing feature may become in place of a number: a value of its column over the training split."""


def canonical_fill(given: object) -> object:
    """The one text of what missing features become: `min`, `mean`, or the shortest form of a number.

    >>> canonical_fill(-1), canonical_fill("0.50"), canonical_fill("mean")
    ('-1', '0.5', 'mean')
    """
    if given is None or given in FILLS:
        return given
    try:
        value = math.nan if isinstance(given, bool) else float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not abs(value) <= LARGEST_FEATURE:  # also NaN
        raise ValueError(f"{str(given)[:40]!r}; expected a number within float32, {' or '.join(FILLS)}")
    return repr(value + 0.0).removesuffix(".0")  # 0 has no sign


class DataSpec(SpecTable):
    """The data, and how they are prepared; fold 0 is that of data without folds."""

    source: Annotated[str, Flag("data")] = Field(
        "synthetic:mq2007",
        min_length=1,
        description="Folder or file with LETOR data or a search log, or synthetic:NAME[:QUERIES].",
    )
    fold: int = Field(0, ge=0)
    normalise: Literal["zscore", "zscore-parts", "query-minmax", "none"] = Field(
        "zscore",
        description="zscore (statistics of the training split), zscore-parts (of each part), query-minmax or "
        "none.",
    )
    missing: Annotated[str | None, BeforeValidator(canonical_fill)] = Field(
        None,
        description="What missing features become before normalisation: a number, or min or mean of the "
        "feature over the training split. If given, nan and NULL are read as missing, too. Default: 0 for "
        "Istella's marker 1.797e308, while nan is refused.",
    )
    dtype: Literal["float32", "float64"] = Field(
        "float32", description="Type of the features: float32 or float64."
    )
    document_order: Literal["content", "file"] = Field(
        "content",
        description="Order of documents: content (that of rows changes no result), or file (of equal scores "
        "the upper row ranks first).",
    )
    intents: Annotated[str, AfterValidator(canonical_intents)] | None = Field(
        None,
        description="TREC qrels: a folder with a file for each intent (1.txt, 2.txt, ...), or FILE[:I], the "
        "first I subtopics (4) of one file; or synthetic[:I] for synthetic ones.",
    )
    balance: Annotated[bool | None, left_out(True), Flag(default="yes")] = Field(
        None, description="Renumber each query's intents at random, by seed and run."
    )

    @property
    def is_synthetic(self) -> bool:
        """Whether the data are computed and not read."""
        return are_synthetic(self.source)

    @property
    def is_made(self) -> bool:
        """Whether the data are arrays of one process."""
        return self.source.startswith(ARRAYS)

    @classmethod
    def of(cls, collection: Collection, *, balance: bool | None = None) -> DataSpec:
        """What Specs hold of a collection: where it comes from, and how it was prepared."""
        return cls(
            source=collection.source,
            fold=collection.fold,
            normalise=cast("Literal['none']", collection.normalised),
            missing=collection.missing,
            dtype=cast("Literal['float32']", str(collection.train.features.dtype)),
            document_order=cast("Literal['file']", collection.document_order),
            intents=collection.intents_from,
            balance=balance,
        )
