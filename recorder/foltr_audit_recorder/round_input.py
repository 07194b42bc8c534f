"""A round as a server gives it to the recorder, and its tables."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .array_layout import LayoutArray, NamedArray, named_arrays
from .fact_values import plain_facts, plain_text
from .messages import NodeOutcome, ReceivedMessage
from .received_lists import list_columns, truth_columns
from .received_rounds import cohort_columns, is_mean, message_columns, parameters_of
from .round_tables import MessageColumns, RoundColumns, Tables, round_tables
from .trace_start import METRICS, TraceStart

LOG = logging.getLogger("foltr_audit_recorder")


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundInput:
    """What `Recorder.round` was given, under the same names."""

    model: object
    messages: Sequence[ReceivedMessage]
    aggregate: object = None
    asked: Sequence[int] | None = None
    failures: Mapping[int, str] = field(default_factory=dict)
    late: Sequence[int] | None = None
    outcomes: Sequence[NodeOutcome] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    shares: int = 0
    state: ArrayLike | None = None
    total: ArrayLike | None = None
    aborted: str = ""
    started: float = math.nan
    ended: float = math.nan
    metrics: Mapping[str, float] = field(default_factory=dict)

    def tables(self, start: TraceStart, number: int) -> Tables:
        """The rows of the round in every table.

        Args:
            start: what holds for the whole trace.
            number: the number of the round.

        Raises:
            ValueError: what no trace of this start can hold.
        """
        entries = [*_train_outcomes(self), *self.outcomes]
        seen = message_columns(self.messages, start.layout, masked=start.words, bits=start.bits)
        sent = parameters_of(self.model, start.model, "model")
        if not np.all(np.isfinite(sent)):
            raise ValueError("model holds a number that is not finite")
        after = None if self.aggregate is None else parameters_of(self.aggregate, start.model, "aggregate")
        if after is not None and not np.all(np.isfinite(after)):
            after = None
        columns = RoundColumns(
            number=number,
            model=sent,
            aggregate=after,
            messages=seen,
            lists=list_columns(self.messages, start.form, len(start.parts)),
            shares=self.shares,
            state=np.empty(0) if self.state is None and start.kind == METRICS else self.state,
            masked=start.kind == "masked",
            total=self.total,
            aborted=self.aborted,
            facts=self._stated(start, seen, sent, after),
            started=self.started,
            ended=self.ended,
            cohort=cohort_columns(entries),
        )
        truth = None
        if start.truth:
            truth = truth_columns(
                self.messages,
                start.form,
                start.layout,
                start.number_format,
                start.intents,
                self.metrics,
            )
        return round_tables(columns, truth)

    def _stated(
        self,
        start: TraceStart,
        seen: MessageColumns,
        sent: NDArray[np.float64],
        after: NDArray[np.float64] | None,
    ) -> dict[str, object]:
        """The facts of the round; one of them says whether the aggregate is another than the mean."""
        stated = plain_facts(self.facts, of_round=True)
        if after is None or start.kind not in ("model", "update") or "aggregate" in {*stated, *start.facts}:
            return stated
        origin = np.zeros_like(sent) if start.kind == "model" and self.messages else sent
        if not is_mean(origin, seen, start.layout, after):
            stated["aggregate"] = "other"
        return stated

    def fitting(self, start: TraceStart, number: int) -> RoundInput:
        """The round without what the trace cannot hold, which the log and the cohort say.

        A message that does not fit is left out, and its sender is one of those that failed. Of a message that
        fits, lists or an update that do not are left out.
        """
        kept: list[ReceivedMessage] = []
        failures: dict[int, str] = {}
        why: list[str] = []
        for message in self.messages:
            try:
                message_columns([message], start.layout, masked=start.words, bits=start.bits)
            except Exception as error:
                why.append(f"a message is left out: {error}")
                if message.sender is not None:
                    failures[message.sender] = f"left out: {error}"
                continue
            problem = _problem_of_told(message, start)
            if problem:
                why.append(f"lists and update of a message are left out: {problem}")
                message = replace(message, lists=(), update=None)
            kept.append(message)
        if why:
            first = plain_text(why[0])
            LOG.warning("round %d, %d of %d messages: %s", number, len(why), len(self.messages), first)
        others = [each for each in self.outcomes if each.stage or each.node not in failures]
        added = [
            NodeOutcome(node=node, outcome="failed", reason=reason)
            for node, reason in failures.items()
            if 0 <= node < 2**64
        ]
        return replace(self, messages=kept, outcomes=[*others, *added])

    def copied(self) -> RoundInput:
        """The round with a model that nobody changes."""
        own = [NamedArray(array.place, array.values.copy()) for array in named_arrays(self.model)]
        return replace(self, model=own)


def _problem_of_told(message: ReceivedMessage, start: TraceStart) -> str:
    """Why a trace cannot hold what a client told beside its message; "" where it can."""
    try:
        list_columns([message], start.form, len(start.parts))
        if start.truth:
            truth_columns([message], start.form, start.layout, start.number_format, start.intents, {})
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


def common_layout(
    messages: Sequence[ReceivedMessage], model: object = None
) -> tuple[LayoutArray, ...] | None:
    """The layout of most messages, so that no single client decides; None where no message has one.

    With a model only layouts that the model fits.
    """
    found: Counter[tuple[LayoutArray, ...]] = Counter()
    for message in messages:
        try:
            found[tuple(array.place for array in named_arrays(message.arrays))] += 1
        except Exception as error:
            LOG.debug("a message without layout: %r", error)
    return next((layout for layout, _ in found.most_common() if model is None or _fits(model, layout)), None)


def _fits(model: object, layout: Sequence[LayoutArray]) -> bool:
    try:
        parameters_of(model, layout, "model")
    except ValueError:
        return False
    return True


def _train_outcomes(round_: RoundInput) -> list[NodeOutcome]:
    """What became of the nodes in the training step: those that arrived, failed, and were late."""
    asked, failures, late = round_.asked, round_.failures, round_.late
    if asked is None and not failures and not late:
        return []
    told = {each.node for each in round_.outcomes if not each.stage}
    arrived = [message.sender for message in round_.messages if message.sender is not None]
    missing = [node for node in asked or () if node not in {*arrived, *failures, *told}]
    return [
        *(NodeOutcome(node=node, outcome="arrived") for node in arrived),
        *(NodeOutcome(node=node, outcome="failed", reason=reason) for node, reason in failures.items()),
        *(NodeOutcome(node=node, outcome="late") for node in dict.fromkeys([*(late or ()), *missing])),
    ]
