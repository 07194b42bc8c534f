"""Masks against the standards' own vectors, what a masked message looks like, and shares of secrets."""

from __future__ import annotations

import hashlib
import hmac
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foltr_audit.privacy.secure_aggregation import FixedPoint, SecureSum, SecureSumResult
from foltr_audit.privacy.secure_aggregation.keys import (
    PRIME,
    SECRET_BYTES,
    CurveKey,
    HashKey,
    bound_seed,
    expand,
    lagrange_weights,
    polynomial,
    private_key,
    reconstruct,
    shares,
)
from foltr_audit.rng import ClientStreams, Streams

ENCODING = FixedPoint(bits=48, range=4, fraction=24)


def streams(n: int, round_: int = 0, purpose: str = "secure", seed: int = 1) -> ClientStreams:
    return Streams(seed).clients(purpose, round_, np.arange(n))


def payload(values: NDArray[np.float64], given: ClientStreams, **options: Any) -> NDArray[np.uint64]:
    secure = SecureSum(encoding=ENCODING, **options)
    return secure.run(values, np.ones(len(values), dtype=np.int64), given).payload


def masks_of(given: ClientStreams, size: int = 40, **options: Any) -> NDArray[np.uint64]:
    """The masks that the clients of a round add: their messages when they hold zeros."""
    return payload(np.zeros((given.clients.size, size)), given, **options)


# --- the standards --------------------------------------------------------------------------------


def quarter(state: list[int], a: int, b: int, c: int, d: int) -> None:
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[x] = (state[x] + state[y]) & 0xFFFFFFFF
        mixed = state[z] ^ state[x]
        state[z] = (mixed << turn | mixed >> (32 - turn)) & 0xFFFFFFFF


def chacha20_block(key: bytes, counter: int) -> bytes:
    """RFC 8439, section 2.3, with a nonce of zeros."""
    words = [int.from_bytes(key[i : i + 4], "little") for i in range(0, 32, 4)]
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *words, counter, 0, 0, 0]
    state = list(start)
    for _ in range(10):
        for i in range(4):
            quarter(state, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(state, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return b"".join(((x + y) & 0xFFFFFFFF).to_bytes(4, "little") for x, y in zip(state, start, strict=True))


def test_the_key_stream_of_rfc_8439() -> None:
    """Appendix A.1, test vectors 1 and 2: key and nonce zero, blocks 0 and 1."""
    expected = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    assert expand([bytes(32)], 16).astype("<u8").tobytes() == expected
    assert chacha20_block(bytes(32), 0) + chacha20_block(bytes(32), 1) == expected


def test_key_agreement_of_rfc_7748_then_hkdf_of_rfc_5869() -> None:
    """RFC 7748, section 6.1; HKDF-SHA256 by hand from HMAC."""
    alice = CurveKey(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a"))
    bob = CurveKey(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
    assert alice.public.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert bob.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    shared = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    extracted = hmac.new(bytes(32), shared, hashlib.sha256).digest()
    info = b"foltr-audit/secure-aggregation/pair"
    expected = hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()
    assert alice.seed(bob.public) == bob.seed(alice.public) == expected


def test_hashed_keys_agree_and_need_the_private_key() -> None:
    one, two, wrong = (HashKey(bytes([i]) * 32, b"experiment") for i in (1, 2, 3))
    assert one.seed(two.public) == two.seed(one.public)
    assert wrong.seed(two.public) != one.seed(two.public)


# --- what a masked message looks like -------------------------------------------------------------


def bytes_look_uniform(integers: NDArray[np.uint64]) -> float:
    """p-value of a chi-square test of the six bytes of 48-bit integers."""
    from scipy.stats import chisquare

    used = integers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :6]
    return float(chisquare(np.bincount(used.reshape(-1), minlength=256)).pvalue)


@pytest.mark.parametrize("agreement", ["none", "x25519"])
def test_a_masked_message_looks_uniform_and_without_masks_it_does_not(agreement: str) -> None:
    """6 x 4,000 bytes in 256 cells; threshold 1e-4."""
    values = np.random.default_rng(2).normal(size=(4, 1000)).clip(-4, 4)
    masked = payload(values, streams(4), agreement=agreement)
    assert bytes_look_uniform(masked) > 1e-4
    assert all(bytes_look_uniform(row) > 1e-4 for row in masked)
    assert bytes_look_uniform(payload(values, streams(4), masks=False)) < 1e-12
    left = payload(values, streams(4)) - masks_of(streams(4), 1000)
    assert bytes_look_uniform(ENCODING.reduced(left)) < 1e-12, "with the masks taken off neither"


def test_masks_depend_on_round_purpose_and_seed_and_on_nothing_else() -> None:
    rounds = [masks_of(streams(6, round_)) for round_ in range(3)]
    others = [masks_of(streams(6, purpose="other")), masks_of(streams(6, seed=2))]
    apart = np.concatenate([*rounds, *others])
    assert np.unique(apart).size == apart.size, "two of 48 bits would agree once in 10^11 such tests"
    assert np.array_equal(masks_of(streams(6)), rounds[0])


@pytest.mark.parametrize("agreement", ["none", "x25519"])
def test_an_input_changes_nothing_about_the_masks(agreement: str) -> None:
    rng = np.random.default_rng(6)
    values = rng.normal(size=(5, 8)).clip(-4, 4)
    other = values.copy()
    other[2] = rng.normal(size=8).clip(-4, 4)
    before = payload(values, streams(5), agreement=agreement)
    after = payload(other, streams(5), agreement=agreement)
    assert np.array_equal(np.delete(before, 2, axis=0), np.delete(after, 2, axis=0))
    ones = np.ones(1, dtype=np.int64)
    moved = ENCODING.encode(other[2:3], ones)[0] - ENCODING.encode(values[2:3], ones)[0]
    assert np.array_equal(ENCODING.reduced(after[2] - before[2]), ENCODING.reduced(moved))


def test_self_masks_hide_a_message_even_when_all_pair_masks_are_known() -> None:
    """A late message after its pair masks were recovered: the reason for the second mask."""
    given = streams(2)
    one, two = (private_key(given.secret("pair", client), "none", given.key) for client in (0, 1))
    pair = expand([one.seed(two.public)], 40)[0]
    own = [expand([given.secret("self", client)], 40)[0] for client in (0, 1)]
    masks = masks_of(given)
    assert np.array_equal(masks[0], ENCODING.reduced(own[0] + pair)), "the smaller id adds the pair mask"
    assert np.array_equal(masks[1], ENCODING.reduced(own[1] - pair)), "the other subtracts it"


# --- masks that depend on what a client received ---------------------------------------------------------

CLIENTS = 9
EIGHTHS = np.arange(5.0 * CLIENTS).reshape(CLIENTS, 5) / 8  # exact in the encoding
PROTOCOL = SecureSum(encoding=FixedPoint(bits=48, range=64, fraction=24), threshold=2)


def run(digests: list[bytes] | None, lost: tuple[int, ...] = ()) -> SecureSumResult:
    ones, after = np.ones(CLIENTS, dtype=np.int64), np.isin(np.arange(CLIENTS), lost)
    return PROTOCOL.run(EIGHTHS, ones, streams(CLIENTS), after=after, digests=digests)


@pytest.mark.parametrize("lost", [(), (0,), (2, 7)])
def test_equal_digests_give_the_plain_sum_also_after_drop_outs(lost: tuple[int, ...]) -> None:
    found = run([b"one"] * CLIENTS, lost).sum
    assert found is not None
    assert np.array_equal(found, np.delete(EIGHTHS, lost, axis=0).sum(axis=0))
    without = run(None, lost).sum
    assert without is not None
    assert np.array_equal(found, without)


def test_masks_differ_between_rounds_and_models_that_clients_agree_on() -> None:
    one, two = run([b"one"] * CLIENTS), run([b"two"] * CLIENTS)
    assert not np.any(one.payload == two.payload)


@given(other=st.integers(0, CLIENTS - 1))
def test_one_client_who_received_something_else_makes_noise_of_the_sum(other: int) -> None:
    found = run([b"two" if row == other else b"one" for row in range(CLIENTS)]).sum
    assert found is not None
    # By chance a coordinate of 48 random bits is as near as this with probability 2^-23.
    assert np.all(np.abs(found - EIGHTHS.sum(axis=0)) > 1.0)


def test_a_bound_seed_is_a_function_of_seed_and_digest() -> None:
    assert len({bound_seed(seed, digest) for seed in (b"a" * 32, b"b" * 32) for digest in (b"x", b"y")}) == 4


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
