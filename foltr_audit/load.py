"""From the `data` table of a Spec to the collection: synthetic, or read from files."""

from __future__ import annotations

from foltr_audit.errors import UsageError
from foltr_audit.records import Collection
from foltr_audit.spec import DataSpec

SYNTHETIC = "synthetic"


def load_collection(data: DataSpec, seed: int) -> Collection:
    """The normalised collection of a Spec; `seed` splits sources without parts of their own.

    Raises:
        DataError: the files cannot be read as ranking data.
        UsageError: a source or fold that does not exist.
    """
    from foltr_audit.normalise import normalise
    from foltr_audit.sources import load_data
    from foltr_audit.synthetic import synthesise

    kind, _, rest = data.source.partition(":")
    if kind != SYNTHETIC:
        return load_data(data.source, fold=data.fold, seed=seed, normalisation=data.normalise)
    if data.fold:
        raise UsageError(f"--fold: {data.fold}; synthetic data have no folds")
    like, _, queries = rest.partition(":")
    if queries and not queries.isdigit():
        raise UsageError(f"--data: {data.source!r}; expected synthetic:NAME or synthetic:NAME:QUERIES")
    return normalise(synthesise(like, queries=int(queries) if queries else None), data.normalise)


def folds(data: DataSpec) -> tuple[int, ...]:
    """Numbers of the folds that the source has; empty if it has none."""
    from foltr_audit.sources import folds_of

    return () if data.source.partition(":")[0] == SYNTHETIC else folds_of(data.source)
