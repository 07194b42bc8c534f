"""`--dtype`: features in float32 or float64, through data, cache, engine, trace and attack."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foltr_audit import load_data
from foltr_audit.load import load_collection
from foltr_audit.records import Collection
from foltr_audit.spec import DataSpec
from tests.command import run

OPTIONS = ("--clients", 30, "--rounds", 3, "--eps", 1.2, "--method", "olsr")


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


def test_the_cache_keeps_both_apart(cache_place: Path) -> None:
    for _ in range(2):
        for dtype in ("float32", "float64"):
            found, made = parts("zscore", dtype, cache=True), parts("zscore", dtype)
            assert found.train.features.dtype == dtype
            assert np.array_equal(found.train.features, made.train.features)
    assert len([path for path in cache_place.iterdir() if path.is_dir()]) == 2


@pytest.mark.slow
def test_the_whole_way_with_float64(tmp_path: Path) -> None:
    source = ("--data", "synthetic:mq2007:30")
    single = run("attack", *source, *OPTIONS, "--json").json()
    done = run("attack", *source, *OPTIONS, "--dtype", "float64", "--json", "--out", tmp_path / "run")
    double = done.json()
    assert double["config"]["data"]["dtype"] == "float64"
    again = run("attack", "--trace", tmp_path / "run", "--method", "olsr", "--json").json()
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
