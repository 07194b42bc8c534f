"""The number format that messages really use, and how many lists are behind each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.judge.fact_inference.estimate import FactEstimate, cannot_tell
from foltr_audit.utils.arrays import Bools, Floats


def format_estimate(records: Sequence[RoundRecord], content: str) -> FactEstimate:
    """The fact `number_format`: float32 where float64 numbers, or models behind updates, are all float32.

    A float64 number is a float32 one by chance once in 2^29.
    """
    name = "number_format"
    values = [record.messages[record.survivors] for record in records if record.survivors.any()]
    if not values or values[0].dtype == np.uint64:
        return cannot_tell(name, "messages are encoded as integers" if values else "no message is recorded")
    numbers = sum(int(np.count_nonzero(each)) for each in values)
    if not numbers:
        return cannot_tell(name, "every number of every message is 0")
    if values[0].dtype == np.float32:
        return FactEstimate(name, "certain", "messages are stored in float32", "float32")
    if all(_in_float32(np.asarray(each, dtype=np.float64)).all() for each in values):
        if all(_has_few_digits(np.asarray(each, dtype=np.float64)).all() for each in values):
            return cannot_tell(name, f"none of {numbers} float64 numbers has more than 12 binary digits")
        return FactEstimate(name, "certain", f"each of {numbers} float64 numbers is a float32 one", "float32")
    if content == "update":
        models = [record.parameters + record.messages[record.survivors] for record in records]
        if all(_in_float32(np.asarray(each, dtype=np.float64)).all() for each in models):
            why = (
                "the model plus each update is in float32: local models were, and updates have their rounding"
            )
            return FactEstimate("number format of models", "certain", why, "float32")
    return FactEstimate(name, "certain", f"some of {numbers} numbers need float64", "float64")


def _in_float32(values: Floats) -> Bools:
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(np.float32).astype(np.float64) == values)


def _has_few_digits(values: Floats) -> Bools:
    """Which numbers have a binary fraction of at most 12 digits, as signs and rounded numbers do."""
    fraction = np.frexp(values)[0] * 2.0**12
    return np.asarray(fraction == np.round(fraction))


def count_estimates(records: Sequence[RoundRecord]) -> list[FactEstimate]:
    """How many messages a round has, and the fact `interactions`, lists behind a message."""
    arrived = [int(record.survivors.sum()) for record in records]
    if not arrived or not max(arrived):
        return [cannot_tell("messages", "no message is recorded"), cannot_tell("interactions", "no message")]
    least, most = min(arrived), max(arrived)
    sent = max(record.n_messages for record in records)
    lost = f", of up to {sent} sent" if sent > most else ""
    rounds = f"{len(records)} round{'s' * (len(records) > 1)}{lost}"
    cohort = FactEstimate("messages", "certain", rounds, least if least == most else f"{least} to {most}")
    counts = np.unique(np.concatenate([record.counts[record.survivors] for record in records]))
    listed = np.unique(
        np.concatenate(
            [np.bincount(record.slot, minlength=record.n_messages)[record.survivors] for record in records]
        )
    )
    if counts.size > 1:
        why = f"messages count {counts[0]} to {counts[-1]}"
        return [cohort, cannot_tell("interactions", f"{why}: no one number")]
    if counts[0] == 0:
        return [cohort, cannot_tell("interactions", "no message counts an interaction")]
    agree = np.array_equal(counts, listed)
    source = "every message counts this many" + (" and has as many lists" if agree else "")
    return [cohort, FactEstimate("interactions", "certain" if agree else "likely", source, int(counts[0]))]
