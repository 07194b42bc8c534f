"""Posterior probabilities of clicks: whether they are calibrated, and how many bits messages reveal by them.

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
from typing import Any

import numpy as np

from foltr_audit.core.results import UNKNOWN, AttackRecord
from foltr_audit.errors import PluginError
from foltr_audit.judge.bootstrap import QueryBootstrap
from foltr_audit.judge.click_evidence import ClickEvidence
from foltr_audit.judge.scoring import role_of
from foltr_audit.utils.arrays import Bools, Floats, Ints

BINS = 10
_SMALLEST = 1e-15  # log loss moves probabilities closer to 0 or 1 to this distance, so that it stays finite
_ROUNDING = 1e-9  # by how much rounding may move a probability beyond 0 or 1


ReliabilityBin = dict[str, Any]
"""Documents whose probability lies in [low, high), in the last bin also at 1.

How many `documents` there are, their mean `probability`, and the share of them that was `clicked`; both None
if there are none.
"""


def calibration(evidence: ClickEvidence, label: str, resamples: QueryBootstrap) -> AttackRecord:
    """How good an attack's scores are as probabilities, over all shown documents of all lists.

    Lists without a click count too: without them, any posterior would look too low.

    * `brier`: mean squared difference of probability and click (Brier 1950), 0 = perfect; `brier_base_rate`
      that of giving every document the share of clicked ones.
    * `log_loss`: mean of -ln of the probability of what happened, in nats, probabilities clipped to
      [1e-15, 1 - 1e-15]; `log_loss_base_rate` that of the share of clicked documents.
    * `calibration_error`: expected calibration error (Guo et al. 2017, "On calibration of modern neural
      networks", section 2): mean distance of probability and share clicked in the bins of `reliability`,
      weighted by their documents. Chance alone raises it above 0.

    `label` names the attack, whose scores are probabilities.
    """
    here, clicks = evidence.is_document, evidence.clicks
    p = np.where(here, evidence.guessed[label].scores, 0.0)
    wrong = p[~((p >= -_ROUNDING) & (p <= 1 + _ROUNDING))]
    if wrong.size:
        raise PluginError(
            f"attack {label}: score {wrong[0]:g}; expected probabilities, as the attack declares"
        )
    # After the check: what is left beyond 0 and 1 is rounding, and would fall outside the bins.
    p = np.clip(p, 0.0, 1.0)
    count = here.sum(axis=1).astype(np.float64)
    clicked = (clicks & here).sum(axis=1).astype(np.float64)
    squares = np.where(here, (p - clicks) ** 2, 0.0).sum(axis=1)
    held = np.clip(p, _SMALLEST, 1 - _SMALLEST)
    surprise = np.where(here, -np.log(np.where(clicks, held, 1 - held)), 0.0).sum(axis=1)
    bins = reliability(p[here], clicks[here])
    return AttackRecord(
        task="calibration",
        method=label,
        role=role_of(evidence, label),
        counts={"lists": int(evidence.query.size), "documents": int(here.sum())},
        metrics={
            "brier": resamples.ratio(squares, count, lowest=0.0, highest=1.0),
            "brier_base_rate": resamples.ratio(
                clicked, count, lambda share: share * (1 - share), lowest=0.0, highest=1.0
            ),
            "log_loss": resamples.ratio(surprise, count, lowest=0.0),
            "log_loss_base_rate": resamples.ratio(clicked, count, _entropy, lowest=0.0, highest=1.0),
        },
        more={"calibration_error": calibration_error(bins), "reliability": bins},
    )


def reliability(p: Floats, clicked: Bools) -> tuple[ReliabilityBin, ...]:
    """Probabilities (D,) between 0 and 1 and the truth (D,) in ten bins of equal width.

    >>> p, clicked = np.array([0.0, 0.5, 0.5, 1.0]), np.array([False, False, True, True])
    >>> [each for each in reliability(p, clicked) if each["documents"] == 2]
    [{'low': 0.5, 'high': 0.6, 'documents': 2, 'probability': 0.5, 'clicked': 0.5}]
    """
    which = np.minimum(np.floor(p * BINS).astype(np.int64), BINS - 1)
    documents = np.bincount(which, minlength=BINS)
    sums = np.bincount(which, weights=p, minlength=BINS)
    clicks = np.bincount(which, weights=clicked, minlength=BINS)
    return tuple(
        {
            "low": b / BINS,
            "high": (b + 1) / BINS,
            "documents": int(documents[b]),
            "probability": float(sums[b] / documents[b]) if documents[b] else None,
            "clicked": float(clicks[b] / documents[b]) if documents[b] else None,
        }
        for b in range(BINS)
    )


def calibration_error(bins: tuple[ReliabilityBin, ...]) -> float:
    """Mean distance of probability and share clicked, weighted by documents; NaN without documents.

    >>> bins = reliability(np.array([0.0625] * 3 + [0.9375]), np.array([False, False, False, True]))
    >>> calibration_error(bins)
    0.0625
    """
    filled = [each for each in bins if each["documents"]]
    total = sum(each["documents"] for each in filled)
    far = sum(each["documents"] * abs(each["probability"] - each["clicked"]) for each in filled)
    return far / total if total else float("nan")


def _entropy(share: Floats) -> Floats:
    held = np.clip(share, _SMALLEST, 1 - _SMALLEST)
    return np.asarray(-(share * np.log(held) + (1 - share) * np.log(1 - held)))


_DOUBT = 2.0**-20  # weight of a uniform posterior that is mixed in
_LOST = float(-np.log2(1.0 - _DOUBT))  # bits that this costs at most


def information_records(evidence: ClickEvidence, resamples: QueryBootstrap) -> Iterator[AttackRecord]:
    """What attacks that weigh click patterns learn from messages about the clicks on a list, in bits.

    Over all lists whose prior is known, also those without a click; guesses read no message and have none.

    * `bits`: the estimate of the mutual information, a lower bound on it in expectation; `entropy`: H(C) of
      the clicks given query, list and grades, the most that a message could reveal; `share`: their ratio.
    * `exact_posterior`: whether the attack weighed patterns by their true posterior; `bias_bound`: how much
      the mutual information may exceed `bits` in expectation, 10^-6 where it did, else H(C) - bits.
    * `impossible`: lists with clicks that the attack gave probability 0. Every posterior is mixed with a
      uniform one of weight 2^-20, which is a posterior as well and costs 10^-6 bits at most, so they count at
      20 bits and one for each document.
    * `wrong_prior`: lists with clicks that are impossible before the message; then the prior is not the true
      one, and nothing is estimated.
    """
    documents = evidence.is_document.sum(axis=1)
    for label, guessed in evidence.guessed.items():
        if guessed.surprisal is None or role_of(evidence, label) != "attack":
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
        missed = _LOST if exact and not wrong else float(np.maximum(0.0, entropy.value - bits.value))
        yield AttackRecord(
            task="bits",
            method=label,
            counts={
                "lists": int(known.sum()),
                "queries": int(resamples.names.size),
                "impossible": int((np.isinf(after) & known).sum()),
                "wrong_prior": wrong,
            },
            metrics={"bits": bits, "entropy": entropy, "share": share},
            more={"exact_posterior": exact, "bias_bound": missed},
        )


def held(surprisal: Floats, documents: Ints) -> Floats:
    """Surprisal in bits (L,) under each posterior mixed with a uniform one, for lists of (L,) documents.

    >>> held(np.array([np.inf]), np.array([10])).tolist()
    [30.0]
    """
    return np.asarray(
        -np.log2((1.0 - _DOUBT) * 2.0**-surprisal + _DOUBT * 2.0 ** -documents.astype(np.float64))
    )
