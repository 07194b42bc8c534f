"""A round of a Flower federation while its messages go out and come in."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..array_layout import NamedArray, npy_array, vector
from ..messages import KEY_SHARES, SEED_SHARES, NodeOutcome, ReceivedMessage, ShownList
from ..packed_lists import unpack_arrays, unpack_lists
from ..trace_format import FLOWER_MASKS
from .client_records import take_truth
from .payload import array_records, model_in, reply_content

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

# `SecAggPlusWorkflow` needs the legacy client API: a `NumPyClient` with the mod `secaggplus_mod`. A masked
# message is the client's weight, then its parameters times that weight, quantised and masked modulo a power
# of two. `num_examples` and the metrics travel in clear beside it.

LOG = logging.getLogger("foltr_audit_recorder")
RECORD = "secaggplus_configs"
SETUP, SHARE_KEYS, MASKED, UNMASK = "setup", "share_keys", "collect_masked_vectors", "unmask"

_NEAR = 1e-3  # of a unit: how near to whole numbers a recovered sum must be


@dataclass
class SecAggRound:
    """What a round of SecAgg+ has shown so far.

    Attributes:
        settings: the protocol's settings by Flower's names, as the first stage sends them.
        asked: of whom each node was asked shares in the last stage: active nodes, then dropped ones.
        seed_shares: nodes of whose mask seed shares came, with how many.
        key_shares: nodes of whose secret key shares came, with how many.
        mean: the mean that the protocol has unmasked, float64 (P,), where it was seen.
    """

    settings: dict[str, float] = field(default_factory=dict)
    asked: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    seed_shares: Counter[int] = field(default_factory=Counter)
    key_shares: Counter[int] = field(default_factory=Counter)
    mean: NDArray[np.float64] | None = None

    def sent(self, node: int, config: ConfigRecord) -> None:
        if config["stage"] == SETUP:
            numbers = ((name, value) for name, value in config.items() if isinstance(value, int | float))
            self.settings = dict(numbers)
        elif config["stage"] == UNMASK:
            self.asked[node] = list(config["active_nids"]), list(config["dead_nids"])

    def answered(self, node: int, config: ConfigRecord) -> None:
        """Note the shares that a node answers with: those of active nodes, then those of dropped ones."""
        if node in self.asked and "nids" in config:
            active, dropped = self.asked[node]
            nodes, end = config["nids"], len(active)
            # What a client says counts only for nodes that it was asked for.
            self.seed_shares.update({*nodes[:end]}.intersection(active))
            self.key_shares.update({*nodes[end : end + len(dropped)]}.intersection(dropped))

    @property
    def outcomes(self) -> list[NodeOutcome]:
        """Of whom shares came, as rows of the cohort table."""
        kinds = ((SEED_SHARES, self.seed_shares), (KEY_SHARES, self.key_shares))
        return [
            NodeOutcome(node=node, outcome="arrived", reason=f"{count} shares", stage=stage)
            for stage, shares in kinds
            for node, count in shares.items()
        ]

    @property
    def facts(self) -> dict[str, object]:
        settings = self.settings
        return {
            "of": "model",
            "masking": FLOWER_MASKS,
            "clipping_range": float(settings["clipping_range"]),
            "quantization_range": int(settings["target_range"]),
            "modulus_bits": int(settings["mod_range"]).bit_length() - 1,
            "max_weight": float(settings["max_weight"]),
            "mask_seed_bits": mask_seed_bits(),
            "num_shares": int(settings["share_num"]),
            "reconstruction_threshold": int(settings["threshold"]),
        }

    def missing_sum(self, arrived: int) -> str:
        """Why there is no sum, as far as the stages show; "" where there should be one."""
        least = int(self.settings.get("threshold", 0))
        if not arrived:
            return "no masked message arrived"
        if not self.asked:
            return "halted before the unmask stage"
        shares = [*self.seed_shares.values(), *self.key_shares.values()]
        if not shares or min(shares) < least:
            return f"fewer than {least} shares of a node came"
        return ""

    def total(self, mean: NDArray[np.float64], counts: Sequence[float]) -> NDArray[np.uint64] | None:
        """The unmasked sum of words: the weight first, then the parameters; None where it cannot be told.

        The server turns the sum into a mean: this undoes that. It is exact as long as the mean is not changed
        afterwards, for example by noise, and then the words are not whole numbers.

        Args:
            mean: what the server made of the sum, float64 (P,).
            counts: weights of the messages in it, which travelled in clear.
        """
        clip, levels = self.settings["clipping_range"], self.settings["target_range"]
        weight = sum(round(count / self.settings["max_weight"] * levels) for count in counts)
        if not weight:
            return None
        exact = (mean * (weight / levels) + len(counts) * clip) * (levels / (2 * clip))
        words = np.rint(exact)
        inside = (words >= 0) & (words < self.settings["mod_range"])
        if not np.all(inside & (np.abs(exact - words) <= _NEAR)):
            return None
        return np.concatenate([[weight % int(self.settings["mod_range"])], words]).astype(np.uint64)

    def warn_of_rounding(self, counts: Sequence[float]) -> None:
        """Say in the log where `max_weight` makes the quantisation coarse, with the size of a step."""
        most, limit = max(counts, default=0), self.settings.get("max_weight", 0.0)
        if not most or limit <= 10 * most:
            return
        step = 2 * self.settings["clipping_range"] / self.settings["target_range"]
        LOG.warning(
            "SecAgg+: max_weight is %g, and the largest num_examples of a client %g: its parameters are "
            "rounded to steps of %.2g; with max_weight=%g to steps of %.2g",
            *(limit, most, step * limit / most, most, step),
        )


def config_in(content: RecordDict) -> ConfigRecord | None:
    """The record by which the stages of SecAgg+ talk; None in other messages."""
    return content.get(RECORD)


def masked_words(config: ConfigRecord) -> NDArray[np.generic] | None:
    """The masked words (W,) of a reply: the weight, then the arrays in their order; None in other replies."""
    if "masked_params" not in config:
        return None
    pieces = [npy_array("words", data).values.reshape(-1) for data in config["masked_params"]]
    return np.concatenate(pieces)


def mask_seed_bits() -> int:
    """Bits of the seed of Flower's mask generator: 32 if it folds longer seeds together, else 256."""
    from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen

    # Two words of 32 bits that cancel when they are folded, and words of zeros.
    seeds = b"\x01\x00\x00\x00" * 2, bytes(8)
    folded, zeros = (pseudo_rand_gen(seed, 1 << 30, [(4,)])[0] for seed in seeds)
    return 32 if np.array_equal(folded, zeros) else 256


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
            mean = vector(self.aggregate)
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
        lists = unpack_lists(told["lists"]) if "lists" in told else ()
        return lists, unpack_arrays(told["update"]) if "update" in told else None
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
