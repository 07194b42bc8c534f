"""Normal noise: on each message, and on the sums of all rounds, correlated from round to round."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from foltr_audit.errors import UsageError
from foltr_audit.privacy.loss.losses import GaussianLoss, LossProof, SensitivityBound
from foltr_audit.privacy.noise.base import FARTHEST, AdditiveNoise, check_scale, multiples
from foltr_audit.rng import UNIFORM_STEP, ClientStreams
from foltr_audit.utils.arrays import Floats

# The server releases, in round t, the sum `x_t` of the messages plus row t of `C^-1 z`, where the rows of z
# are independent Gaussian noise. Whoever knows all rounds knows `C x + z`, and no more: the noise hides
# `C x`. The running sums `A x`, which the global model follows, carry the noise `B z`, with `B = A C^-1`,
# which is smaller than the sum of independent noise where a client takes part seldom.
#
# C is the lower-triangular Toeplitz square root of the matrix A of ones, with all but its first bands 0.
#
# Source: Choquette-Choo et al. 2023, "(Amplified) banded matrix factorization: a unified approach to private
# training"; the square root: Fichtenberger, Henzinger & Upadhyay 2023, "Constant matters: fine-grained error
# bound on differentially private continual observation", section 3; banded: Kalinin & Lampert 2024, "Banded
# square root matrix factorization for differentially private model training". See `docs/maths.md`.

MOST_BANDS = 100_000
"""Bands that are accepted: noise is drawn with a memory of so many rounds."""


@lru_cache(maxsize=64)
def square_root_coefficients(bands: int) -> Floats:
    """The first column of C without its zeros, read-only float64 (bands,): 1, 1/2, 3/8, 5/16, ...

    They are those of the power series of `(1 - x)^(-1/2)`: each is `(2 k - 1) / (2 k)` times the one before.

    Source: Fichtenberger, Henzinger & Upadhyay 2023, section 3.

    Raises:
        UsageError: bands below 1 or above 100,000.
    """
    if not 1 <= bands <= MOST_BANDS:
        raise UsageError(f"correlated noise: {bands} bands; expected 1 to {MOST_BANDS}")
    places = np.arange(1.0, bands)
    found = np.cumprod(np.concatenate([[1.0], (2.0 * places - 1.0) / (2.0 * places)]))
    found.flags.writeable = False
    return found


def hidden_rows(rows: Floats, bands: int) -> Floats:
    """C x for rows x of the first T rounds, both float64 (T, P): what independent noise z hides.

    Of the noise `C^-1 z` it gives back z.
    """
    found = np.zeros_like(rows)
    for back, coefficient in enumerate(square_root_coefficients(bands)[: len(rows)]):
        found[back:] += coefficient * rows[: len(rows) - back]
    return found


def noise_length(bands: int, rounds: int) -> float:
    """The standard deviation of the noise on the sum of the last of T rounds, for a sigma of 1.

    It is the L2 length of the last row of `C^-1`, whose entries are the coefficients of the power series
    that inverts that of C.
    """
    weights = square_root_coefficients(bands)[1:rounds]
    found = np.zeros(rounds)
    found[0] = 1.0
    for place in range(1, rounds):
        before = found[max(0, place - weights.size) : place][::-1]
        found[place] = -float((weights[: before.size] * before).sum())
    return float(np.sqrt(np.square(found).sum()))


@lru_cache(maxsize=4096)
def participation_sensitivity(bands: int, rounds: int, participations: int, separation: int) -> float:
    """The largest L2 length of C x for a client that moves each sum it takes part in by at most 1.

    The client takes part in at most `participations` of T `rounds`, and from one to the next there are at
    least `separation` rounds. C has no negative entries, and they fall along a column, so the worst client
    always moves its sums in the same direction, and takes part as early and as often as it may: any other
    pattern has columns that are farther apart or shorter. The length is that of the sum of these columns.

    Source: Kalinin & Lampert 2024, "Banded square root matrix factorization for differentially private model
    training", theorem 2; that the same direction is the worst: Choquette-Choo et al. 2023, "Multi-epoch
    matrix factorization mechanisms for private machine learning", corollary 2.1.

    Raises:
        UsageError: a number below 1.
    """
    for name, value in (("rounds", rounds), ("participations", participations), ("separation", separation)):
        if value < 1:
            raise UsageError(f"correlated noise: {name} {value}; expected at least 1")
    column = square_root_coefficients(min(bands, rounds))
    total = np.zeros(rounds)
    for first in range(0, rounds, separation)[:participations]:
        there = total[first : first + column.size]
        there += column[: there.size]
    return float(np.sqrt(np.square(total).sum()))


def within_deviations(z: Floats) -> Floats:
    """Probability that a normal variate lies within z >= 0 standard deviations of its mean."""
    from scipy.special import erf

    return np.asarray(erf(z / math.sqrt(2.0)))


@dataclass(frozen=True, kw_only=True)
class Gaussian(AdditiveNoise):
    """Normal noise; as text e.g. `gaussian:sigma=0.5`.

    Attributes:
        sigma: standard deviation, above 0.
    """

    name: ClassVar[str] = "gaussian"
    like_normal: ClassVar[bool] = True

    sigma: float

    def __post_init__(self) -> None:
        check_scale("sigma", self.sigma)

    @property
    def scale(self) -> float:
        """The standard deviation."""
        return self.sigma

    @property
    def variance(self) -> float:
        return self.sigma * self.sigma

    def log_density(self, x: ArrayLike) -> Floats:
        z = np.minimum(multiples(x, self.sigma), math.sqrt(FARTHEST))
        return np.asarray(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - math.log(self.sigma))

    def sample(self, streams: ClientStreams, size: int) -> Floats:
        from scipy.special import ndtri

        # By inversion and not by `kernels.philox`: each number comes from one uniform number, which is what
        # `steps_off` undoes, and a message's first coordinates do not depend on how many there are.
        return np.asarray(self.sigma * ndtri(streams.uniform(size)))

    def steps_off(self, x: ArrayLike) -> Floats:
        """How far each x is from the nearest number that `sample` draws, in steps of its uniform numbers.

        From 0 to .5. Above one standard deviation float64 is too coarse to tell: .25 there.
        """
        from scipy.special import ndtr

        steps = ndtr(np.asarray(x) / self.sigma) / UNIFORM_STEP - 0.5
        return np.where(np.asarray(x) < self.sigma, np.abs(steps - np.rint(steps)), 0.25)

    def summed(self, count: int) -> Gaussian:
        return Gaussian(sigma=self.sigma * math.sqrt(count))

    @property
    def gaussian_slope(self) -> float:
        """`1 / sigma`, exactly."""
        return 1.0 / self.sigma

    def proofs(self, hidden: SensitivityBound) -> tuple[LossProof, ...]:
        """The loss of Gaussian noise: mu is the L2 distance over sigma.

        Source: Balle & Wang 2018, "Improving the Gaussian mechanism for differential privacy", theorem 8.
        """
        l2 = hidden.apart.l2
        how = f"Gaussian noise of sigma {self.sigma:.4g} {hidden.where}, L2 distance {l2:.4g}"
        return (LossProof(GaussianLoss(l2 * self.gaussian_slope), how, "Gaussian"),)

    def with_variance(self, share: float) -> Gaussian:
        return Gaussian(sigma=self.sigma * math.sqrt(share))

    def probability_within(self, size: ArrayLike) -> Floats:
        return within_deviations(np.abs(np.asarray(size, dtype=np.float64)) / self.sigma)


_RUNS = 8  # whose last rounds are remembered

StreamOf = Callable[[int], ClientStreams]
"""The server's stream of a round."""


@dataclass
class _LastRounds:
    """The noise of a run's last rounds, float64 (bands - 1, P), the next round's number in `following`."""

    noise: Floats
    following: int = 0


@dataclass
class CorrelatedGaussian:
    """The noise `C^-1 z` of every round, in any order of rounds, from the streams of the rounds alone.

    Row t is `z_t - sum_k c_k N_(t-k)` over the bands k >= 1: `C N = z`. The last rounds of a few runs are
    remembered, so that a run costs `bands` additions a round; after a jump, as when a run is resumed, the
    rows are computed again from the first round, with the same bytes.

    Source: that of the factorization, in the first section.
    """

    _runs: OrderedDict[tuple[object, ...], _LastRounds] = field(default_factory=OrderedDict)

    def of_round(self, round_: int, sigma: float, bands: int, size: int, stream: StreamOf) -> Floats:
        """The noise of one round, float64 (size,).

        Args:
            round_: number of the round, from 0.
            sigma: standard deviation of the independent noise z.
            bands: bands of C; with 1 rounds are independent.
            size: coordinates P.
            stream: the stream that the row of z of a round is drawn from.
        """
        law = Gaussian(sigma=sigma)
        if bands == 1:
            return np.asarray(law.sample(stream(round_), size)[0])
        first = stream(0)
        key = (first.key, first.purpose_code, sigma, bands, size)
        last = self._runs.pop(key, None)
        if last is None or last.following > round_:
            last = _LastRounds(np.zeros((bands - 1, size)))
        weights = square_root_coefficients(bands)[:0:-1, np.newaxis]
        row = np.zeros(size)
        for following in range(last.following, round_ + 1):
            row = law.sample(stream(following), size)[0] - (weights * last.noise).sum(axis=0)
            last.noise[:-1] = last.noise[1:]
            last.noise[-1] = row
        last.following = round_ + 1
        self._runs[key] = last
        while len(self._runs) > _RUNS:
            self._runs.popitem(last=False)
        return row.copy()
