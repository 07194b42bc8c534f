"""Ranking data from arrays and data frames of this process, in place of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import ARRAYS, DataSpec
from foltr_audit.data.document_order import in_content_order
from foltr_audit.data.sources import complete_parts
from foltr_audit.data.sources import normalise as scaled
from foltr_audit.errors import DataError, UsageError
from foltr_audit.utils.argument_names import names_arguments

Part = tuple[object, object, object]
"""Features (n, d), grades (n,) and the query of each row (n,)."""

_made: dict[str, Collection] = {}
"""The collections of this process by their source: a Spec holds their name only."""


class Judgement(Protocol):
    """One relevance judgement, as `ir_datasets` yields them: `for qrel in dataset.qrels_iter()`."""

    @property
    def query_id(self) -> str:
        """The query."""

    @property
    def doc_id(self) -> str:
        """The document."""

    @property
    def relevance(self) -> int:
        """The grade; below 0 counts as 0."""


@names_arguments
def make_data(
    X: object,
    y: object,
    query_ids: object,
    *,
    document_ids: Iterable[object] | None = None,
    vali: Part | None = None,
    test: Part | None = None,
    name: str = "data",
    normalise: str = "zscore",
    dtype: str = "float32",
    seed: int = 1,
) -> Collection:
    """Ranking data from arrays: NumPy, pandas, polars, or lists.

    The rows of a query may stand anywhere; queries keep the order of their first rows. Parts that are not
    given are split off by query, 20 % of the queries each.

    Args:
        X: features, (n, d): an array, or a data frame, of which `y` and `query_ids` may name columns; the
            other columns are the features then.
        y: relevance grade of each row, whole numbers from 0, (n,).
        query_ids: the query of each row, (n,).
        document_ids: the document of each row, (n,); None for no names.
        vali: the validation split, as (X, y, query_ids).
        test: the test split, as (X, y, query_ids).
        name: what reports call the data.
        normalise: `zscore`, `zscore-parts`, `query-minmax` or `none`, as `--normalise`.
        dtype: of the features, float32 or float64.
        seed: of the split.

    Returns:
        A collection for `fa.Spec(data=...)` and `fa.attack(spec, data=...)`. A Spec holds its name, so that
        other processes and saved Runs need the data once more: there, give files.

    Raises:
        DataError: shapes that do not fit, a grade that is no whole number from 0, a feature that is not
            finite, or too few queries.
        UsageError: an unknown normalisation or dtype.

    Example:
        >>> import numpy as np
        >>> import foltr_audit as fa
        >>> rng = np.random.default_rng(0)
        >>> X, y, query_ids = rng.normal(size=(200, 5)), rng.integers(0, 3, 200), np.arange(200) // 20
        >>> data = fa.make_data(X, y, query_ids)
        >>> (data.train.n_queries, data.vali.n_queries, data.test.n_queries, data.n_features)
        (6, 2, 2, 5)
    """
    if dtype not in ("float32", "float64"):
        raise UsageError(f"dtype: {dtype!r}; expected float32 or float64")
    parts = {"train": _dataset("train", (X, y, query_ids), document_ids, dtype)}
    for part, given in (("vali", vali), ("test", test)):
        if given is not None:
            parts[part] = _dataset(part, given, None, dtype)
    widths = {part: one.n_features for part, one in parts.items()}
    if len(set(widths.values())) > 1:
        raise DataError(f"arrays: parts with different numbers of features: {widths}")
    parts = {part: in_content_order(one) for part, one in parts.items()}
    whole = complete_parts(parts, seed, "arrays")
    parsed = Collection.parsed(
        (whole[part] for part in Collection.PARTS), source=ARRAYS, synthetic=False, fold=0
    )
    named = replace(parsed, source=f"{ARRAYS}{name}-{parsed.fingerprint[:12]}")
    found = scaled(named, normalise, dtype)
    _made[found.source] = found
    return found


@names_arguments
def make_data_of_qrels(
    qrels: Iterable[Judgement],
    features: Callable[[str, str], Sequence[float]] | Mapping[tuple[str, str], Sequence[float]],
    *,
    name: str = "qrels",
    normalise: str = "zscore",
    dtype: str = "float32",
    seed: int = 1,
) -> Collection:
    """Ranking data from judgements, such as those of `ir_datasets`, and the features of each judged pair.

    Args:
        qrels: judgements with a `query_id`, a `doc_id` and a `relevance`; below 0 counts as 0.
        features: of a query and a document, by their ids: a function or a mapping, to d numbers. Collections
            of texts have none: compute them, e.g. scores of some retrieval models.
        name: what reports call the data.
        normalise: as for `make_data`.
        dtype: as for `make_data`.
        seed: as for `make_data`.

    Raises:
        DataError: as `make_data`, or a pair without features.
    """
    rows: list[Sequence[float]] = []
    grades, queries, documents = [], [], []
    for one in qrels:
        pair = str(one.query_id), str(one.doc_id)
        try:
            rows.append(features(*pair) if callable(features) else features[pair])
        except KeyError as error:
            raise DataError(f"qrels: no features of query {pair[0]}, document {pair[1]}") from error
        grades.append(max(int(one.relevance), 0))
        queries.append(pair[0])
        documents.append(pair[1])
    if len({len(row) for row in rows}) > 1:
        raise DataError("qrels: different numbers of features; expected the same of each pair")
    return make_data(
        rows, grades, queries, document_ids=documents, name=name, normalise=normalise, dtype=dtype, seed=seed
    )


def made_collection(data: DataSpec) -> Collection:
    """The collection of this process that a Spec names.

    Raises:
        DataError: another process made it.
        UsageError: the Spec wants it prepared in another way.
    """
    found = _made.get(data.source)
    if found is None:
        raise DataError(
            f"data {data.source}: made of arrays in another Python process; expected it as data=..., jobs=1 "
            "where processes share the work, or a file"
        )
    dtype = str(found.train.features.dtype)
    made = found.normalised, dtype, None, found.document_order
    if (data.normalise, data.dtype, data.intents, data.document_order) != made:
        raise UsageError(
            f"data {data.source}: made with normalise={found.normalised} and dtype={dtype}, without intents "
            "and in the order of content; expected the same"
        )
    return found


def _dataset(part: str, given: Part, document_ids: Iterable[object] | None, dtype: str) -> Dataset:
    X, y, query_ids = _columns(given)
    features = _numbers(f"X of {part}", X, 2)
    grades = _numbers(f"y of {part}", y, 1)
    if not np.isfinite(features).all():
        raise DataError(f"X of {part}: a value is not finite; expected numbers")
    if not np.array_equal(grades, grades.astype(np.int64)) or (grades.size and grades.min() < 0):
        raise DataError(f"y of {part}: expected whole numbers from 0")
    names = [str(one) for one in _array(query_ids).ravel()]
    documents = [""] * len(names) if document_ids is None else [str(one) for one in document_ids]
    sizes = {"X": len(features), "y": len(grades), "query_ids": len(names), "document_ids": len(documents)}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise DataError(f"{part}: numbers of rows differ: {said}")
    if not names:
        raise DataError(f"{part}: no row; expected at least one document of one query")
    number = {name: place for place, name in enumerate(dict.fromkeys(names))}
    query = np.array([number[name] for name in names])
    order = np.argsort(query, kind="stable")
    return Dataset(
        features=features[order].astype(dtype),
        labels=grades[order].astype(np.int64),
        offsets=np.concatenate([[0], np.cumsum(np.bincount(query))]),
        query_ids=tuple(number),
        document_ids=tuple(documents[row] for row in order),
    )


def _columns(given: Part) -> Part:
    """The three arrays; columns that are named are taken out of the data frame."""
    X, y, query_ids = given
    named = [one for one in (y, query_ids) if isinstance(one, str)]
    if not named:
        return given
    columns = [str(one) for one in getattr(X, "columns", ())]
    for one in named:
        if one not in columns:
            raise DataError(f"X: no column {one!r}; expected one of {', '.join(columns) or 'a data frame'}")
    frame: Mapping[str, object] = X  # type: ignore[assignment]
    features = [_numbers(f"column {name}", frame[name], 1) for name in columns if name not in named]
    if not features:
        raise DataError("X: no column is left for features")
    return (
        np.stack(features, axis=1),
        frame[y] if isinstance(y, str) else y,
        frame[query_ids] if isinstance(query_ids, str) else query_ids,
    )


def _array(value: object) -> NDArray[np.generic]:
    to_numpy = getattr(value, "to_numpy", None)  # data frames and columns of pandas and polars
    return np.asarray(value if to_numpy is None else to_numpy())


def _numbers(what: str, value: object, dimensions: int) -> NDArray[np.float64]:
    try:
        found = _array(value).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what}: expected numbers") from error
    if found.ndim != dimensions:
        expected = "(n, d)" if dimensions == 2 else "(n,)"
        raise DataError(f"{what}: shape {found.shape}; expected {expected}")
    return found
