"""Secure aggregation by Flower's SecAgg+ (Bell et al. 2020): what its stages show to the server.

`SecAggPlusWorkflow` needs the legacy client API: a `NumPyClient` with the mod `secaggplus_mod`. A masked
message is the client's weight, then its parameters times that weight, quantised and masked modulo a power of
two. `num_examples` and the metrics travel in clear beside it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..messages import KEY_SHARES, SEED_SHARES, NodeOutcome
from ..trace_start import FLOWER_MASKS
from .payload import npy_array

if TYPE_CHECKING:
    from flwr.app import ConfigRecord, RecordDict

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
        """Note what the server sends to a node."""
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
        """The settings as facts of a trace."""
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

    def total(self, mean: NDArray[np.float64], counts: Sequence[int]) -> NDArray[np.uint64] | None:
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

    def warn_of_rounding(self, counts: Sequence[int]) -> None:
        """Say in the log where `max_weight` makes the quantisation coarse, with the size of a step."""
        most, limit = max(counts, default=0), self.settings.get("max_weight", 0.0)
        if not most or limit <= 10 * most:
            return
        step = 2 * self.settings["clipping_range"] / self.settings["target_range"]
        LOG.warning(
            "SecAgg+: max_weight is %g, and the largest num_examples of a client %d: its parameters are "
            "rounded to steps of %.2g; with max_weight=%d to steps of %.2g",
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
