"""Masks that depend on what a client received: they cancel only between clients who received the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.privacy.secure_aggregation import FixedPoint, SecureSum, SecureSumResult
from foltr_audit.privacy.secure_aggregation.keys import bound_seed
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats

CLIENTS, SIZE = 9, 5
PROTOCOL = SecureSum(encoding=FixedPoint(bits=48, range=64, fraction=24), threshold=2)


def run(digests: list[bytes] | None, lost: tuple[int, ...] = ()) -> SecureSumResult:
    values = np.arange(CLIENTS * SIZE, dtype=np.float64).reshape(CLIENTS, SIZE) / 8
    after = np.isin(np.arange(CLIENTS), lost)
    streams = Streams(3).clients("secure-aggregation", 0, np.arange(CLIENTS))
    return PROTOCOL.run(values, np.ones(CLIENTS, dtype=np.int64), streams, after=after, digests=digests)


def plain(lost: tuple[int, ...] = ()) -> Floats:
    """The sum of the messages that arrive; eighths are exact in the encoding."""
    rows = [row for row in range(CLIENTS) if row not in lost]
    values = np.arange(CLIENTS * SIZE, dtype=np.float64).reshape(CLIENTS, SIZE) / 8
    return np.asarray(values[rows].sum(axis=0))


@pytest.mark.parametrize("lost", [(), (0,), (2, 7)])
def test_equal_digests_give_the_plain_sum_also_after_drop_outs(lost: tuple[int, ...]) -> None:
    found = run([b"one"] * CLIENTS, lost).sum
    assert found is not None
    assert np.array_equal(found, plain(lost))
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
    assert np.all(np.abs(found - plain()) > 1.0)


def test_a_bound_seed_is_a_function_of_seed_and_digest() -> None:
    seeds = {bound_seed(seed, digest) for seed in (b"a" * 32, b"b" * 32) for digest in (b"", b"x", b"y")}
    assert len(seeds) == 6
    assert bound_seed(b"a" * 32, b"") == b"a" * 32
    assert bound_seed(b"a" * 32, b"x") == bound_seed(b"a" * 32, b"x")
