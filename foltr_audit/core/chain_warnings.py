"""Warnings about incompatible defenses: noise whose claim does not hold with the bounds of its chain.

The checks use the events that defenses declare, so they also apply to third-party plug-ins. The sensitivity
is checked only for a defense that has an attribute `sensitivity`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, MessageDefense, PrivacyEvent, RoundContext
from foltr_audit.core.plugins.answers import law_of
from foltr_audit.privacy.events import (
    GridRounding,
    MessageAggregation,
    NoiseAddition,
    NormBound,
    NormScaling,
    OpaqueChange,
)
from foltr_audit.privacy.noise import DiscreteGaussian, GammaShare, Skellam

_SPARSE = ("top-k", "random-k")
_ROUNDING = 1e-9  # relative tolerance of comparisons of claims with bounds


def warnings(
    defenses: Sequence[Defense], parameters: int, context: RoundContext, *, acts_without_pairs: bool = True
) -> list[str]:
    """One line for each combination of defenses that does not fulfil its claims; empty without problems.

    Args:
        defenses: the defenses of the chain, in order.
        parameters: number P of coordinates of a message.
        context: a round; its `shares` say how many clients send.
        acts_without_pairs: whether step defenses also act after an interaction without pairs.
    """
    acts = DefenseChain(tuple(defenses)).acts(context, acts_without_pairs=acts_without_pairs)
    walk = _ChainBounds(parameters=parameters)
    found: list[str] = []
    for place, (defense, event) in enumerate(acts):
        if isinstance(event, NoiseAddition):
            later = [other.name for other, then in acts[place + 1 :] if isinstance(then, NormBound)]
            found += walk.of_noise(defense, event, later)
            found += _of_shares(defense, [then for _, then in acts[place + 1 :]], context)
        elif not (isinstance(event, GridRounding) and _rounds_for_noise(defense, context)):
            walk.meet(defense, event)
    return list(dict.fromkeys(found + _of_the_whole(acts, context)))


def _rounds_for_noise(defense: Defense, context: RoundContext) -> bool:
    """Whether a defense rounds for its own noise; its sensitivity then allows for the rounding."""
    return any(isinstance(event, NoiseAddition) for event in defense.events(context))


@dataclass
class _ChainBounds:
    """The norm bounds that hold at one place of a chain.

    Attributes:
        parameters: number of coordinates.
        bounds: the bounds that hold here, each with the name of the defense that set it.
        undone: names of the defense whose bound was lost, and of the defense that removed it.
    """

    parameters: int
    bounds: list[tuple[str, NormBound]] = field(default_factory=list)
    undone: tuple[str, str] | None = None

    def meet(self, defense: Defense, event: PrivacyEvent) -> None:
        """Update the bounds for an event that adds no noise."""
        before = self.bounds
        if isinstance(event, NormBound):
            if event.always or event.of == "update":
                self.bounds = [*before, (defense.name, event)]
        elif isinstance(event, OpaqueChange):
            self.bounds = []
        elif isinstance(event, NormScaling):
            kept = [(name, old) for name, old in before if old.of == event.of]
            self.bounds = [(name, replace(old, norm=old.norm * event.factor)) for name, old in kept]
        elif isinstance(event, GridRounding):
            move = event.step * (0.5 if event.nearest else 1.0)
            self.bounds = [(name, self._rounded(old, move)) for name, old in before]
        if before and not self.bounds:
            self.undone = (before[-1][0], defense.name)

    def _rounded(self, old: NormBound, move: float) -> NormBound:
        return replace(old, norm=old.norm + move * self.parameters ** (1.0 / old.ord))

    def of_noise(self, defense: Defense, event: NoiseAddition, later: Sequence[str]) -> list[str]:
        """Warnings about noise that is added at this place."""
        who = defense.name
        if not self.bounds:
            late = [f"; {name} acts too late, after the noise" for name in later[:1] if name != who]
            lost = f"; {self.undone[1]} removes the bound of {self.undone[0]}" if self.undone else ""
            end = lost or "".join(late)
            return [
                f"{who}: no defense bounds the messages before the noise{end}: its claim holds for no client"
            ]
        sensitivity = getattr(defense, "sensitivity", None)
        if not isinstance(sensitivity, float | int):
            return []
        order = 1 if _is_pure(event) else 2
        bound = min((old for _, old in self.bounds), key=lambda old: old.norm * self._stretch(old, order))
        apart = 2.0 * bound.norm
        factor = apart * self._stretch(bound, order) / sensitivity
        if factor <= 1.0 + _ROUNDING:
            return []
        return [self._too_little(who, bound, order, apart, sensitivity)]

    def _stretch(self, bound: NormBound, order: int) -> float:
        """Largest ratio of the norm of this order to the norm that is bounded."""
        return float(self.parameters ** max(0.0, 1.0 / order - 1.0 / bound.ord))

    def _too_little(self, who: str, bound: NormBound, order: int, apart: float, sensitivity: float) -> str:
        stretch, own = self._stretch(bound, order), apart / sensitivity
        root = f"sqrt({self.parameters})" if math.isclose(stretch**2, self.parameters) else f"{stretch:.3g}"
        parts = []
        if own > 1.0 + _ROUNDING:
            parts.append(
                f"two clients' {bound.of}s differ by up to 2 R = {apart:.4g} in {_norm(bound.ord)}; "
                f"the noise is scaled to {sensitivity:.4g}"
            )
        if stretch > 1.0 + _ROUNDING:
            kind = "per-coordinate Laplace noise" if order == 1 else "noise for an L2 distance"
            parts.append(f"{_norm(bound.ord)} clip with {kind}")
        total = own * stretch
        exactly = stretch > 1.0 and math.isclose(own, 1.0)
        times = f"{root} = {total:.1f}" if exactly else f"{total:.3g}"
        ends = f"for a client the claim holds for {times} times this eps"
        if order != 1:
            ends = f"for a client the noise is {times} times too small for the claim"
        return f"{who}: {'; '.join(parts)}: {ends}"


def _is_pure(event: NoiseAddition) -> bool:
    """Whether the noise gives pure differential privacy, so that it must cover an L1 distance."""
    law = event.law
    return isinstance(law, GammaShare) or bool(np.isfinite(law.worst_loss(law.scale)))


def _norm(order: float) -> str:
    return "Linf" if math.isinf(order) else f"L{order:g}"


def _of_shares(defense: Defense, later: Sequence[PrivacyEvent], context: RoundContext) -> list[str]:
    """Warnings about noise shares: no sum in `later`, a sum of too few messages, or rounded shares."""
    n = context.shares
    if n <= 1 or not isinstance(defense, MessageDefense):
        return []
    share, whole = law_of(defense, context), law_of(defense, replace(context, shares=1))
    if share is None or whole is None or not share.variance < whole.variance * (1.0 - _ROUNDING):
        return []
    sums = [event.at_least for event in later if isinstance(event, MessageAggregation)]
    if not sums:
        return [
            f"{defense.name}: each message carries only 1/{n} of the noise, and the server sees each one: "
            "add secure-aggregation, or a defense that adds the full noise to each message"
        ]
    found = []
    if max(sums) < n:
        found.append(
            f"{defense.name}: a sum may contain only {max(sums)} of {n} messages, and with them only "
            f"{max(sums) / n:.0%} of the noise"
        )
    rounded = any(isinstance(event, GridRounding) for event in later)
    if rounded and not isinstance(share, DiscreteGaussian | Skellam):
        found.append(
            f"{defense.name}: each share is rounded before the sum, so there is no proof for the sum: "
            "use discrete-gaussian or skellam, whose shares are whole multiples of the grid step"
        )
    return found


def _of_the_whole(acts: Sequence[tuple[Defense, PrivacyEvent]], context: RoundContext) -> list[str]:
    """Warnings about sums that always abort, several noises, and sparse messages filled by noise."""
    found = []
    noises = [place for place, (_, event) in enumerate(acts) if isinstance(event, NoiseAddition)]
    for defense, event in acts:
        if isinstance(event, MessageAggregation) and event.at_least > context.shares:
            found.append(
                f"{defense.name}: a sum needs {event.at_least} messages, but only {context.shares} clients "
                "send: every round aborts"
            )
    if len(noises) > 1:
        names = ", ".join(acts[place][0].name for place in noises)
        found.append(f"several defenses add noise ({names}): each claim accounts only for its own noise")
    for defense, _ in acts[: noises[-1]] if noises else ():
        if defense.name in _SPARSE:
            found.append(
                f"{defense.name}: later noise fills the coordinates it sets to zero: put it after the noise"
            )
    return found
