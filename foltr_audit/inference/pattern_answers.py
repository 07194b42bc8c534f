"""Answers of attacks that weigh every click pattern of each list on its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from foltr_audit.core.records.view import Inference
from foltr_audit.inference.pattern_decoder import PatternDecoder, patterns_as_clicks
from foltr_audit.utils.arrays import Floats, Ints

Guess = Literal["pattern", "marginal"]


def shares(evidence: Floats) -> Floats:
    """Softmax over the last axis; 0 throughout where all are -inf, e.g. in a list without documents."""
    from scipy.special import softmax

    if not evidence.size:
        return np.zeros(evidence.shape)
    # `softmax` returns NaN for a row of -inf, so such rows are replaced before and after.
    possible = evidence.max(axis=-1, keepdims=True) > -np.inf
    return np.where(possible, softmax(np.where(possible, evidence, 0.0), axis=-1), 0.0)


def answer_of(
    decoder: PatternDecoder, posteriors: Iterable[tuple[Ints, int, Floats]], guess: Guess
) -> Inference:
    """The answer of an attack from the posterior of each list.

    Args:
        decoder: of the view that was attacked: n messages of B lists of k documents.
        posteriors: numbers of messages (H,), which of their lists, and the log posterior of all click
            patterns of that list up to a constant (H, 2^k).
        guess: the most probable pattern, or every document that is more likely clicked than not.
    """
    from foltr_audit.kernels.pattern_posterior import MOST_DOCUMENTS, pattern_probabilities
    from foltr_audit.kernels.patterns import marginals

    n, B, k = decoder.view.shown.shape
    scores, named, any_click = np.zeros((n, B, k)), np.zeros((n, B, k), np.bool_), np.zeros((n, B))
    patterns = np.zeros((n, B, 1 << k)) if k <= MOST_DOCUMENTS else None
    for rows, b, posterior in posteriors:
        lengths = decoder.replay.lengths[rows, b]
        scores[rows, b], best, any_click[rows, b], _ = marginals(posterior, lengths, k)
        named[rows, b] = patterns_as_clicks(best, k) if guess == "pattern" else scores[rows, b] > 0.5
        if patterns is not None:
            patterns[rows, b] = pattern_probabilities(posterior, lengths)
    return Inference(scores=scores, guess=named, any_click=any_click, patterns=patterns)
