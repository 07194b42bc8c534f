"""Scores of trials: the higher, the more a message looks like that of input 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from foltr_audit.auditing.games import Observation
from foltr_audit.auditing.likelihood import log_ratio
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.utils.arrays import Floats

SCORES = ("likelihood", "projection", "discriminant", "equality", "lists", "last-bits")
"""Built-in scores, in the order in which the first of about the best is taken."""

LINEAR = ("likelihood", "projection", "discriminant")
"""Scores that are linear in the message where its noise is normal, as `gaussian-dp` assumes."""

Pair = tuple[Floats, Floats]
"""Scores of the trials under hypothesis 0 and 1, (N,) each."""

_DIGITS = 9  # of a log ratio: last bits differ since shifted noise is rounded, which is no privacy loss
_RIDGE = 1e-9  # share of the mean variance that is added to a covariance to invert it


def trial_scores(
    messages: Iterable[tuple[Observation, Observation]],
    law: AdditiveNoise | None,
    learning: int,
    wanted: tuple[str, ...],
    dtype: str,
) -> dict[str, Pair]:
    """Scores by name, each added up over the messages of a trial.

    Args:
        messages: the observations of each message under both hypotheses.
        law: the law of the noise, where the exact likelihood is known.
        learning: how many first trials a discriminant is fitted to.
        wanted: names of `SCORES`; `likelihood` is left out where no law is known, `lists` where no lists
            are seen, `last-bits` except for Gaussian noise in float64. The likelihood of sampled lists is
            part of both `likelihood` and `lists`.
        dtype: number format of a single message; empty for sums, which no exact message equals bit for bit.
    """
    makers: dict[str, Callable[[Observation], Floats | None]] = {
        "projection": _projection,
        "equality": lambda seen: _equality(seen, dtype) if dtype else None,
        "lists": lambda seen: seen.list_evidence,
        "likelihood": lambda seen: None if law is None else _likelihood(seen, law),
        "last-bits": lambda seen: _last_bits(seen, law) if dtype == "float64" else None,
    }
    found: dict[str, Pair] = {}
    total: list[Floats] = []
    for both in messages:
        for name in wanted:
            more = [makers[name](seen) for seen in both] if name in makers else [None, None]
            if more[0] is not None and more[1] is not None:
                before = found.get(name, (np.zeros(len(more[0])), np.zeros(len(more[1]))))
                found[name] = before[0] + more[0], before[1] + more[1]
        here = [seen.seen - seen.means[0] for seen in both]
        total = [a + b for a, b in zip(total, here, strict=True)] if total else here
    if "discriminant" in wanted:
        found["discriminant"] = discriminant(total[0], total[1], learning)
    return {name: found[name] for name in wanted if name in found}


def _likelihood(seen: Observation, law: AdditiveNoise) -> Floats:
    """The log likelihood ratio of the message and of sampled lists."""
    ratio = log_ratio(law, seen.seen, seen.means)
    if seen.list_evidence is not None and seen.means.ndim == 3:
        ratio = ratio + seen.list_evidence
    return np.asarray(ratio.round(_DIGITS))


def _projection(seen: Observation) -> Floats:
    """Least squares onto the shift: 0 at the mean of input 0, 1 at that of input 1."""
    shift = seen.means[1] - seen.means[0]
    size = (shift * shift).sum(axis=-1)
    along = ((seen.seen - seen.means[0]) * shift).sum(axis=1)
    there = np.broadcast_to(size > 0, along.shape)
    return np.asarray(np.divide(along, size, out=np.zeros(along.shape), where=there))


def _equality(seen: Observation, dtype: str) -> Floats:
    """How many more coordinates equal those of input 1 bit for bit than those of input 0."""
    zero, one = seen.means.astype(dtype).astype(np.float64)
    return np.asarray((seen.seen == one).sum(axis=1) - (seen.seen == zero).sum(axis=1), dtype=np.float64)


def _last_bits(seen: Observation, law: AdditiveNoise | None) -> Floats | None:
    """How much nearer to noise that can be drawn the message less the mean is for input 1 than for input 0.

    Source: Mironov 2012, "On significance of the least significant bits for differential privacy", section 4.
    """
    if law is None:
        return None
    zero, one = (law.steps_off(seen.seen - mean) for mean in seen.means)
    return None if zero is None or one is None else np.asarray(zero.sum(axis=1) - one.sum(axis=1))


def discriminant(zero: Floats, one: Floats, learning: int) -> Pair:
    """Scores (N,) by Fisher's linear discriminant, with means and covariance of the first `learning` trials.

    Args:
        zero: what was seen in the trials under hypothesis 0, float64 (N, P).
        one: the same under hypothesis 1.
        learning: how many first trials of each are learned from.

    Source: Fisher 1936, "The use of multiple measurements in taxonomic problems".
    """
    shift = one[:learning].mean(axis=0) - zero[:learning].mean(axis=0)
    both = np.concatenate(
        [zero[:learning] - zero[:learning].mean(axis=0), one[:learning] - one[:learning].mean(axis=0)]
    )
    covariance = both.T @ both / max(1, len(both) - 2)
    # The second term is above 0 where messages carry no noise, and the covariance is 0.
    ridge = _RIDGE * float(np.trace(covariance)) / covariance.shape[0] + _RIDGE**2 * float(shift @ shift)
    if not ridge > 0:  # neither noise nor shift
        return np.zeros(len(zero)), np.zeros(len(one))
    weights = np.linalg.solve(covariance + ridge * np.eye(covariance.shape[0]), shift)
    return np.asarray(zero @ weights), np.asarray(one @ weights)
