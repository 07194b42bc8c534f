"""What correlated noise on the sums of all rounds proves for a whole run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from foltr_audit.privacy.accounting.situation import LISTS_REVEAL, ON_SUM, AccountingContext
from foltr_audit.privacy.accounting.walk import ChainSummary, SumNoise
from foltr_audit.privacy.factorization import participation_sensitivity
from foltr_audit.privacy.loss.losses import GaussianLoss
from foltr_audit.privacy.loss.proof import LossProof


def by_sum_noise(walked: ChainSummary, situation: AccountingContext) -> Iterator[LossProof]:
    """The losses of all observed rounds together, one for each noise; neighbours replace one unit.

    Whoever sees the noisy sums of rounds 0 to T - 1 knows `C x + z`, see `privacy/factorization.py`. The
    unit moves x in at most k rows, each by the distance of two messages, so that the mechanism is
    mu-GDP with mu = distance times sensitivity over sigma. That later messages depend on earlier sums
    changes nothing (Denisov et al. 2022, "Improved differential privacy for SGD via optimal private linear
    operators on adaptive streams", theorem 2.1). Rounds from a later one on show no more than as many first
    rounds, since the noise that they carry of rounds before them is independent of their own. So one round
    shows no more than independent noise of sigma.

    - The noise is scaled by the largest weight in the average. A lost message changes neither the
      distance nor the noise, and weights of clients do not matter.
    - It protects from whoever sees what the aggregator releases. A server that sees single messages, or
      sums without the noise, as in secure aggregation that it runs itself, is not covered; nor is one that
      colludes with clients.
    - A secret sample does not amplify it: the rounds are not independent.
    """
    for noise in walked.sum_noises:
        if situation.lists_follow_clicks:
            yield LossProof(None, LISTS_REVEAL)
        elif situation.seen != "aggregate":
            yield LossProof(None, _BEFORE)
        elif not noise.apart.known:
            yield LossProof(None, noise.unbounded)
        else:
            yield _proof(noise, situation)


_BEFORE = (
    "noise that the aggregator adds to the sum protects from --view aggregate only, who sees nothing before"
)


def _proof(noise: SumNoise, situation: AccountingContext) -> LossProof:
    sigma, bands, rounds = noise.event.sigma, noise.event.bands, situation.rounds
    times = situation.touched
    length = participation_sensitivity(bands, rounds, times, situation.separation)
    distance = noise.apart.l2
    how = f"Gaussian noise of sigma {sigma:.4g} {ON_SUM}, L2 distance {distance:.4g}"
    if rounds > 1:
        correlated = f", correlated over {bands} rounds" if bands > 1 else ""
        apart = f", {situation.separation} rounds apart" if times > 1 and situation.separation > 1 else ""
        how += f"{correlated}; {times} of {rounds} rounds{apart}: sensitivity {length:.4g} times that"
    mu = distance * length / sigma if sigma > 0 else math.inf
    return LossProof(GaussianLoss(mu), how, "Gaussian", whole=True)
