"""The largest epsilon that promises no more than a limit, in the words people decide by.

Both functions invert what `TradeOff.of_epsilon` promises. With e = e^eps its curve bends once, at the false
positive rate (1 - delta) / (1 + e). So its AUC is `1 - (1 - delta)^2 / (1 + e)`, and the accuracy of a bit
that is as likely as not is `(e + delta) / (1 + e)`. See `docs/maths.md`, "Ceilings".
"""

from __future__ import annotations

import math

from foltr_audit.errors import UsageError

_ROUNDING = 1e-12


def epsilon_of_auc(auc: float, delta: float = 0.0) -> float:
    """The largest epsilon whose AUC is at most `auc`.

    >>> round(epsilon_of_auc(0.6), 3)
    0.405

    Raises:
        UsageError: a value out of range, or an AUC that delta alone exceeds.
    """
    return _logarithm("--auc", auc, delta, (1.0 - delta) ** 2, auc - delta * (1.0 - 0.5 * delta))


def epsilon_of_accuracy(accuracy: float, delta: float = 0.0) -> float:
    """The largest epsilon with which a bit that is as likely as not is guessed right this often at most.

    >>> round(epsilon_of_accuracy(0.75), 3)
    1.099

    Raises:
        UsageError: a value out of range, or an accuracy that delta alone exceeds.
    """
    return _logarithm("--accuracy", accuracy, delta, 1.0 - delta, accuracy - 0.5 * delta)


def _logarithm(name: str, limit: float, delta: float, scale: float, rest: float) -> float:
    """Epsilon with `1 - limit = scale / (1 + e^eps)`; `rest` is what the limit allows beyond delta."""
    if not 0.5 <= limit < 1:
        raise UsageError(f"{name}: {limit:g}; expected at least 0.5, below 1")
    if not 0 <= delta < 1:
        raise UsageError(f"--delta: {delta:g}; expected at least 0, below 1")
    if rest < 0.5 - _ROUNDING:
        least = limit + 0.5 - rest
        raise UsageError(
            f"{name}: {limit:g}; expected at least {least:.3g}, which delta {delta:g} alone reaches"
        )
    return max(0.0, math.log(max(scale / (1.0 - limit) - 1.0, 1.0)))
