"""For which noise the estimators for normal noise are valid: `gaussian-dp` and `one-run-fdp`."""

from __future__ import annotations

from foltr_audit.errors import UsageError
from foltr_audit.privacy.noise import AdditiveNoise

NORMAL = "noise that is normal or nearly so"
"""What these estimators assume."""

MOST_KURTOSIS = 1e-5
"""Largest excess kurtosis of a coordinate of nearly normal noise."""


def nearly_normal(law: AdditiveNoise | None, rounded_to: float = 0.0) -> bool:
    """Whether noise of this law is normal, or so nearly that `gaussian-dp` holds for it.

    It is valid for laws that are `like_normal` (Gaussian, Skellam, discrete Gaussian) if the variance v of
    the noise, in squared steps of the widest grid, is at least 100,000: a standard deviation of 317 steps.
    The excess kurtosis of Skellam noise is 1/v, that of a sum over several coordinates smaller. The discrete
    Gaussian and rounded normal noise have next to none, but the same steps between their values. All other
    noise is not nearly normal: even a sum of n Laplace variates has an excess kurtosis of 3/n.

    At this v the eps of one coordinate differs from that of normal noise of the same variance by less than a
    relative 1e-4 (deltas of 1e-9 and more, mu up to 3); the error falls as 1/v. The relative standard error
    of the bound is at least 1 / sqrt(2n): 7e-3 for n = 10,000 trials, 7e-4 for a million. At v = 100 the
    error is 4e-2, and bounds from 10,000 trials are above the truth too often.

    Args:
        law: of all observed noise, e.g. that of a sum; None where there is none or it is not known.
        rounded_to: width of the widest grid that a message is rounded to, before or after the noise; 0 if it
            is not rounded.
    """
    if law is None or not law.like_normal:
        return False
    rounded_to = max(rounded_to, law.grid)
    return law.variance * MOST_KURTOSIS >= rounded_to * rounded_to


def check_delta(name: str, delta: float) -> None:
    """Raise `UsageError` for a delta at which an estimator for normal noise has no epsilon."""
    if not delta > 0:
        raise UsageError(
            f"estimator {name}: delta={delta:g}; expected delta > 0: a Gaussian gives no eps at delta 0"
        )
