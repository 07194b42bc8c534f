"""Noise for messages that nothing bounds, or that may lie farther apart than it was computed for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from foltr_audit.core.declared.declared_system import DeclaredStep, DeclaredSystem
from foltr_audit.core.declared.figures import (
    ROUNDING,
    TOLERANCE,
    apart,
    before,
    epsilon_over,
    is_proven,
    of_order,
)
from foltr_audit.core.declared.findings import DeclarationFinding, digits
from foltr_audit.privacy.events import NoiseAddition, NormBound
from foltr_audit.privacy.loss.conversions import few_digits
from foltr_audit.privacy.loss.norms import Norms

_EQUAL = 1.0 + ROUNDING


def sensitivity(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Each noise, compared with the bounds before it."""
    for step in system.noises:
        if isinstance(step.event, NoiseAddition):
            yield from _of_noise(system, step, step.event)
    if not system.noises:
        yield from _without_law(system)


def _of_noise(
    system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition
) -> Iterator[DeclarationFinding]:
    earlier = before(system, step)
    distances = apart(system, earlier, noise)
    if not distances.known:
        yield _without_bound(system, step, noise, earlier)
    else:
        if step.sensitivity is not None:
            yield from _too_small(system, step, noise, distances, step.sensitivity)
        elif step.epsilon is not None:
            yield from _too_little(system, step, noise, distances, step.epsilon)
        yield from _unknown_stretch(system, step, noise, earlier)


def _without_bound(
    system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition, earlier: Sequence[DeclaredStep]
) -> DeclarationFinding:
    later = system.steps[system.steps.index(step) :]
    late = [other.name for other in later if isinstance(other.event, NormBound) and other.name != step.name]
    too_late = f"; {late[0]} acts too late, after the noise" if late else ""
    end = _what_removed_the_bound(system, noise, earlier) or too_late
    declared = system.complete or bool(end)
    who = "no defense bounds" if system.complete else "nothing that is declared bounds"
    follows = f"{who} the messages before the noise{end}"
    return DeclarationFinding(
        check="sensitivity",
        severity="error" if declared else "warning",
        field=step.name,
        declared="noise" if step.sensitivity is None else f"sensitivity {digits(step.sensitivity)}",
        follows=f"{follows}: its claim holds for no client" if declared else f"{follows}: no epsilon follows",
        right=None,
        mend="clip before the noise, and compute the noise from twice the norm of the clip",
    )


def _what_removed_the_bound(
    system: DeclaredSystem, noise: NoiseAddition, earlier: Sequence[DeclaredStep]
) -> str:
    for place in range(len(earlier), 0, -1):
        if apart(system, earlier[: place - 1], noise).known:
            bounds = [step.name for step in earlier[: place - 1] if isinstance(step.event, NormBound)]
            return f"; {earlier[place - 1].name} removes the bound of {bounds[-1]}"
    return ""


def _too_small(
    system: DeclaredSystem,
    step: DeclaredStep,
    noise: NoiseAddition,
    distances: Norms,
    stated: float,
) -> Iterator[DeclarationFinding]:
    needed, radius, ball = of_order(distances, noise.law), *_ball(distances)
    if needed <= stated * _EQUAL:
        return
    halves = 1.0 if system.halved else 2.0
    in_ball = f" in {ball}" if (system.parameters or 1) > 1 else ""
    mend = [
        f"compute the noise from {few_digits(needed, math.ceil):g}",
        f"clip at {few_digits(radius / halves * stated / needed, math.floor):g}{in_ball}",
    ]
    if needed > radius * _EQUAL:
        mend.append(f"clip at {few_digits(stated / halves, math.floor):g} in L{noise.law.order}")
    follows = epsilon_over(step.whole or noise.law, distances, system.parameters or 1, step.delta or 0.0)
    holds = step.epsilon is not None and follows <= step.epsilon * (1.0 + TOLERANCE)
    yield DeclarationFinding(
        check="sensitivity",
        severity="warning" if holds else "error",
        field=step.name,
        declared=f"sensitivity {digits(stated)}",
        follows=f"the noise is computed for a sensitivity of {digits(stated)}, but "
        f"{_how_far(system, noise, distances)}: {_consequence(step, follows, needed / stated, holds=holds)}",
        right=needed,
        mend=", or ".join(mend),
    )


def _too_little(
    system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition, distances: Norms, claimed: float
) -> Iterator[DeclarationFinding]:
    """Noise that does not give the claimed epsilon over what the clip allows; no sensitivity is declared."""
    follows = epsilon_over(step.whole or noise.law, distances, system.parameters or 1, step.delta or 0.0)
    proven = bool(system.claims) and all(is_proven(system, claim) for claim in system.claims)
    if follows > claimed * (1.0 + TOLERANCE) and not proven:
        yield DeclarationFinding(
            check="sensitivity",
            severity="error",
            field=step.name,
            declared=f"epsilon {digits(claimed)}",
            follows=f"{_how_far(system, noise, distances)}: {_consequence(step, follows, 1.0, holds=False)}",
            right=follows if math.isfinite(follows) else None,
            mend="compute the noise from this distance, or clip closer",
        )


def _how_far(system: DeclaredSystem, noise: NoiseAddition, distances: Norms) -> str:
    """How far apart neighbours may be, in the norm of the clip and in that of the noise."""
    needed, radius, ball = of_order(distances, noise.law), *_ball(distances)
    in_ball = f" in {ball}" if (system.parameters or 1) > 1 else ""
    said = f"two messages differ by up to 2 R = {digits(radius)}{in_ball}"
    if system.halved:
        said = f"messages are up to R = {digits(radius)} long{in_ball}"
    if needed > radius * _EQUAL:
        order = f"L{noise.law.order}"
        said += f", which over {system.parameters} coordinates is up to {digits(needed)} in {order}"
    return said


def _ball(distances: Norms) -> tuple[float, str]:
    """Radius and norm of the ball that a bound comes from.

    A ball of order 1 bounds all three norms by its radius, one of order 2 the last two, so the first norm
    that equals the next one is that of the ball.
    """
    if distances.l1 <= distances.l2 * _EQUAL:
        return distances.l1, "L1"
    return (distances.l2, "L2") if distances.l2 <= distances.linf * _EQUAL else (distances.linf, "Linf")


def _unknown_stretch(
    system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition, earlier: Sequence[DeclaredStep]
) -> Iterator[DeclarationFinding]:
    """Noise for an L1 distance after an L2 clip, of messages whose length is not declared."""
    orders = {one.event.ord for one in earlier if isinstance(one.event, NormBound)}
    if system.parameters is None and noise.law.order == 1 and 1 not in orders:
        yield DeclarationFinding(
            check="sensitivity",
            severity="warning",
            field=step.name,
            declared="an L2 clip, and noise for an L1 distance",
            follows="over P coordinates an L2 distance is up to sqrt(P) times as long in L1, which the noise "
            "has to hide, and P is not declared",
            right=None,
            mend="declare message.parameters, or clip in L1",
        )


def _consequence(step: DeclaredStep, follows: float, times: float, *, holds: bool) -> str:
    """The epsilon that the noise gives over the true distance, next to the one that is claimed for it."""
    if step.epsilon is None:
        return f"for a client the noise is {digits(times)} times too small"
    at = f" at delta {step.delta:g}" if step.delta else ""
    if holds:
        return f"the noise is enough all the same, epsilon {digits(follows)}{at} for a client"
    if math.isinf(follows):
        return f"for a client no epsilon follows{at}, and not {digits(step.epsilon)}"
    return f"for a client epsilon {digits(follows)}{at}, not {digits(step.epsilon)}"


def _without_law(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """A declared sensitivity and a clip, where no law of noise is declared."""
    stated, bounds = system.basis.sensitivity, [one.event for one in system.steps]
    norms = [event.norm for event in bounds if isinstance(event, NormBound)]
    if stated is None or not norms:
        return
    needed = min(norms) * (1.0 if system.halved else 2.0)
    if needed > stated * _EQUAL:
        yield DeclarationFinding(
            check="sensitivity",
            severity="error",
            field="accounting.sensitivity",
            declared=f"sensitivity {digits(stated)}",
            follows=f"a clip at {digits(min(norms))} allows {digits(needed)}, and not {digits(stated)}",
            right=needed,
            mend=f"compute the noise from {few_digits(needed, math.ceil):g}",
        )
