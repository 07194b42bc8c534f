"""What one observer sees, and what an attack answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from foltr_audit.records.frozen import Features, read_only, read_only_features
from foltr_audit.records.privacy import Ball


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """What an observer knows beside the messages. `None` or False: it does not know.

    Attributes:
        features: feature rows of the shown documents.
        shown: which documents each list held.
        order: the order they were shown in.
        ranker: name of the ranker, e.g. `linear`.
        interactions: interactions B behind each message.
        lists: `sampled` from Plackett-Luce or `deterministic`.
        learning_rate, pairs, normaliser: settings of PDGD.
        clip: the ball that local models are kept in.
        noise: the noise law of a message, e.g. `gamma-share:n=1000,scale=2.5`.
        click_model: name of the click model.
    """

    features: bool = True
    shown: bool = True
    order: bool = True
    ranker: str = "linear"
    interactions: int | None = None
    lists: str | None = None
    learning_rate: float | None = None
    pairs: str | None = None
    normaliser: str | None = None
    clip: Ball | None = None
    noise: str | None = None
    click_model: str | None = None

    def has(self, name: str) -> bool:
        """Whether a piece of knowledge is there."""
        value = getattr(self, name)
        return value is not None and value is not False


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """Messages of one kind, as one observer sees them. The truth is not in here.

    n messages with up to B interactions each, lists of up to k documents, P parameters, d features.

    Attributes:
        observer: `individual` (each message by itself).
        kind: `model` or `update`.
        parameters: the global model each message started from, float64 (n, P).
        messages: what was sent, float64 (n, P).
        shown: position of each shown document inside its query, int64 (n, B, k), padded with -1.
        features: their feature rows, float32 or float64 (n, B, k, d), zero at the padding.
        knowledge: what the observer knows beside them.
    """

    observer: str
    kind: str
    parameters: NDArray[np.float64]
    messages: NDArray[np.float64]
    shown: NDArray[np.int64]
    features: Features
    knowledge: Knowledge = field(default_factory=Knowledge)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", read_only(self.parameters, np.float64))
        object.__setattr__(self, "messages", read_only(self.messages, np.float64))
        object.__setattr__(self, "shown", read_only(self.shown, np.int64))
        object.__setattr__(self, "features", read_only_features(self.features))

    def __len__(self) -> int:
        return int(self.messages.shape[0])

    @property
    def is_document(self) -> NDArray[np.bool_]:
        """True where a list has a document, False at the padding, shape (n, B, k)."""
        return self.shown >= 0

    @cached_property
    def updates(self) -> NDArray[np.float64]:
        """Each message as a difference to the global model, float64 (n, P)."""
        return read_only(
            self.messages - self.parameters if self.kind == "model" else self.messages, np.float64
        )

    @cached_property
    def score_changes(self) -> NDArray[np.float64]:
        """`f'(d) - f(d)` of the linear ranker for each shown document, float64 (n, B, k)."""
        return read_only(np.einsum("nbkd,nd->nbk", self.features, self.updates), np.float64)

    @cached_property
    def scores_before(self) -> NDArray[np.float64]:
        """`f(d)` under the global model for each shown document, float64 (n, B, k)."""
        return read_only(np.einsum("nbkd,nd->nbk", self.features, self.parameters), np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Inference:
    """An attack's answer.

    Attributes:
        scores: higher = more likely clicked, float64 (n, B, k); ignored at the padding.
        guess: the documents it names as clicked, bool (n, B, k); False at the padding.
    """

    scores: NDArray[np.float64]
    guess: NDArray[np.bool_]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", read_only(self.scores, np.float64))
        object.__setattr__(self, "guess", read_only(self.guess, np.bool_))
