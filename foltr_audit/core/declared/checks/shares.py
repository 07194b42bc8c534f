"""Noise that clients share: whether the shares that arrive in a sum are the whole noise."""

from __future__ import annotations

import math
from collections.abc import Iterator

from foltr_audit.core.declared.declared_system import DeclaredStep, DeclaredSystem
from foltr_audit.core.declared.figures import apart, before, epsilon_over
from foltr_audit.core.declared.findings import DeclarationFinding, digits
from foltr_audit.privacy.events import GridRounding, MessageAggregation, NoiseAddition
from foltr_audit.privacy.loss.norms import whole_multiple


def shares(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Each noise that clients share, and sums that no round can fill."""
    for place, step in enumerate(system.steps):
        if isinstance(step.event, NoiseAddition) and step.shares > 1 and not system.server_noise:
            yield from _of_noise(system, step, step.event, system.steps[place + 1 :])
    for step in system.steps:
        if isinstance(step.event, MessageAggregation) and step.event.at_least > (system.cohort or math.inf):
            yield _aborts(system, step, step.event.at_least)


def _of_noise(
    system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition, later: tuple[DeclaredStep, ...]
) -> Iterator[DeclarationFinding]:
    n = step.shares
    sums = [other.event.at_least for other in later if isinstance(other.event, MessageAggregation)]
    if not sums and _seen_alone(system):
        yield DeclarationFinding(
            check="noise shares",
            severity="error",
            field=step.name,
            declared=f"noise in {n} shares",
            follows=f"each message carries only 1/{n} of the noise, and the server sees each one",
            right=None,
            mend="add secure aggregation, or the whole noise to each message",
        )
        return
    taking_part = system.cohort or n
    fewest = min(max(sums, default=taking_part), taking_part)
    claimed = step.epsilon is not None or bool(system.claims)
    # A sum of fewer messages than take part breaks no claim where there is none.
    if fewest < n and (claimed or taking_part < n):
        yield _part_of_the_noise(system, step, noise, fewest, taking_part)
    elif taking_part > n:
        yield _more_than_assumed(step, taking_part)
    steps = [other.event.step for other in later if isinstance(other.event, GridRounding)]
    if sums and any(not whole_multiple(noise.law.grid, step) for step in steps):
        yield DeclarationFinding(
            check="noise shares",
            severity="error",
            field=step.name,
            declared=f"noise in {n} shares",
            follows="each share is rounded before the sum, so there is no proof for the sum",
            right=None,
            mend="use noise whose shares are whole multiples of the grid step",
        )


def _seen_alone(system: DeclaredSystem) -> bool:
    """Whether the server sees single messages, as far as that is declared."""
    views = {claim.view for claim in system.claims if claim.view is not None}
    return not (system.described and views) or any(view.startswith("individual") for view in views)


def _part_of_the_noise(
    system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition, fewest: int, taking_part: int
) -> DeclarationFinding:
    n, part = step.shares, f"{fewest / step.shares:.0%} of the noise"
    if taking_part < n:
        follows = (
            f"the shares are computed for {n} clients, and {taking_part} take part: a sum holds only {part}"
        )
        if fewest < taking_part:
            follows = f"the shares are computed for {n} clients, and a sum may contain {fewest}, only {part}"
    else:
        follows = f"a sum may contain only {fewest} of {n} messages, and with them only {part}"
    return DeclarationFinding(
        check="noise shares",
        severity="error",
        field=step.name,
        declared=f"noise in {n} shares",
        follows=follows + _epsilon_of(system, step, noise, fewest),
        right=float(fewest),
        mend=f"compute each share for {fewest} clients, or let no sum contain fewer than {n}",
    )


def _epsilon_of(system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition, count: int) -> str:
    """What the sum of a number of shares proves, where the whole noise proves something."""
    distances = apart(system, before(system, step), noise)
    if step.epsilon is None or system.parameters is None or not distances.known:
        return ""
    delta = step.delta or 0.0
    whole, rest = (
        epsilon_over(noise.law.summed(number), distances, system.parameters, delta)
        for number in (step.shares, count)
    )
    if not math.isfinite(whole):
        return ""
    found = digits(rest) if math.isfinite(rest) else "none"
    return f" (for a client epsilon {found} instead of {digits(whole)})"


def _more_than_assumed(step: DeclaredStep, taking_part: int) -> DeclarationFinding:
    return DeclarationFinding(
        check="noise shares",
        severity="warning",
        field=step.name,
        declared=f"noise in {step.shares} shares",
        follows=f"the shares are computed for {step.shares} clients, and {taking_part} take part: the sum "
        f"holds {taking_part / step.shares:.3g} times the variance that the claim needs",
        right=float(taking_part),
        mend=f"compute each share for {taking_part} clients: the same claim costs less",
    )


def _aborts(system: DeclaredSystem, step: DeclaredStep, fewest: int) -> DeclarationFinding:
    return DeclarationFinding(
        check="noise shares",
        severity="error",
        field=step.name,
        declared=f"sums of at least {fewest} messages",
        follows=f"a sum needs {fewest} messages, but only {system.cohort} clients send: every round aborts",
        right=None if system.cohort is None else float(system.cohort),
        mend=f"lower the threshold to at most {system.cohort}",
    )
