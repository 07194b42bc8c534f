"""The factorisation of running sums: closed forms, all participations of small runs, a published library."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import linalg, special

from foltr_audit.errors import UsageError
from foltr_audit.privacy.noise.gaussian import (
    hidden_rows,
    participation_sensitivity,
    square_root_coefficients,
)
from foltr_audit.utils.arrays import Floats


def matrix(bands: int, rounds: int) -> Floats:
    """C as an array (T, T)."""
    column = np.zeros(rounds)
    known = square_root_coefficients(bands)[:rounds]
    column[: known.size] = known
    return np.asarray(linalg.toeplitz(column, np.zeros(rounds)))


def patterns(rounds: int, participations: int, separation: int) -> list[tuple[int, ...]]:
    """All rounds in which a client may take part."""
    return [
        chosen
        for count in range(1, participations + 1)
        for chosen in combinations(range(rounds), count)
        if all(later - earlier >= separation for earlier, later in pairwise(chosen))
    ]


def test_all_bands_are_the_square_root_of_running_sums() -> None:
    for rounds in (1, 2, 7, 60):
        whole = matrix(rounds, rounds)
        np.testing.assert_allclose(whole @ whole, np.tril(np.ones((rounds, rounds))), rtol=1e-12, atol=1e-12)


def test_coefficients_are_central_binomial() -> None:
    """`binom(2 k, k) / 4^k`, the power series of `(1 - x)^(-1/2)`."""
    places = np.arange(40)
    np.testing.assert_allclose(
        square_root_coefficients(40), special.binom(2 * places, places) / 4.0**places, rtol=1e-12
    )


@pytest.mark.parametrize("bands", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("separation", [1, 2, 3, 4])
@pytest.mark.parametrize("participations", [1, 2, 3])
def test_no_participation_moves_more(bands: int, separation: int, participations: int) -> None:
    """Over all patterns and all signs of the moves, in up to nine rounds."""
    for rounds in (1, 4, 9):
        found, columns = 0.0, matrix(bands, rounds)
        for chosen in patterns(rounds, participations, separation):
            for signs in np.ndindex(*(2,) * (len(chosen) - 1)):
                moves = 1.0 - 2.0 * np.array((0, *signs))
                found = max(found, float(np.linalg.norm(columns[:, list(chosen)] @ moves)))
        said = participation_sensitivity(bands, rounds, participations, separation)
        assert said == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("bands", [1, 2, 6, 40])
def test_hidden_rows_are_those_of_the_matrix(bands: int) -> None:
    rows = np.random.default_rng(bands).normal(size=(12, 3))
    np.testing.assert_allclose(hidden_rows(rows, bands), matrix(bands, 12) @ rows, rtol=1e-12, atol=1e-12)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(UsageError, match="0 bands; expected 1 to 100000"):
        square_root_coefficients(0)
    with pytest.raises(UsageError, match="separation 0; expected at least 1"):
        participation_sensitivity(2, 5, 1, 0)


def test_a_published_library_finds_the_same() -> None:
    """Coefficients and sensitivities of jax-privacy, where it is installed."""
    toeplitz = pytest.importorskip("jax_privacy.matrix_factorization.toeplitz", exc_type=ImportError)
    ours = square_root_coefficients(50)
    np.testing.assert_allclose(ours, toeplitz.optimal_max_error_strategy_coefs(50), rtol=1e-5)
    for bands, rounds, times, separation in ((10, 50, 5, 10), (10, 50, 3, 4), (50, 50, 2, 25), (4, 50, 9, 1)):
        theirs = toeplitz.minsep_sensitivity_squared(
            np.asarray(ours[:bands]), min_sep=separation, max_participations=times, n=rounds
        )
        said = participation_sensitivity(bands, rounds, times, separation)
        assert said**2 == pytest.approx(float(theirs), rel=1e-5)
