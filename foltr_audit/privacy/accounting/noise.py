"""The privacy loss that each kind of noise proves, or why it proves none."""

from __future__ import annotations

import math
from dataclasses import dataclass

from foltr_audit.privacy.accounting.losses import GaussianLoss, LaplaceLoss, PrivacyLoss, PureLoss
from foltr_audit.privacy.accounting.norms import Norms, whole_multiple
from foltr_audit.privacy.noise import AdditiveNoise, DiscreteGaussian, GammaShare, Gaussian, Skellam


@dataclass(frozen=True, kw_only=True)
class SensitivityBound:
    """The distance between neighbours that noise has to hide.

    Attributes:
        apart: how far apart two neighbouring vectors may be, `stretch` included.
        parameters: coordinates P.
        grid: step of the grid that they lie on, 0 if on none.
        where: what the noise is on, for messages, e.g. `in the sum of 900 messages`.
        stretch: largest weight of a message in a sum over the smallest.
    """

    apart: Norms
    parameters: int
    grid: float
    where: str
    stretch: float = 1.0


@dataclass(frozen=True)
class LossProof:
    """A loss that is proven for one round, or why there is none.

    Attributes:
        loss: the loss; None where nothing is proven.
        how: in a few words.
        kind: what kind of noise it is, in a word or two.
        share: share of the clients in a secret sample that amplifies it; 1 where there is none.
        of_sum: it is about the noise of all clients together.
        spent: how much of delta goes to other ways to fail.
    """

    loss: PrivacyLoss | None
    how: str
    kind: str = ""
    share: float = 1.0
    of_sum: bool = False
    spent: float = 0.0


def proofs_of(law: AdditiveNoise, hidden: SensitivityBound) -> tuple[LossProof, ...]:
    """The losses of independent noise of a law on every coordinate."""
    match law:
        case GammaShare():
            return gamma_proofs(law, hidden)
        case Gaussian():
            return (gaussian_proof(law, hidden),)
        case DiscreteGaussian() | Skellam():
            return (grid_proof(law, hidden),)
    return (LossProof(None, f"accounting does not know the law {law.text}"),)


def gaussian_proof(law: Gaussian, hidden: SensitivityBound) -> LossProof:
    """The loss of Gaussian noise: mu is the L2 distance over sigma.

    Source: Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", theorem 8.
    """
    how = f"Gaussian noise of sigma {law.sigma:.4g} {hidden.where}, L2 distance {hidden.apart.l2:.4g}"
    return LossProof(GaussianLoss(hidden.apart.l2 * law.gaussian_slope), how, "Gaussian")


def grid_proof(law: DiscreteGaussian | Skellam, hidden: SensitivityBound) -> LossProof:
    """The loss of noise on a grid, for vectors on that grid: nearly that of a Gaussian of its deviation.

    The last digits of a message off the grid would reveal it; so would a sum of draws of different weights.

    Source: `foltr_audit.privacy.noise.probit`. The Renyi divergences of Kairouz, Liu & Steinke 2021
    (proposition 14) and Agarwal, Kairouz & Liu 2021 (theorem 3.5) give about 8 % more at delta 1e-5.
    """
    name = "discrete Gaussian" if isinstance(law, DiscreteGaussian) else "Skellam"
    how = f"{name} noise of deviation {law.scale:.4g} on a grid of {law.step:.4g} {hidden.where}"
    if not whole_multiple(hidden.grid, law.step):
        return LossProof(None, f"{how}: messages are not rounded to that grid before the noise")
    if hidden.stretch > 1:
        return LossProof(None, f"{how}: different weights move the sum off the grid")
    how += f", L2 distance {hidden.apart.l2:.4g}"
    return LossProof(GaussianLoss(hidden.apart.l2 * law.gaussian_slope, normal=False), how, name)


def gamma_proofs(law: GammaShare, hidden: SensitivityBound) -> tuple[LossProof, ...]:
    """The losses of Gamma shares, whose sum has the shape a = their number / n.

    With a >= 1 the loss of a coordinate grows by no more than its shift over the scale, and L1 counts; and
    the sum of several Laplace draws is nearly Gaussian, for which L2 counts. For 1/2 < a < 1 the density is
    a mixture of two-sided exponentials (proportional to the integral over t > 1 of
    `e^(-|x| t / s) (t^2 - 1)^(-a)`), so its logarithm is convex on either side of 0 and the loss of one
    coordinate is concave in the shift: an L1 distance costs most when it is spread evenly, and an even
    spread keeps the L2 and Linf distances smallest. For a <= 1/2 the density is infinite at 0.

    Source: for a = 1, Dwork et al. 2006, "Calibrating noise to sensitivity in private data analysis",
    proposition 1; of a sum at a delta, `foltr_audit.privacy.noise.probit`.
    """
    l1, l2, size = hidden.apart.l1, hidden.apart.l2, hidden.parameters
    distance = f"L1 distance {l1:.4g}{_by_root(hidden)}"
    if law.shape >= 1:
        of = f" (a sum of {law.shape:.4g} Laplace draws)" if law.shape > 1 else ""
        noise = f"Laplace noise of scale {law.scale:.4g} {hidden.where}"
        near = GaussianLoss(l2 * law.gaussian_slope, normal=False)
        return (
            LossProof(LaplaceLoss(l1 / law.scale), f"{noise}, {distance}"),
            LossProof(near, f"{noise}{of}, L2 distance {l2:.4g}"),
        )
    shares = f"{law.count} of {law.n} Gamma shares of scale {law.scale:.4g} {hidden.where}"
    if law.shape <= 0.5:
        return (LossProof(None, f"{shares}: half of the shares or fewer have no finite epsilon"),)
    spread = float(law.worst_loss(l1 / size))
    return (LossProof(PureLoss(size * spread), f"{shares}, {distance} spread over {size} coordinates"),)


def _by_root(hidden: SensitivityBound) -> str:
    """A note where the L1 bound follows from an L2 bound."""
    size, l2 = hidden.parameters, hidden.apart.l2
    stretched = size > 1 and math.isclose(hidden.apart.l1, math.sqrt(size) * l2, rel_tol=1e-9)
    return f" (sqrt({size}) times {l2:.4g} in L2)" if stretched else ""
