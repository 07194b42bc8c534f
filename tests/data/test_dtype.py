"""`--dtype`: features in float32 or float64, through data, cache, engine, trace and attack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foltr_audit import load_data
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.data.load import load_collection
from tests.fixtures.command import answer


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


@pytest.mark.slow
def test_the_whole_way_with_float64(tmp_path: Path) -> None:
    asked = "attack --data synthetic:mq2007:30 --clients 30 --rounds 3 --eps 1.2 --method olsr"
    single = answer(asked)
    double = answer(f"{asked} --dtype float64 --out", tmp_path / "run")
    assert double["config"]["data"]["dtype"] == "float64"
    again = answer("attack --method olsr --trace", tmp_path / "run")
    assert again["results"] == double["results"]
    assert len(single["results"]) == len(double["results"])
    for one, two in zip(single["results"], double["results"], strict=True):
        assert one["accuracy"] == pytest.approx(two["accuracy"], abs=0.05)


def test_data_of_ones_own_keep_their_numbers() -> None:
    single = load_data("synthetic:mq2007:12")
    assert single.train.features.dtype == np.float32
    wide = single.train.with_features(single.train.features.astype(np.float64))
    assert wide.features.dtype == np.float64
    assert wide.select([0, 1]).features.dtype == np.float64
    assert wide.shown_features(np.array([0]), np.array([[0, -1]])).dtype == np.float64
