"""The checks of what is declared: each finds what contradicts it, the right number, and how to mend it.

Every command that runs a chain warns of what `CHAIN_CHECKS` find; `audit --no-trials` runs `ALL_CHECKS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from foltr_audit.core.declared.declared_system import (
    ROUNDING,
    TOLERANCE,
    DeclaredStep,
    DeclaredSystem,
    apart,
    before,
    epsilon_over,
    is_proven,
    of_order,
    over_distance,
    proven,
)
from foltr_audit.core.warning_kinds import CodedWarning, warning_code
from foltr_audit.privacy.accounting import UpperBound
from foltr_audit.privacy.accounting.walk import ChainSummary
from foltr_audit.privacy.events import (
    CorrelatedNoise,
    GridRounding,
    MessageAggregation,
    MetricRandomization,
    NoiseAddition,
    NormBound,
    PrivacyClaim,
    RevealedDraws,
)
from foltr_audit.privacy.gaussian_dp import LARGEST
from foltr_audit.privacy.loss.composition import few_digits, gaussian_sigma
from foltr_audit.privacy.loss.losses import Norms, whole_multiple
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.privacy.observer_views import sees_lists
from foltr_audit.privacy.randomized_response import compose_epsilon

_EQUAL = 1.0 + ROUNDING
_CLASSICAL_LARGEST = 1.0  # the largest epsilon that the classical formula of normal noise is proven for

FindingSeverity = Literal["error", "warning"]
"""`error`: the claim does not follow from what is declared; `warning`: it may be weaker than it reads."""


@dataclass(frozen=True, kw_only=True)
class DeclarationFinding:
    """One declaration that does not agree with what follows from the others.

    Attributes:
        check: name of the check.
        code: its code, see `foltr-audit list warnings`.
        severity: `error` or `warning`.
        field: what it is about: a defense, or a fact of a header.
        declared: what is declared, in a few words.
        follows: what follows instead, in a sentence without its subject.
        right: the number that would hold; None where no number would.
        mend: how to mend it.
    """

    check: str
    code: str = field(init=False)
    severity: FindingSeverity = "error"
    field: str
    declared: str
    follows: str
    right: float | None = None
    mend: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", warning_code(self.check))

    @property
    def warning(self) -> CodedWarning:
        """The finding as one line, with how to mend it."""
        return CodedWarning(self.code, f"{self.field}: {self.follows}; {self.mend}")


def digits(value: float) -> str:
    """A number for people: three digits from 1 on, four below 1.

    >>> digits(40.693), digits(3.0), digits(0.00123456)
    ('40.7', '3', '0.001235')
    """
    return f"{value:.3g}" if 1 <= abs(value) < 1000 else f"{value:.4g}"


def sensitivity(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Each noise, compared with the bounds before it."""
    for step in system.noises:
        noise, earlier = step.event, before(system, step)
        if not isinstance(noise, NoiseAddition):
            continue
        distances = apart(system, earlier, noise)
        if distances.known:
            yield from _too_near(system, step, noise, distances)
        else:
            yield _without_bound(system, step, noise, earlier)
    if not system.noises:
        yield from _without_law(system)


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
        mend="clip before the noise, and compute the noise from twice the norm of the clip",
    )


def _what_removed_the_bound(
    system: DeclaredSystem, noise: NoiseAddition, earlier: Sequence[DeclaredStep]
) -> str:
    for index in range(len(earlier) - 1, -1, -1):
        if apart(system, earlier[:index], noise).known:
            bounds = [step.name for step in earlier[:index] if isinstance(step.event, NormBound)]
            return f"; {earlier[index].name} removes the bound of {bounds[-1]}"
    return ""


def _too_near(
    system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition, distances: Norms
) -> Iterator[DeclarationFinding]:
    """Noise for a smaller sensitivity than the clip allows; if none is declared, for a larger epsilon."""
    stated, claimed, (radius, ball) = step.sensitivity, step.epsilon, _ball(distances)
    needed = of_order(distances, noise.law)
    follows = epsilon_over(step.whole or noise.law, distances, system.parameters, step.delta or 0.0)
    holds = claimed is not None and follows <= claimed * (1.0 + TOLERANCE)
    how_far = _how_far(system, noise, distances)
    finding = partial(DeclarationFinding, check="sensitivity", field=step.name)
    if stated is None:
        proven = bool(system.claims) and all(is_proven(system, claim) for claim in system.claims)
        if claimed is not None and not holds and not proven:
            yield finding(
                declared=f"epsilon {digits(claimed)}",
                follows=f"{how_far}: {_consequence(step, follows, 1.0, holds=False)}",
                right=follows if math.isfinite(follows) else None,
                mend="compute the noise from this distance, or clip closer",
            )
    elif needed > stated * _EQUAL:
        halves = 1.0 if system.halved else 2.0
        in_ball = f" in {ball}" if system.parameters > 1 else ""
        mend = [
            f"compute the noise from {few_digits(needed, math.ceil):g}",
            f"clip at {few_digits(radius / halves * stated / needed, math.floor):g}{in_ball}",
        ]
        if needed > radius * _EQUAL:
            mend.append(f"clip at {few_digits(stated / halves, math.floor):g} in L{noise.law.order}")
        consequence = _consequence(step, follows, needed / stated, holds=holds)
        yield finding(
            severity="warning" if holds else "error",
            declared=f"sensitivity {digits(stated)}",
            follows=f"the noise is computed for a sensitivity of {digits(stated)}, "
            f"but {how_far}: {consequence}",
            right=needed,
            mend=", or ".join(mend),
        )


def _how_far(system: DeclaredSystem, noise: NoiseAddition, distances: Norms) -> str:
    """How far apart neighbours may be, in the norm of the clip and in that of the noise."""
    needed, radius, ball = of_order(distances, noise.law), *_ball(distances)
    in_ball = f" in {ball}" if system.parameters > 1 else ""
    distance = f"two messages differ by up to 2 R = {digits(radius)}{in_ball}"
    if system.halved:
        distance = f"messages are up to R = {digits(radius)} long{in_ball}"
    if needed > radius * _EQUAL:
        order = f"L{noise.law.order}"
        distance += f", which over {system.parameters} coordinates is up to {digits(needed)} in {order}"
    return distance


def _ball(distances: Norms) -> tuple[float, str]:
    """Radius and norm of the ball that a bound comes from.

    A ball of order 1 bounds all three norms by its radius, one of order 2 the last two, so the first norm
    that equals the next one is that of the ball.
    """
    if distances.l1 <= distances.l2 * _EQUAL:
        return distances.l1, "L1"
    return (distances.l2, "L2") if distances.l2 <= distances.linf * _EQUAL else (distances.linf, "Linf")


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
    stated = system.basis.sensitivity
    norms = [event.norm for event in system.events if isinstance(event, NormBound)]
    if stated is None or not norms:
        return
    needed = min(norms) * (1.0 if system.halved else 2.0)
    if needed > stated * _EQUAL:
        yield DeclarationFinding(
            check="sensitivity",
            field="accounting.sensitivity",
            declared=f"sensitivity {digits(stated)}",
            follows=f"a clip at {digits(min(norms))} allows {digits(needed)}, and not {digits(stated)}",
            right=needed,
            mend=f"compute the noise from {few_digits(needed, math.ceil):g}",
        )


def noise_scale(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Each noise over the distance that it was computed for; and the classical formula beyond epsilon 1."""
    for step in system.noises:
        law, sensitivity, epsilon, delta = step.whole, step.sensitivity, step.epsilon, step.delta or 0.0
        # The epsilon of a lattice law depends on the number of coordinates, see `proof`.
        if law is None or sensitivity is None or epsilon is None or law.grid > 0:
            continue
        achieved = over_distance(law, sensitivity, delta)
        if achieved <= epsilon * (1.0 + TOLERANCE):
            continue
        at = f" at delta {delta:g}" if delta > 0 else ""
        right = _right_scale(law, sensitivity, epsilon, delta)
        mend = "use more noise" if right is None else f"use a scale of {few_digits(right, math.ceil):g}"
        given = digits(achieved) if math.isfinite(achieved) else "no epsilon"
        follows = (
            f"{law.text} over a sensitivity of {digits(sensitivity)} gives {given}{at}, not {digits(epsilon)}"
        )
        if math.isinf(achieved) and law.order != 1 and delta == 0:
            follows, mend = f"{law.text} has no epsilon at delta 0", "declare a delta above 0"
        yield DeclarationFinding(
            check="noise scale",
            field=step.name,
            declared=f"epsilon {digits(epsilon)}{at}",
            follows=follows,
            right=right,
            mend=mend,
        )
    yield from _classical(system)


def _right_scale(law: AdditiveNoise, sensitivity: float, epsilon: float, delta: float) -> float | None:
    """The scale of the whole noise that gives an epsilon, where a closed form is known."""
    if law.order == 1 and delta == 0:
        return sensitivity / epsilon
    if law.like_normal and delta > 0:
        return gaussian_sigma(epsilon, delta, sensitivity)
    return None


def _classical(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    basis = system.basis
    if basis.epsilon is None or basis.epsilon <= _CLASSICAL_LARGEST:
        return
    mend = "use the analytic formula"
    follows = f"the classical formula is proven up to epsilon 1, and {digits(basis.epsilon)} is declared"
    enough, right = True, None
    used = basis.sigma
    if used is not None and basis.delta and basis.sensitivity and basis.epsilon < LARGEST:
        right = gaussian_sigma(basis.epsilon, basis.delta, basis.sensitivity)
        enough = used >= right
        mend = f"use a sigma of {few_digits(right, math.ceil):g}"
        follows += f": it gives sigma {digits(used)}, and {digits(right)} is needed"
    yield DeclarationFinding(
        check="noise scale",
        severity="warning" if enough else "error",
        field="accounting.formula",
        declared="the classical formula of the Gaussian mechanism",
        follows=follows,
        right=right,
        mend=mend,
    )


def shares(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Each noise that clients share, and sums that no round can fill."""
    for index, step in enumerate(system.steps):
        event = step.event
        if isinstance(event, NoiseAddition) and step.shares > 1:
            yield from _shares_of(system, step, event, system.steps[index + 1 :])
        if isinstance(event, MessageAggregation) and system.cohort and event.at_least > system.cohort:
            yield DeclarationFinding(
                check="noise shares",
                field=step.name,
                declared=f"sums of at least {event.at_least} messages",
                follows=f"a sum needs {event.at_least} messages, but only {system.cohort} clients send: "
                "every round aborts",
                right=float(system.cohort),
                mend=f"lower the threshold to at most {system.cohort}",
            )


def _shares_of(
    system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition, later: tuple[DeclaredStep, ...]
) -> Iterator[DeclarationFinding]:
    n = step.shares
    finding = partial(
        DeclarationFinding, check="noise shares", field=step.name, declared=f"noise in {n} shares"
    )
    sums = [other.event.at_least for other in later if isinstance(other.event, MessageAggregation)]
    if not sums:
        how = "add" if noise.law.grid > 0 else "take noise on a grid with"  # a secure sum rounds what it gets
        yield finding(
            follows=f"each message carries only 1/{n} of the noise, and the server sees each one",
            mend=f"{how} secure aggregation, or add the whole noise to each message",
        )
        return
    taking_part = system.cohort or n
    fewest = min(max(sums), taking_part)
    claimed = step.epsilon is not None or bool(system.claims)
    # A sum of fewer messages than take part breaks no claim where there is none.
    if fewest < n and (claimed or taking_part < n):
        yield finding(
            follows=_part_of_the_noise(n, fewest, taking_part) + _epsilon_of(system, step, noise, fewest),
            right=float(fewest),
            mend=f"compute each share for {fewest} clients, or let no sum contain fewer than {n}",
        )
    elif taking_part > n:
        yield finding(
            severity="warning",
            follows=f"the shares are computed for {n} clients, and {taking_part} take part: the sum "
            f"holds {taking_part / n:.3g} times the variance that the claim needs",
            right=float(taking_part),
            mend=f"compute each share for {taking_part} clients: the same claim costs less",
        )
    steps = [other.event.step for other in later if isinstance(other.event, GridRounding)]
    if any(not whole_multiple(noise.law.grid, step) for step in steps):
        yield finding(
            follows="each share is rounded before the sum, so there is no proof for the sum",
            mend="use noise whose shares are whole multiples of the grid step",
        )


def _part_of_the_noise(n: int, fewest: int, taking_part: int) -> str:
    part = f"{fewest / n:.0%} of the noise"
    if taking_part >= n:
        return f"a sum may contain only {fewest} of {n} messages, and with them only {part}"
    if fewest < taking_part:
        return f"the shares are computed for {n} clients, and a sum may contain {fewest}, only {part}"
    return f"the shares are computed for {n} clients, and {taking_part} take part: a sum holds only {part}"


def _epsilon_of(system: DeclaredSystem, step: DeclaredStep, noise: NoiseAddition, count: int) -> str:
    """What the sum of a number of shares proves, where the whole noise proves something."""
    distances = apart(system, before(system, step), noise)
    if step.epsilon is None or not distances.known:
        return ""
    delta = step.delta or 0.0
    whole, rest = (
        epsilon_over(noise.law.summed(number), distances, system.parameters, delta)
        for number in (step.shares, count)
    )
    if not math.isfinite(whole):
        return ""
    left = digits(rest) if math.isfinite(rest) else "none"
    return f" (for a client epsilon {left} instead of {digits(whole)})"


def several_noises(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Several defenses that add noise, each with a claim of its own."""
    names = [step.name for step in system.noises]
    if len(names) > 1:
        yield DeclarationFinding(
            check="several noises",
            severity="warning",
            field="noise",
            declared=f"noise of {', '.join(names)}",
            follows=f"several defenses add it ({', '.join(names)}): each claim accounts only for "
            "its own noise",
            mend="add one noise, computed for the claim",
        )


def filled_coordinates(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Coordinates that are left out before noise fills them again."""
    noisy = [index for index, step in enumerate(system.steps) if isinstance(step.event, NoiseAddition)]
    for step in system.steps[: noisy[-1]] if noisy else ():
        if step.leaves_out:
            yield DeclarationFinding(
                check="sparse messages",
                severity="warning",
                field=step.name,
                declared="coordinates that are left out",
                follows="later noise fills the coordinates it sets to zero",
                mend="put it after the noise",
            )


def sum_noise(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Noise on sums of messages that are not bounded, or that is correlated for too long."""
    for index, step in enumerate(system.steps):
        if not isinstance(step.event, CorrelatedNoise):
            continue
        events = [earlier.event for earlier in system.steps[: index + 1]]
        noise = ChainSummary(events, system.parameters).sum_noises[-1]
        if not noise.apart.known:
            yield DeclarationFinding(
                check="sum noise",
                severity="error" if system.complete else "warning",
                field=step.name,
                declared="noise on the sums",
                follows=f"{noise.unbounded}: it hides no client",
                mend="clip each message before the sum",
            )
        elif step.event.bands > system.separation:
            yield DeclarationFinding(
                check="sum noise",
                severity="warning",
                field=step.name,
                declared=f"noise of {step.event.bands} bands",
                follows=f"the noise of {step.event.bands} rounds is correlated, but a client may take part "
                f"again after {system.separation}: the bound of the whole run is larger than it could be",
                right=float(system.separation),
                mend=f"let clients wait for {step.event.bands} rounds, or lower the number of bands",
            )


def batch(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What the randomised metrics of one message compose to."""
    behind = system.interactions or 1
    noisy = dict.fromkeys(step.name for step in system.steps if isinstance(step.event, MetricRandomization))
    for claim in system.claims if behind > 1 else ():
        if claim.mechanism in noisy:
            whole = compose_epsilon(claim.epsilon, behind)
            yield DeclarationFinding(
                check="batch",
                severity="warning",
                field=claim.mechanism,
                declared=f"epsilon {digits(claim.epsilon)} for one {claim.unit}",
                follows=f"epsilon {claim.epsilon:.4g} is of one {claim.unit}; "
                f"a message of {behind} composes {whole:.4g}",
                right=whole,
                mend=f"claim {digits(whole)} for a message",
            )


def unequal(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What clients of different weights do to a claim on sums."""
    if system.noises and not system.alike_in_number:
        yield DeclarationFinding(
            check="weights",
            severity="warning",
            field="clients",
            declared="noise, and clients of different weights",
            follows="they are weighted by their number of interactions: neither the noise nor the "
            "sensitivity of a sum is that of equal clients",
            mend="give all clients the same weight",
        )


def lists(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What lists that follow from clicks do to noise on what is sent."""
    claimed = any(sees_lists(claim.view) for claim in system.claims)
    if system.noises and system.lists_follow_clicks:
        yield DeclarationFinding(
            check="lists",
            severity="error" if claimed else "warning",
            field=system.noises[0].name,
            declared="noise on the message",
            follows="a server that sees the shown lists reads the clicks on each from the next, whatever the "
            "noise on the message",
            mend="take --rank-with global, or one interaction a message, or hide the lists from the server",
        )


def last_bits(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What the number format of messages does to continuous noise."""
    if ChainSummary(system.events, system.parameters).shows_last_bits:
        yield DeclarationFinding(
            check="last bits",
            field="last bits",
            declared="float64 messages",
            follows="those of float64 messages reveal what continuous noise was added to",
            mend="send float32, or add noise on a grid",
        )


def revealed_draws(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Draws that follow from a seed which is sent."""
    for step in system.steps:
        if isinstance(step.event, RevealedDraws):
            yield DeclarationFinding(
                check="revealed draws",
                field=step.name,
                declared="draws from a seed that clients send",
                follows="clicks follow from the seed that clients send, so no randomisation protects them",
                mend="let clients draw from a seed that they keep",
            )


def proof(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Each claim that is not proven, with all views in which it is not."""
    unproven: dict[PrivacyClaim, dict[str, UpperBound]] = {}
    for claim in system.claims:
        bound = proven(system, claim)
        if bound is not None and not is_proven(system, claim):
            statement = replace(claim, view="", relation="")
            unproven.setdefault(statement, {})[claim.view] = bound
    for statement, bounds in unproven.items():
        yield _of_statement(statement, bounds)


def _of_statement(claim: PrivacyClaim, bounds: dict[str, UpperBound]) -> DeclarationFinding:
    views: dict[str, list[str]] = {}
    for view, bound in bounds.items():
        finite = math.isfinite(bound.epsilon)
        what = f"epsilon {digits(bound.epsilon)} is proven" if finite else f"nothing is proven ({bound.how})"
        views.setdefault(what, []).append(view)
    parts = [f"in view {' and '.join(names)} {what}" for what, names in views.items()]
    worst = max(bound.epsilon for bound in bounds.values())
    at = f" at delta {claim.delta:g}" if claim.delta > 0 else ""
    of = f"epsilon {digits(claim.epsilon)}{at} for one {claim.unit}"
    return DeclarationFinding(
        check="proof",
        field=claim.mechanism,
        declared=of,
        follows=f"{of} does not follow: {'; '.join(parts)}",
        right=worst if math.isfinite(worst) else None,
        mend="claim what is proven, or let calibrate compute the noise that proves the claim",
    )


def why_not(system: DeclaredSystem, claim: PrivacyClaim) -> str | None:
    """What would have to be declared as well before a claim can be compared with a proof; None if nothing."""
    needed = {
        "everything that happens to a message": system.complete,
        "clients.per_round": system.cohort,
        "claim.unit": claim.unit,
        "claim.view": claim.view,
    }
    missing = [name for name, value in needed.items() if not value]
    return ", ".join(missing) or None


_PARTS = {
    "unit": "what neighbouring inputs differ in",
    "relation": "whether a unit is replaced, or added or removed",
    "view": "who looks",
}
"""What every claim has to say besides its numbers."""
_RELATIONS = ("replace-one", "add-remove")


def statement(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Claims that leave out what their epsilon is about."""
    for claim in system.claims:
        missing = [name for name in _PARTS if not getattr(claim, name)]
        if claim.relation and claim.relation not in _RELATIONS:
            missing.append("relation")
        if missing:
            yield DeclarationFinding(
                check="statement",
                severity="warning",
                field="claim",
                declared=f"epsilon {digits(claim.epsilon)}",
                follows=f"the claim does not say {', '.join(f'{name} ({_PARTS[name]})' for name in missing)}",
                mend="an epsilon means something only together with these",
            )


def delta(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """A delta so large that publishing everything of one client, drawn at random, would satisfy it."""
    n = system.clients or system.cohort
    for claimed in dict.fromkeys(claim.delta for claim in system.claims):
        if n is not None and claimed >= 1.0 / n:
            yield DeclarationFinding(
                check="delta",
                severity="warning",
                field="claim.delta",
                declared=f"delta {claimed:g}",
                follows=f"delta {claimed:g} is not below 1/n = {1.0 / n:.3g} of {n} clients: a system that "
                "publishes all data of one client, drawn at random, satisfies it",
                right=1.0 / n,
                mend=f"take a delta far below {1.0 / n:.3g}",
            )


def restated(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """What is declared twice, and differently."""
    for restatement in system.restated:
        yield DeclarationFinding(
            check="restated",
            field=restatement.field,
            declared=restatement.said,
            follows=f"{restatement.field} says {restatement.said}, but {restatement.elsewhere}",
            mend="declare what the clients run",
        )


Check = Callable[[DeclaredSystem], Iterator[DeclarationFinding]]

CHAIN_CHECKS: Sequence[Check] = (
    *(sensitivity, shares, several_noises, filled_coordinates, sum_noise, batch, unequal, lists, last_bits),
    revealed_draws,
)
"""What every command that runs a chain warns of."""

ALL_CHECKS: Sequence[Check] = (*CHAIN_CHECKS, noise_scale, restated, proof, delta, statement)


def findings(system: DeclaredSystem, checks: Sequence[Check] = ALL_CHECKS) -> tuple[DeclarationFinding, ...]:
    """What checks find, each finding once, errors first.

    Where nothing is claimed, no claim can be wrong: only what contradicts itself is then an error.
    """
    unique = dict.fromkeys(
        finding if system.claims or check is restated else replace(finding, severity="warning")
        for check in checks
        for finding in check(system)
    )
    return tuple(sorted(unique, key=lambda finding: finding.severity != "error"))


def warnings(system: DeclaredSystem) -> tuple[CodedWarning, ...]:
    """What the checks of a chain find, one line each."""
    unique = dict.fromkeys(finding for check in CHAIN_CHECKS for finding in check(system))
    return tuple(finding.warning for finding in unique)
