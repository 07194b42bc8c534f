"""A learned attack: trees that have seen messages whose clicks the attacker drew itself."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.core.records.view import without_padding
from foltr_audit.inference.click_classifier import ShadowTraining, document_features
from foltr_audit.inference.pattern_decoder import Prior
from foltr_audit.inference.replay import NEEDS, why_no_replay, why_no_step_replay
from foltr_audit.inference.shadow_messages import MessageForm, as_signs, message_forms
from foltr_audit.plugins import Attack, Inference, View
from foltr_audit.utils.arrays import Ints


class Learned(Attack):
    """Learns from messages that it simulates, with clicks of its own, what clicked documents look like.

    The observer draws queries from its candidates, ranks them with the global model, draws clicks, replays
    the client's steps, and adds noise of the known law. Gradient-boosted trees learn from regression weights,
    score changes, position and size of each document whether it was clicked, and are asked about the real
    messages. No likelihood is needed, so this also reads what exact decoders do not: messages of which only
    the largest coordinates or the signs were sent, which their numbers show; sums of many lists; client steps
    with chance in them, such as dropout. What the observer does not know is assumed to be simple: no noise
    where its law is unknown, even clicks without a click model, equal weights in a sum, and no other defense
    than these. Trees of one model are trained once, in some seconds.

    Sees: the message, the global model, features and order of the shown lists, all candidates' features, how
    lists are made, PDGD's settings or the client step, the clip, the laws of noise and of randomised clicks,
    the click model with the usual grades by position.

    Source: attacks that learn from models of their own, Shokri, Stronati, Song & Shmatikov 2017, "Membership
    inference attacks against machine learning models", section V; Friedman 2001, "Greedy function
    approximation: a gradient boosting machine", algorithm 5.
    """

    name: ClassVar[str] = "learned"
    takes_step: ClassVar[bool] = True
    observers: ClassVar[frozenset[str]] = frozenset({"individual", "aggregate"})
    needs: ClassVar[frozenset[str]] = NEEDS | {"candidates"}
    probabilities: ClassVar[bool] = True

    prior: Prior = Field("position", description="belief before the message: position, relevance or uniform")
    documents: int = Field(30_000, ge=10, le=10_000_000, description="most documents that it learns from")
    trees: int = Field(100, ge=1, le=10_000, description="trees of the classifier")

    def why_not(self, view: View) -> str | None:
        replay = why_no_step_replay(view) if view.knowledge.client_step else why_no_replay(view)
        return super().why_not(view) or replay

    @without_padding
    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the probability of a click that the trees give; the guess is where it is above 1/2."""
        scores, there = np.zeros(view.shown.shape), view.is_document
        groups = _alike(view) if there.any() else {}
        training = ShadowTraining(self.prior, self.documents, self.trees)
        features = {
            signs: document_features(as_signs(view) if signs else view, self.prior)
            for signs in {form.signs for *_, form in groups}
        }
        for (*_, form), rows in groups.items():
            trees = training.of_message(view, int(rows[0]), form)
            found = np.zeros(there[rows].shape)
            found[there[rows]] = trees.probabilities(features[form.signs][rows][there[rows]])
            scores[rows] = found
        return Inference(scores=scores, guess=scores > 0.5)


def _alike(view: View) -> dict[tuple[bytes, int, MessageForm], Ints]:
    """Which messages have lists, one form, as many clients, and start from one model, by these."""
    found: dict[tuple[bytes, int, MessageForm], list[int]] = {}
    for row, form in enumerate(message_forms(view)):
        if form.lists:
            key = view.parameters[row].tobytes(), int(view.clients[row]), form
            found.setdefault(key, []).append(row)
    return {key: np.array(rows) for key, rows in found.items()}
