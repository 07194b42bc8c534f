"""The trivial attack of a central server, which sees the clicks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from foltr_audit.inference.intent_likelihood import list_likelihoods
from foltr_audit.inference.pattern_decoder import PatternDecoder, answer_of, why_too_long
from foltr_audit.plugins import Attack, Inference, View


class SeenClicks(Attack):
    """Names the documents whose clicks reached the server: what a central learner reveals to its server.

    Where a defense randomises clicks by a known law, it weighs all 2^k true patterns of a list by that law
    and the usual clicks by position; scores are posterior probabilities.

    Sees: the clicks as they arrived, and the lists in the order shown; the law of randomised clicks, and then
    the click model with the usual grades by position.

    Source: the centralised baseline of Wang, Liu, Zhuang & Zuccon 2021, "Effective and privacy-preserving
    federated online learning to rank", section 4.
    """

    name: ClassVar[str] = "seen-clicks"
    ranker_use: ClassVar[str] = "nothing"
    strongest: ClassVar[bool] = True
    reads: ClassVar[frozenset[str]] = frozenset({"clicks"})
    needs: ClassVar[frozenset[str]] = frozenset({"shown", "order"})

    def exact_posterior(self, view: View) -> bool:
        """Whether its patterns are the true posterior: clicks in clear are certain."""
        return view.kind == "clicks" and view.knowledge.click_law is None

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is 1 where the server saw a click, else 0; of randomised clicks their probability."""
        from foltr_audit.kernels.patterns import MOST_DOCUMENTS

        if view.knowledge.click_law is not None and why_too_long(view) is None:
            return self._behind_reports(view.trimmed()).widened(view.shown.shape[2])
        n, B, k = view.shown.shape
        arrived = np.zeros((n, B * k))
        arrived[:, : view.messages.shape[1]] = view.messages[:, : B * k]
        clicks = arrived.reshape(n, B, k) * view.is_document
        patterns, width = None, view.width
        if width <= MOST_DOCUMENTS:
            patterns = np.zeros((n, B, 1 << width))
            number = (clicks[:, :, :width] > 0.5) @ (1 << np.arange(width))
            np.put_along_axis(patterns, number[..., np.newaxis], 1.0, axis=2)
        return Inference(scores=clicks, guess=clicks > 0.5, patterns=patterns)

    @staticmethod
    def _behind_reports(view: View) -> Inference:
        decoder = PatternDecoder(view)
        posteriors = (
            (rows, b, likely + decoder.log_priors(rows, b))
            for rows, b, likely in list_likelihoods(decoder, 0, 0)
        )
        return answer_of(decoder, posteriors, "pattern")
