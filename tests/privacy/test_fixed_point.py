"""Encodings against exact fractions: error, sums, weights, and overflow that is never silent."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from foltr_audit.errors import TraceError, UsageError
from foltr_audit.privacy.secure_aggregation import FixedPoint
from foltr_audit.privacy.secure_aggregation.fixed_point import OffsetEncoding
from foltr_audit.trace import Fact, TraceDataset, TraceHeader
from foltr_audit.utils.arrays import Floats

ONE = np.ones(1, dtype=np.int64)


@st.composite
def encodings(draw: st.DrawFn) -> FixedPoint:
    """Encodings that hold at least one client."""
    fraction = draw(st.integers(0, 40))
    range_ = draw(st.floats(1e-6, 1e6))
    needed = FixedPoint(bits=64, range=range_, fraction=fraction).bits_needed(ONE)
    assume(needed <= 64)
    return FixedPoint(bits=draw(st.integers(max(16, needed), 64)), range=range_, fraction=fraction)


@given(encodings(), st.data())
def test_one_value_errs_by_half_a_step_at_most(encoding: FixedPoint, data: st.DataObject) -> None:
    x = data.draw(st.floats(-encoding.range, encoding.range))
    whole = encoding.signed(encoding.encode([[x]], ONE))[0, 0]
    exact = Fraction(x) * 2**encoding.fraction
    assert abs(Fraction(int(whole)) - exact) <= Fraction(1, 2)
    assert Fraction(encoding.error) == Fraction(1, 2 ** (encoding.fraction + 1))
    decoded = encoding.decode(encoding.encode([[x]], ONE))[0, 0]
    if abs(exact) < 2**52:
        assert abs(Fraction(float(decoded)) - Fraction(x)) <= Fraction(encoding.error)


@given(st.integers(1, 8), st.integers(0, 20), st.data())
def test_weighted_sums_are_exact_to_the_encoding(n: int, fraction: int, data: st.DataObject) -> None:
    range_ = 10.0
    weights = np.array(data.draw(st.lists(st.integers(0, 50), min_size=n, max_size=n)))
    values = np.array(data.draw(st.lists(st.floats(-range_, range_), min_size=n, max_size=n)))
    needed = FixedPoint(bits=64, range=range_, fraction=fraction).bits_needed(weights)
    encoding = FixedPoint(bits=max(16, needed), range=range_, fraction=fraction)
    total = encoding.reduced(encoding.encode(values[:, None], weights).sum(axis=0, dtype=np.uint64))
    exact = sum((int(w) * Fraction(float(x)) for w, x in zip(weights, values, strict=True)), Fraction(0))
    slack = Fraction(n, 10**12)  # what float64 rounds off w x
    assert abs(Fraction(float(encoding.decode(total)[0])) - exact) <= n * Fraction(encoding.error) + slack


@given(st.integers(1, 9), st.floats(0.01, 100), st.integers(0, 24), st.integers(0, 100))
def test_the_extreme_sum_fits_and_one_bit_less_would_not(
    n: int, range_: float, fraction: int, weight: int
) -> None:
    weights = np.full(n, weight)
    needed = FixedPoint(bits=64, range=range_, fraction=fraction).bits_needed(weights)
    each = round(Fraction(weight * range_) * 2**fraction)  # round() takes ties to even, too
    assert -(2 ** (needed - 1)) < n * each < 2 ** (needed - 1)
    assert n * each >= 2 ** (needed - 2) or n * each == 0
    if 16 <= needed <= 64:
        encoding = FixedPoint(bits=needed, range=range_, fraction=fraction)
        for sign in (-1, 1):
            rows = encoding.encode(np.full((n, 1), sign * range_), weights)
            assert encoding.signed(rows.sum(axis=0, dtype=np.uint64))[0] == sign * n * each
    if 17 <= needed <= 65:
        with pytest.raises(UsageError, match=str(needed)):
            FixedPoint(bits=needed - 1, range=range_, fraction=fraction).check_sum(weights)


def test_a_grid_survives_exactly() -> None:
    rng = np.random.default_rng(3)
    for fraction in (0, 7, 20):
        grid = rng.integers(-(2**30), 2**30, size=(5, 40)) * 2.0**-fraction
        encoding = FixedPoint(bits=64, range=2.0 ** (30 - fraction), fraction=fraction)
        weights = rng.integers(1, 9, size=5)
        assert np.array_equal(encoding.decode(encoding.encode(grid, weights)), grid * weights[:, None])


def test_ties_go_to_even_and_signs_are_kept() -> None:
    encoding = FixedPoint(bits=16, range=10, fraction=0)
    whole = encoding.encode([[0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -3.0, -0.0]], ONE)
    assert encoding.signed(whole).tolist() == [[0, 2, 2, 0, -2, -2, -3, 0]]
    assert whole[0, 6] == 2**16 - 3


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3.0001, -4.0])
def test_values_outside_the_range_name_client_and_coordinate(value: float) -> None:
    values = np.zeros((3, 4))
    values[1, 2] = value
    encoding = FixedPoint(bits=32, range=3, fraction=16)
    with pytest.raises(UsageError, match=r"client 17, coordinate 2: .*within \+-3"):
        encoding.encode(values, np.ones(3, dtype=np.int64), np.array([5, 17, 9]))
    with pytest.raises(UsageError, match="client 1, coordinate 2"):
        encoding.encode(values, np.zeros(3, dtype=np.int64))


def test_refusals() -> None:
    encoding = FixedPoint(bits=32, range=1, fraction=8)
    for name, value in (("bits", 15), ("bits", 65), ("range", 0.0), ("range", np.nan), ("fraction", -1)):
        with pytest.raises(UsageError, match=name):
            replace(encoding, **{name: value})  # type: ignore[arg-type]
    assert encoding.encode(np.empty((0, 3)), np.empty(0, dtype=np.int64)).shape == (0, 3)


ENCODING = OffsetEncoding(clipping_range=8.0, quantization_range=2**22, modulus_bits=32, max_weight=1000.0)


def encoded(
    update: Floats, weight: float, rng: np.random.Generator, of: OffsetEncoding = ENCODING
) -> list[int]:
    """The words of a client without masks: the weight, then clipped and shifted multiples of a step."""
    ratio = round(weight / of.max_weight * of.quantization_range)
    weighted = update * (ratio / of.quantization_range)
    steps = np.clip(weighted, -of.clipping_range, of.clipping_range) + of.clipping_range
    steps = steps * of.quantization_range / (2 * of.clipping_range)
    up = np.ceil(steps)
    whole = up - (rng.random(steps.shape) < up - steps)
    return [ratio, *(int(value) % 2**of.modulus_bits for value in whole)]


def test_one_client_reads_back() -> None:
    rng = np.random.default_rng(3)
    update = rng.normal(size=200) * 0.01
    words = np.array(encoded(update, 1000.0, rng), dtype=np.uint64)
    np.testing.assert_allclose(ENCODING.decode(words), update, rtol=0, atol=ENCODING.error)


def test_a_weight_far_below_the_largest_rounds_updates_away() -> None:
    """One example of max_weight 1000: the step is 1000 times as wide as with all of it."""
    rng = np.random.default_rng(3)
    update = rng.normal(size=2000) * 0.01
    words = np.array([encoded(update, 1.0, rng)], dtype=np.uint64)
    far = ENCODING.decode_messages(words, np.array([1]))[0] - update
    assert np.abs(far).max() <= 1001 * ENCODING.error
    assert far.std() > 100 * ENCODING.error


@pytest.mark.parametrize("modulus_bits", [32, 64])
def test_a_sum_is_the_mean_weighted_by_examples(modulus_bits: int) -> None:
    encoding = replace(ENCODING, modulus_bits=modulus_bits)
    rng = np.random.default_rng(3)
    weights, updates = np.array([100.0, 250.0, 1000.0]), rng.normal(size=(3, 50))
    words = [encoded(update, weight, rng, encoding) for update, weight in zip(updates, weights, strict=True)]
    total = np.array([sum(column) % 2**modulus_bits for column in zip(*words, strict=True)], dtype=np.uint64)
    mean = weights @ updates / weights.sum()
    share = weights.sum() / 1000
    np.testing.assert_allclose(encoding.decode(total, 3), mean, rtol=0, atol=3 * encoding.error / share)
    counts = np.array([1, 2, 3])
    np.testing.assert_allclose(encoding.decode_sum(total, counts), 6 * encoding.decode(total, 3))
    spread = 6 * encoding.error * np.sqrt(3) / share
    assert encoding.error_of_sum(total, counts) == pytest.approx(spread, rel=1e-5)


def test_no_weight_is_no_number() -> None:
    assert ENCODING.decode(np.zeros(3, dtype=np.uint64)).tolist() == [0.0, 0.0]


def test_headers_name_the_settings() -> None:
    facts: dict[str, Fact] = {"of": "model", "masking": "flower-secagg", **vars(ENCODING)}
    header = TraceHeader(
        kind="masked",
        dtype="uint64",
        parameters=5,
        k=2,
        dataset=TraceDataset(source="", fold=0, fingerprint="", normalised="none", parts=("live",)),
        has_truth=False,
        knowledge=facts,
    )
    assert header.encoding == ENCODING
    assert (header.width, header.update_width) == (6, 5)
    for name, value, expected in (
        ("masking", "other", "knowledge.masking is 'other', expected fixed-point or flower-secagg"),
        ("clipping_range", 0, "knowledge.clipping_range is 0, expected a number above 0"),
        ("modulus_bits", 65, "modulus_bits is 65, expected 1 to 64"),
        ("modulus_bits", 22, "quantization_range is 4194304, expected less than 2^22"),
        ("quantization_range", "x", "knowledge.quantization_range is 'x', expected a whole number from 1 on"),
    ):
        with pytest.raises(TraceError) as error:
            replace(header, knowledge={**facts, name: value})
        assert expected in str(error.value)
    with pytest.raises(UsageError, match="max_weight is inf, expected a number above 0"):
        replace(ENCODING, max_weight=float("inf"))
