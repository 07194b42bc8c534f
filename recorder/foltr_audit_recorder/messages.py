"""What a server received: messages, the lists behind them where these are known, and who did not answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .trace_format import plain_text

OUTCOMES = ("arrived", "failed", "late")

SEED_SHARES, KEY_SHARES = "unmask: shares of the mask seed", "unmask: shares of the secret key"
"""Stages of secure aggregation: nodes of whom others answered such shares; never both of one node."""


def is_whole_number(value: object) -> bool:
    """Whether a value is a whole number, and neither true nor false."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownList:
    """A list of k documents that a client's user saw, and what she clicked.

    A server does not have these: they come from consenting clients of a laboratory.

    Attributes:
        features: the documents as the client learns from them, (k, d), float32 or float64.
        clicks: bool (k,); None where unknown.
        shown: number of each document inside its query (k,); 0 to k-1 if left out.
        query: number of the query inside its part.
        part: number of the part of the data, such as a fold.
        candidates: features of all candidates of the query, (n, d).
        intent: intent of the user, from 0.
        clipped: whether the client's step was clipped; None where unknown.

    Raises:
        ValueError: arrays whose shapes do not fit together.
    """

    features: ArrayLike
    clicks: ArrayLike | None = None
    shown: ArrayLike | None = None
    query: int = 0
    part: int = 0
    candidates: ArrayLike | None = None
    intent: int = 0
    clipped: bool | None = None

    def __post_init__(self) -> None:
        features = _features(self.features, "features")
        k = len(features)
        shown = np.arange(k) if self.shown is None else np.asarray(self.shown)
        whole = shown.shape == (k,) and shown.dtype.kind in "iu"
        if not whole or (k and not 0 <= int(shown.min()) <= int(shown.max()) < 2**62):
            raise ValueError(f"shown is {shown!r:.80}; expected {k} whole numbers from 0 on")
        for name in ("query", "part", "intent"):
            if not is_whole_number(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)!r:.40}; expected a whole number")
        if self.candidates is not None:
            candidates = _features(self.candidates, "candidates")
            if candidates.shape[1] != features.shape[1]:
                raise ValueError(
                    f"candidates have {candidates.shape[1]} features; expected {features.shape[1]}"
                )
            object.__setattr__(self, "candidates", candidates)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "shown", shown)
        if self.clicks is not None:
            clicks = np.asarray(self.clicks)
            if clicks.shape != (k,) or not np.all((clicks == 0) | (clicks == 1)):
                raise ValueError(f"clicks are {clicks!r:.80}; expected {k} of true or false")
            object.__setattr__(self, "clicks", clicks.astype(np.bool_))


def _features(given: ArrayLike, name: str) -> NDArray[np.floating]:
    features = np.asarray(given)
    if features.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        features = features.astype(np.float64)
    if features.ndim != 2:
        raise ValueError(f"{name} have shape {features.shape}; expected (documents, features)")
    return features


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class ReceivedMessage:
    """A message that arrived.

    Attributes:
        arrays: its arrays: one, a mapping from names to arrays (a state dict), or a sequence. Of masked
            messages one array of words, uint64 (W,).
        sender: number of the sender, from 0 to 2^64-1; None where the server does not know it.
        count: interactions behind it, or another weight in the mean, from 0; one that is not whole says
            nothing of interactions.
        metrics: numbers that travelled in clear beside it.
        size: its bytes; 0 where unknown.
        at: when it was sent, Unix seconds; NaN where unknown.
        seed: the seed of the client's perturbation, of kind `es`.
        lists: the lists behind it, in the order of the client's steps; empty where unknown.
        update: the client's change of the model before any defense, in the form of `arrays` or as one vector
            (P,); None where unknown.
        client: number of the real client behind it, for truth; the sender if left out.
    """

    arrays: object
    sender: int | None = None
    count: float = 1
    metrics: Mapping[str, float] = field(default_factory=dict)
    size: int = 0
    at: float = math.nan
    seed: int | None = None
    lists: Sequence[ShownList] = ()
    update: object = None
    client: int | None = None

    @property
    def has_truth(self) -> bool:
        """Whether anything is known of it that a server does not know."""
        return self.update is not None or any(shown.clicks is not None for shown in self.lists)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeOutcome:
    """What became of a node that was asked.

    Attributes:
        node: number of the node, from 0 to 2^64-1.
        outcome: `arrived`, `failed` or `late` (it had not answered when the round ended).
        reason: why it failed, as the server knows it; kept as one line of printable characters, of at most
            `trace_format.MOST_TEXT`.
        stage: stage of the protocol, kept likewise; "" for the training step.
    """

    node: int
    outcome: str
    reason: str = ""
    stage: str = ""

    def __post_init__(self) -> None:
        if self.outcome not in OUTCOMES:
            raise ValueError(f"outcome is {self.outcome[:60]!r}, expected {' or '.join(OUTCOMES)}")
        if not is_whole_number(self.node) or not 0 <= self.node < 2**64:
            raise ValueError(f"node is {self.node!r:.40}; expected a whole number from 0 to 2^64-1")
        for name in ("reason", "stage"):
            object.__setattr__(self, name, plain_text(getattr(self, name)))
