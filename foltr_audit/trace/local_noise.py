"""The facts `local_dp_clip`, `local_dp_eps`, `local_dp_delta` and `claimed_sensitivity` as declared steps.

They are the parameters of Flower's `LocalDpMod`, which clips the update of a client in L2 and adds normal
noise to every coordinate. Its sensitivity is a parameter of its own, which nothing compares with the clip.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from foltr_audit.core.declared.declared_system import AccountingBasis, DeclaredClaim, DeclaredStep
from foltr_audit.privacy.events import NoiseAddition, NormBound
from foltr_audit.privacy.noise import parse_law
from foltr_audit.privacy.noise.base import plain
from foltr_audit.trace.header import Fact


@dataclass(frozen=True, kw_only=True)
class LocalNoise:
    """Normal noise that a client computes from a sensitivity, an epsilon and a delta.

    Attributes:
        clip: L2 norm in which updates are clipped before; None where that is not declared.
        sensitivity: the distance that the noise is computed for.
        epsilon, delta: what it is computed to give, by the classical formula; None where they are not
            declared.
    """

    clip: float | None
    sensitivity: float
    epsilon: float | None
    delta: float | None

    @classmethod
    def of(cls, facts: Mapping[str, Fact]) -> LocalNoise | None:
        """What the facts of a header declare; None without a sensitivity."""
        names = ("local_dp_clip", "claimed_sensitivity", "local_dp_eps", "local_dp_delta")
        clip, sensitivity, epsilon, delta = (positive_number(facts.get(name)) for name in names)
        if sensitivity is None:
            return None
        if epsilon is None or delta is None or delta >= 1:
            epsilon = delta = None
        return cls(clip=clip, sensitivity=sensitivity, epsilon=epsilon, delta=delta)

    @property
    def sigma(self) -> float | None:
        """Standard deviation of the noise; None without epsilon and delta."""
        return self.basis.sigma

    @property
    def basis(self) -> AccountingBasis:
        """What the noise was computed for."""
        return AccountingBasis(sensitivity=self.sensitivity, epsilon=self.epsilon, delta=self.delta)

    @property
    def claims(self) -> tuple[DeclaredClaim, ...]:
        """Local differential privacy: whatever a client learns from may be replaced, and messages are seen.

        Source: Kasiviswanathan et al. 2011, "What can we learn privately?", definition 2.2.
        """
        if self.epsilon is None or self.delta is None:
            return ()
        claim = DeclaredClaim(
            name="knowledge.local_dp_eps",
            epsilon=self.epsilon,
            delta=self.delta,
            unit="client",
            relation="replace-one",
            view="individual",
        )
        return (claim,)

    def joined(self, steps: Sequence[DeclaredStep]) -> tuple[DeclaredStep, ...]:
        """Other declared steps with these numbers; clip and noise are added where the steps lack them."""
        found = [*steps, *(self._noise if not any(map(_is_noise, steps)) else ())]
        found = [
            replace(step, sensitivity=self.sensitivity, epsilon=self.epsilon, delta=self.delta)
            if _is_noise(step)
            else step
            for step in found
        ]
        bounded = any(isinstance(step.event, NormBound) for step in steps)
        return tuple(found) if bounded else (*self._bound, *found)

    @property
    def _bound(self) -> tuple[DeclaredStep, ...]:
        if self.clip is None:
            return ()
        bound = NormBound(norm=self.clip, ord=2, of="update")
        return (DeclaredStep(name="knowledge.local_dp_clip", event=bound),)

    @property
    def _noise(self) -> tuple[DeclaredStep, ...]:
        law = None if self.sigma is None else parse_law(f"gaussian:sigma={plain(self.sigma)}")
        if law is None:
            return ()
        return (DeclaredStep(name="knowledge.claimed_sensitivity", event=NoiseAddition(law=law)),)


def _is_noise(step: DeclaredStep) -> bool:
    return isinstance(step.event, NoiseAddition)


def positive_number(value: object) -> float | None:
    """A positive number of a fact; None where it is something else.

    >>> positive_number(2), positive_number(-1.0), positive_number(True)
    (2.0, None, None)
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and 0 < value < math.inf else None  # type: ignore[arg-type,operator]
