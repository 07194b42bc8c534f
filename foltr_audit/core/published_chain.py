"""The published defense of FPDGD as a chain of defenses; the option `--eps` selects it."""

from __future__ import annotations

import math

from foltr_audit.core.plugins import plain
from foltr_audit.core.settings.defaults import NO_DEFENSE
from foltr_audit.errors import UsageError

DEFAULT_SENSITIVITY = 3.0
"""Default sensitivity Delta for `--eps`."""


def published_chain(eps: float, sensitivity: float = DEFAULT_SENSITIVITY) -> tuple[str, ...]:
    """The chain of FPDGD for a claimed epsilon: clip at Delta / 2, Gamma shares of scale Delta / eps.

    An infinite epsilon means no defense.

    >>> published_chain(1.2)
    ('clip:norm=1.5', 'gamma-laplace:eps=1.2,sensitivity=3')

    Source: Wang et al. 2021, "Effective and privacy-preserving federated online learning to rank",
    section 3.3.

    Raises:
        UsageError: eps or sensitivity is not above 0.
    """
    if not eps > 0:
        raise UsageError(f"eps: {eps:g}; expected a number above 0, or inf for no defense")
    if not 0 < sensitivity < math.inf:
        raise UsageError(f"sensitivity: {sensitivity:g}; expected a finite number above 0")
    if math.isinf(eps):
        return (NO_DEFENSE,)
    noise = f"gamma-laplace:eps={plain(eps)},sensitivity={plain(sensitivity)}"
    return (f"clip:norm={plain(sensitivity / 2)}", noise)
