"""Rounds to the columns of their tables."""

from __future__ import annotations

import numpy as np

from foltr_audit.core.records.cohort import Cohort
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.errors import UsageError
from foltr_audit.recorder.round_tables import (
    CohortColumns,
    ListColumns,
    MessageColumns,
    RoundColumns,
    Tables,
    TruthColumns,
    round_tables,
)
from foltr_audit.trace.header import TraceHeader
from foltr_audit.trace.layout import split


def encode(header: TraceHeader, record: RoundRecord, truth: RoundTruth | None) -> Tables:
    """The rows of one round in every table; only arrays of messages may be those of the record.

    Raises:
        UsageError: numbers that the layout does not hold.
    """
    arrays = split(header.arrays, record.messages, record.buffers, f"trace: round {record.round}")
    seen = RoundColumns(
        number=record.round,
        model=record.parameters,
        aggregate=record.aggregate,
        messages=MessageColumns(
            arrays=arrays,
            counts=record.counts,
            survived=record.survivors,
            senders=record.senders,
            seeds=record.seeds,
            sizes=record.sizes,
            sent_at=record.sent_at,
            metrics=record.clear,
        ),
        lists=ListColumns(
            slot=record.slot,
            step=record.step,
            part=record.part,
            query=record.query,
            shown=record.shown,
            features=record.features,
            candidates=record.candidates,
            n_candidates=record.n_candidates,
        ),
        shares=record.shares,
        state=record.state,
        masked=header.kind == "masked",
        total=record.total,
        aborted=record.aborted,
        facts=record.facts,
        started=record.started,
        ended=record.ended,
        cohort=_cohort(record.cohort),
    )
    try:
        return round_tables(seen, None if truth is None else _truth(header, truth))
    except ValueError as error:
        raise UsageError(f"trace: round {record.round}: {error}") from None


def _cohort(cohort: Cohort | None) -> CohortColumns | None:
    if cohort is None:
        return None
    return CohortColumns(node=cohort.node, outcome=cohort.outcome, reason=cohort.reason, stage=cohort.stage)


def _truth(header: TraceHeader, truth: RoundTruth) -> TruthColumns:
    with np.errstate(over="ignore"):  # beyond float32 is infinity, as in the message itself
        rounded = truth.updates.astype(header.update_format)
    return TruthColumns(
        clients=truth.clients,
        clicks=truth.clicks,
        updates=None if np.isnan(rounded[:1]).all() and np.isnan(rounded).all() and len(rounded) else rounded,
        clipped=truth.clipped if truth.knows_clips else None,
        known=truth.known,
        intents=truth.intents,
        metrics=truth.metrics,
    )
