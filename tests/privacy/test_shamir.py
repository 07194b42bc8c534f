"""Secret sharing against exact rational arithmetic, and what too few shares say: nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foltr_audit.privacy.secure_aggregation.keys import (
    PRIME,
    SECRET_BYTES,
    lagrange_weights,
    polynomial,
    reconstruct,
    shares,
)

secrets = st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES)
seeds = st.binary(min_size=1, max_size=40)


def is_prime(number: int, rounds: int = 40) -> bool:
    """Miller and Rabin's test with fixed bases."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 2 + rounds):
        x = pow(base, odd, number)
        if x in (1, number - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % number
            if x == number - 1:
                break
        else:
            return False
    return True


def value_at(points: dict[int, int], where: int) -> Fraction:
    """Lagrange interpolation over the rational numbers."""
    total = Fraction(0)
    for own, value in points.items():
        term = Fraction(value)
        for other in points:
            if other != own:
                term *= Fraction(where - other, own - other)
        total += term
    return total


def in_field(number: Fraction) -> int:
    return number.numerator * pow(number.denominator, -1, PRIME) % PRIME


def test_the_field_is_the_smallest_above_256_bits() -> None:
    assert is_prime(PRIME)
    assert not any(is_prime(number, 5) for number in range(2**256 + 1, PRIME))


@given(secrets, seeds, st.integers(1, 9), st.integers(0, 5), st.data())
def test_any_t_shares_give_the_secret_back(
    secret: bytes, seed: bytes, t: int, spare: int, data: st.DataObject
) -> None:
    points = range(1, t + spare + 1)
    dealt = dict(zip(points, shares(polynomial(secret, t, seed), points), strict=True))
    chosen = data.draw(st.permutations(list(points)))[:t]
    assert reconstruct({point: dealt[point] for point in chosen}) == secret
    assert reconstruct(dealt) == secret, "and so do all of them"


@given(secrets, seeds, st.integers(1, 7))
def test_lagrange_over_fractions_finds_the_same(secret: bytes, seed: bytes, t: int) -> None:
    points = range(3, 3 + t)
    dealt = dict(zip(points, shares(polynomial(secret, t, seed), points), strict=True))
    assert in_field(value_at(dealt, 0)) == int.from_bytes(secret, "little")
    assert [in_field(value_at({p: int(p == own) for p in points}, 0)) for own in points] == list(
        lagrange_weights(tuple(points))
    )


def test_shares_are_the_values_of_the_polynomial() -> None:
    coefficients = (5, 7, PRIME - 2)
    assert shares(coefficients, [1, 2, 3]) == [10, 11, 8]  # 5 + 7 x - 2 x^2 by hand


@settings(max_examples=40)
@given(secrets, secrets, seeds, st.integers(2, 8))
def test_fewer_than_t_shares_fit_every_secret(secret: bytes, guess: bytes, seed: bytes, t: int) -> None:
    """For any guess a polynomial of degree t - 1 goes through it and through t - 1 shares."""
    points = list(range(1, t))
    held = dict(zip(points, shares(polynomial(secret, t, seed), points), strict=True))
    with_guess = {0: int.from_bytes(guess, "little"), **held}
    another = in_field(value_at(with_guess, t))  # the share that the next holder would have
    assert reconstruct({**held, t: another}) == guess


def test_shares_of_one_secret_spread_over_the_field() -> None:
    """The top byte of a share is uniform; with coefficients of 0 every share would be the secret."""
    from scipy.stats import chisquare

    def tops(t: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        drawn = [shares(polynomial(bytes(32), t, b"%d" % i), [1])[0] >> 252 for i in range(3200)]
        return np.bincount(drawn, minlength=17)[:16]

    assert chisquare(tops(2)).pvalue > 1e-4
    assert chisquare(tops(1)).pvalue < 1e-9, "a threshold of 1 hides nothing, and the test sees it"
