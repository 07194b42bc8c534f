"""What a defense claims: an epsilon with the unit, neighbours and observer that it holds for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PrivacyClaim:
    """A differential-privacy statement as its authors make it, for one round.

    Attributes:
        mechanism: name of the defense that makes it.
        epsilon: claimed epsilon.
        delta: claimed delta, 0 for pure differential privacy.
        unit: what two neighbouring inputs differ in, e.g. `interaction`.
        relation: `replace-one` or `add-remove`.
        view: whose observations it speaks of, e.g. `aggregate`.
    """

    mechanism: str
    epsilon: float
    delta: float = 0.0
    unit: str
    relation: str
    view: str


@dataclass(frozen=True, kw_only=True)
class Ball:
    """A norm ball that a step defense keeps parameters in.

    Attributes:
        norm: radius.
        ord: 2 for the Euclidean norm, 1 for the sum of absolute values.
    """

    norm: float
    ord: int = 2
