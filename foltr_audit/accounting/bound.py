"""The smallest epsilon that is proven for a chain of defenses: one round, or a whole run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from foltr_audit.accounting.losses import PureLoss
from foltr_audit.accounting.noise import Hidden, Proof, proof_of
from foltr_audit.accounting.situation import Situation, UpperBound
from foltr_audit.accounting.walk import Protection, Walked, walk
from foltr_audit.records.privacy import PrivacyEvent


def upper_bound(events: Sequence[PrivacyEvent], situation: Situation) -> UpperBound:
    """The best of all proofs that the events of a chain give; neighbours replace one unit of one client.

    Each noise is a proof by itself, since what comes after it never depends on the clicks again, and so are
    randomised clicks and metrics. A unit smaller than a client changes no message by more than a client does.

    - A single message is protected by the noise that its client added. So is a sum, since the others'
      messages are independent of it.
    - A sum of m messages also holds the sum of m draws of the noise, if nothing happened to the messages
      one by one after it was added. Unequal weights: weighted Laplace shares of scales `w_c s` add up to
      the sum of shares of the smallest scale and something independent of it, because Laplace noise is
      self-decomposable: `((1 + a^2 t^2) / (1 + b^2 t^2))^(1/n)`, a <= b, is a characteristic function
      (Steutel & van Harn 2004, "Infinite divisibility of probability distributions on the real line",
      chapter V). The largest weight moves the sum most, so distances grow by the ratio of the two. For
      Gaussian noise the variances show the same.
    - All other clients of a round together (view `colluding`) can subtract what they sent.
    - Over T rounds losses compose for the units `query` and `client`. A single click or interaction is part
      of one round; what follows depends on it only through what was observed in that round.
    - A secret sample of fixed size amplifies noise, not randomised clicks (whose loss is smaller than that
      between two clients); nor does it where others tell who took part or weights differ.

    >>> from foltr_audit.noise_laws import GammaShare
    >>> from foltr_audit.records.privacy import Bounded, Noised
    >>> chain = [Bounded(norm=1.5, ord=1, of="model"), Noised(law=GammaShare(n=1, scale=2.5))]
    >>> situation = Situation(view="individual", unit="client", parameters=46, shares=1000)
    >>> f"{upper_bound(chain, situation).epsilon:.3f}"
    '1.200'
    """
    walked = walk(events, situation.parameters)
    proofs = [*_by_clicks(walked, situation), *_by_metrics(walked, situation), *_by_noise(walked, situation)]
    bounds = [_bound(proof, situation) for proof in proofs]
    best = min(bounds, key=lambda bound: bound.epsilon, default=None)
    if best is not None and math.isfinite(best.epsilon):
        lost = [proof.how for proof in proofs if proof.of_sum and proof.loss is None]
        return replace(best, how="; but ".join([best.how, *dict.fromkeys(lost)]))
    reasons = list(dict.fromkeys(bound.how for bound in bounds)) or ["nothing randomises what a client sends"]
    return UpperBound(epsilon=math.inf, delta=situation.delta, how="; ".join(reasons))


def over_rounds(
    events: Sequence[PrivacyEvent], situation: Situation, rounds: Sequence[int]
) -> list[UpperBound]:
    """The bound accumulated over each number of rounds: what is learnt about one client in its lifetime."""
    return [upper_bound(events, replace(situation, rounds=count)) for count in rounds]


def _by_clicks(walked: Walked, situation: Situation) -> Iterator[Proof]:
    if math.isinf(walked.bit_epsilon):
        return
    if situation.unit == "client":
        yield Proof(None, "randomised clicks hide clicks, not which queries a client asks")
        return
    lists = {"click": 0, "interaction": 1, "query": situation.interactions}[situation.unit]
    bits = max(1, lists * situation.list_length)
    how = f"{bits} click{'s' * (bits > 1)} randomised with epsilon {walked.bit_epsilon:.4g} each"
    yield Proof(PureLoss(walked.bit_epsilon, bits), how)


def _by_metrics(walked: Walked, situation: Situation) -> Iterator[Proof]:
    """A metric is all of an interaction that a client sends, whatever query it asked."""
    if math.isinf(walked.metric_epsilon):
        return
    count = situation.interactions if situation.unit in ("query", "client") else 1
    how = f"{count} metric{'s' * (count > 1)} randomised with epsilon {walked.metric_epsilon:.4g} each"
    yield Proof(PureLoss(walked.metric_epsilon, count), how)


def _by_noise(walked: Walked, situation: Situation) -> Iterator[Proof]:
    secure = walked.at_least is not None and situation.view == "individual"
    share = _share(situation)
    for noise in walked.noises:
        if not noise.apart.known:
            yield Proof(None, noise.unbounded)
            continue
        yield replace(_in_message(noise, situation), share=share)
        if secure or situation.view == "aggregate":
            yield replace(_in_sum(noise, walked, situation), share=share)


def _in_message(noise: Protection, situation: Situation) -> Proof:
    hidden = Hidden(
        apart=noise.apart, parameters=situation.parameters, grid=noise.grid, where="on each message"
    )
    return proof_of(noise.law, hidden)


def _in_sum(noise: Protection, walked: Walked, situation: Situation) -> Proof:
    if noise.spoilt is not None:
        why = f"{noise.spoilt}, so that the sum does not hold the sum of the noise"
        return Proof(None, why, of_sum=True)
    arriving, stretch = _arriving(walked, situation), situation.largest_weight
    weighted = f", weights up to {stretch:.4g} : 1" if stretch > 1 else ""
    hidden = Hidden(
        apart=noise.apart.times(stretch),
        parameters=situation.parameters,
        grid=noise.grid,
        where=f"in the sum of {arriving} messages{weighted}",
        stretch=stretch,
    )
    return proof_of(noise.law.summed(arriving), hidden)


def _arriving(walked: Walked, situation: Situation) -> int:
    """Messages in the sum. A secure sum of fewer than its threshold is never opened."""
    fewest = min(walked.at_least or 1, situation.shares)
    if situation.arriving is not None:
        return max(situation.arriving, fewest)
    return situation.shares if walked.at_least is None else fewest


def _share(situation: Situation) -> float:
    """The share of clients in a sample that amplifies; 1 where none does."""
    hidden = situation.secret_sample and situation.view != "colluding" and situation.largest_weight == 1
    return situation.sampled if hidden else 1.0


def _bound(proof: Proof, situation: Situation) -> UpperBound:
    if proof.loss is None:
        return UpperBound(epsilon=math.inf, delta=situation.delta, how=proof.how)
    rounds = situation.touched
    epsilon, delta = proof.loss.epsilon(rounds, 0.0, proof.share), 0.0
    if situation.delta > 0:
        pure, epsilon = epsilon, proof.loss.epsilon(rounds, situation.delta, proof.share)
        delta = 0.0 if pure <= epsilon else situation.delta
    if math.isinf(epsilon):
        of_kind = situation.delta == 0 and proof.kind != ""
        how = f"{proof.kind} noise has no epsilon at delta 0" if of_kind else f"{proof.how}: too little"
        return UpperBound(epsilon=math.inf, delta=situation.delta, how=how)
    how = proof.how
    if rounds > 1:
        how += f"; {rounds} rounds compose"
    elif situation.rounds > 1:
        how += f"; a{'n' * (situation.unit == 'interaction')} {situation.unit} is part of one round"
    if proof.share < 1:
        how += f"; amplified by a secret sample of {100 * proof.share:.3g} %"
    return UpperBound(epsilon=epsilon, delta=delta, how=how)
