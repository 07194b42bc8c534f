"""A round of a Flower federation while its messages go out and come in."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..array_layout import NamedArray, numbers
from ..messages import NodeOutcome, ReceivedMessage, ShownList
from .client_records import take_truth, told_lists, told_update
from .payload import array_records, model_in, reply_content
from .secagg import MASKED, SecAggRound, config_in, masked_words

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Message

LOG = logging.getLogger("foltr_audit_recorder")

MOST_REASON = 200
"""Characters of a failure's reason that are kept: clients send tracebacks, whose end says what failed."""

TRAIN, EVALUATE = "", "evaluate"


@dataclass
class OpenRound:
    """What a round has shown so far.

    Attributes:
        key: number of the round as the server's configuration says it; "" where it does not.
        count_key: name of the metric that replies are weighed by.
        consent: whether what clients tell of themselves is kept.
        model: the model that was sent; None before it goes out.
        record: the record of arrays that holds it.
        outcomes: what became of the nodes asked, by stage and node; None while they have not answered.
        messages: the replies that hold a model or masked words.
        facts: facts that hold in this round.
        secagg: what its stages of secure aggregation have shown; None without them.
        aggregate: the model afterwards; None while unknown.
        written: whether it is in the trace, so that later replies come too late.
        unasked: whether clients told something that is not kept.
        started: when the first message went out, Unix seconds.
        ended: when the last reply came.
    """

    key: str
    count_key: str
    consent: bool = False
    model: list[NamedArray] | None = None
    record: ArrayRecord | None = None
    outcomes: dict[tuple[str, int], NodeOutcome | None] = field(default_factory=dict)
    messages: list[ReceivedMessage] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    secagg: SecAggRound | None = None
    aggregate: list[NamedArray] | None = None
    written: bool = False
    unasked: bool = False
    started: float = field(default_factory=time.time)
    ended: float = math.nan

    @property
    def answered(self) -> bool:
        """Whether a node has answered in training, or failed."""
        return any(outcome is not None for (stage, _), outcome in self.outcomes.items() if stage != EVALUATE)

    def asks(self, node: int, stage: str) -> bool:
        """Whether a node was asked in a stage."""
        return (stage, node) in self.outcomes

    def shows(self, message: Message, stage: str) -> None:
        """Note what a message of this round holds that goes out.

        Raises:
            ValueError: another model than that of the messages before.
        """
        content = message.content
        if config_in(content) is not None:
            self.secagg = self.secagg or SecAggRound()
        if stage == EVALUATE:
            return
        records = array_records(content)
        if records:
            self._take_model(message, next(iter(records.values())))
        for name, record in content.items():
            if name not in records and "clipping_norm" in record:
                self.facts["update_clip_norm"] = float(record["clipping_norm"])

    def asked(self, message: Message, stage: str) -> None:
        """Note to whom such a message goes."""
        node = message.metadata.dst_node_id
        self.outcomes.setdefault((stage, node), None)
        if self.secagg is not None and (config := config_in(message.content)) is not None:
            self.secagg.sent(node, config)

    def _take_model(self, message: Message, record: ArrayRecord) -> None:
        if self.record is None:
            self.record, self.model = record, model_in(message.content)
        elif not same_arrays(record, self.record):
            raise ValueError(
                f"node {message.metadata.dst_node_id} was sent another model than the nodes before in round "
                f"{self.key or '?'}; a trace has one model a round"
            )

    def received(self, reply: Message, stage: str) -> None:
        """Note a reply; what a consenting client told is taken out of it.

        Raises:
            ValueError: arrays that are not those of NumPy.
        """
        node, self.ended = reply.metadata.src_node_id, time.time()
        if reply.has_error():
            reason = kept_of(f"code {reply.error.code}: {reply.error.reason or ''}")
            self.outcomes[stage, node] = NodeOutcome(node=node, outcome="failed", reason=reason, stage=stage)
            return
        told = take_truth(reply.content)
        if told and not self.consent:
            self.unasked, told = True, {}
        held = reply_content(reply.content, self.count_key)
        self.outcomes[stage, node] = NodeOutcome(
            node=node,
            outcome="failed" if held.problem else "arrived",
            reason=kept_of(held.problem),
            stage=stage,
        )
        config = config_in(reply.content) if self.secagg is not None else None
        if config is not None and self.secagg is not None:
            self.secagg.answered(node, config)
        if stage == EVALUATE or held.problem:
            return
        arrays: object = held.arrays or None if config is None else masked_words(config)
        if arrays is None:
            return
        lists, update = _unpacked(told, node)
        self.messages.append(
            ReceivedMessage(
                arrays=arrays,
                sender=node,
                count=held.weight,
                metrics=held.metrics,
                size=held.size,
                at=reply.metadata.created_at,
                lists=lists,
                update=update,
            )
        )

    def leaves_out(self, reply: Message, stage: str, error: Exception) -> None:
        """Note that a reply cannot be recorded, as one that failed."""
        node = reply.metadata.src_node_id
        reason = f"left out: {error or type(error).__name__}"[:MOST_REASON]
        LOG.warning("round %s: the reply of node %d is %s", self.key or "?", node, reason)
        self.outcomes[stage, node] = NodeOutcome(node=node, outcome="failed", reason=reason, stage=stage)

    def forget(self) -> None:
        """Let go of the arrays of a round that is written."""
        self.model = self.record = self.aggregate = None
        self.messages = []

    def cohort(self) -> list[NodeOutcome]:
        """What became of every node asked: those that have not answered are late."""
        extra = self.secagg.outcomes if self.secagg is not None else []
        return [
            outcome or NodeOutcome(node=node, outcome="late", stage=stage)
            for (stage, node), outcome in self.outcomes.items()
        ] + extra

    def total(self) -> NDArray[np.uint64] | None:
        """The unmasked sum of the masked messages; None where there is none or it cannot be told."""
        if self.secagg is None or self.secagg.missing_sum(len(self.messages)):
            return None
        mean = self.secagg.mean
        if mean is None and self.aggregate is not None:
            mean = np.concatenate([numbers(array).reshape(-1) for array in self.aggregate])
        return None if mean is None else self.secagg.total(mean, [message.count for message in self.messages])


def kept_of(reason: str) -> str:
    """What is kept of the reason of a failure: all of a short one, else its begin and its end.

    >>> kept_of("code 2: " + 300 * "x" + " ZeroDivisionError: division by zero")[-40:]
    'xxxx ZeroDivisionError: division by zero'
    """
    begin = MOST_REASON // 4
    if len(reason) <= MOST_REASON:
        return reason
    return f"{reason[:begin]} ... {reason[begin + 5 - MOST_REASON :]}"


def _unpacked(told: Mapping[str, bytes], node: int) -> tuple[Sequence[ShownList], object]:
    """The lists and the update that a client told; nothing where these bytes hold none."""
    try:
        return told_lists(told), told_update(told)
    except Exception as error:
        LOG.warning("what node %d tells is left out: %s", node, error)
        return (), None


def same_arrays(one: ArrayRecord, other: ArrayRecord) -> bool:
    """Whether two records hold the same names and numbers."""
    if one is other:
        return True
    return list(one) == list(other) and all(one[name].data == other[name].data for name in one)


def stage_of(message: Message) -> str | None:
    """The stage of a message as in the cohort table; None where it is neither training nor evaluation.

    Under secure aggregation clients train in the stage that collects their masked messages.
    """
    category = message.metadata.message_type.partition(".")[0]
    if category == "evaluate":
        return EVALUATE
    if category != "train":
        return None
    config = config_in(message.content)
    return TRAIN if config is None or config["stage"] == MASKED else str(config["stage"])


def round_key(message: Message) -> str:
    """The number of the round that a message names, in its configuration or as its group; "" without one."""
    from flwr.app import ConfigRecord

    for record in message.content.values():
        if isinstance(record, ConfigRecord) and "server-round" in record:
            return str(record["server-round"])
    return str(message.metadata.group_id or "")
