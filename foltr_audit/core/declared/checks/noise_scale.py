"""The scale of noise, compared with the sensitivity, epsilon and delta that it was computed from."""

from __future__ import annotations

import math
from collections.abc import Iterator

from foltr_audit.core.declared.declared_system import DeclaredStep, DeclaredSystem
from foltr_audit.core.declared.figures import TOLERANCE, over_distance
from foltr_audit.core.declared.findings import DeclarationFinding, digits
from foltr_audit.privacy.gaussian_dp import LARGEST
from foltr_audit.privacy.loss.conversions import few_digits, gaussian_sigma
from foltr_audit.privacy.noise import AdditiveNoise

_CLASSICAL_LARGEST = 1.0


def noise_scale(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    """Each noise over the distance that it was computed for; and the classical formula beyond epsilon 1."""
    for step in system.noises:
        law = step.whole
        if law is not None and step.sensitivity is not None and step.epsilon is not None:
            yield from _of_noise(step, law, step.sensitivity, step.epsilon, step.delta or 0.0)
    yield from _classical(system)


def _of_noise(
    step: DeclaredStep, law: AdditiveNoise, sensitivity: float, epsilon: float, delta: float
) -> Iterator[DeclarationFinding]:
    if law.grid > 0:
        return  # its epsilon depends on the number of coordinates, see `proof`
    found = over_distance(law, sensitivity, delta)
    if found <= epsilon * (1.0 + TOLERANCE):
        return
    at = f" at delta {delta:g}" if delta > 0 else ""
    right = _right_scale(law, sensitivity, epsilon, delta)
    if math.isinf(found) and law.order != 1 and delta == 0:
        follows, mend = f"{law.text} has no epsilon at delta 0", "declare a delta above 0"
    else:
        given = digits(found) if math.isfinite(found) else "no epsilon"
        follows = (
            f"{law.text} over a sensitivity of {digits(sensitivity)} gives {given}{at}, not {digits(epsilon)}"
        )
        mend = "use more noise" if right is None else f"use a scale of {few_digits(right, math.ceil):g}"
    yield DeclarationFinding(
        check="noise scale",
        severity="error",
        field=step.name,
        declared=f"epsilon {digits(epsilon)}{at}",
        follows=follows,
        right=right,
        mend=mend,
    )


def _right_scale(law: AdditiveNoise, sensitivity: float, epsilon: float, delta: float) -> float | None:
    """The scale of the whole noise that gives an epsilon, where a closed form is known."""
    if law.order == 1 and delta == 0:
        return sensitivity / epsilon
    if law.like_normal and delta > 0:
        return gaussian_sigma(epsilon, delta, sensitivity)
    return None


def _classical(system: DeclaredSystem) -> Iterator[DeclarationFinding]:
    basis = system.basis
    if basis.formula != "classical" or basis.epsilon is None or basis.epsilon <= _CLASSICAL_LARGEST:
        return
    mend = "use the analytic formula"
    follows = f"the classical formula is proven up to epsilon 1, and {digits(basis.epsilon)} is declared"
    enough, right = True, None
    used = basis.classical_sigma
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
