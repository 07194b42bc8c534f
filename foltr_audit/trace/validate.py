"""Everything that can be wrong with a trace, and plain facts about one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.errors import TraceError
from foltr_audit.recorder.trace_files import HEADER, marker_name
from foltr_audit.recorder.trace_format import SCHEMA
from foltr_audit.trace.facts import problems_of
from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.parts import TracePart
from foltr_audit.trace.reader import Columns, Tables, Trace
from foltr_audit.trace.schema import contradictions, fact_problems, truth_misfits


def validate(folder: Path) -> list[str]:
    """The problems of the trace in a folder, one line each; empty where it is valid.

    Raises:
        UsageError: no such folder.
    """
    try:
        trace, problems = Trace.with_problems(folder)
    except TraceError as error:
        return [str(error)]
    header = trace.header
    of_facts = problems_of(header.knowledge, ours=bool(header.spec_hash))
    problems += [f"trace: {folder / HEADER}: {problem}" for problem in of_facts]
    if (folder / "truth").is_dir() and not header.has_truth:
        problems.append(f"trace: {folder / 'truth'}: exists, but {HEADER} has has_truth = false")
    forms: dict[str, set[object]] = {"number": set(), "type": set()}
    for part in trace.parts:
        problems += _part_problems(trace, part, forms)
    for what, values in forms.items():
        if len(values) > 1:
            problems.append(f"trace: {folder}: embedded features differ in {what}: {sorted(values, key=str)}")
    return problems


def info(folder: Path) -> dict[str, object]:
    """Facts about a trace, ready for JSON (infinite numbers are text); reads no message.

    Raises:
        UsageError: no such folder.
        TraceError: as `Trace.open`.
    """
    trace = Trace.open(folder)
    header = trace.header
    size = _bytes_on_disk(trace)
    return {
        "schema": SCHEMA,
        "writer": header.writer,
        "trace_id": trace.trace_id,
        **{name: getattr(header, name) for name in ("kind", "dtype", "ranker", "parameters", "k")},
        "rounds": trace.n_rounds,
        "messages": trace.n_messages,
        "interactions": trace.n_interactions,
        "layout": [str(array) for array in header.arrays],
        "parts": len(trace.parts),
        "rounds_per_part": header.rounds_per_part,
        "bytes": size,
        "bytes_per_message": size / trace.n_messages if trace.n_messages else None,
        "has_truth": trace.has_truth,
        "embeds_features": header.embeds_features,
        "knowledge": {
            name: str(fact) if fact in (math.inf, -math.inf) else fact
            for name, fact in header.knowledge.items()
        },
        "dataset": {**vars(header.dataset), "parts": list(header.dataset.parts)},
        "spec_hash": header.spec_hash,
    }


def _bytes_on_disk(trace: Trace) -> int:
    names = [HEADER, *(marker_name(part.index) for part in trace.parts)]
    tables = sum(part.files[table].size for part in trace.parts for table in trace.tables(part))
    return tables + sum((trace.folder / name).stat().st_size for name in names)


def _part_problems(trace: Trace, part: TracePart, forms: Mapping[str, set[object]]) -> list[str]:
    problems, where = [], f"trace: {trace.folder}: part {part.index}: "
    most = trace.header.rounds_per_part
    if part.n_rounds > most:
        marker = trace.folder / marker_name(part.index)
        problems.append(f"trace: {marker}: has {part.n_rounds} rounds, expected at most {most}")
    tables: dict[str, Columns] = {}
    for table in trace.tables(part):
        try:
            tables[table] = trace.columns(part, table)
        except TraceError as error:
            problems.append(str(error))
    records: list[RoundRecord] = []
    try:
        if all(table in tables for table in part.observed):
            for record in trace.rounds_in(part, tables):
                problems += [where + problem for problem in _record_problems(trace.header, record)]
                records.append(record)
                if record.features is not None:
                    forms["number"].add(record.features.shape[-1])
                    forms["type"].add(record.features.dtype.name)
        if trace.has_truth and all(table in tables for table in part.truth):
            problems += _truth_problems(trace, part, tables, records)
    except TraceError as error:
        problems.append(str(error))
    return problems


def _record_problems(header: TraceHeader, record: RoundRecord) -> list[str]:
    arrays = {name: getattr(record, name) for name in ("parameters", "messages", "features", "candidates")}
    if not np.all(np.isnan(record.aggregate)):  # unknown
        arrays["aggregate"] = record.aggregate
    problems = [
        f"{name} hold a value that is not finite"
        for name, array in arrays.items()
        if array is not None and not np.all(np.isfinite(array))
    ]
    ordered = np.sort(record.shown, axis=1)
    if np.any((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)):
        problems.append("a shown list holds a document twice")
    wrong = [*islice(fact_problems(header, record), 1)]
    if not wrong and not problems:
        wrong = [*islice(contradictions(header, record), 1)]
    return [f"round {record.round}: {problem}" for problem in (*problems, *wrong)]


def _truth_problems(trace: Trace, part: TracePart, tables: Tables, records: list[RoundRecord]) -> list[str]:
    problems = trace.row_problems(part, tables)
    truths = list(trace.truths_in(part, tables))
    if problems or len(records) != len(truths):
        return problems
    for record, truth in zip(records, truths, strict=True):
        where = f"trace: {trace.folder}: part {part.index}: round {record.round}: "
        problems += [where + one for one in islice(truth_misfits(trace.header, record, truth), 1)]
        # A row of NaN is an update that nobody knows.
        known = ~np.isnan(truth.updates).all(axis=1)
        if not np.isfinite(truth.updates[known]).all():
            problems.append(f"{where}true updates hold a value that is not finite")
    return problems
