"""Baselines: what a server believes before any message."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.core.records.view import without_padding
from foltr_audit.inference.pattern_decoder import PatternDecoder, Prior, why_too_long
from foltr_audit.plugins import Attack, Inference, View


class FirstPosition(Attack):
    """Names the first shown document of every list; a baseline that needs no message.

    Sees: the order of the shown list.
    """

    name: ClassVar[str] = "first-position"
    ranker_use: ClassVar[str] = "nothing"
    reads: ClassVar[frozenset[str]] = frozenset({"model", "update", "es", "clicks"})
    needs: ClassVar[frozenset[str]] = frozenset({"shown", "order"})
    baseline: ClassVar[bool] = True

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """Higher positions score higher; the guess is position 1."""
        position = np.broadcast_to(np.arange(view.shown.shape[2]), view.shown.shape)
        return Inference(scores=-position.astype(np.float64), guess=(position == 0) & view.is_document)


class PositionPrior(Attack):
    """Clicks that the click model and the usual grades by position make likely; reads no message.

    The server estimates the usual grades by ranking the training queries, whose relevance it knows, with the
    global model. An attack that is no better than this has learnt nothing from the message.

    Sees: the order of the shown list, the click model, usual grades by position.

    Source: Guo, Liu & Wang 2009, "Efficient multiple-click models in web search", section 3 (the cascade).
    """

    name: ClassVar[str] = "position-prior"
    ranker_use: ClassVar[str] = "nothing"
    reads: ClassVar[frozenset[str]] = frozenset({"model", "update", "es", "clicks"})
    needs: ClassVar[frozenset[str]] = frozenset({"shown", "order", "belief"})
    baseline: ClassVar[bool] = True
    probabilities: ClassVar[bool] = True
    prior: ClassVar[Prior] = "position"

    def why_not(self, view: View) -> str | None:
        return super().why_not(view) or why_too_long(view)

    @without_padding
    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the prior probability of a click; the guess is where that is above one half."""
        from foltr_audit.kernels.patterns import MOST_DOCUMENTS, marginals, pattern_probabilities

        n, B, k = view.shown.shape
        scores, any_click = np.zeros((n, B, k)), np.zeros((n, B))
        patterns = np.zeros((n, B, 1 << k)) if k <= MOST_DOCUMENTS else None
        decoder = PatternDecoder(view, self.prior)
        for rows, b in decoder.lists():
            beliefs, lengths, which = decoder.distinct_log_priors(rows, b)
            clicked, _, some, _ = marginals(beliefs, lengths, k)
            scores[rows, b], any_click[rows, b] = clicked[which], some[which]
            if patterns is not None:
                patterns[rows, b] = pattern_probabilities(beliefs, lengths)[which]
        return Inference(scores=scores, guess=scores > 0.5, any_click=any_click, patterns=patterns)


class RelevancePrior(PositionPrior):
    """Clicks that the click model makes likely for documents of known relevance; reads no message.

    For a server that knows the relevance of the shown documents. Perfect users click almost only by
    relevance, so this can be better than an attack that does not know it.

    Sees: the order of the shown list, the relevance of its documents, the click model.

    Source: Guo, Liu & Wang 2009, "Efficient multiple-click models in web search", section 3 (the cascade).
    """

    name: ClassVar[str] = "relevance-prior"
    needs: ClassVar[frozenset[str]] = frozenset({"shown", "order", "belief", "relevance"})
    prior: ClassVar[Prior] = "relevance"
