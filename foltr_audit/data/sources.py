"""Files, folders and folds of ranking data, in the layouts that are known, and scales of their features.

Means and deviations are taken in float64, so values near the float32 limit neither overflow nor
lose their differences. A result beyond float32 is clipped to its largest value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import joined
from foltr_audit.core.settings.data import are_synthetic
from foltr_audit.data.document_order import in_content_order
from foltr_audit.data.intents import count_read, with_intents
from foltr_audit.data.letor import LetorFile, group_file, name_in_messages, read_letor, shown
from foltr_audit.data.values import fill_missing, zero_features
from foltr_audit.errors import DataError, UsageError, suggest_name
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Features, Floats, Ints

NORMALISATIONS = ("none", "zscore", "zscore-parts", "query-minmax")
_BATCH_ROWS = 8_192  # float64 copies of this many rows at a time
_LARGEST = float(np.finfo(np.float32).max)


def check_normalisation(how: str) -> None:
    if how not in NORMALISATIONS:
        raise UsageError(f"normalise: no normalisation {how!r}; {suggest_name(how, NORMALISATIONS)}")


def normalise(
    collection: Collection, how: str, dtype: str = "float32", *, overwrite: bool = False
) -> Collection:
    """The same fold with other feature scales, float32 or float64; its fingerprint is still the parsed one.

    `zscore` takes mean and population standard deviation over all training documents; `zscore-parts`
    over each part's own documents, and the deviation of a sample (n - 1), as the program published with
    Pham 2022 does for the part that it attacks; `query-minmax` the range within each query (Qin et al.
    2010, "LETOR"). What is constant becomes 0. With `overwrite` float32 results replace the given
    features, which must not be used afterwards, so that large data need memory once; the parts must
    not share their features.

    Raises:
        UsageError: an unknown name, or data that are normalised already.
    """
    check_normalisation(how)
    if collection.normalised != "none":
        raise UsageError(
            f"normalise: {how!r} of data that are already normalised by {collection.normalised!r}"
        )
    if how == "none" and dtype == "float32":
        return collection
    scales = _statistics(collection.train) if how == "zscore" else None
    scaled = []
    for part in map(collection.part, Collection.PARTS):
        if how == "none":
            scaled.append(part.with_features(part.features.astype(dtype, copy=False)))
            continue
        room = _room(part, dtype, overwrite)
        if how == "query-minmax":
            scaled.append(_query_minmax(part, room))
        else:
            scaled.append(_zscore(part, room, *(scales or _statistics(part, of_sample=True))))
    return collection.with_parts(scaled, normalised=how)


def _batches(rows: int) -> Iterator[slice]:
    return (slice(start, min(start + _BATCH_ROWS, rows)) for start in range(0, rows, _BATCH_ROWS))


def _statistics(part: Dataset, *, of_sample: bool = False) -> tuple[Floats, Floats]:
    """Mean and population (or sample) standard deviation of each feature, shape (features,).

    The deviation of a constant feature is exactly 0.
    """
    features, n = part.features, part.n_documents
    total, constant = np.zeros(part.n_features), np.ones(part.n_features, dtype=np.bool_)
    for rows in _batches(n):
        total += features[rows].sum(axis=0, dtype=np.float64)
        constant &= (features[rows] == features[0]).all(axis=0)
    # Constant features are found by comparison: the rounding of a mean would give them a tiny deviation, and
    # so large z-scores.
    mean = np.where(constant, features[0], total / n)
    squares = np.zeros(part.n_features)
    for rows in _batches(n):
        above = features[rows] - mean
        squares += np.square(above, out=above).sum(axis=0)
    return mean, np.sqrt(squares / (max(n - 1, 1) if of_sample else n))


def _room(part: Dataset, dtype: str, overwrite: bool) -> Features:
    """Where a part's scaled features go, (documents, features): its own memory, or new."""
    if not overwrite or part.features.dtype != dtype:
        return np.empty(part.features.shape, dtype)
    # Data sets hold read-only views of their features; the memory itself may be written.
    own = part.features.view()
    own.flags.writeable = True
    return own


def _zscore(part: Dataset, scaled: Features, mean: Floats, deviation: Floats) -> Dataset:
    for rows in _batches(part.n_documents):
        scaled[rows] = _ratio(part.features[rows] - mean, deviation)
    return part.with_features(scaled)


def _query_minmax(part: Dataset, scaled: Features) -> Dataset:
    low = np.minimum.reduceat(part.features, part.offsets[:-1], axis=0).astype(np.float64)
    high = np.maximum.reduceat(part.features, part.offsets[:-1], axis=0).astype(np.float64)
    query_of = np.repeat(np.arange(part.n_queries), part.lengths)
    for rows in _batches(part.n_documents):
        queries = query_of[rows]
        scaled[rows] = _ratio(part.features[rows] - low[queries], high[queries] - low[queries])
    return part.with_features(scaled)


def _ratio(above: Floats, scale: Floats) -> Floats:
    """Quotient within float32, in the memory of the first; 0 where the scale is 0."""
    varies = np.broadcast_to(scale > 0, above.shape)
    np.divide(above, scale, out=above, where=varies)
    np.copyto(above, 0.0, where=~varies)
    return np.clip(above, -_LARGEST, _LARGEST, out=above)


PART_NAMES = ("train", "vali", "test")

_FOLD = re.compile(r"Fold([1-9]\d{0,5})")
_PIECE = re.compile(r"([^.].*?|)(\d{1,6})\.txt(?:\.gz)?")
_LETOR_PIECES = 5  # LETOR's folds are made of five pieces
_SPELLINGS = {"train": ("train",), "vali": ("vali", "valid"), "test": ("test",)}
_ENDS = ("", ".gz")
LOG_FILES = ("metadata.csv", "letor.txt")
"""The files of a search log."""

_LAYOUTS = (
    "train.txt with vali.txt and test.txt, set1.train.txt and so on, or NAME.train and so on (in it or in "
    "FoldK), or pieces NAME1.txt, NAME2.txt and so on, each with query ids or a group file such as "
    f"train.txt.query or train.txt.group, all plain or .gz; or {' with '.join(LOG_FILES)}"
)


@dataclass(frozen=True)
class RankingFile:
    """A file with rows, and the file with the sizes of their groups beside it, where there is one."""

    path: Path
    groups: Path | None = None

    @classmethod
    def at(cls, path: Path) -> RankingFile:
        return cls(path, group_file(path))


Layout = Mapping[str, tuple[RankingFile, ...]]
"""Part name -> its files, for the parts that exist."""


@dataclass(frozen=True)
class SourceFiles:
    """Which files a source is read from, and the fold that they are of; 0 where there are none."""

    layout: Layout
    fold: int

    @property
    def files(self) -> tuple[Path, ...]:
        pairs = ((file.path, file.groups) for files in self.layout.values() for file in files)
        return tuple(path for pair in pairs for path in pair if path is not None)

    @property
    def split(self) -> tuple[str, ...]:
        """Names of the parts without files, which are split off the training split."""
        return tuple(name for name in PART_NAMES if name not in self.layout)


def folds_of(source: str) -> tuple[int, ...]:
    """Numbers of the folds, ascending: those of the `FoldK` folders, 1 to 5 of five pieces; () without.

    Raises:
        DataError: no such data, a folder that cannot be read, or a fold that lacks a part or has it twice.
    """
    folder = Path(source)
    if not _is_folder(folder):
        return ()
    found = []
    for path in _entries(folder):
        match = _FOLD.fullmatch(path.name)
        if match and path.is_dir():
            layout = _parts_layout(path)
            missing = [part for part in PART_NAMES if part not in layout]
            if missing:
                raise DataError(
                    f"data: {path}: no {missing[0]} part; expected train.txt, vali.txt and test.txt"
                )
            found.append(int(match[1]))
    if not found and len(_pieces(folder)) == _LETOR_PIECES:
        return tuple(range(1, _LETOR_PIECES + 1))
    return tuple(sorted(found))


def locate(source: str, fold: int = 0) -> SourceFiles:
    """Find the files of a source; `fold` 0 means none, or the only one.

    Raises:
        DataError: no such data, or an unknown layout.
        UsageError: a fold that is missing or must be named.
    """
    path = Path(source)
    if _is_folder(path):
        return _folder(source, fold)
    if fold:
        raise UsageError(f"data: --fold {fold}: {source} is a file, which has no folds")
    return SourceFiles({"train": (RankingFile.at(path),)}, 0)


def _is_folder(path: Path) -> bool:
    try:
        if path.exists():
            return path.is_dir()
    except OSError as error:
        raise DataError(f"data: {path}: cannot be read: {error.strerror or error}") from error
    raise DataError(f"data: {path}: no such file or folder")


def _folder(source: str, fold: int) -> SourceFiles:
    folder = Path(source)
    if not fold and "train" in (layout := _parts_layout(folder)):
        return SourceFiles(layout, 0)
    folds = folds_of(source)
    pieces = _pieces(folder)
    if pieces and (not fold or fold in folds):
        return SourceFiles(_of_pieces(pieces, fold), fold)
    if not fold and len(folds) == 1:
        fold = folds[0]
    if fold in folds:
        return SourceFiles(_parts_layout(folder / f"Fold{fold}"), fold)
    known = ", ".join(map(str, folds))
    if fold:
        raise UsageError(f"data: --fold {fold}: {source} has {f'folds {known}' if known else 'no folds'}")
    if folds:
        raise UsageError(f"data: {source} has folds {known}; pass --fold K or --fold all")
    raise DataError(f"data: {source}: no training split; expected {_LAYOUTS}")


def _parts_layout(folder: Path) -> Layout:
    """The parts `train.txt` and so on of a folder; without that one `NAME.train` and so on."""
    names = {path.name for path in _entries(folder)}
    prefixes = ("", "set1.")
    found = _parts(folder, [f"{prefix}{{part}}.txt{end}" for prefix in prefixes for end in _ENDS], names)
    stems = sorted({match[1] for name in names if (match := re.fullmatch(r"(.+)\.train(\.gz)?", name))})
    if "train" not in found and stems:
        if len(stems) > 1:
            raise DataError(f"data: {folder}: several data sets: {', '.join(stems)}; expected one NAME.train")
        found = _parts(folder, [f"{stems[0]}.{{part}}{end}" for end in _ENDS], names)
    return {part: (RankingFile.at(path),) for part, path in found.items()}


def _pieces(folder: Path) -> tuple[Path, ...]:
    """The files NAME1.txt, NAME2.txt and so on, by number from 0 or 1; () without, or with parts or folds.

    Other files and folders are passed over, so that a description may lie next to the data.
    """
    names = [path.name for path in _entries(folder)]
    if _parts_layout(folder) or any(_FOLD.fullmatch(name) for name in names):
        return ()
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


def _of_pieces(pieces: Sequence[Path], fold: int) -> Layout:
    """All pieces as the training split; of a fold K the three from piece K on, then one for each other part.

    Source: Qin & Liu 2013, "Introducing LETOR 4.0 datasets", on five-fold cross validation: fold 1 is trained
    on S1, S2 and S3, validated on S4 and tested on S5, and the other folds rotate them.
    """
    files = tuple(RankingFile.at(piece) for piece in pieces)
    if not fold:
        return {"train": files}
    *train, vali, test = files[fold - 1 :] + files[: fold - 1]
    return {"train": tuple(train), "vali": (vali,), "test": (test,)}


def _parts(folder: Path, forms: list[str], names: set[str]) -> dict[str, Path]:
    """The file of each part whose name has one of some forms."""
    layout = {}
    for part, spellings in _SPELLINGS.items():
        tried = [form.replace("{part}", spelling) for spelling in spellings for form in forms]
        found = [name for name in tried if name in names]
        if len(found) > 1:
            raise DataError(f"data: {folder}: the {part} split exists twice: {' and '.join(found)}")
        if found:
            layout[part] = folder / found[0]
    return layout


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"data: {folder}: cannot be read: {error.strerror or error}") from error


_SPLIT_SHARE = 0.2  # of the queries, for each missing part


def load_data(
    source: str,
    *,
    fold: int = 0,
    seed: int = 1,
    normalisation: str = "zscore",
    missing: str | None = None,
    dtype: str = "float32",
    intents: str | None = None,
    order: str = "content",
) -> Collection:
    """Read a file or folder into three normalised parts; `fold` 0 means none, or the only one.

    Queries and documents are in order of their content, or of the `file`: see `in_content_order`.
    Parts that are missing are split off the training split by query, 20 % of the queries each. With
    `intents` (as in `--intents`) only queries and documents that are judged under them stay. `missing` says
    what missing features become, as `--missing`.

    Raises:
        DataError: no such data, an unknown layout, or a file that is malformed.
        UsageError: an unknown normalisation, or a fold that is missing or must be named.
    """
    check_normalisation(normalisation)
    located = locate(source, fold)
    layout = located.layout
    files = {
        name: [
            read_letor(file.path, groups=file.groups, dtype=dtype, nan_is_missing=missing is not None)
            for file in part
        ]
        for name, part in layout.items()
    }
    read = _same_width(files, layout)
    counted = None if intents is None else count_read(read, intents)
    if order == "content":
        read = {name: in_content_order(part, overwrite=True) for name, part in read.items()}
    if intents is not None:
        read = with_intents(read, intents, source)
    parts, n_missing = fill_missing(complete_parts(read, seed, source), missing)
    made_up = intents is not None and are_synthetic(intents)
    # `foltr-audit data synth` writes such document ids.
    named_so = all(name.startswith("synthetic-") for part in parts.values() for name in part.document_ids)
    collection = Collection.parsed(
        (parts[name] for name in Collection.PARTS),
        source=source,
        synthetic=made_up or named_so,
        fold=located.fold,
        missing=missing,
        n_missing=n_missing,
        intents_from=intents,
        read=counted,
    )
    # Nothing else holds the parsed features, so that their memory may be used again.
    return normalise(collection, normalisation, dtype, overwrite=True)


def _same_width(parts: Mapping[str, Sequence[LetorFile]], layout: Layout) -> dict[str, Dataset]:
    """One data set of each part, with files of the same width."""
    every = [
        (name_in_messages(file.path), read)
        for name, files in layout.items()
        for file, read in zip(files, parts[name], strict=True)
    ]
    padded = iter(same_width(every))
    return {
        name: _joined([next(padded) for _ in files], [file.path for file in files])
        for name, files in layout.items()
    }


def same_width(files: Sequence[tuple[str, LetorFile]]) -> list[Dataset]:
    """Data sets of one width of what was read, each with its name in messages.

    Sparse ones are padded with zeros to the widest.

    Raises:
        DataError: dense ones of different widths.
    """
    dense = [(name, read.dataset.n_features) for name, read in files if read.dense]
    for other, width in dense[1:]:
        one, first = dense[0]
        if width != first:
            raise DataError(f"data: dense rows of {first} features in {one}, but of {width} in {other}")
    width = max(read.dataset.n_features for _, read in files)
    return [_padded(read.dataset, width) for _, read in files]


def _joined(pieces: Sequence[Dataset], paths: Sequence[Path]) -> Dataset:
    if len(pieces) == 1:
        return pieces[0]
    seen: dict[str, Path] = {}
    for piece, path in zip(pieces, paths, strict=True):
        for query in piece.query_ids:
            if query in seen:
                raise DataError(
                    f"data: {path}: query {shown(query.encode())} is also in {seen[query].name}; "
                    f"expected the rows of a query in one piece"
                )
        seen |= dict.fromkeys(piece.query_ids, path)
    return joined(pieces)


def _padded(part: Dataset, width: int) -> Dataset:
    if part.n_features == width:
        return part
    given, dtype = part.features.size, str(part.features.dtype)
    features = zero_features("data", part.n_documents, width, given, dtype)
    features[:, : part.n_features] = part.features
    return part.with_features(features)


def complete_parts(parts: Mapping[str, Dataset], seed: int, source: str) -> dict[str, Dataset]:
    """All three parts: missing ones are split off the training split by query; queries keep their order.

    Raises:
        DataError: too few queries to split.
    """
    train = parts["train"]
    missing = [name for name in ("vali", "test") if name not in parts]
    if not missing:
        return dict(parts)
    if train.n_queries <= len(missing):
        raise DataError(
            f"data: {source}: {train.n_queries} training queries; "
            f"expected at least {len(missing) + 1} to split off {' and '.join(missing)}"
        )
    size = max(1, round(_SPLIT_SHARE * train.n_queries))
    order = Streams(seed).generator("split").permutation(train.n_queries)
    cut = size * len(missing)
    whole = {**parts, "train": train.select(np.sort(order[cut:]))}
    for place, name in enumerate(missing):
        whole[name] = train.select(np.sort(order[place * size : (place + 1) * size]))
    return whole


def describe(collection: Collection) -> dict[str, object]:
    """JSON-ready facts of a fold, for `data info`; `ndcg_ceiling` is the share of queries that can score."""
    missing = {"missing_values": collection.n_missing, "missing_become": collection.missing or "0"}
    joined_from_files = {}
    if collection.read is not None:
        joined_from_files = {
            "rows_read": collection.read[0],
            "rows_joined": collection.n_documents,
            "queries_read": collection.read[1],
            "queries_joined": collection.n_queries,
        }
    return {
        "source": collection.source,
        "synthetic": collection.synthetic,
        "fold": collection.fold,
        "fingerprint": collection.fingerprint,
        "features": collection.n_features,
        "intents": collection.n_intents,
        "intents_from": collection.intents_from,
        **joined_from_files,
        **(missing if collection.n_missing else {}),
        **({} if collection.train.users is None else {"queries_left_out": collection.left_out}),
        "parts": {name: _facts(collection.part(name)) for name in Collection.PARTS},
    }


def _spread(counts: Ints) -> dict[str, float]:
    return {"min": int(counts.min()), "mean": float(counts.mean()), "max": int(counts.max())}


def _facts(part: Dataset) -> dict[str, object]:
    lengths = part.lengths
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
        more["users"] = each.size
        more["queries_per_user"] = _spread(each)
    return {
        "queries": part.n_queries,
        "documents": part.n_documents,
        "documents_per_query": _spread(lengths),
        "labels": {str(grade): int(count) for grade, count in zip(grades, counts, strict=True)},
        **more,
        "queries_without_relevant": int(np.count_nonzero(~part.has_relevant)),
        "queries_with_one_document": int(np.count_nonzero(lengths == 1)),
        "queries_with_10_documents": int(np.count_nonzero(lengths >= 10)),
        "ndcg_ceiling": float(np.count_nonzero(part.has_relevant) / part.n_queries),
    }
