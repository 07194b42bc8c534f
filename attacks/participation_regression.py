"""Regresses the sums of rounds on who took part in them, for a server that sees nothing but sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from pydantic import Field

from foltr_audit.inference.mean_updates import (
    MOST_UNKNOWNS,
    ExplainedSum,
    expected_updates,
    intent_weights,
    knows_expected_updates,
    mean_updates,
)
from foltr_audit.plugins import Inference, ParticipantAttack, ParticipantEstimates, Participation, View
from foltr_audit.utils.arrays import Floats

_SIZES = 3  # numbers in front: parameters, lists and intents, the last two 0 where lists explain nothing


class ParticipationRegression(ParticipantAttack):
    """Finds each client's mean update, and its intent, by least squares of sums on cohorts.

    A round's sum is one equation in the mean updates of those who took part, so after about as many rounds as
    there are clients nothing but each client's own variation hides them. Intents go another way, since the
    mean update follows from the queries much more than from the intent: from each sum it takes what the lists
    are expected to add under equally likely intents, and regresses the rest on what each intent would change.

    Sees: the sum of updates of each round and who took part in it; for intents also features, order and
    grades of the shown documents under each intent, PDGD's settings, the clip, the click model, whose list is
    whose.

    Source: Lam, Wei, Brooks, Reddi & Mitzenmacher 2021, "Gradient disaggregation: breaking privacy in
    federated learning by reconstructing the user participant matrix", whose last step this is: the server
    knows the matrix.
    """

    name: ClassVar[str] = "participation-regression"
    ranker_use: ClassVar[str] = "nothing"
    needs: ClassVar[frozenset[str]] = frozenset()

    drift: int = Field(
        2, ge=0, le=20, description="degree in time of the polynomial that all clients have in common"
    )

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        """`answer` holds the sum, and what its lists are expected to add."""
        (n, B, _), P = view.shown.shape, view.parameters.shape[1]
        if not knows_expected_updates(view):
            sizes = np.broadcast_to(np.array([P, 0, 0]), (n, _SIZES))
            return Inference.about(view, np.concatenate([sizes, view.updates], axis=1))
        expected = expected_updates(view)
        owner = np.zeros((n, B)) if view.senders is None else view.senders.astype(np.float64)
        sizes = np.broadcast_to(np.array([P, B, expected.mean.shape[2]], dtype=np.float64), (n, _SIZES))
        rows: tuple[Floats, ...] = (sizes, view.updates, owner, expected.mean, expected.covariance)
        return Inference.about(view, np.concatenate([_flat(row) for row in rows], axis=1))

    def participants(self, sums: Sequence[Floats], taking_part: Participation) -> ParticipantEstimates:
        """Mean updates by regression; intents where lists explain every sum."""
        told = [_unpacked(row) for row in sums]
        updates = mean_updates(np.array([one.total for one in told]), taking_part, self.drift)
        intents = {one.mean.shape[1] for one in told}
        known = 0 not in intents and len(intents) == 1 and self._fits(told, taking_part)
        return ParticipantEstimates(updates, intent_weights(told, taking_part) if known else None)

    def _fits(self, told: Sequence[ExplainedSum], taking_part: Participation) -> bool:
        """Whether each list has an owner, and the equations are not too many."""
        owned = all(
            one.owner.max(initial=0) < members.clients.size
            and (members.clients.size == 1 or np.unique(one.owner).size > 1)
            for one, members in zip(told, taking_part.rounds, strict=True)
        )
        return owned and taking_part.clients * told[0].mean.shape[1] <= MOST_UNKNOWNS


def _flat(values: Floats) -> Floats:
    """Values (n, ...) with one row for each of n sums, also of none."""
    return values.reshape(len(values), math.prod(values.shape[1:]))


def _unpacked(row: Floats) -> ExplainedSum:
    """The sum and what explains it, from a row of `infer`."""
    P, B, intents = (int(size) for size in row[:_SIZES])
    total, owner, mean, covariance = np.split(row[_SIZES:], np.cumsum([P, B, B * intents * P]))
    return ExplainedSum(
        total=total,
        owner=owner.astype(np.int64),
        mean=mean.reshape(B, intents, P),
        covariance=covariance.reshape(P, P) if intents else np.zeros((0, 0)),
    )
