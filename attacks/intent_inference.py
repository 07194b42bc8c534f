"""Infers the intent of a client by weighing its messages under the grades of every intent."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from foltr_audit.core.records.view import without_padding
from foltr_audit.inference.intent_likelihood import above_best, list_likelihoods, posteriors, under_each
from foltr_audit.inference.pattern_decoder import PatternDecoder, why_too_long
from foltr_audit.inference.replay import NEEDS, why_no_replay
from foltr_audit.plugins import Inference, IntentAttack, View


class IntentInference(IntentAttack):
    """Weighs each intent by how probable a client's messages are if the client has that intent.

    The likelihood of a message is a sum over all 2^k click patterns of its list: the probability of the
    message given the pattern, by the exact noise law and the clip, times the probability of the pattern for
    a user who follows the click model and the grades of that intent. If a message has several interactions,
    `joint-map` finds the clicks on the other lists, and the lists' likelihoods are multiplied. This
    pseudo-likelihood tends to be overconfident. Clicks that a central server sees are used directly. With
    `messages=T` the likelihoods of T messages of one client are multiplied, for a deployment that
    authenticates its clients; this assumes that the client's intent does not change.

    Sees: the message, the global model, features, order and grades of the shown documents under each intent,
    PDGD's settings, the clip, the noise law, the click model; with `messages` above 1, which messages a
    client sent.

    Source: comparison of hypotheses by their evidence, MacKay 2003, "Information theory, inference, and
    learning algorithms", chapter 28; the pseudo-likelihood of several lists is that of Besag 1975,
    "Statistical analysis of non-lattice data", section 3.
    """

    name: ClassVar[str] = "intent-inference"
    status: ClassVar[Literal["stable", "experimental"]] = "experimental"  # for several lists in a message
    reads: ClassVar[frozenset[str]] = frozenset({"model", "update", "clicks"})
    needs: ClassVar[frozenset[str]] = frozenset({"features", "shown", "order", "intents", "click_model"})

    shortlist: int = Field(
        4, ge=1, le=1024, description="shortlist of joint-map, for messages with several lists"
    )
    sweeps: int = Field(
        1, ge=0, le=1000, description="sweeps of joint-map; 0: only its rounded relaxed start, which is fast"
    )

    def why_not(self, view: View) -> str | None:
        if not view.knowledge.intents or view.intent_labels is None:
            return "the observer does not know: intents, of which data need several (see --intents)"
        reason = super().why_not(view) or why_too_long(view)
        if reason is None and view.kind != "clicks":
            missing = sorted(name for name in NEEDS if not view.knowledge.has(name))
            unknown = f"the observer does not know: {', '.join(missing)}" if missing else None
            reason = unknown or why_no_replay(view)
        if reason is None and view.knowledge.belief is None:
            return "the click model is no cascade, so how likely clicks are under an intent is not known"
        return reason

    @without_padding
    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """`answer` holds log likelihoods, 0 for the best; the score is the posterior probability of a click.

        The guess names the documents that were more likely clicked than not.
        """
        from foltr_audit.kernels.patterns import marginals

        (n, B, k), worlds = view.shown.shape, under_each(view)
        evidence, clicked = np.zeros((n, len(worlds))), np.zeros((len(worlds), n, B, k))
        for rows, b, likely in list_likelihoods(PatternDecoder(view), self.shortlist, self.sweeps):
            lengths = view.is_document[rows, b].sum(axis=1)
            for intent, decoder in enumerate(worlds):
                told = marginals(likely + decoder.log_priors(rows, b), lengths, k)
                clicked[intent, rows, b] = told[0]
                evidence[rows, intent] += told[3]
        likely = above_best(evidence)
        posterior = posteriors(likely, self.prior(len(worlds)))
        scores = np.einsum("ni,inbk->nbk", posterior, clicked)
        return Inference(scores=scores, guess=(scores > 0.5) & view.is_document, answer=likely)
