"""Normalisation: whose statistics it takes, float64 inside, finite float32 outside, float64 on request."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import ArrayLike

from foltr_audit import load_data
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data import values
from foltr_audit.data.load import load_collection
from foltr_audit.data.sources import normalise
from tests.fixtures.reference import dataset
from tests.fixtures.tiny import collection_of

LARGEST = float(np.finfo(np.float32).max)


def part(features: ArrayLike, lengths: list[int] | None = None) -> Dataset:
    rows = len(np.asarray(features))
    return dataset(features, [0] * rows, lengths or [rows])


def collection(train: Dataset, vali: Dataset | None = None, test: Dataset | None = None) -> Collection:
    return replace(collection_of(train, vali or train, test or train), fingerprint="as-parsed")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("how", ["zscore", "zscore-parts"])
def test_zscores_against_numpy_over_several_batches(
    how: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "_BATCH_ROWS", 7)
    draws = np.random.default_rng(8)
    matrices = [draws.normal(50, 3, (rows, 6)).astype(np.float32) for rows in (40, 15, 20)]
    data = collection(*map(part, matrices))
    scaled = normalise(data, how, dtype)
    assert (scaled.normalised, scaled.fingerprint) == (how, "as-parsed")
    for name, matrix in zip(Collection.PARTS, matrices, strict=True):
        taken = (matrices[0] if how == "zscore" else matrix).astype(np.float64)
        expected = (matrix - taken.mean(axis=0)) / taken.std(axis=0, ddof=how == "zscore-parts")
        features = scaled.part(name).features
        assert features.dtype == dtype
        np.testing.assert_allclose(features, expected, rtol=1e-6 if dtype == "float32" else 1e-12, atol=1e-6)
        assert scaled.part(name).query_ids == data.part(name).query_ids
        np.testing.assert_array_equal(data.part(name).features, matrix)
        assert not features.flags.writeable
    # Results of the same type take the place of what was given.
    own = normalise(data, how, dtype, overwrite=True)
    for name in Collection.PARTS:
        np.testing.assert_array_equal(own.part(name).features, scaled.part(name).features)
        shared = np.shares_memory(own.part(name).features, data.part(name).features)
        assert shared == (dtype == "float32")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("how", ["zscore", "zscore-parts"])
def test_a_constant_feature_becomes_zero_everywhere(how: str, dtype: str) -> None:
    # In either type the mean of a thousand times 0.1 is not 0.1, and the deviation not 0.
    rows = np.column_stack([np.full(1000, 0.1), np.arange(1000)]).astype(dtype)
    train = part(rows).with_features(rows)
    test = part([[7.0, 1.0], [0.1, 2.0]]) if how == "zscore" else part([[7.0, 1.0]])
    scaled = normalise(collection(train, test=test), how, dtype)
    for name in Collection.PARTS:
        assert not np.any(scaled.part(name).features[:, 0])
        one_document = name == "test" and how == "zscore-parts"
        assert np.any(scaled.part(name).features[:, 1]) != one_document


def test_values_at_the_edge_of_float32() -> None:
    train = part([[LARGEST, 0], [-LARGEST, 2.0**-149]])
    scaled = normalise(collection(train, test=part([[0, LARGEST]])), "zscore")
    np.testing.assert_array_equal(scaled.train.features, [[1, -1], [-1, 1]])
    np.testing.assert_array_equal(scaled.test.features, np.array([[0, LARGEST]], dtype=np.float32))
    summed = part([[LARGEST], [LARGEST], [0.0], [0.0]])  # the sum is no float32
    scaled = normalise(collection(summed), "zscore")
    np.testing.assert_array_equal(scaled.train.features, [[1], [1], [-1], [-1]])
    scaled = normalise(collection(train), "query-minmax")
    np.testing.assert_array_equal(scaled.train.features, [[1, 0], [0, 1]])


def test_query_minmax_by_hand() -> None:
    rows = [[1, 5], [3, 5], [2, 5], [10, 1], [-10, 3], [4, 4]]
    scaled = normalise(collection(part(rows, [3, 2, 1])), "query-minmax")
    expected = [[0, 0], [1, 0], [0.5, 0], [1, 0], [0, 1], [0, 0]]
    for name in Collection.PARTS:
        np.testing.assert_array_equal(scaled.part(name).features, expected)
    assert scaled.normalised == "query-minmax"


@settings(max_examples=80)
@given(
    matrix=arrays(np.float32, (6, 3), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)),
    how=st.sampled_from(["zscore", "zscore-parts", "query-minmax"]),
)
def test_always_finite_and_in_order(matrix: np.ndarray, how: str) -> None:
    scaled = normalise(collection(part(matrix, [6])), how).train.features
    assert scaled.dtype == np.float32
    assert np.all(np.isfinite(scaled))
    for column in range(3):
        order = np.argsort(matrix[:, column], kind="stable")
        assert np.all(np.diff(scaled[order, column]) >= 0)
    bound = 1 if how == "query-minmax" else math.sqrt(5)  # no z-score of n values exceeds sqrt(n - 1)
    assert np.abs(scaled).max() <= bound * (1 + 1e-6)


def test_none_changes_nothing() -> None:
    data = collection(part([[1, 2], [3, 4]]))
    assert normalise(data, "none") is data


def parts(how: str, dtype: str, *, cache: bool = False) -> Collection:
    spec = DataSpec.model_validate({"source": "synthetic:mslr-web10k:12", "normalise": how, "dtype": dtype})
    return load_collection(spec, 1, cache=cache)


@pytest.mark.parametrize("how", ["none", "zscore", "zscore-parts", "query-minmax"])
def test_float64_features_are_the_float32_ones_before_they_are_rounded(how: str) -> None:
    single, double = parts(how, "float32"), parts(how, "float64")
    assert single.fingerprint == double.fingerprint
    for name in Collection.PARTS:
        one, two = single.part(name).features, double.part(name).features
        assert (str(one.dtype), str(two.dtype)) == ("float32", "float64")
        assert np.array_equal(one, two.astype(np.float32))
        assert np.array_equal(one, two) == (how == "none")


def test_float64_features_are_parsed_as_float64_and_not_widened(tmp_path: Path) -> None:
    """Of 0.1 as float32, widened, nothing is left but 0.100000001490116."""
    path, rng = tmp_path / "train.txt", np.random.default_rng(1)
    values = rng.normal(size=(30, 4))
    rows = (" ".join(f"{i}:{value!r}" for i, value in enumerate(row.tolist(), 1)) for row in values)
    path.write_text("".join(f"{n % 3} qid:{n // 3} {row}\n" for n, row in enumerate(rows)))
    for named, dtype in ((values, "float64"), (values.astype(np.float32), "float32")):
        data = load_data(str(path), normalise="none", dtype=dtype)
        read = np.concatenate([data.part(name).features for name in Collection.PARTS])
        assert read.dtype == dtype
        np.testing.assert_array_equal(np.sort(read, axis=0), np.sort(named, axis=0))


def test_other_digits_are_other_data() -> None:
    """A trace that was recorded on the one is not attacked with the other; equal numbers are equal data."""
    train = load_data("synthetic:mq2007:12").train
    wide = train.with_features(train.features.astype(np.float64))
    assert wide.fingerprint == train.fingerprint
    more = train.with_features(wide.features * (1 + 1e-12))
    assert np.array_equal(more.features.astype(np.float32), train.features)
    assert more.fingerprint != train.fingerprint


def test_data_of_ones_own_keep_their_numbers() -> None:
    single = load_data("synthetic:mq2007:12")
    assert single.train.features.dtype == np.float32
    wide = single.train.with_features(single.train.features.astype(np.float64))
    assert wide.features.dtype == np.float64
    assert wide.select([0, 1]).features.dtype == np.float64
    assert wide.shown_features(np.array([0]), np.array([[0, -1]])).dtype == np.float64
