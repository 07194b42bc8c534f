"""Identifies the query that a client asked by weighing the message under each candidate query's list."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.core.records.view import without_padding
from foltr_audit.inference.pattern_decoder import (
    PatternDecoder,
    Prior,
    patterns_as_clicks,
    shares,
    why_too_long,
)
from foltr_audit.inference.replay import why_no_replay
from foltr_audit.plugins import Attack, Inference, View


class QueryIdentification(Attack):
    """Identifies which of several queries a client asked, and what it clicked.

    A server whose lists are deterministic can compute the list of every candidate query. The view of a
    message holds all these lists. The evidence of a list is a sum over all 2^k click patterns: the prior of
    the pattern times the probability of the message by the exact noise law. All lists have the same prior. A
    message with no click, or with every document clicked, reveals nothing about the query: all lists explain
    it equally well.

    Sees: the message, the global model, features of all candidate queries' documents, how lists are made of
    them, PDGD's settings, the clip, the noise law, the click model with the usual grades by position; not
    the query, nor what was shown.

    Source: comparison of hypotheses by their evidence, MacKay 2003, "Information theory, inference, and
    learning algorithms", chapter 28; the linear form of PDGD follows from Oosterhuis & de Rijke 2018,
    eq. 5-8.
    """

    name: ClassVar[str] = "query-id"
    asks: ClassVar[str | type] = "query"
    needs: ClassVar[frozenset[str]] = frozenset(
        {"candidates", "features", "learning_rate", "lists", "normaliser", "order", "pairs"}
    )

    prior: Prior = Field("position", description="belief before the message: position, relevance or uniform")

    def why_not(self, view: View) -> str | None:
        reason = super().why_not(view) or why_no_replay(view) or why_too_long(view)
        if reason is None and view.knowledge.lists != "deterministic":
            return f"it makes the lists of other queries: expected deterministic, not {view.knowledge.lists}"
        return reason

    @without_padding
    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """`lists` and scores are posterior probabilities; a score is that of list shown and document clicked.

        The guess is the most probable pattern on the most probable list.
        """
        from foltr_audit.kernels.patterns import marginals

        n, m, k = view.shown.shape
        clicked, pattern, evidence = np.zeros((n, m, k)), np.zeros((n, m), np.int64), np.zeros((n, m))
        decoder = PatternDecoder(view, self.prior)
        for rows, b in product(decoder.chunks(), range(m)):
            weighed = decoder.likelihoods(rows, b, view.parameters[rows]) + decoder.log_priors(rows, b)
            told = marginals(weighed, decoder.replay.lengths[rows, b], k)
            clicked[rows, b], pattern[rows, b], _, evidence[rows, b] = told
        lists = shares(np.where(view.is_document.any(axis=2), evidence, -np.inf))
        guess = np.zeros(view.shown.shape, np.bool_)
        if m:
            best = np.arange(n), lists.argmax(axis=1)
            guess[best] = patterns_as_clicks(pattern[best], k) & (lists[best] > 0)[:, np.newaxis]
        return Inference(scores=lists[:, :, np.newaxis] * clicked, guess=guess, answer=lists)
