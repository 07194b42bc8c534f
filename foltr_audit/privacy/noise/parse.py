"""Laws as text: what a trace's header and a view's knowledge hold of noise."""

from __future__ import annotations

import re
from collections.abc import Callable

from foltr_audit.errors import UsageError
from foltr_audit.privacy.noise.base import AdditiveNoise
from foltr_audit.privacy.noise.discrete_gaussian import DiscreteGaussian
from foltr_audit.privacy.noise.gamma_share import GammaShare
from foltr_audit.privacy.noise.gaussian import Gaussian
from foltr_audit.privacy.noise.skellam import Skellam

_SMALLEST, _LARGEST = 1e-300, 1e300  # scales that a text may name
_WHOLE, _NUMBER = "([0-9]{1,15})", r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
_FORMS: tuple[tuple[str, Callable[..., AdditiveNoise]], ...] = (
    (
        f"gamma-share:n={_WHOLE},scale={_NUMBER}(?:,count={_WHOLE})?",
        lambda n, scale, count: GammaShare(n=int(n), scale=float(scale), count=int(count or 1)),
    ),
    (f"laplace:scale={_NUMBER}", lambda scale: GammaShare(n=1, scale=float(scale))),
    (f"gaussian:sigma={_NUMBER}", lambda sigma: Gaussian(sigma=float(sigma))),
    (
        f"discrete-gaussian:sigma={_NUMBER},step={_NUMBER}(?:,count={_WHOLE})?",
        lambda sigma, step, count: DiscreteGaussian(
            sigma=float(sigma), step=float(step), count=int(count or 1)
        ),
    ),
    (
        f"skellam:sigma={_NUMBER},step={_NUMBER}",
        lambda sigma, step: Skellam(sigma=float(sigma), step=float(step)),
    ),
)


_JOINT = re.compile(r"\+(?!\d)")  # not the + of 1e+20


def parts(text: str) -> list[str]:
    """What a text joins by `+`: the laws of a sum, the defenses of a chain.

    >>> parts("clip:norm=3+gaussian:sigma=1e+20")
    ['clip:norm=3', 'gaussian:sigma=1e+20']
    """
    return _JOINT.split(text)


def parse_law(text: str) -> AdditiveNoise | None:
    """The law that a text names, or None where it names none that is known here.

    Sums of laws (`a+b`), numbers out of range and scales outside 1e-300 .. 1e300 are not known.

    >>> parse_law("laplace:scale=2.5")
    GammaShare(n=1, scale=2.5, count=1)
    """
    for form, made in _FORMS:
        match = re.fullmatch(form, text)
        if match is None:
            continue
        try:
            law = made(*match.groups())
        except UsageError:
            return None
        return law if _SMALLEST <= law.scale <= _LARGEST else None
    return None
