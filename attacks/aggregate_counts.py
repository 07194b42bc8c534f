"""Estimates counts of clicks from a sum over clients, for a server that never sees a single message."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.core.records.view import without_padding
from foltr_audit.inference.count_decoder import CountDecoder
from foltr_audit.inference.pattern_decoder import Prior, why_too_long
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.plugins import Attack, Inference, View

# Starts are drawn for this many documents and then cut, so a list gets the same starts whatever its padding.
_LONGEST = 64


class AggregateCounts(Attack):
    """Estimates how many of a sum's clients clicked each document of the list that they all saw.

    An update is linear in the coefficients that PDGD computes from the clicks, so a sum of updates is linear
    in how many clients clicked in each pattern. Given the grades of the documents, a sum over independent
    clients is close to normal. The attack searches for grades that explain the sum, bounds the evidence of
    each with the exact law of the summed noise, and averages the expected counts over them. Where all
    documents form pairs, adding the same number to all counts leaves the sum unchanged; the prior decides.

    Sees: the sum of updates and how many clients it sums, the global model, features and order of the list,
    PDGD's settings, the clip, the noise law, the click model with the usual grades by position.

    Source: Pham 2022, "Federated learning for online learning to rank", section 4.3, expects that
    secure sums still reveal clicks. The linear form of PDGD follows from Oosterhuis & de Rijke 2018, eq. 5-8;
    the bound is that of Palmer, Wipf, Kreutz-Delgado & Rao 2006, "Variational EM algorithms for
    non-Gaussian latent variable models".
    """

    name: ClassVar[str] = "aggregate"
    strongest: ClassVar[bool] = True
    observers: ClassVar[frozenset[str]] = frozenset({"aggregate", "individual"})  # a message sums one client
    asks: ClassVar[str | type] = "counts"
    needs: ClassVar[frozenset[str]] = NEEDS

    prior: Prior = Field("position", description="belief before the sum: position, relevance or uniform")
    restarts: int = Field(8, ge=0, le=1000, description="additional searches, each from random grades")

    def why_not(self, view: View) -> str | None:
        if view.shown.shape[1] > 1:
            return "it reads sums over clients who all saw one list"
        return super().why_not(view) or why_no_replay(view) or why_too_long(view)

    @without_padding
    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the expected number of clicks; the guess names documents that most clients clicked."""
        n, B, k = view.shown.shape
        belief = view.knowledge.belief
        grades = 1 if belief is None else belief.click.size
        drawn = rng.integers(0, grades, size=(self.restarts, _LONGEST))[:, :k]
        # The search also starts from lists of a single grade; with `restarts=0` it starts only from these.
        starts = np.concatenate([np.repeat(np.arange(grades)[:, np.newaxis], k, axis=1), drawn])
        counts = CountDecoder(view, self.prior).counts(starts)
        scores = np.repeat(counts[:, np.newaxis], B, axis=1).reshape(n, B, k)
        guess = (2 * scores > view.clients[:, np.newaxis, np.newaxis]) & view.is_document
        return Inference(scores=scores, guess=guess)
