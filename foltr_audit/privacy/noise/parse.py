"""Laws as text: how a trace's header and a view's knowledge name the noise."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import entry_points

from foltr_audit.errors import UsageError
from foltr_audit.privacy.noise.base import NUMBER, AdditiveNoise
from foltr_audit.privacy.noise.gamma_share import GammaShare
from foltr_audit.privacy.noise.gaussian import Gaussian
from foltr_audit.privacy.noise.grid import DiscreteGaussian, Skellam

_SMALLEST, _LARGEST = 1e-300, 1e300  # scales that a text may name
_LAPLACE = re.compile(f"laplace:scale={NUMBER}")
LAWS = "foltr_audit.noise_laws"
"""The entry point under which packages register classes of noise laws."""

_JOINT = re.compile(r"\+(?!\d)")  # not the + of 1e+20


def parts(text: str) -> list[str]:
    """What a text joins by `+`: the laws of a sum, the defenses of a chain.

    >>> parts("clip:norm=3+gaussian:sigma=1e+20")
    ['clip:norm=3', 'gaussian:sigma=1e+20']
    """
    return _JOINT.split(text)


@cache
def known_laws() -> tuple[type[AdditiveNoise], ...]:
    """The classes of laws whose texts are known: ours, and those of the entry point `foltr_audit.noise_laws`.

    A law that cannot be loaded is not known.
    """
    found: list[type[AdditiveNoise]] = [GammaShare, Gaussian, DiscreteGaussian, Skellam]
    for point in entry_points(group=LAWS):
        try:
            loaded = point.load()
        except Exception:  # noqa: S112 - a module of others may raise anything when it is imported
            continue
        if isinstance(loaded, type) and issubclass(loaded, AdditiveNoise) and loaded not in found:
            found.append(loaded)
    return tuple(found)


def law_text(law: AdditiveNoise) -> str:
    """The text of a law that `parse_law` reads, in the usual name where it has one.

    >>> law_text(GammaShare(n=1, scale=2.5)), law_text(GammaShare(n=10, scale=2.5))
    ('laplace:scale=2.5', 'gamma-share:n=10,scale=2.5')
    """
    if isinstance(law, GammaShare) and law.n == law.count == 1:
        return f"laplace:scale={law.scale!r}"
    return law.text


def parse_law(text: str) -> AdditiveNoise | None:
    """The law that a text names, or None where it names none that is known here.

    Sums of laws (`a+b`), numbers out of range and scales outside 1e-300 .. 1e300 are not known.

    >>> parse_law("laplace:scale=2.5")
    GammaShare(n=1, scale=2.5, count=1)
    """
    law: AdditiveNoise | None = None
    laplace = _LAPLACE.fullmatch(text)
    try:
        if laplace is not None:
            law = GammaShare(n=1, scale=float(laplace.group(1)))
        for known in known_laws():
            law = law or known.parse(text)
    except UsageError:
        return None
    return law if law is not None and _SMALLEST <= law.scale <= _LARGEST else None
