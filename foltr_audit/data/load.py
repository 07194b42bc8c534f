"""From the `data` table of a Spec to the collection: synthetic, or read from files, or cached."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from foltr_audit.core.records import Collection
from foltr_audit.core.records.dataset import joint_fingerprint
from foltr_audit.core.spec.data import DataSpec, are_synthetic
from foltr_audit.data.cache.key import SourceKey
from foltr_audit.data.cache.store import cached
from foltr_audit.data.label_columns import intent_files, with_intents
from foltr_audit.errors import UsageError
from foltr_audit.utils.reading import whole_number

SYNTHETIC = "synthetic"


def load_collection(data: DataSpec, seed: int, *, cache: bool = True) -> Collection:
    """The normalised collection of a Spec; `seed` splits sources without parts of their own.

    Large collections come from the user's cache folder from the second time on, unless `cache` is off.

    Raises:
        DataError: the files cannot be read as ranking data.
        UsageError: a source or fold that does not exist.
    """
    origin, load = _synthetic(data) if _is_synthetic(data) else _files(data, seed)
    return cached(origin, load) if cache else load()


def folds(data: DataSpec) -> tuple[int, ...]:
    """Numbers of the folds that the source has; empty if it has none."""
    from foltr_audit.data.sources import folds_of

    return () if _is_synthetic(data) else folds_of(data.source)


def _is_synthetic(data: DataSpec) -> bool:
    return data.source.partition(":")[0] == SYNTHETIC


def _files(data: DataSpec, seed: int) -> tuple[SourceKey, Callable[[], Collection]]:
    from foltr_audit.data.sources import load_data, locate

    located = locate(data.source, data.fold)
    origin = SourceKey(
        name=os.path.abspath(data.source) + _judged_by(data.intents),
        source=data.source,
        fold=located.fold,
        normalise=data.normalise,
        dtype=data.dtype,
        split_seed=seed if located.is_split else None,
        files=(*located.files, *intent_files(data.intents)),
        intents=data.intents,
    )

    def read() -> Collection:
        how = {"normalisation": data.normalise, "dtype": data.dtype}
        return load_data(data.source, fold=data.fold, seed=seed, intents=data.intents, **how)

    return origin, read


def _judged(collection: Collection, intents: str) -> Collection:
    whole = {name: collection.part(name) for name in Collection.PARTS}
    parts = with_intents(whole, intents, collection.source)
    return replace(
        collection,
        train=parts["train"],
        vali=parts["vali"],
        test=parts["test"],
        fingerprint=joint_fingerprint([parts[name] for name in Collection.PARTS]),
        intents_from=intents,
    )


def _judged_by(intents: str | None) -> str:
    """How a source's name goes on in the cache where its labels are others."""
    if intents is None:
        return ""
    return f" with intents {intents if are_synthetic(intents) else os.path.abspath(intents)}"


def _synthetic(data: DataSpec) -> tuple[SourceKey, Callable[[], Collection]]:
    from foltr_audit.data.normalize import normalise
    from foltr_audit.data.synthetic.generate import synthesise

    if data.fold:
        raise UsageError(f"--fold: {data.fold}; synthetic data have no folds")
    like, _, queries = data.source.partition(":")[2].partition(":")
    number = whole_number(queries, 0, 10**9)  # those that are too many are refused where they are made
    if queries and number is None:
        raise UsageError(f"--data: {data.source!r}; expected synthetic:NAME or synthetic:NAME:QUERIES")
    origin = SourceKey(
        name=data.source + _judged_by(data.intents),
        source=data.source,
        fold=0,
        normalise=data.normalise,
        dtype=data.dtype,
        split_seed=None,
        files=intent_files(data.intents),
        intents=data.intents,
    )

    def generate() -> Collection:
        made = replace(synthesise(like, queries=number), source=data.source)
        if data.intents is not None:
            made = _judged(made, data.intents)
        return normalise(made, data.normalise, data.dtype, overwrite=True)

    return origin, generate
