"""How many bits a message tells of the clicks on a list: mutual information, measured and in closed form.

Query and list are known to the server; C is the pattern of all clicks on a list, M its message. With the
true prior p(c) and an attack's posterior q(c | m), the mean of `log2 q(c | m) - log2 p(c)` at what was
clicked is in expectation

    I(C; M) - E[KL(true posterior || q)],

never more than I(C; M), and equal to it where q is the true posterior (Barber & Agakov 2003, "The IM
algorithm: a variational approach to information maximization", section 2). The bits are those of one list
by itself: what the lists of a message tell together is at least the sum of theirs, since users click on
each list independently. No plug-in entropy is estimated, so there is no bias of finite samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foltr_audit.judge.bootstrap import NOTHING, MetricEstimate, QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.utils.arrays import Floats

_DOUBT = 2.0**-20  # weight of a uniform posterior that is mixed in
_LOST = float(-np.log2(1.0 - _DOUBT))  # bits that this costs at most


@dataclass(frozen=True)
class MutualInformation:
    """What the messages tell of the clicks on a list, as one attack reads them.

    All in bits per list, over all lists whose prior is known, those without a click too.

    Attributes:
        method: label of the attack.
        lists: how many there are.
        bits: what the messages tell at least: the estimate of the mutual information.
        entropy: H(C) of the clicks given query, list and grades: what a message could tell at most.
        share: bits by entropy.
        exact: whether the attack weighed patterns by their true posterior.
        bias_bound: the mutual information is, in expectation, at least `bits` and at most so much more:
            10^-6 where `exact`, else H(C) - bits.
        impossible: lists with clicks that the attack gave probability 0. Every posterior is mixed with a
            uniform one of weight 2^-20, which is a posterior as well and costs 10^-6 bits at most, so they
            count at 20 bits and one for each document.
        wrong_prior: lists with clicks that are impossible before the message; then the prior is not the true
            one, and nothing is estimated.
    """

    method: str
    lists: int
    bits: MetricEstimate
    entropy: MetricEstimate
    share: MetricEstimate
    exact: bool
    bias_bound: float
    impossible: int
    wrong_prior: int


def information(evidence: ClickEvidence, resamples: QueryBootstrap) -> Iterator[MutualInformation]:
    """Every attack that weighs click patterns, in its order, where the prior is known.

    Args:
        evidence: all judged lists.
        resamples: of their queries.
    """
    before = evidence.surprisal
    for label, guessed in evidence.guessed.items():
        after = guessed.surprisal
        if after is None:
            continue
        known = ~np.isnan(before) & ~np.isnan(after)
        if known.any():
            yield _of_attack(label, evidence, known, after, resamples)


def _of_attack(
    label: str, evidence: ClickEvidence, known: NDArray[np.bool_], after: Floats, resamples: QueryBootstrap
) -> MutualInformation:
    before = np.where(known, evidence.surprisal, np.nan)
    wrong, exact = int(np.isinf(before).sum()), label in evidence.exact
    bits = entropy = share = NOTHING
    if not wrong:
        told = before - held(after, evidence.is_document.sum(axis=1))
        bits, entropy = resamples.mean(told), resamples.mean(before)
        share = resamples.ratio(np.where(known, told, 0.0), np.where(known, before, 0.0))
    return MutualInformation(
        method=label,
        lists=int(known.sum()),
        bits=bits,
        entropy=entropy,
        share=share,
        exact=exact,
        bias_bound=_LOST if exact and not wrong else float(np.maximum(0.0, entropy.value - bits.value)),
        impossible=int((np.isinf(after) & known).sum()),
        wrong_prior=wrong,
    )


def held(surprisal: Floats, documents: NDArray[np.int64]) -> Floats:
    """Surprisal in bits (L,) under each posterior mixed with a uniform one, for lists of (L,) documents.

    >>> held(np.array([np.inf]), np.array([10])).tolist()
    [30.0]
    """
    return np.asarray(
        -np.log2((1.0 - _DOUBT) * 2.0**-surprisal + _DOUBT * 2.0 ** -documents.astype(np.float64))
    )


def exact_metric_bits(prior: Floats, channel: Floats) -> Floats:
    """I(outcome; report) in bits of single metrics with priors (L, v) and a channel, float64 (L,).

    A message depends on the clicks by the outcome alone, so this is I(C; M) as well (Cover & Thomas 2006,
    "Elements of information theory", section 2.8).

    Args:
        prior: P(outcome), rows sum to 1.
        channel: P(reported | true), (v, v) with a row per true outcome.

    >>> exact_metric_bits(np.array([[0.5, 0.5]]), np.eye(2)).tolist()
    [1.0]
    """
    reported = np.einsum("lo,or->lr", prior, channel)
    noise = _entropy(channel)
    return np.asarray(_entropy(reported) - np.einsum("lo,o->l", prior, noise))


def _entropy(p: Floats) -> Floats:
    """Entropy of distributions along the last axis, in bits."""
    return np.asarray(-np.where(p > 0, p * np.log2(np.where(p > 0, p, 1.0)), 0.0).sum(axis=-1))
