"""Decodes the lists of several interactions in one message together, by replaying the client's steps."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field, field_validator

from foltr_audit.core.records.view import without_padding
from foltr_audit.inference.joint_search import JointSearch
from foltr_audit.inference.list_decoder import why_no_evidence
from foltr_audit.inference.pattern_decoder import PatternDecoder, Prior, why_too_long
from foltr_audit.inference.replay import NEEDS, why_no_replay, why_no_step_replay
from foltr_audit.plugins import Attack, Inference, View

_MOST_SUMMED = 16  # lists of a sum that are searched together


def _why_no_sum(view: View) -> str | None:
    if view.observer != "aggregate":
        return None
    if view.knowledge.client_step is not None:
        return f"it searches sums of PDGD clients, not of the step {view.knowledge.client_step.text}"
    if view.shown.shape[1] > _MOST_SUMMED:
        return f"a sum of {view.shown.shape[1]} lists; it searches up to {_MOST_SUMMED} together"
    return None if view.senders is not None else "clients weigh differently in the sum"


class JointMaximumPosterior(Attack):
    """Searches for the most probable clicks of all lists of a message at once.

    The search starts from rounded relaxed solutions. Then each list in turn takes its best pattern given the
    others, until no list changes: all 2^k patterns are weighed with the later steps held fixed, and the
    `shortlist` best are replayed exactly, including drift of the local model and clips. If the best result
    leaves a larger residual than the noise law makes likely, pairs of lists change together. With many lists
    the search may miss the maximum. In a sum over several clients, each client starts from the global model.
    Where local models rank, a list is also evidence about the clicks on the lists before it, as in
    `shown-lists`; `lists=false` uses the message alone. With a client step a shorter search replays that, and
    uses the message alone. Where a defense randomises clicks by a known law, the search is for the reports,
    and the answer about the true clicks of each list given the reports on the others.

    Sees: the message, the global model, features and order of the shown lists, PDGD's settings or the client
    step, the clip, the laws of noise and of randomised clicks, the click model with the usual grades by
    position; for the evidence of lists, all candidates' features and how lists are made.

    Source: iterated conditional modes, Besag 1986, "On the statistical analysis of dirty pictures",
    section 2.5, on the posterior of `map`.
    """

    name: ClassVar[str] = "joint-map"
    observers: ClassVar[frozenset[str]] = frozenset({"individual", "aggregate"})
    strongest: ClassVar[bool] = True
    takes_step: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = NEEDS
    probabilities: ClassVar[bool] = True

    prior: Prior = Field("position", description="belief before the message: position, relevance or uniform")
    shortlist: int = Field(32, ge=1, le=1024, description="patterns of a list that are replayed exactly")
    sweeps: int = Field(12, ge=1, le=1000, description="most passes over the lists")
    lists: bool | None = Field(
        None, description="use lists as evidence about the clicks before them: true (if left out) or false"
    )

    @field_validator("lists")
    @classmethod
    def _usual_one_is_left_out(cls, value: bool | None) -> bool | None:
        return None if value else value

    def why_not(self, view: View) -> str | None:
        replay = why_no_step_replay(view) if view.knowledge.client_step else why_no_replay(view)
        return super().why_not(view) or replay or why_too_long(view) or _why_no_sum(view)

    @without_padding
    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """The score is the posterior probability of a click given the guess of all other lists."""
        pdgd = view.knowledge.client_step is None
        told = pdgd and self.lists is None and why_no_evidence(view) is None
        decoder = PatternDecoder(view, self.prior)
        return JointSearch(decoder, self.shortlist, self.sweeps, lists=told).answer()
