"""Judges attacks on membership: every federation in turn, with all others as shadows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.core.results import Estimate
from foltr_audit.inference.membership_attacks import MembershipAttack, ShadowEvidence
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.scoring import ScoreRanking
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints, freeze
from foltr_audit.utils.progress import NO_TICK, Tick


@dataclass(frozen=True, kw_only=True, eq=False)
class FederationEvidence:
    """Who the members of K federations were, (K, N), and their evidence for N candidates and Z others."""

    members: Bools
    candidates: Floats
    others: Floats

    def __post_init__(self) -> None:
        freeze(self, members=np.bool_, candidates=np.float64, others=np.float64)

    def attacked(self, number: int) -> ShadowEvidence:
        """What an attacker of one federation knows: all others with their members, and its evidence alone."""
        shadows = np.delete(np.arange(len(self.members)), number)
        return ShadowEvidence(
            attacked=self.candidates[number],
            shadows=self.candidates[shadows],
            members=self.members[shadows],
            attacked_others=self.others[number],
            shadow_others=self.others[shadows],
        )

    def scores(self, attack: MembershipAttack, tick: Tick = NO_TICK) -> Floats:
        """What an attack says of each candidate in each federation, float64 (K, N)."""
        found = np.empty(self.members.shape)
        for number in range(len(found)):
            found[number] = attack.scores(self.attacked(number))
            tick()
        return found


def membership_metrics(scores: Floats, members: Bools, streams: Streams) -> dict[str, Estimate]:
    """AUC (`auc`) and the true positive rates of `judge.scoring.FALSE_POSITIVES` of scores (K, N).

    All candidates of all federations are pooled. Those of one federation depend on each other, and so do the
    answers about one candidate: of the two bootstrap intervals, over federations and over candidates, each
    end is the one farther out.
    """
    federations, candidates = scores.shape
    clusters = np.repeat(np.arange(federations), candidates), np.tile(np.arange(candidates), federations)
    found = [_metrics(scores, members, cluster, streams) for cluster in clusters]
    return {name: _wider(*(each[name] for each in found)) for name in found[0]}


def _metrics(scores: Floats, members: Bools, cluster: Ints, streams: Streams) -> dict[str, Estimate]:
    resamples = QueryBootstrap(cluster.astype(np.str_), streams)
    ranking = ScoreRanking.of(scores.ravel(), members.ravel(), resamples.cluster)
    return {"auc": ranking.auc(resamples), **ranking.true_positives(resamples)}


def _wider(one: Estimate, other: Estimate) -> Estimate:
    if one.ci95 is None or other.ci95 is None:
        return Estimate(one.value, None)
    return Estimate(one.value, (min(one.ci95[0], other.ci95[0]), max(one.ci95[1], other.ci95[1])))
