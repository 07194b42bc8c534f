"""From the `data` table of a Spec to the collection: synthetic, or read from files, or cached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from foltr_audit.core.records import Collection
from foltr_audit.core.records.dataset import joint_fingerprint
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data.arrays import made_collection
from foltr_audit.data.cache import SourceKey, cached
from foltr_audit.data.intents import count_read, intent_files, with_intents
from foltr_audit.data.layout import folds_of, locate
from foltr_audit.data.normalize import normalise
from foltr_audit.data.search_log import LogFiles, load_search_log
from foltr_audit.data.sources import load_data
from foltr_audit.data.synthetic.generate import synthesise
from foltr_audit.errors import UsageError
from foltr_audit.utils.reading import whole_number

if TYPE_CHECKING:
    from foltr_audit.data.layout import SourceFiles


def load_collection(data: DataSpec, seed: int, *, cache: bool = True) -> Collection:
    """The normalised collection of a Spec; `seed` splits sources without parts of their own.

    Large collections come from the user's cache folder from the second time on, unless `cache` is off.

    Raises:
        DataError: the files cannot be read as ranking data.
        UsageError: a source or fold that does not exist, or arrays that were prepared in another way.
    """
    if data.is_made:
        return made_collection(data)
    origin, load = _origin(data, seed)
    return cached(origin, load) if cache else load()


def _origin(data: DataSpec, seed: int) -> tuple[SourceKey, Callable[[], Collection]]:
    if data.is_synthetic:
        return _synthetic(data)
    log = LogFiles.of(data.source)
    return _files(data, seed) if log is None else _search_log(data, log)


def folds(data: DataSpec) -> tuple[int, ...]:
    """Numbers of the folds that the source has; empty if it has none."""
    return () if data.is_synthetic or data.is_made else folds_of(data.source)


def source_files(data: DataSpec) -> SourceFiles | None:
    """The files of ranking data, and which parts they lack; None for synthetic data and search logs.

    Raises:
        DataError: no such data, or an unknown layout.
        UsageError: a fold that does not exist.
    """
    if data.is_synthetic or data.is_made or LogFiles.of(data.source) is not None:
        return None
    return locate(data.source, data.fold)


def _resolved(data: DataSpec, *files: Path) -> tuple[Path, ...]:
    """Every file that is read; the same relative path is another file in another working folder."""
    return tuple(path.resolve() for path in (*files, *intent_files(data.intents)))


def _files(data: DataSpec, seed: int) -> tuple[SourceKey, Callable[[], Collection]]:
    located = locate(data.source, data.fold)
    # Where nothing is split the seed does not matter: runs of all seeds share one entry of the cache.
    split_seed = seed if located.split else None
    origin = SourceKey(data, located.fold, split_seed, _resolved(data, *located.files))

    def read() -> Collection:
        how = {"normalisation": data.normalise, "dtype": data.dtype}
        return load_data(data.source, fold=data.fold, seed=seed, intents=data.intents, **how)

    return origin, read


def _search_log(data: DataSpec, files: LogFiles) -> tuple[SourceKey, Callable[[], Collection]]:
    return SourceKey(data, files=_resolved(data, *files.files)), lambda: load_search_log(data, files)


def _synthetic(data: DataSpec) -> tuple[SourceKey, Callable[[], Collection]]:
    if data.fold:
        raise UsageError(f"--fold: {data.fold}; synthetic data have no folds")
    like, _, queries = data.source.partition(":")[2].partition(":")
    number = whole_number(queries, 0, 10**9)  # `synthesise` refuses numbers that are too large
    if queries and number is None:
        raise UsageError(f"--data: {data.source!r}; expected synthetic:NAME or synthetic:NAME:QUERIES")

    def generate() -> Collection:
        made = replace(synthesise(like, queries=number), source=data.source)
        if data.intents is not None:
            whole = {name: made.part(name) for name in Collection.PARTS}
            judged = with_intents(whole, data.intents, made.source)
            made = made.with_parts(
                (judged[name] for name in Collection.PARTS),
                fingerprint=joint_fingerprint([judged[name] for name in Collection.PARTS]),
                intents_from=data.intents,
                read=count_read(whole, data.intents),
            )
        return normalise(made, data.normalise, data.dtype, overwrite=True)

    return SourceKey(data, files=_resolved(data)), generate
