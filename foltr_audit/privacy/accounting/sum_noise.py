"""What correlated noise on the sums of all rounds proves for a whole run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from foltr_audit.privacy.accounting.situation import LISTS_REVEAL, ON_SUM, AccountingContext
from foltr_audit.privacy.accounting.walk import ChainSummary, SumNoise
from foltr_audit.privacy.factorization import participation_sensitivity
from foltr_audit.privacy.loss.losses import GaussianLoss
from foltr_audit.privacy.loss.proof import LossProof


def by_sum_noise(walked: ChainSummary, situation: AccountingContext, share: float) -> Iterator[LossProof]:
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
    - With no more bands than the separation, noise of its own hides each round in which a client may take
      part: they are mechanisms with the length of one column of C, and compose. Then a secret sample, `share`
      of those who may take part in a round, amplifies each (Choquette-Choo et al. 2023, "(Amplified) banded
      matrix factorization: a unified approach to private training", section 4).
    """
    for noise in walked.sum_noises:
        if situation.lists_follow_clicks:
            yield LossProof(None, LISTS_REVEAL)
        elif situation.seen != "aggregate":
            yield LossProof(None, _BEFORE)
        elif not noise.apart.known:
            yield LossProof(None, noise.unbounded)
        else:
            yield _of_run(noise, situation)
            if noise.event.bands <= situation.separation:
                yield _of_turn(noise, situation, share)


_BEFORE = (
    "noise that the aggregator adds to the sum protects from --view aggregate only, who sees nothing before"
)


def _of_run(noise: SumNoise, situation: AccountingContext) -> LossProof:
    """The loss of all rounds together."""
    bands, rounds, times = noise.event.bands, situation.rounds, situation.touched
    length = participation_sensitivity(bands, rounds, times, situation.separation)
    how = _described(noise)
    if rounds > 1:
        correlated = f", correlated over {bands} rounds" if bands > 1 else ""
        apart = f", {situation.separation} rounds apart" if times > 1 and situation.separation > 1 else ""
        how += f"{correlated}; {times} of {rounds} rounds{apart}: sensitivity {length:.4g} times that"
    return LossProof(_loss(noise, length), how, "Gaussian", whole=True)


def _of_turn(noise: SumNoise, situation: AccountingContext, share: float) -> LossProof:
    """The loss of one round in which a client may take part, with the rounds up to its next one."""
    length = participation_sensitivity(noise.event.bands, situation.rounds, 1, situation.separation)
    how = _described(noise)
    if length > 1:
        how += f", correlated over {noise.event.bands} rounds: sensitivity {length:.4g} times that"
    return LossProof(_loss(noise, length), how, "Gaussian", share=share)


def _loss(noise: SumNoise, length: float) -> GaussianLoss:
    return GaussianLoss(noise.apart.l2 * length / noise.event.sigma if noise.event.sigma > 0 else math.inf)


def _described(noise: SumNoise) -> str:
    return f"Gaussian noise of sigma {noise.event.sigma:.4g} {ON_SUM}, L2 distance {noise.apart.l2:.4g}"
