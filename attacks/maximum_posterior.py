"""The optimal decoder where its assumptions hold: it weighs every click pattern exactly."""

from __future__ import annotations

from itertools import product
from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.core.records.view import without_padding
from foltr_audit.inference.pattern_decoder import (
    Guess,
    PatternDecoder,
    Prior,
    answer_of,
    usual_log_density,
    why_too_long,
)
from foltr_audit.inference.replay import NEEDS, why_no_replay, why_no_step_replay
from foltr_audit.plugins import Attack, Inference, View
from foltr_audit.privacy.noise import parse_law

_LOST = 1e-3  # most numbers of a message, on average, whose noise may be smaller than their rounding


class MaximumPosterior(Attack):
    """Weighs all 2^k click patterns of a list by the exact noise law, the clip and a prior on clicks.

    Scores are posterior probabilities of a click. The guess is the most probable pattern, which gets the
    most lists exactly right; `guess=marginal` names every document that was more likely clicked than not,
    which makes the fewest errors. Clicks on all documents and on none give the same message; there the prior
    decides. Without the noise law, the attack assumes a heavy-tailed one; without the click model, a uniform
    prior. With a client step, every pattern goes through it, so that any learner can be attacked. Where a
    defense randomises clicks by a known law, patterns are those of the true clicks, and their likelihood is
    summed over all reports.

    Sees: the message, the global model, features and order of the shown list, PDGD's settings or the client
    step, the clip, the laws of noise and of randomised clicks, the click model with the usual grades by
    position.

    Source: maximum a posteriori decoding, e.g. Cover & Thomas 2006, "Elements of information theory",
    section 7; the linear form of PDGD follows from Oosterhuis & de Rijke 2018, eq. 5-8, the law of a share
    from Kotz, Kozubowski & Podgorski 2001, "The Laplace distribution and generalizations", section 4.1.
    """

    name: ClassVar[str] = "map"
    strongest: ClassVar[bool] = True
    takes_step: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = NEEDS
    probabilities: ClassVar[bool] = True

    prior: Prior = Field("position", description="belief before the message: position, relevance or uniform")
    guess: Guess = Field("pattern", description="most probable pattern, or documents")

    def why_not(self, view: View) -> str | None:
        if view.is_document.any(axis=2).sum(axis=1).max(initial=0) > 1:
            return "it decodes one interaction a message; joint-map decodes several"
        replay = why_no_step_replay(view) if view.knowledge.client_step else why_no_replay(view)
        return super().why_not(view) or replay or why_too_long(view)

    def exact_posterior(self, view: View) -> bool:
        """Whether its patterns are the true posterior: grades, click model and noise law are known.

        Noise that is often smaller than the rounding of the message, such as one share of a thousand, counts
        as unknown: such a number shows its rounding, not its noise.
        """
        known, P = view.knowledge, view.parameters.shape[1]
        if self.prior != "relevance" or view.labels is None or known.belief is None:
            return False
        law = None if known.noise is None else parse_law(known.noise)
        if law is None or law.grid > 0:
            return False
        return bool(P * usual_log_density(law, known.resolution)[2] < _LOST)

    @without_padding
    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the posterior probability of a click."""
        decoder = PatternDecoder(view, self.prior)
        posteriors = (
            (rows, b, decoder.likelihoods(rows, b, view.parameters[rows]) + decoder.log_priors(rows, b))
            for rows, b in product(decoder.chunks(), range(view.shown.shape[1]))
        )
        return answer_of(decoder, posteriors, self.guess)
