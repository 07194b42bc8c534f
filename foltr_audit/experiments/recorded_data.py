"""Finds the data set behind recorded messages: a trace names it, the Run that it lies in knows its place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from foltr_audit.core.records import Collection
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.intents import balance_collection
from foltr_audit.data.load import load_collection
from foltr_audit.errors import DataError, TraceError, UsageError, shorten_value
from foltr_audit.experiments.runs.reader import spec_around
from foltr_audit.judge.view_builder import check_collection
from foltr_audit.rng import Streams
from foltr_audit.trace import Trace, TraceHeader
from foltr_audit.utils.reading import whole_number


def recorded_collection(
    path: Path,
    traces: Mapping[str, Trace],
    spec: Spec | None,
    *,
    data: str | None,
    intents: str | None,
    seed: int,
) -> Collection:
    """The data set of traces that share one.

    Args:
        path: the Run folder or trace folder.
        traces: the traces, at least one.
        spec: the Spec of the Run; None for a bare trace.
        data: path of the data set, if it is not where the Run says.
        intents: the same of the qrels per intent.
        seed: seed of its splits.

    Raises:
        UsageError: it is not there, and no other path is given.
        TraceError: it is another data set.
    """
    header = next(iter(traces.values())).header
    recorded = header.dataset
    if not recorded.source and data is None:
        raise UsageError(f"trace: {path}: features are not embedded, and it names no data; give --data")
    spec = spec or (spec_around(path, header.spec_hash) if header.spec_hash else None)
    wanted = {
        "source": data or (recorded.source if spec is None else spec.data.source),
        "fold": recorded.fold,
        "normalise": recorded.normalised,
        "dtype": header.knowledge.get("feature_dtype", "float32"),
        "intents": intents or (header.knowledge.get("intents_from") if spec is None else spec.data.intents),
    }
    try:
        found = load_collection(Spec.parse({"data": wanted}, f"trace: {path}").data, seed)
    except DataError as error:
        if data is not None:
            raise
        if not recorded.fingerprint:
            raise UsageError(
                f"trace: {path}: no documents are recorded, and {recorded.source!r:.60} is no data "
                "set here; record the lists of clients that agree, or give --data"
            ) from error
        raise UsageError(f"{error}; give the data set of the trace with --data") from error
    for trace in traces.values():
        check_collection(trace.header, found)
    numbered = _numbering(path, header)
    return found if numbered is None else balance_collection(found, numbered)


def _numbering(path: Path, header: TraceHeader) -> Streams | None:
    """What the intents of queries were numbered with; None where they were not."""
    numbered = header.knowledge.get("intents_numbered")
    if not isinstance(numbered, list) or len(numbered) != 2:
        return None
    seed, repetition = (whole_number(text, 0, 2**63 - 1) for text in numbered)
    if seed is None or repetition is None:
        raise TraceError(
            f"{path}: fact intents_numbered is {shorten_value(numbered)}; expected a seed and a repetition"
        )
    return Streams(seed, repetition)
