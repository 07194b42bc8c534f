"""Decodes clicks from the lists that were shown after them, regardless of the noise on the message."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.core.records.view import without_padding
from foltr_audit.inference.list_decoder import NEEDS as LIST_NEEDS
from foltr_audit.inference.list_decoder import ListDecoder, why_no_evidence
from foltr_audit.inference.pattern_decoder import Guess, PatternDecoder, Prior, answer_of, why_too_long
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.plugins import Attack, Inference, View


class ShownLists(Attack):
    """Weighs all 2^k click patterns of a list by the lists that the same client was shown afterwards.

    A client's later lists of a round are ranked by its local model, which has learnt from the clicks on
    the earlier ones. Lists in score order rule out most patterns, often all but one; sampled lists are
    weighed by their Plackett-Luce probability. The attack reads no message, so neither noise nor secure
    aggregation protects against it. The last list of a message has no successor; its answer is the prior.
    Scores are posterior probabilities of a click.

    Sees: the shown lists with their order, all candidates' features, the global model, PDGD's settings, the
    clip, how lists are made, the law of randomised clicks, the click model with the usual grades by position.
    Not the message.

    Source: the list probabilities are those of Oosterhuis & de Rijke 2018, "Differentiable unbiased online
    learning to rank", eq. 2; several lists are decoded by a beam search over the forward recursion (Rabiner
    1989, "A tutorial on hidden Markov models", section III).
    """

    name: ClassVar[str] = "shown-lists"
    needs: ClassVar[frozenset[str]] = NEEDS | LIST_NEEDS
    probabilities: ClassVar[bool] = True

    prior: Prior = Field("position", description="belief before any list: position, relevance or uniform")
    guess: Guess = Field("pattern", description="most probable pattern, or documents")
    histories: int = Field(
        16, ge=1, le=1024, description="most click histories of earlier lists that are kept"
    )

    def why_not(self, view: View) -> str | None:
        return super().why_not(view) or why_no_replay(view) or why_no_evidence(view) or why_too_long(view)

    @without_padding
    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the posterior probability of a click."""
        decoder = PatternDecoder(view, self.prior)
        search = ListDecoder(decoder, self.histories)
        posteriors = (
            (rows, b, decoder.of_true_clicks(posterior, rows, b))
            for rows in decoder.chunks()
            for b, posterior in enumerate(search.posteriors(rows))
        )
        return answer_of(decoder, posteriors, self.guess)
