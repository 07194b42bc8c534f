"""Ranking data from arrays and data frames of this process, in place of files."""

from __future__ import annotations

import decimal
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import ARRAYS, DataSpec
from foltr_audit.data.document_order import in_content_order
from foltr_audit.data.letor import LetorFile
from foltr_audit.data.sources import complete_parts, prepared, same_width
from foltr_audit.data.values import (
    BEYOND,
    NO_VALUE,
    NOT_FINITE,
    checked_features,
    label_problem,
    zero_features,
)
from foltr_audit.errors import DataError, UsageError
from foltr_audit.utils.argument_names import names_arguments
from foltr_audit.utils.arrays import Features, Floats, Ints

Part = tuple[object, object, object]
"""Features (n, d), grades (n,) and the query of each row (n,)."""

_BATCH_VALUES = 1 << 20  # float64 copies of this many features at a time

_made: dict[str, Collection] = {}
"""The collections of this process by their source: a Spec holds their name only."""


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
    missing: float | str | None = None,
    dtype: str = "float32",
    seed: int = 1,
) -> Collection:
    """Ranking data from arrays: NumPy, SciPy, pandas, polars, or lists.

    They are checked by the rules of files, and the order of rows changes nothing: those of a query may stand
    anywhere. Parts that are not given are split off by query, 20 % of the queries each.

    Args:
        X: features, (n, d): an array, a sparse matrix of SciPy, whose d may differ between parts, or a data
            frame, of which `y` and `query_ids` may name columns; the other columns are the features then.
            Memory holds them dense.
        y: relevance grade of each row, whole numbers from 0 to 31, (n,).
        query_ids: the query of each row, (n,): text, or numbers, which become text (1.0 is 1).
        document_ids: the document of each row, (n,), where None is no name; None for no names.
        vali: the validation split, as (X, y, query_ids).
        test: the test split, as (X, y, query_ids).
        name: what reports call the data.
        normalise: `zscore`, `zscore-parts`, `query-minmax` or `none`, as `--normalise`.
        missing: what missing features (NaN, None, masked, or Istella's marker 1.797e308) become before
            normalisation: a number, or `min` or `mean` of the feature over the training split. With None the
            marker becomes 0, and the others are refused.
        dtype: of the features, float32 or float64.
        seed: of the split.

    Returns:
        A collection for `fa.Spec(data=...)` and `fa.attack(spec, data=...)`. A Spec holds its name, so that
        other processes and saved Runs need the data once more: there, give files.

    Raises:
        DataError: shapes that do not fit, a grade that is no whole number from 0 to 31, a feature that is no
            finite float32, a row without query, more zeros than memory is meant for, or too few queries.
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
    table = {"source": ARRAYS, "normalise": normalise, "missing": missing, "dtype": dtype}
    how = DataSpec.parse(table, "make_data")
    given = {"train": (X, y, query_ids), "vali": vali, "test": test}
    split = {part: _named_taken_out(part, arrays) for part, arrays in given.items() if arrays is not None}
    _check_columns(split)
    read = [
        (part, _read(part, arrays, document_ids if part == "train" else None, how))
        for part, arrays in split.items()
    ]
    wide = same_width([(f"X of {part}", one) for part, one in read])
    parts = {part: in_content_order(one, overwrite=True) for (part, _), one in zip(read, wide, strict=True)}
    nameless = prepared(complete_parts(parts, seed, "arrays"), how, synthetic=False, fold=0)
    found = replace(nameless, source=f"{ARRAYS}{name}-{nameless.fingerprint[:12]}")
    name_in_specs(found)
    return found


@names_arguments
def make_data_of_qrels(
    qrels: Iterable[Any],
    features: Callable[[str, str], Sequence[float]] | Mapping[tuple[str, str], Sequence[float]],
    *,
    name: str = "qrels",
    normalise: str = "zscore",
    missing: float | str | None = None,
    dtype: str = "float32",
    seed: int = 1,
) -> Collection:
    """Ranking data from judgements, such as those of `ir_datasets`, and the features of each judged pair.

    Args:
        qrels: judgements with a `query_id`, a `doc_id` and a whole `relevance`, as `dataset.qrels_iter()` of
            `ir_datasets` yields them; below 0 counts as 0.
        features: of a query and a document, by their ids: a function or a mapping, to d numbers. Collections
            of texts have none: compute them, e.g. scores of some retrieval models.
        name: what reports call the data.
        normalise: as for `make_data`.
        missing: as for `make_data`.
        dtype: as for `make_data`.
        seed: as for `make_data`.

    Raises:
        DataError: as `make_data`, a pair without features, or one that is judged twice.
    """
    try:
        judged = [(one.query_id, one.doc_id, one.relevance) for one in qrels]
    except (TypeError, AttributeError) as error:
        expected = "expected judgements with query_id, doc_id and relevance"
        raise DataError(f"qrels: {error}; {expected}") from error
    if not judged:
        raise DataError("qrels: no judgement; expected at least one document of one query")
    query_ids, doc_ids, relevance = map(list, zip(*judged, strict=True))
    queries = _names("query_id of qrels", query_ids, needed=True)
    documents = _names("doc_id of qrels", doc_ids, needed=True)
    grades = _numbers("relevance of qrels", _array("relevance of qrels", relevance, 1))
    rows: dict[tuple[str, str], Sequence[float]] = {}
    for pair in zip(queries, documents, strict=True):
        if pair in rows:
            raise DataError(f"qrels: query {pair[0]}, document {pair[1]} is judged twice; expected once")
        try:
            rows[pair] = features(*pair) if callable(features) else features[pair]
        except KeyError as error:
            raise DataError(f"qrels: no features of query {pair[0]}, document {pair[1]}") from error
    if len({np.size(row) for row in rows.values()}) > 1:
        raise DataError("qrels: different numbers of features; expected the same of each pair")
    y = np.where(grades < 0, 0, grades)
    return make_data(
        list(rows.values()),
        y,
        queries,
        document_ids=documents,
        name=name,
        normalise=normalise,
        missing=missing,
        dtype=dtype,
        seed=seed,
    )


def name_in_specs(collection: Collection) -> None:
    """Let the Specs of this process name a collection, which another process may have made."""
    _made[collection.source] = collection


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
    made = DataSpec.of(found, balance=data.balance)
    for field in DataSpec.model_fields:
        if getattr(data, field) != getattr(made, field):
            raise UsageError(
                f"data {data.source}: made with {field}={getattr(made, field)}; expected the same, "
                f"not {getattr(data, field)}"
            )
    return found


def _read(part: str, given: Part, document_ids: Iterable[object] | None, how: DataSpec) -> LetorFile:
    """The rows of a part, by query; its features are new memory."""
    X, y, query_ids = given
    features = _features(f"X of {part}", X, how)
    grades = _grades(f"y of {part}", y)
    queries = _names(f"query_ids of {part}", query_ids, needed=True)
    documents = [""] * len(queries)
    sizes = {"X": len(features), "y": len(grades), "query_ids": len(queries)}
    if document_ids is not None:
        documents = _names("document_ids", document_ids, needed=False)
        sizes["document_ids"] = len(documents)
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise DataError(f"{part}: numbers of rows differ: {said}")
    if not queries:
        raise DataError(f"{part}: no row; expected at least one document of one query")
    number = {name: place for place, name in enumerate(dict.fromkeys(queries))}
    query = np.array([number[name] for name in queries])
    order = np.argsort(query, kind="stable")
    dataset = Dataset(
        features=features if np.all(query[1:] >= query[:-1]) else features[order],
        labels=grades[order],
        offsets=np.concatenate([[0], np.cumsum(np.bincount(query))]),
        query_ids=tuple(number),
        document_ids=tuple(documents[row] for row in order.tolist()),
    )
    return LetorFile(dataset, dense=not hasattr(X, "tocsr"))


class _Columns(list[tuple[str, Any]]):
    """Names and columns of a data frame."""


def _columns(X: Any) -> _Columns | None:
    """Those of a data frame of pandas or polars; None of anything else."""
    if hasattr(X, "get_columns"):
        return _Columns((column.name, column) for column in X.get_columns())
    if hasattr(X, "items") and hasattr(X, "columns"):
        return _Columns((str(name), column) for name, column in X.items())
    return None


def _named_taken_out(part: str, given: Part) -> Part:
    """The three arrays of a part; columns that are named are taken out of the data frame."""
    try:
        X, y, query_ids = given
    except (TypeError, ValueError) as error:
        raise DataError(f"{part}: expected (X, y, query_ids)") from error
    columns = _columns(X)
    named = [one for one in (y, query_ids) if isinstance(one, str)]
    names = [name for name, _ in columns or ()]
    for one in named:
        if names.count(one) != 1:
            problem = f"{'several columns' if one in names else 'no column'} {one!r}"
            raise DataError(f"X of {part}: {problem}; expected one of {', '.join(names) or 'a data frame'}")
    if columns is None:
        return X, y, query_ids
    of_name = dict(columns)
    return (
        _Columns((name, column) for name, column in columns if name not in named),
        of_name[y] if isinstance(y, str) else y,
        of_name[query_ids] if isinstance(query_ids, str) else query_ids,
    )


def _check_columns(parts: Mapping[str, Part]) -> None:
    """Refuse data frames of parts whose columns have different names, or another order."""
    frames = [(part, [name for name, _ in X]) for part, (X, _, _) in parts.items() if isinstance(X, _Columns)]
    for part, names in frames[1:]:
        first, expected = frames[0]
        # Of different numbers `same_width` says how many each has.
        for name, other in zip(names, expected, strict=False):
            if name != other:
                raise DataError(f"X of {part}: column {name}; expected {other}, as in X of {first}")


def _features(what: str, X: Any, how: DataSpec) -> Features:
    """Checked features (n, d), `MISSING` where they are missing: columns or stretches of rows at a time."""
    blocks: Iterable[tuple[str, int, Any, Any]]  # name in messages, its first row, its place, its values
    if isinstance(X, _Columns):
        rows, width = len(X[0][1]) if X else 0, len(X)
        # A sparse column of pandas knows how many of its values it holds.
        given = sum(getattr(getattr(column, "sparse", None), "npoints", rows) for _, column in X)
        named = ((place, f"{what}: column {name}", column) for place, (name, column) in enumerate(X))
        blocks = ((where, 0, np.s_[:, place], _array(where, column, 1)) for place, where, column in named)
    else:
        is_sparse = hasattr(X, "tocsr")  # a sparse matrix or array of SciPy, or of a library like it
        values: Any = X if is_sparse else _array(what, X, 2)
        _check_shape(what, values.shape, 2)
        rows, width = values.shape
        given, values = (values.nnz, values.tocsr()) if is_sparse else (values.size, values)
        step = max(1, _BATCH_VALUES // max(1, width))
        slices = ((first, np.s_[first : first + step]) for first in range(0, rows, step))
        blocks = (
            (what, first, place, values[place].toarray() if is_sparse else values[place])
            for first, place in slices
        )
    features = zero_features(what, rows, width, given, how.dtype)
    for where, first, place, block in blocks:
        numeric = _numbers(where, block, first)
        features[place], refused = checked_features(
            numeric, how.dtype, nan_is_missing=how.missing is not None
        )
        if refused.any():
            index = tuple(np.argwhere(refused)[0])
            value = float(numeric[index])
            problem = NO_VALUE if math.isnan(value) else NOT_FINITE if math.isinf(value) else BEYOND
            raise DataError(f"{where}: {_place(index, first)}: value {_number_text(value)}{problem}")
    return features


def feature_rows(X: object, how: DataSpec) -> Features:
    """The features (n, d) of what `make_data` takes for `X`, as they are.

    Raises:
        DataError: as `make_data`.
    """
    return _features("X", _columns(X) or X, how)


def _place(index: tuple[Any, ...], first: int) -> str:
    """How messages name an element of rows from the number `first` on: by row, and column if it has one."""
    return ", column ".join(map(str, (f"row {first + index[0]}", *index[1:])))


def _grades(what: str, y: object) -> Ints:
    values = _numbers(what, _array(what, y, 1))
    for value in np.unique(values).tolist():
        if (problem := label_problem(value)) is not None:
            row = int(np.argmax((values == value) | (np.isnan(values) & math.isnan(value))))
            raise DataError(f"{what}: row {row}: label {_number_text(value)} {problem}")
    return values.astype(np.int64)


def _names(what: str, given: Any, *, needed: bool) -> list[str]:
    """Names of queries or documents, (n,); without a name `""`, or refused if it is needed."""
    unordered = isinstance(given, str | bytes | Set | Mapping)
    if isinstance(given, Iterable) and not unordered and not hasattr(given, "__array__"):
        given = list(given)
    # NumPy would make texts of all elements of some lists, and cut them at a NUL.
    is_flat = isinstance(given, list) and not any(isinstance(one, list | np.ndarray) for one in given)
    names = []
    for row, one in enumerate(given if is_flat else _array(what, given, 1)):
        missing = _is_missing(one)
        name = "" if missing else _name(one)
        if needed and not name.strip():
            said = one if missing else repr(name)
            raise DataError(f"{what}: row {row}: no name ({said}); expected the name or number of each")
        if (problem := _name_problem(name)) is not None:
            raise DataError(f"{what}: row {row}: {name!r} {problem}; expected a name")
        names.append(name)
    return names


def _name(one: Any) -> str:
    if isinstance(one, bytes):
        return one.decode(errors="surrogateescape")  # which is no text, and refused
    # Equal numbers are one name: a column of whole numbers may have become one of floats.
    whole = isinstance(one, float | np.floating) and one.is_integer()
    return str(int(one) if whole else one)


def _name_problem(name: str) -> str | None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return "is not text"
    return "contains a NUL" if "\0" in name else None


def _number_text(value: float) -> str:
    return repr(value).removesuffix(".0")


def _check_shape(what: str, shape: tuple[int, ...], dimensions: int) -> None:
    if len(shape) != dimensions:
        raise DataError(f"{what}: shape {shape}; expected {'(n, d)' if dimensions == 2 else '(n,)'}")


def _array(what: str, value: Any, dimensions: int) -> NDArray[Any]:
    """An array, column or list, with its mask if it has one."""
    listed = value if isinstance(value, list | tuple) else ()
    masked = any(isinstance(one, np.ma.MaskedArray) for one in listed)
    try:
        array: NDArray[Any] = np.ma.asarray(value) if masked else np.asanyarray(value)
        if listed and array.dtype.kind in "SU":  # NumPy makes text of all elements where one is text
            array = np.array(value, dtype=object)
    except (TypeError, ValueError, RuntimeError) as error:  # such as rows of different lengths
        raise DataError(f"{what}: expected an array of numbers, its rows of one length") from error
    _check_shape(what, array.shape, dimensions)
    return array


def _numbers(what: str, given: NDArray[Any], first: int = 0) -> Floats:
    """Numbers of any type as float64, NaN where they are missing, of rows from the number `first` on."""
    kind = given.dtype.kind
    if kind == "O":
        listed = [_number(one) for one in given.ravel()]
        if None in listed:
            index = np.unravel_index(listed.index(None), given.shape)
            place = f"{what}: {_place(index, first)}"
            raise DataError(f"{place}: expected numbers, not {type(given[index]).__name__}")
        return np.array(listed, dtype=np.float64).reshape(given.shape)
    if kind not in "biuf":
        raise DataError(f"{what}: expected numbers, not {given.dtype}")
    with np.errstate(over="ignore"):  # of numbers with more digits than float64
        values = np.array(given, dtype=np.float64)
    values[np.ma.getmaskarray(given)] = np.nan
    return values


def _number(one: Any) -> float | None:
    """An element as float64, NaN where it is missing; None of what is no number."""
    if _is_missing(one):
        return math.nan
    is_number = isinstance(one, numbers.Real | decimal.Decimal | np.bool_)
    if not is_number or isinstance(one, np.timedelta64):
        return None
    try:
        return float(one)
    except OverflowError:
        return math.inf if one > 0 else -math.inf


def _is_missing(one: Any) -> bool:
    """Whether an element stands for no value: None, NaN, NaT, pandas.NA or masked."""
    try:
        return one is None or one is np.ma.masked or bool(one != one)
    except TypeError:  # pandas.NA is neither true nor false
        return True
    except (ValueError, ArithmeticError):  # an array, or a signalling NaN
        return isinstance(one, decimal.Decimal)
