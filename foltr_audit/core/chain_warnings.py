"""Warnings about incompatible defenses: noise whose claim does not hold with the bounds of its chain.

The checks use the events that defenses declare, so they also apply to third-party plug-ins. The sensitivity
is checked only for a defense that has an attribute `sensitivity`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from foltr_audit.core.defense_chain import DefenseChain
from foltr_audit.core.plugins import Defense, PrivacyEvent, RoundContext
from foltr_audit.core.plugins.answers import events_of, law_of
from foltr_audit.privacy.accounting.walk import walk
from foltr_audit.privacy.events import (
    CorrelatedNoise,
    GridRounding,
    MessageAggregation,
    NoiseAddition,
    NormBound,
)
from foltr_audit.privacy.loss.norms import Norms

_ROUNDING = 1e-9  # relative tolerance of comparisons of claims with bounds

Acts = Sequence[tuple[Defense, PrivacyEvent]]


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
    found: list[str] = []
    for place, (defense, event) in enumerate(acts):
        if isinstance(event, NoiseAddition):
            before = [act for act in acts[:place] if not _belongs_to_noise(*act, context)]
            found += _of_bounds(defense, event, before, acts[place + 1 :], parameters)
            found += _of_shares(defense, [then for _, then in acts[place + 1 :]], context)
        elif isinstance(event, CorrelatedNoise):
            found += _of_sum_noise(defense, [before for _, before in acts[: place + 1]], context, parameters)
    return list(dict.fromkeys(found + _of_the_whole(acts, context)))


def _belongs_to_noise(defense: Defense, event: PrivacyEvent, context: RoundContext) -> bool:
    """Whether an event is noise, or the rounding of a defense whose own noise allows for it.

    Each noise is checked as if it were the only one: what several together prove is another question.
    """
    if isinstance(event, GridRounding):
        return any(isinstance(other, NoiseAddition) for other in events_of(defense, context))
    return isinstance(event, NoiseAddition)


def _of_bounds(
    defense: Defense, noise: NoiseAddition, before: Acts, after: Acts, parameters: int
) -> list[str]:
    """Warnings about noise for messages that are not bounded, or farther apart than its `sensitivity`."""
    apart = _apart(before, noise, parameters)
    if not apart.known:
        late = [other.name for other, event in after if isinstance(event, NormBound) and other is not defense]
        too_late = f"; {late[0]} acts too late, after the noise" if late else ""
        end = _what_removed_the_bound(before, noise, parameters) or too_late
        problem = f"no defense bounds the messages before the noise{end}"
        return [f"{defense.name}: {problem}: its claim holds for no client"]
    sensitivity = getattr(defense, "sensitivity", None)
    if not isinstance(sensitivity, float | int):
        return []
    hidden = "l1" if noise.law.order == 1 else "l2"
    if getattr(apart, hidden) / sensitivity <= 1.0 + _ROUNDING:
        return []
    return [f"{defense.name}: {_too_little(apart, hidden, sensitivity, parameters)}"]


def _apart(before: Acts, noise: NoiseAddition, parameters: int) -> Norms:
    """How far apart two messages may be when the noise is added."""
    return walk([*(event for _, event in before), noise], parameters).noises[0].apart


def _what_removed_the_bound(before: Acts, noise: NoiseAddition, parameters: int) -> str:
    for place in range(len(before), 0, -1):
        if _apart(before[: place - 1], noise, parameters).known:
            bounds = [other.name for other, event in before[: place - 1] if isinstance(event, NormBound)]
            return f"; {before[place - 1][0].name} removes the bound of {bounds[-1]}"
    return ""


def _too_little(apart: Norms, hidden: str, sensitivity: float, parameters: int) -> str:
    # Only the norms are known, not the event that set them. A ball of order 1 bounds all three norms by its
    # radius, one of order 2 the last two, so the first norm that equals the next one is that of the ball.
    equal = 1.0 + _ROUNDING
    ball = "l1" if apart.l1 <= apart.l2 * equal else "l2" if apart.l2 <= apart.linf * equal else "linf"
    radius = getattr(apart, ball)
    own, stretch = radius / sensitivity, getattr(apart, hidden) / radius
    parts = []
    if own > equal:
        parts.append(
            f"two clients' messages differ by up to 2 R = {radius:.4g} in {ball.capitalize()}; "
            f"the noise is scaled to {sensitivity:.4g}"
        )
    if stretch > equal:
        kind = "per-coordinate Laplace noise" if hidden == "l1" else "noise for an L2 distance"
        parts.append(f"{ball.capitalize()} clip with {kind}")
    times = f"{own * stretch:.3g}"
    if stretch > 1.0 and math.isclose(own, 1.0):
        root = f"sqrt({parameters})" if math.isclose(stretch**2, parameters) else f"{stretch:.3g}"
        times = f"{root} = {own * stretch:.1f}"
    if hidden == "l1":
        return f"{'; '.join(parts)}: for a client the claim holds for {times} times this eps"
    return f"{'; '.join(parts)}: for a client the noise is {times} times too small for the claim"


def _of_shares(defense: Defense, later: Sequence[PrivacyEvent], context: RoundContext) -> list[str]:
    """Warnings about noise shares: no sum in `later`, a sum of too few messages, or rounded shares."""
    n = context.shares
    if n <= 1:
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
    if rounded and share.grid == 0:
        found.append(
            f"{defense.name}: each share is rounded before the sum, so there is no proof for the sum: "
            "use noise whose shares are whole multiples of the grid step"
        )
    return found


def _of_sum_noise(
    defense: Defense, events: Sequence[PrivacyEvent], context: RoundContext, parameters: int
) -> list[str]:
    """Warnings about noise on sums of messages that are not bounded, or that is correlated for too long."""
    noise = walk(events, parameters).sum_noises[-1]
    if not noise.apart.known:
        return [f"{defense.name}: {noise.unbounded}: it hides no client"]
    if noise.event.bands > context.separation:
        return [
            f"{defense.name}: the noise of {noise.event.bands} rounds is correlated, but a client may take "
            f"part again after {context.separation}: the bound of the whole run is larger than it could be"
        ]
    return []


def _of_the_whole(acts: Acts, context: RoundContext) -> list[str]:
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
        if defense.leaves_out:
            found.append(
                f"{defense.name}: later noise fills the coordinates it sets to zero: put it after the noise"
            )
    return found
