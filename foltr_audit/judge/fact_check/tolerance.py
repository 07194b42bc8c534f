"""How many numbers of a message noise leaves unchanged, which is how many right facts must reproduce."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foltr_audit.core.records.view import Knowledge, View
from foltr_audit.judge.fact_check.search import ExplanationThreshold
from foltr_audit.judge.fact_check.steps import RELATIVE
from foltr_audit.privacy.noise import AdditiveNoise, parse_law
from foltr_audit.utils.arrays import Bools

_SPARE = 0.2  # share of the numbers that sparse noise must leave nearly unchanged
_USUAL = 0.75  # of the noise that a tolerance for dense noise covers
_LEAST = 4  # numbers that must be reproduced at least on average
_LEAST_DENSE = 8  # numbers that must stand out of dense noise
_STANDS_OUT = 5.0  # times as many numbers must stand out as noise alone would make


def bar_of(known: Knowledge, views: Sequence[View], size: float) -> ExplanationThreshold | None:
    """What counts as explained under the declared noise and updates of a usual size; None: noise hides all.

    Where noise leaves a fifth of the numbers nearly unchanged, these decide. Otherwise a tolerance covers
    three quarters of the noise, and only numbers count that are four times as large.
    """
    law = None if known.noise in (None, "none") else parse_law(str(known.noise))
    if law is None:
        return ExplanationThreshold(size=size, noise=0.0, share=0.5, least=_LEAST, by_noise=0.0)
    untouched = _within(law, RELATIVE * size)
    if untouched is None:
        return ExplanationThreshold(size=size, noise=0.0, share=0.5, least=_LEAST, by_noise=0.0)
    P = views[0].parameters.shape[1]
    if untouched >= _SPARE:
        least = int(np.ceil(_LEAST / untouched))
        return ExplanationThreshold(
            size, noise=0.0, share=untouched / 2, least=least, by_noise=_at_most(1 - untouched, P)
        )
    noise = _usual_noise(law, size)
    if noise is None:
        return None
    outside = 1.0 - (_within(law, 4.0 * noise) or 0.0)
    standing = float(np.mean(np.concatenate([_standing(view, 4.0 * noise) for view in views])))
    if standing <= _STANDS_OUT * outside:
        return None
    return ExplanationThreshold(
        size, noise=noise, share=0.5, least=_LEAST_DENSE, by_noise=_at_most(outside, P)
    )


def _at_most(probability: float, P: int) -> float:
    """The most of P numbers that noise moves: the mean and three standard deviations."""
    probability = min(max(probability, 0.0), 1.0)
    return float(P * probability + 3.0 * np.sqrt(P * probability * (1.0 - probability)))


def _standing(view: View, size: float) -> Bools:
    return np.asarray((np.abs(view.updates) > size).reshape(-1))


def _usual_noise(law: AdditiveNoise, size: float) -> float | None:
    """The size that three quarters of the noise are within, if it is below the usual size of an update."""
    sizes = size * np.geomspace(RELATIVE, 1.0, 200)
    inside = law.probability_within(sizes)
    if inside is None or not np.any(inside >= _USUAL):
        return None
    return float(sizes[np.argmax(inside >= _USUAL)])


def _within(law: AdditiveNoise, size: float) -> float | None:
    found = law.probability_within(size)
    return None if found is None else float(found)
