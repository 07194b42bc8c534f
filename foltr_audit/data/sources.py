"""Files, folders and folds of ranking data, read into the three parts of a Collection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import joint_fingerprint
from foltr_audit.core.spec.data import are_synthetic
from foltr_audit.data.intents import with_intents
from foltr_audit.data.letor.lines import name_in_messages
from foltr_audit.data.letor.reader import LetorFile, read_letor
from foltr_audit.data.normalize import check_normalisation, normalise
from foltr_audit.data.search_log.collection import LAYOUT
from foltr_audit.errors import DataError, UsageError
from foltr_audit.rng import Streams

_SPLIT_SHARE = 0.2  # of the queries, for each missing part
_FOLD = re.compile(r"Fold([1-9]\d{0,5})")
_SPELLINGS = {"train": ("train",), "vali": ("vali", "valid"), "test": ("test",)}
_ENDS = ("", ".gz")
_LAYOUTS = (
    "train.txt with vali.txt and test.txt (in it or in FoldK), set1.train.txt and so on, "
    f"NAME.train with NAME.train.query, or {LAYOUT}"
)


@dataclass(frozen=True)
class _RankingFile:
    path: Path
    groups: Path | None = None


_Layout = Mapping[str, _RankingFile]  # part name -> file, for the parts that exist


@dataclass(frozen=True)
class SourceFiles:
    """Which files a source is read from.

    Attributes:
        layout: part name -> file, for the parts that exist.
        fold: the fold they are of; 0 where there are none.
    """

    layout: _Layout
    fold: int

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is read, group files included."""
        pairs = ((file.path, file.groups) for file in self.layout.values())
        return tuple(path for pair in pairs for path in pair if path is not None)

    @property
    def is_split(self) -> bool:
        """Whether a part is missing, and so split off the training part."""
        return len(self.layout) < len(_SPELLINGS)


def folds_of(source: str) -> tuple[int, ...]:
    """Numbers of the `FoldK` folders, ascending; () where there are none.

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
            missing = [part for part in _SPELLINGS if part not in _text_layout(path)]
            if missing:
                raise DataError(
                    f"data: {path}: no {missing[0]} part; expected train.txt, vali.txt and test.txt"
                )
            found.append(int(match[1]))
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
    return SourceFiles({"train": _RankingFile(path, _group_file(path))}, 0)


def load_data(
    source: str,
    *,
    fold: int = 0,
    seed: int = 1,
    normalisation: str = "zscore",
    dtype: str = "float32",
    intents: str | None = None,
) -> Collection:
    """Read a file or folder into three normalised parts; `fold` 0 means none, or the only one.

    Parts that are missing are split off the training part by query, 20 % of the queries each. With
    `intents` (as in `--intents`) only queries and documents that are judged under them stay.

    Raises:
        DataError: no such data, an unknown layout, or a file that is malformed.
        UsageError: an unknown normalisation, or a fold that is missing or must be named.
    """
    check_normalisation(normalisation)
    located = locate(source, fold)
    layout = located.layout
    read = _same_width({name: _read(file, dtype) for name, file in layout.items()}, layout)
    if intents is not None:
        read = with_intents(read, intents, source)
    parts = _complete(read, seed, source)
    train, vali, test = (parts[name] for name in Collection.PARTS)
    made_up = intents is not None and are_synthetic(intents)
    collection = Collection(
        train=train,
        vali=vali,
        test=test,
        source=source,
        synthetic=made_up or all(_synthetic(part) for part in (train, vali, test)),
        fold=located.fold,
        fingerprint=joint_fingerprint([train, vali, test]),
        intents_from=intents,
    )
    # Nothing else holds the parsed features, so that their memory may be used again.
    return normalise(collection, normalisation, dtype, overwrite=True)


def _synthetic(part: Dataset) -> bool:
    """Whether `foltr-audit data synth` wrote it: its document ids say so."""
    return all(name.startswith("synthetic-") for name in part.document_ids)


def _is_folder(path: Path) -> bool:
    try:
        if path.exists():
            return path.is_dir()
    except OSError as error:
        raise DataError(f"data: {path}: cannot be read: {error.strerror or error}") from error
    raise DataError(f"data: {path}: no such file or folder")


def _folder(source: str, fold: int) -> SourceFiles:
    folder = Path(source)
    layout = {} if fold else _layout(folder)
    if layout:
        return SourceFiles(layout, 0)
    folds = folds_of(source)
    if not fold and len(folds) == 1:
        fold = folds[0]
    if fold in folds:
        return SourceFiles(_text_layout(folder / f"Fold{fold}"), fold)
    known = ", ".join(map(str, folds))
    if fold:
        raise UsageError(f"data: --fold {fold}: {source} has {f'folds {known}' if known else 'no folds'}")
    if folds:
        raise UsageError(f"data: {source} has folds {known}; pass --fold K or --fold all")
    raise DataError(f"data: {source}: no training part; expected {_LAYOUTS}")


def _layout(folder: Path) -> _Layout:
    """The parts of a folder without folds; empty if it has no training part."""
    text = _text_layout(folder)
    return text if "train" in text else _group_layout(folder)


def _text_layout(folder: Path) -> dict[str, _RankingFile]:
    names = {path.name for path in _entries(folder)} if folder.is_dir() else set()
    prefixes = ("", "set1.")
    found = _parts(folder, [f"{prefix}{{part}}.txt{end}" for prefix in prefixes for end in _ENDS], names)
    return {part: _RankingFile(path) for part, path in found.items()}


def _group_layout(folder: Path) -> dict[str, _RankingFile]:
    names = {path.name for path in _entries(folder)}
    stems = sorted({match[1] for name in names if (match := re.fullmatch(r"(.+)\.train(\.gz)?", name))})
    if not stems:
        return {}
    if len(stems) > 1:
        raise DataError(f"data: {folder}: several data sets: {', '.join(stems)}; expected one NAME.train")
    found = _parts(folder, [f"{stems[0]}.{{part}}{end}" for end in _ENDS], names)
    return {part: _RankingFile(path, _group_file(path)) for part, path in found.items()}


def _parts(folder: Path, forms: list[str], names: set[str]) -> dict[str, Path]:
    """The file of each part whose name has one of some forms."""
    layout = {}
    for part, spellings in _SPELLINGS.items():
        tried = [form.replace("{part}", spelling) for spelling in spellings for form in forms]
        found = [name for name in tried if name in names]
        if len(found) > 1:
            raise DataError(f"data: {folder}: the {part} part exists twice: {' and '.join(found)}")
        if found:
            layout[part] = folder / found[0]
    return layout


def _group_file(path: Path) -> Path | None:
    groups = path.with_name(f"{path.name.removesuffix('.gz')}.query")
    return groups if groups.exists() else None


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        raise DataError(f"data: {folder}: cannot be read: {error.strerror or error}") from error


def _read(file: _RankingFile, dtype: str) -> LetorFile:
    return read_letor(file.path, groups=file.groups, dtype=dtype)


def _same_width(parts: Mapping[str, LetorFile], layout: _Layout) -> dict[str, Dataset]:
    """Pad sparse parts with zeros to the widest one; dense parts must agree."""
    dense = [(name, part.dataset.n_features) for name, part in parts.items() if part.dense]
    for name, width in dense[1:]:
        if width != dense[0][1]:
            one, other = (name_in_messages(layout[part].path) for part in (dense[0][0], name))
            raise DataError(f"data: dense rows of {dense[0][1]} features in {one}, but of {width} in {other}")
    width = max(part.dataset.n_features for part in parts.values())
    return {name: _padded(part.dataset, width) for name, part in parts.items()}


def _padded(part: Dataset, width: int) -> Dataset:
    if part.n_features == width:
        return part
    features = np.zeros((part.n_documents, width), dtype=part.features.dtype)
    features[:, : part.n_features] = part.features
    return part.with_features(features)


def _complete(parts: Mapping[str, Dataset], seed: int, source: str) -> dict[str, Dataset]:
    """Split missing parts off the training part by query; queries keep their order."""
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
    return {
        "source": collection.source,
        "synthetic": collection.synthetic,
        "fold": collection.fold,
        "fingerprint": collection.fingerprint,
        "features": collection.n_features,
        "intents": collection.n_intents,
        "intents_from": collection.intents_from,
        **({} if collection.train.users is None else {"queries_left_out": collection.left_out}),
        "parts": {name: _facts(collection.part(name)) for name in Collection.PARTS},
    }


def _intent_facts(part: Dataset) -> dict[str, object]:
    """Relevant documents of each intent, where there are several."""
    if part.intents is None:
        return {}
    relevant = np.count_nonzero(part.intents > 0, axis=1).tolist()
    return {"relevant_per_intent": {str(intent): count for intent, count in enumerate(relevant, start=1)}}


def _user_facts(part: Dataset) -> dict[str, object]:
    """Users of the queries and their numbers of queries, where they are known."""
    if part.users is None:
        return {}
    counts = np.unique(part.users, return_counts=True)[1]
    each = {"min": int(counts.min()), "mean": float(counts.mean()), "max": int(counts.max())}
    return {"users": counts.size, "queries_per_user": each}


def _facts(part: Dataset) -> dict[str, object]:
    lengths = part.lengths
    grades, counts = np.unique(part.labels, return_counts=True)
    return {
        "queries": part.n_queries,
        "documents": part.n_documents,
        "documents_per_query": {
            "min": int(lengths.min()),
            "mean": part.n_documents / part.n_queries,
            "max": int(lengths.max()),
        },
        "labels": {str(grade): int(count) for grade, count in zip(grades, counts, strict=True)},
        **_intent_facts(part),
        **_user_facts(part),
        "queries_without_relevant": int(np.count_nonzero(~part.has_relevant)),
        "queries_with_one_document": int(np.count_nonzero(lengths == 1)),
        "queries_with_10_documents": int(np.count_nonzero(lengths >= 10)),
        "ndcg_ceiling": float(np.count_nonzero(part.has_relevant) / part.n_queries),
    }
