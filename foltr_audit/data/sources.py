"""Files, folders and folds of ranking data, read into the three parts of a Collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import joined
from foltr_audit.core.settings.data import are_synthetic
from foltr_audit.data.intents import count_read, with_intents
from foltr_audit.data.layout import Layout, locate
from foltr_audit.data.letor import LetorFile, name_in_messages, read_letor, shown
from foltr_audit.data.normalize import check_normalisation, normalise
from foltr_audit.errors import DataError
from foltr_audit.rng import Streams

_SPLIT_SHARE = 0.2  # of the queries, for each missing part


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

    Parts that are missing are split off the training split by query, 20 % of the queries each. With
    `intents` (as in `--intents`) only queries and documents that are judged under them stay.

    Raises:
        DataError: no such data, an unknown layout, or a file that is malformed.
        UsageError: an unknown normalisation, or a fold that is missing or must be named.
    """
    check_normalisation(normalisation)
    located = locate(source, fold)
    layout = located.layout
    files = {
        name: [read_letor(file.path, groups=file.groups, dtype=dtype) for file in part]
        for name, part in layout.items()
    }
    read = _same_width(files, layout)
    counted = None if intents is None else count_read(read, intents)
    if intents is not None:
        read = with_intents(read, intents, source)
    parts = complete_parts(read, seed, source)
    made_up = intents is not None and are_synthetic(intents)
    collection = Collection.parsed(
        (parts[name] for name in Collection.PARTS),
        source=source,
        synthetic=made_up or all(map(_synthetic, parts.values())),
        fold=located.fold,
        intents_from=intents,
        read=counted,
    )
    # Nothing else holds the parsed features, so that their memory may be used again.
    return normalise(collection, normalisation, dtype, overwrite=True)


def _synthetic(part: Dataset) -> bool:
    """Whether `foltr-audit data synth` wrote it: its document ids say so."""
    return all(name.startswith("synthetic-") for name in part.document_ids)


def _same_width(parts: Mapping[str, Sequence[LetorFile]], layout: Layout) -> dict[str, Dataset]:
    """One data set of each part; sparse files are padded with zeros to the widest, dense ones must agree."""
    every = [
        (file.path, read)
        for name, files in layout.items()
        for file, read in zip(files, parts[name], strict=True)
    ]
    dense = [(name_in_messages(path), read.dataset.n_features) for path, read in every if read.dense]
    for other, width in dense[1:]:
        one, first = dense[0]
        if width != first:
            raise DataError(f"data: dense rows of {first} features in {one}, but of {width} in {other}")
    width = max(read.dataset.n_features for _, read in every)
    return {
        name: _joined([_padded(one.dataset, width) for one in read], [file.path for file in layout[name]])
        for name, read in parts.items()
    }


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
    features = np.zeros((part.n_documents, width), dtype=part.features.dtype)
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
    return {
        "source": collection.source,
        "synthetic": collection.synthetic,
        "fold": collection.fold,
        "fingerprint": collection.fingerprint,
        "features": collection.n_features,
        "intents": collection.n_intents,
        "intents_from": collection.intents_from,
        **_join_facts(collection),
        **({} if collection.train.users is None else {"queries_left_out": collection.left_out}),
        "parts": {name: _facts(collection.part(name)) for name in Collection.PARTS},
    }


def _join_facts(collection: Collection) -> dict[str, object]:
    """Rows and queries before and after intents were joined, where they come from files."""
    if collection.read is None:
        return {}
    rows, queries = collection.read
    return {
        "rows_read": rows,
        "rows_joined": collection.n_documents,
        "queries_read": queries,
        "queries_joined": collection.n_queries,
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
