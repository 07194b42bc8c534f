"""Noise that is correlated over rounds: the factorisation A = B C of running sums, and its sensitivity.

The server releases, in round t, the sum `x_t` of the messages plus row t of `C^-1 z`, where the rows of z
are independent Gaussian noise. Whoever knows all rounds knows `C x + z`, and no more: the noise hides `C x`.
The running sums `A x`, which the global model follows, carry the noise `B z`, with `B = A C^-1`, which is
smaller than the sum of independent noise where a client takes part seldom.

C is the lower-triangular Toeplitz square root of the matrix A of ones, with all but its first bands set to 0.

Source: Choquette-Choo et al. 2023, "(Amplified) banded matrix factorization: a unified approach to private
training"; the square root: Fichtenberger, Henzinger & Upadhyay 2023, "Constant matters: fine-grained error
bound on differentially private continual observation", section 3; banded: Kalinin & Lampert 2024, "Banded
square root matrix factorization for differentially private model training". See `docs/maths.md`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Floats

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
