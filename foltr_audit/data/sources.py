"""Files, folders and folds of ranking data, in the layouts that are known, and scales of their features.

Means and deviations are taken in float64, so values near the float32 limit neither overflow nor
lose their differences. A result beyond float32 is clipped to its largest value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import joined
from foltr_audit.core.settings.data import LARGEST_FEATURE, DataSpec, are_synthetic
from foltr_audit.data.document_order import in_content_order
from foltr_audit.data.intents import count_read, with_intents
from foltr_audit.data.letor import LetorFile, group_file, name_in_messages, read_letor, shown
from foltr_audit.data.values import fill_missing, own_memory, row_batches, zero_features
from foltr_audit.errors import DataError, UsageError
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Features, Floats, Ints


def prepared(parts: Mapping[str, Dataset], data: DataSpec, **facts: object) -> Collection:
    """The normalised collection of three parts as they were read; its fingerprint is that of their rows.

    The given features must not be used afterwards: others replace them, so that large data need memory once.
    """
    filled, n_missing = fill_missing(parts, data.missing)
    collection = Collection.parsed(
        (filled[name] for name in Collection.PARTS),
        source=data.source,
        missing=data.missing,
        n_missing=n_missing,
        **facts,
    )
    return normalise(collection, data.normalise, data.dtype, overwrite=True)


def normalise(
    collection: Collection, how: str, dtype: str = "float32", *, overwrite: bool = False
) -> Collection:
    """The same fold with other feature scales, float32 or float64; its fingerprint is still the parsed one.

    `zscore` takes mean and population standard deviation over all training documents; `zscore-parts`
    over each part's own documents, and the deviation of a sample (n - 1), as the program published with
    Pham 2022 does for the part that it attacks; `query-minmax` the range within each query (Qin et al.
    2010, "LETOR"). What is constant becomes 0. With `overwrite` results of the same type replace the given
    features, which must not be used afterwards and which the parts must not share, so that large data need
    memory once.
    """
    if how == "none" and dtype == "float32":
        return collection
    parts = [collection.part(name) for name in Collection.PARTS]
    if how == "none":
        return collection.with_parts(part.with_features(part.features.astype(dtype)) for part in parts)
    scale = _statistics(collection.train) if how == "zscore" else None
    scaled = (_scaled(part, how, dtype, scale, overwrite=overwrite) for part in parts)
    return collection.with_parts(scaled, normalised=how, scale=scale)


def _scaled(
    part: Dataset, how: str, dtype: str, scale: tuple[Floats, Floats] | None, *, overwrite: bool
) -> Dataset:
    """A part less the centre of each feature, in units of its scale."""
    own = overwrite and part.features.dtype == dtype
    features = own_memory(part) if own else np.empty(part.features.shape, dtype)
    by_query = how == "query-minmax"
    if by_query:
        low = np.minimum.reduceat(part.features, part.offsets[:-1], axis=0).astype(np.float64)
        high = np.maximum.reduceat(part.features, part.offsets[:-1], axis=0).astype(np.float64)
        query_of = np.repeat(np.arange(part.n_queries), part.lengths)
    else:
        centre, unit = scale or _statistics(part, of_sample=True)
    for rows in row_batches(part.n_documents):
        if by_query:
            centre = low[query_of[rows]]
            unit = high[query_of[rows]] - centre
        features[rows] = standardised(part.features[rows], centre, unit)
    return part.with_features(features)


def standardised(features: Features, centre: Floats, unit: Floats) -> Floats:
    """Features (n, d) less their centre, in units of their scale, both (d,) or (n, d); 0 where that is 0."""
    above = features - centre
    varies = np.broadcast_to(unit > 0, above.shape)
    np.divide(above, unit, out=above, where=varies)
    np.copyto(above, 0.0, where=~varies)
    return np.clip(above, -LARGEST_FEATURE, LARGEST_FEATURE, out=above)


def _statistics(part: Dataset, *, of_sample: bool = False) -> tuple[Floats, Floats]:
    """Mean and population (or sample) standard deviation of each feature, shape (features,).

    The deviation of a constant feature is exactly 0.
    """
    features, n = part.features, part.n_documents
    total, constant = np.zeros(part.n_features), np.ones(part.n_features, dtype=np.bool_)
    for rows in row_batches(n):
        total += features[rows].sum(axis=0, dtype=np.float64)
        constant &= (features[rows] == features[0]).all(axis=0)
    # Constant features are found by comparison: the rounding of a mean would give them a tiny deviation, and
    # so large z-scores.
    mean = np.where(constant, features[0], total / n)
    squares = np.zeros(part.n_features)
    for rows in row_batches(n):
        above = features[rows] - mean
        squares += np.square(above, out=above).sum(axis=0)
    return mean, np.sqrt(squares / (max(n - 1, 1) if of_sample else n))


_FOLD = re.compile(r"Fold([1-9]\d{0,5})")
_PIECE = re.compile(r"([^.].*?|)(\d{1,6})\.txt(?:\.gz)?")
_LETOR_PIECES = 5  # LETOR's folds are made of five pieces
_SPELLINGS = {"train": ("train",), "vali": ("vali", "valid"), "test": ("test",)}
LOG_FILES = ("metadata.csv", "letor.txt")
"""The files of a search log."""

_LAYOUTS = (
    "train.txt with vali.txt and test.txt, set1.train.txt and so on, or NAME.train and so on (in it or in "
    "FoldK), or pieces NAME1.txt, NAME2.txt and so on, each with query ids or a group file such as "
    f"train.txt.query or train.txt.group, all plain or .gz; or {' with '.join(LOG_FILES)}"
)

Layout = Mapping[str, tuple[Path, ...]]
"""Part name -> its files with rows, for the parts that exist."""


@dataclass(frozen=True)
class SourceFiles:
    """Which files a source is read from, and the fold that they are of; 0 where there are none."""

    layout: Layout
    fold: int

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them, also those with the sizes of groups."""
        rows = [path for paths in self.layout.values() for path in paths]
        return tuple(path for row in rows for path in (row, group_file(row)) if path is not None)

    @property
    def split(self) -> tuple[str, ...]:
        """Names of the parts without files, which are split off the training split."""
        return tuple(name for name in Collection.PARTS if name not in self.layout)


def folds_of(source: str) -> tuple[int, ...]:
    """Numbers of the folds, ascending: those of the `FoldK` folders, 1 to 5 of five pieces; () without.

    Raises:
        DataError: no such data, a folder that cannot be read, or a fold that lacks a part or has it twice.
    """
    return tuple(sorted(fold for fold in _layouts(Path(source)) if fold)) if _is_folder(Path(source)) else ()


def locate(source: str, fold: int = 0) -> SourceFiles:
    """Find the files of a source; `fold` 0 means none, or the only one.

    Raises:
        DataError: no such data, or an unknown layout.
        UsageError: a fold that is missing or must be named.
    """
    path = Path(source)
    if not _is_folder(path):
        if fold:
            raise UsageError(f"data: --fold {fold}: {source} is a file, which has no folds")
        return SourceFiles({"train": (path,)}, 0)
    layouts = _layouts(path)
    folds = sorted(number for number in layouts if number)
    if not fold and 0 not in layouts and len(folds) == 1:
        fold = folds[0]
    if fold in layouts:
        return SourceFiles(layouts[fold], fold)
    known = ", ".join(map(str, folds))
    if fold:
        raise UsageError(f"data: --fold {fold}: {source} has {f'folds {known}' if known else 'no folds'}")
    if folds:
        raise UsageError(f"data: {source} has folds {known}; pass --fold K or --fold all")
    raise DataError(f"data: {source}: no training split; expected {_LAYOUTS}")


def _layouts(folder: Path) -> dict[int, Layout]:
    """The files of each fold of a folder, and those to be read without one, 0."""
    names = _names(folder)
    parts = _parts_layout(folder, names)
    found = {0: parts} if "train" in parts else {}
    matches = [match for name in names if (match := _FOLD.fullmatch(name))]
    for match in matches:
        place = folder / match[0]
        if place.is_dir():
            layout = found[int(match[1])] = _parts_layout(place, _names(place))
            missing = [part for part in Collection.PARTS if part not in layout]
            if missing:
                raise DataError(
                    f"data: {place}: no {missing[0]} part; expected train.txt, vali.txt and test.txt"
                )
    if not parts and not matches and (pieces := _pieces(folder, names)):
        found[0] = {"train": pieces}
        # Source: Qin & Liu 2013, "Introducing LETOR 4.0 datasets", on five-fold cross validation: fold 1 is
        # trained on S1, S2 and S3, validated on S4 and tested on S5, and the other folds rotate them.
        for fold in range(1, _LETOR_PIECES + 1) if len(pieces) == _LETOR_PIECES else ():
            *train, vali, test = pieces[fold - 1 :] + pieces[: fold - 1]
            found[fold] = {"train": tuple(train), "vali": (vali,), "test": (test,)}
    return found


def _is_folder(path: Path) -> bool:
    try:
        if path.exists():
            return path.is_dir()
    except OSError as error:
        raise DataError(f"data: {path}: cannot be read: {error.strerror or error}") from error
    raise DataError(f"data: {path}: no such file or folder")


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise DataError(f"data: {folder}: cannot be read: {error.strerror or error}") from error


def _parts_layout(folder: Path, names: Sequence[str]) -> Layout:
    """The parts `train.txt` and so on of a folder; without that one `NAME.train` and so on."""
    found = _parts(folder, names, [("", ".txt"), ("set1.", ".txt")])
    stems = sorted({match[1] for name in names if (match := re.fullmatch(r"(.+)\.train(\.gz)?", name))})
    if "train" in found or not stems:
        return found
    if len(stems) > 1:
        raise DataError(f"data: {folder}: several data sets: {', '.join(stems)}; expected one NAME.train")
    return _parts(folder, names, [(f"{stems[0]}.", "")])


def _parts(folder: Path, names: Sequence[str], forms: Sequence[tuple[str, str]]) -> Layout:
    """The file of each part whose name has one of some beginnings and ends."""
    layout = {}
    for part, spellings in _SPELLINGS.items():
        every = [f"{begin}{word}{end}" for word in spellings for begin, end in forms]
        there = [name for plain in every for name in (plain, f"{plain}.gz") if name in names]
        if len(there) > 1:
            raise DataError(f"data: {folder}: the {part} split exists twice: {' and '.join(there)}")
        if there:
            layout[part] = (folder / there[0],)
    return layout


def _pieces(folder: Path, names: Sequence[str]) -> tuple[Path, ...]:
    """The files NAME1.txt, NAME2.txt and so on, by number from 0 or 1; () without.

    Other files and folders are passed over, so that a description may lie next to the data.
    """
    every = sorted((match[1], int(match[2]), name) for name in names if (match := _PIECE.fullmatch(name)))
    stems = {stem: number for stem, number, _ in every if number < 2}
    if len(stems) > 1:
        several = ", ".join(f"{stem}{number}.txt" for stem, number in stems.items())
        raise DataError(f"data: {folder}: pieces of several names: {several}; expected one NAME")
    found = [piece for piece in every if piece[0] in stems]
    for (stem, last, before), (_, number, name) in pairwise(found):
        if number == last:
            raise DataError(f"data: {folder}: {before} and {name}; expected one of them")
        if number > last + 1:
            raise DataError(f"data: {folder}: {name}, but no {stem}{last + 1}.txt; expected every piece")
    return tuple(folder / name for _, _, name in found)


_SPLIT_SHARE = 0.2  # of the queries, for each missing part


def load_data(data: DataSpec, located: SourceFiles, seed: int) -> Collection:
    """Read located files into three normalised parts, in the order of the Spec: see `in_content_order`.

    Parts that are missing are split off the training split by query, 20 % of the queries each. With intents
    only queries and documents that are judged under them stay.

    Raises:
        DataError: a file that is malformed, or too few queries to split.
    """
    files = [(part, path, _read(path, data)) for part, paths in located.layout.items() for path in paths]
    padded = same_width((name_in_messages(path), file) for _, path, file in files)
    pieces = [(part, path, piece) for (part, path, _), piece in zip(files, padded, strict=True)]
    read = {
        name: _joined([(path, piece) for part, path, piece in pieces if part == name])
        for name in located.layout
    }
    counted = None if data.intents is None else count_read(read, data.intents)
    if data.document_order == "content":
        read = {name: in_content_order(part, overwrite=True) for name, part in read.items()}
    if data.intents is not None:
        read = with_intents(read, data.intents, data.source)
    parts = complete_parts(read, seed, data.source)
    # `foltr-audit data synth` writes such document ids.
    named_so = all(name.startswith("synthetic-") for part in parts.values() for name in part.document_ids)
    return prepared(
        parts,
        data,
        synthetic=named_so or (data.intents is not None and are_synthetic(data.intents)),
        fold=located.fold,
        intents_from=data.intents,
        read=counted,
    )


def _read(path: Path, data: DataSpec) -> LetorFile:
    groups = group_file(path)
    return read_letor(path, groups=groups, dtype=data.dtype, nan_is_missing=data.missing is not None)


def same_width(files: Iterable[tuple[str, LetorFile]]) -> list[Dataset]:
    """Data sets of one width of what was read, each with its name in messages.

    Sparse ones are padded with zeros to the widest.

    Raises:
        DataError: dense ones of different widths.
    """
    named = list(files)
    dense = [(name, read.dataset.n_features) for name, read in named if read.dense]
    for other, width in dense[1:]:
        one, first = dense[0]
        if width != first:
            raise DataError(f"data: dense rows of {first} features in {one}, but of {width} in {other}")
    width = max(read.dataset.n_features for _, read in named)
    return [_padded(read.dataset, width) for _, read in named]


def _padded(part: Dataset, width: int) -> Dataset:
    if part.n_features == width:
        return part
    given, dtype = part.features.size, str(part.features.dtype)
    features = zero_features("data", part.n_documents, width, given, dtype)
    features[:, : part.n_features] = part.features
    return part.with_features(features)


def _joined(pieces: Sequence[tuple[Path, Dataset]]) -> Dataset:
    if len(pieces) == 1:
        return pieces[0][1]
    seen: dict[str, Path] = {}
    for path, piece in pieces:
        for query in piece.query_ids:
            if query in seen:
                raise DataError(
                    f"data: {path}: query {shown(query.encode())} is also in {seen[query].name}; "
                    f"expected the rows of a query in one piece"
                )
        seen |= dict.fromkeys(piece.query_ids, path)
    return joined([piece for _, piece in pieces])


def complete_parts(parts: Mapping[str, Dataset], seed: int, source: str) -> dict[str, Dataset]:
    """All three parts: missing ones are split off the training split by query; queries keep their order.

    Raises:
        DataError: too few queries to split.
    """
    train = parts["train"]
    missing = [name for name in Collection.PARTS if name not in parts]
    if not missing:
        return dict(parts)
    if train.n_queries <= len(missing):
        raise DataError(
            f"data: {source}: {train.n_queries} training queries; "
            f"expected at least {len(missing) + 1} to split off {' and '.join(missing)}"
        )
    size = max(1, round(_SPLIT_SHARE * train.n_queries))
    order = Streams(seed).generator("split").permutation(train.n_queries)
    pieces = np.split(order, [size * place for place in range(1, len(missing) + 1)])
    chosen = zip([*missing, "train"], pieces, strict=True)
    return {**parts, **{name: train.select(np.sort(queries)) for name, queries in chosen}}


def describe(collection: Collection) -> dict[str, object]:
    """JSON-ready facts of a fold, for `data info`; `ndcg_ceiling` is the share of queries that can score."""
    more: dict[str, object] = {}
    if collection.read is not None:
        more["rows_read"], more["rows_joined"] = collection.read[0], collection.n_documents
        more["queries_read"], more["queries_joined"] = collection.read[1], collection.n_queries
    if collection.n_missing:
        more["missing_values"], more["missing_become"] = collection.n_missing, collection.missing or "0"
    if collection.train.users is not None:
        more["queries_left_out"] = collection.left_out
    same = ("source", "synthetic", "fold", "fingerprint", "n_features", "n_intents", "intents_from")
    return {
        **{name.removeprefix("n_"): getattr(collection, name) for name in same},
        **more,
        "parts": {name: _facts(collection.part(name)) for name in Collection.PARTS},
    }


def _spread(counts: Ints) -> dict[str, float]:
    return {"min": int(counts.min()), "mean": float(counts.mean()), "max": int(counts.max())}


def _facts(part: Dataset) -> dict[str, object]:
    grades, counts = np.unique(part.labels, return_counts=True)
    more: dict[str, object] = {}
    if part.intents is not None:
        relevant = np.count_nonzero(part.intents > 0, axis=1).tolist()
        named = {str(intent): count for intent, count in enumerate(relevant, start=1)}
        more["relevant_per_intent"] = named
        # As table 1 of Zhuang & Zuccon 2021: over all queries, also those without a relevant document.
        more["relevant_per_query_and_intent"] = {i: count / part.n_queries for i, count in named.items()}
    if part.users is not None:
        each = np.unique(part.users, return_counts=True)[1]
        more["users"], more["queries_per_user"] = each.size, _spread(each)
    return {
        "queries": part.n_queries,
        "documents": part.n_documents,
        "documents_per_query": _spread(part.lengths),
        "labels": {str(grade): int(count) for grade, count in zip(grades, counts, strict=True)},
        **more,
        "queries_without_relevant": int(np.count_nonzero(~part.has_relevant)),
        "queries_with_one_document": int(np.count_nonzero(part.lengths == 1)),
        "queries_with_10_documents": int(np.count_nonzero(part.lengths >= 10)),
        "ndcg_ceiling": float(np.count_nonzero(part.has_relevant) / part.n_queries),
    }
