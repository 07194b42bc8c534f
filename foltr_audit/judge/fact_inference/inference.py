"""All estimates of the facts of a trace, in one walk over a sample of its messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import View
from foltr_audit.errors import UsageError
from foltr_audit.judge.fact_check.sample import MessageSample, sample_of, thinned
from foltr_audit.judge.fact_inference.estimate import FactEstimate, cannot_tell
from foltr_audit.judge.fact_inference.noise import noise_estimate
from foltr_audit.judge.fact_inference.payload import count_estimates, format_estimate
from foltr_audit.judge.fact_inference.saturated_norms import clip_estimates
from foltr_audit.judge.fact_inference.steps import NAMES, step_estimates
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.pieces import with_messages
from foltr_audit.trace import Fact, Trace
from foltr_audit.trace.facts import FACTS

_MOST = 400  # messages that norms and residuals are computed of
_MOST_NUMBERS = 1 << 24  # of their Jacobian


def infer_facts(trace: Trace, observer: Observer) -> tuple[FactEstimate, ...]:
    """What the messages of a trace tell of its facts; the truth is not read.

    Raises:
        TraceError: a part that is damaged, or a number that is not finite.
    """
    records = list(thinned(trace).rounds())
    header = trace.header
    found = [format_estimate(records, header.content), *count_estimates(records)]
    why, views = "no message is recorded", list[View]()
    if header.kind == "masked":
        why = "messages are masked"
    elif not header.holds_models:
        why = f"messages of kind {header.kind} are no models"
    else:
        try:
            views = _views(records, replace(observer, hidden=frozenset()))
        except UsageError as error:  # features are not there, or of a ranker that is not known
            why = str(error).removeprefix("trace: ")
    if not views:
        return (*found, *(cannot_tell(name, why) for name in ("clip_norm", "noise", *NAMES)))
    clips = clip_estimates(views)
    lists = any(view.is_document.any() for view in views)
    noise = noise_estimate(views) if lists else cannot_tell("noise", "no shown list is recorded")
    told: dict[str, Fact] = {
        one.fact: one.value for one in (*clips, noise) if one.value is not None and one.fact in FACTS
    }
    steps = step_estimates(_single_lists(trace, observer, told), header.content, told)
    return (*found, *clips, noise, *steps)


def _single_lists(trace: Trace, observer: Observer, told: dict[str, Fact]) -> MessageSample:
    """Messages of one list, whose observer knows the facts that are told; the header's come first."""
    known = {name: value for name, value in told.items() if name not in trace.header.knowledge}
    header = replace(trace.header, knowledge={**trace.header.knowledge, **known})
    try:
        return sample_of(replace(trace, header=header), replace(observer, header=header, hidden=frozenset()))
    except UsageError:  # features are neither embedded nor given
        return MessageSample()


def _views(records: list[RoundRecord], observer: Observer) -> list[View]:
    """Views of messages spread evenly over rounds, as many as fit a bound."""
    return [view.trimmed() for record in records for view in _of_round(record, observer, len(records))]


def _of_round(record: RoundRecord, observer: Observer, rounds: int) -> Iterator[View]:
    arrived = np.flatnonzero(record.survivors)
    if not arrived.size:
        return
    lists = int(np.bincount(record.slot, minlength=record.n_messages).max(initial=1))
    numbers = max(1, lists * record.shown.shape[1] * record.parameters.size)
    most = max(1, min(_MOST, _MOST_NUMBERS // numbers) // rounds)
    chosen = np.unique(np.linspace(0, arrived.size - 1, min(most, arrived.size)).astype(np.int64))
    for seen in observer.views(with_messages(record, arrived[chosen])[0]):
        yield seen.full
