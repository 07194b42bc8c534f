"""The encoding of Flower's SecAgg+, against its steps written down here with plain NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from foltr_audit.errors import TraceError, UsageError
from foltr_audit.privacy.secure_aggregation.fixed_point import OffsetEncoding
from foltr_audit.trace import Fact, TraceDataset, TraceHeader
from foltr_audit.utils.arrays import Floats

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
