"""A round of Flower's SecAgg+, message by message; imported by `flower_program.py` only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import FitRes, bytes_to_ndarray, ndarrays_to_parameters
from flwr.common.secure_aggregation.crypto.symmetric_encryption import generate_shared_key
from flwr.common.secure_aggregation.quantization import dequantize
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from flwr.common.typing import Code, Status
from flwr.compat.common.recorddict_compat import fitres_to_recorddict
from flwr.supercore.primitives.asymmetric import bytes_to_private_key, bytes_to_public_key

CLIP, LEVELS, MODULUS, HEAVIEST = 8.0, 1 << 22, 1 << 32, 1000.0
"""Flower's defaults."""

Answer = Mapping[str, object]


class FlowerRound:
    """A round with clients of Flower: each keeps its state in a context of its own."""

    def __init__(self, values: np.ndarray, counts: np.ndarray, threshold: int) -> None:
        self.values, self.counts, self.threshold = values, counts, threshold
        self.ids = list(range(1, len(values) + 1))
        self.contexts = {node: Context(1, node, {}, RecordDict(), {}) for node in self.ids}
        self.keys: dict[int, Answer] = {}
        self.shared: dict[int, Answer] = {}
        self.masked: dict[int, list[np.ndarray]] = {}
        self.beside: dict[int, dict[str, object]] = {node: {} for node in self.ids}

    def ask(self, node: int, stage: str, told: Mapping[str, object]) -> Answer:
        """The answer of a client to one message of the server."""
        content = RecordDict({RECORD_KEY_CONFIGS: ConfigRecord({**told, Key.STAGE: stage})})
        message = Message(content, dst_node_id=node, message_type="train")
        answer = secaggplus_mod(message, self.contexts[node], self._fit).content
        for records in (answer.metric_records, answer.config_records):
            for name, record in records.items():
                if name != RECORD_KEY_CONFIGS:
                    self.beside[node].update({f"{name}/{key}": value for key, value in record.items()})
        return answer.config_records[RECORD_KEY_CONFIGS]

    def _fit(self, message: Message, context: Context) -> Message:
        row = context.node_id - 1
        result = FitRes(
            Status(Code.OK, ""), ndarrays_to_parameters([self.values[row]]), int(self.counts[row]), {}
        )
        return Message(fitres_to_recorddict(result, keep_input=False), reply_to=message)

    def open(
        self, forge: Callable[[int, dict[str, list[bytes]]], dict[str, list[bytes]]] | None = None
    ) -> None:
        """The stages up to the masked messages, or up to shares if `forge` changes the keys of a client."""
        size = len(self.ids)
        told = {
            Key.SAMPLE_NUMBER: size,
            Key.SHARE_NUMBER: size,
            Key.THRESHOLD: self.threshold,
            Key.CLIPPING_RANGE: CLIP,
            Key.TARGET_RANGE: LEVELS,
            Key.MOD_RANGE: MODULUS,
            Key.MAX_WEIGHT: HEAVIEST,
        }
        self.keys = {node: self.ask(node, Stage.SETUP, told) for node in self.ids}
        public = {
            str(node): [each[Key.PUBLIC_KEY_1], each[Key.PUBLIC_KEY_2]] for node, each in self.keys.items()
        }
        for node in self.ids:
            known = public if forge is None else forge(node, dict(public))
            self.shared[node] = self.ask(node, Stage.SHARE_KEYS, known)
        if forge is not None:  # shares for keys of the server are of no use to clients
            return
        sent: dict[int, tuple[list[int], list[bytes]]] = {node: ([], []) for node in self.ids}
        for node, each in self.shared.items():
            for to, text in zip(each[Key.DESTINATION_LIST], each[Key.CIPHERTEXT_LIST], strict=True):
                sent[to][0].append(node)
                sent[to][1].append(text)
        for node, (sources, texts) in sent.items():
            self.collect(node, sources, texts)

    def collect(self, node: int, sources: Sequence[int], texts: Sequence[bytes]) -> None:
        """Ask for a masked message."""
        told = {Key.CIPHERTEXT_LIST: list(texts), Key.SOURCE_LIST: list(sources)}
        answer = self.ask(node, Stage.COLLECT_MASKED_VECTORS, told)
        self.masked[node] = [bytes_to_ndarray(each) for each in answer[Key.MASKED_PARAMETERS]]

    def shares(self, node: int, alive: Sequence[int], dead: Sequence[int]) -> list[bytes]:
        """The shares that a client gives, first of the seeds of the living, then of the keys of the dead."""
        told = {Key.ACTIVE_NODE_ID_LIST: list(alive), Key.DEAD_NODE_ID_LIST: list(dead)}
        return list(self.ask(node, Stage.UNMASK, told)[Key.SHARE_LIST])

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the arrays of a message: its weight, and the values."""
        return [(1,), self.values.shape[1:]]

    def bare(self, node: int, seed: bytes, pairs: Mapping[int, bytes]) -> list[np.ndarray]:
        """A message less the mask of its seed and those of its pairs."""
        out = [a - b for a, b in zip(self.masked[node], self.mask(seed), strict=True)]
        for other, key in pairs.items():
            sign = 1 if node > other else -1
            out = [a - sign * b for a, b in zip(out, self.mask(key), strict=True)]
        return [each % MODULUS for each in out]

    def mask(self, seed: bytes) -> list[np.ndarray]:
        """The mask of a seed."""
        return list(pseudo_rand_gen(seed, MODULUS, self.shapes))

    def pairs(self, node: int, private: bytes) -> dict[int, bytes]:
        """The seeds that a client shares with each other one, from its private key."""
        own = bytes_to_private_key(private)
        return {
            other: generate_shared_key(own, bytes_to_public_key(self.keys[other][Key.PUBLIC_KEY_1]))
            for other in self.ids
            if other != node
        }

    def off(self, node: int, found: Sequence[np.ndarray]) -> float:
        """Largest error of the values, if these are the words of a client's message."""
        weight = round(int(self.counts[node - 1]) / HEAVIEST * LEVELS) / LEVELS
        values = dequantize([np.asarray(found[1], dtype=np.float64)], CLIP, LEVELS)[0]
        return float(np.abs(values - self.values[node - 1] * weight).max())

    def reveals(self, node: int, found: Sequence[np.ndarray] | None) -> bool:
        """Whether these are a client's words, up to the rounding of the encoding."""
        return found is not None and self.off(node, found) <= 2 * CLIP / LEVELS
