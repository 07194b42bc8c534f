"""How many bits a message reveals of the clicks on a list: their mutual information, as attacks measure it.

Query and list are known to the server; C is the pattern of all clicks on a list, M its message. With the
true prior p(c) and an attack's posterior q(c | m), the mean of `log2 q(c | m) - log2 p(c)` at what was
clicked is in expectation

    I(C; M) - E[KL(true posterior || q)],

never more than I(C; M), and equal to it where q is the true posterior (Barber & Agakov 2003, "The IM
algorithm: a variational approach to information maximization", section 2). The bits are those of a
single list: what a message reveals of all its lists together is at least the sum of theirs, since users
click on each list independently. No plug-in entropy is estimated, so there is no bias of finite samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.rows import UNKNOWN, Estimate

_DOUBT = 2.0**-20  # weight of a uniform posterior that is mixed in
_LOST = float(-np.log2(1.0 - _DOUBT))  # bits that this costs at most


@dataclass(frozen=True)
class MutualInformation:
    """What one attack learns from the messages about the clicks on a list.

    All values are in bits per list, over all lists whose prior is known, also those without a click.

    Attributes:
        method: label of the attack.
        lists: how many there are.
        bits: the estimate of the mutual information, a lower bound on it in expectation.
        entropy: H(C) of the clicks given query, list and grades: the most that a message could reveal.
        share: bits by entropy.
        exact: whether the attack weighed patterns by their true posterior.
        bias_bound: how much the mutual information may exceed `bits` in expectation: 10^-6 where `exact`,
            else H(C) - bits.
        impossible: lists with clicks that the attack gave probability 0. Every posterior is mixed with a
            uniform one of weight 2^-20, which is a posterior as well and costs 10^-6 bits at most, so they
            count at 20 bits and one for each document.
        wrong_prior: lists with clicks that are impossible before the message; then the prior is not the true
            one, and nothing is estimated.
    """

    method: str
    lists: int
    bits: Estimate
    entropy: Estimate
    share: Estimate
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
    documents = evidence.is_document.sum(axis=1)
    for label, guessed in evidence.guessed.items():
        if guessed.surprisal is None:
            continue
        after, exact = guessed.surprisal, label in evidence.exact
        known = ~np.isnan(evidence.surprisal) & ~np.isnan(after)
        before = np.where(known, evidence.surprisal, np.nan)
        if not known.any():
            continue
        wrong, bits, entropy, share = int(np.isinf(before).sum()), UNKNOWN, UNKNOWN, UNKNOWN
        if not wrong:
            gained = before - held(after, documents)
            bits, entropy = resamples.mean(gained), resamples.mean(before)
            share = resamples.ratio(np.where(known, gained, 0.0), np.where(known, before, 0.0))
        yield MutualInformation(
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


def held(surprisal: Floats, documents: Ints) -> Floats:
    """Surprisal in bits (L,) under each posterior mixed with a uniform one, for lists of (L,) documents.

    >>> held(np.array([np.inf]), np.array([10])).tolist()
    [30.0]
    """
    return np.asarray(
        -np.log2((1.0 - _DOUBT) * 2.0**-surprisal + _DOUBT * 2.0 ** -documents.astype(np.float64))
    )
