"""Missing features: the markers that stand for them, and what they become before normalisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import foltr_audit as fa
from foltr_audit.core.records import Collection
from foltr_audit.data.values import MISSING, fill_missing
from foltr_audit.errors import DataError, UsageError
from tests.fixtures.command import answer, refusal
from tests.fixtures.reference import dataset

MARKER = "1.79769313486e+308"
KNOWN = np.round(np.random.default_rng(4).normal(3, 2, size=(60, 4)), 3)
GONE = np.random.default_rng(5).random((60, 4)) < 0.3
GONE[:, 3] = True  # a feature without any value, as in the reported file
Y = np.arange(60) % 3
QUERY = np.repeat(np.arange(12), 5)
NAMES = list(map(str, range(60)))


def written(path: Path, marker: str = MARKER) -> Path:
    lines = []
    for row, holes, grade, query, name in zip(KNOWN, GONE, Y, QUERY, NAMES, strict=True):
        values = [marker if gone else str(value) for value, gone in zip(row, holes, strict=True)]
        pairs = " ".join(f"{number}:{value}" for number, value in enumerate(values, start=1))
        lines.append(f"{grade} qid:{query} {pairs} #docid = {name}")
    path.write_text("\n".join(lines) + "\n")
    return path


def rows_of(data: Collection, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Which of our rows a part has, rising, and their features."""
    rows = np.array([int(name) for name in data.part(part).document_ids])
    order = np.argsort(rows)
    return rows[order], data.part(part).features[order]


def filled_by_hand(train: np.ndarray, how: str | None) -> np.ndarray:
    """Our rows with values in the holes, in the plainest way."""
    out = np.empty_like(KNOWN)
    for row, column in np.ndindex(*KNOWN.shape):
        seen = [KNOWN[other, column] for other in train if not GONE[other, column]]
        if how in ("min", "mean"):
            value = (min(seen) if how == "min" else sum(seen) / len(seen)) if seen else 0.0
        else:
            value = float(how or 0)
        out[row, column] = value if GONE[row, column] else KNOWN[row, column]
    return out


@pytest.mark.parametrize("normalise", ["none", "zscore", "zscore-parts", "query-minmax"])
@pytest.mark.parametrize("how", [None, "0", "-1.5", "min", "mean"])
def test_what_missing_features_become(tmp_path: Path, how: str | None, normalise: str) -> None:
    """A file, arrays with the marker, and arrays without holes give the same."""
    with_marker = np.where(GONE, float(MARKER), KNOWN)
    setting: dict[str, Any] = {"normalise": normalise, "dtype": "float64"}
    read = fa.load_data(written(tmp_path / "data.txt"), missing=how, **setting)
    made = fa.make_data(with_marker, Y, QUERY, document_ids=NAMES, missing=how, **setting)
    filled = filled_by_hand(rows_of(read, "train")[0], how)
    whole = fa.make_data(filled, Y, QUERY, document_ids=NAMES, **setting)
    assert read.n_missing == made.n_missing == np.count_nonzero(GONE)
    assert (read.missing, made.missing, whole.n_missing) == (how, how, 0)
    assert read.fingerprint == made.fingerprint
    for name in Collection.PARTS:
        np.testing.assert_array_equal(read.part(name).features, made.part(name).features)
        (rows, ours), (others, theirs) = (rows_of(data, name) for data in (read, whole))
        np.testing.assert_array_equal(rows, others)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)
        assert np.abs(ours).max() < 100


@pytest.mark.parametrize("text", ["nan", "-NaN", "NULL", "null", "NA"])
def test_no_numbers_are_missing_only_where_the_user_says_so(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "data.txt", text)
    with pytest.raises(
        DataError, match="expected a finite number, or missing to say what becomes of missing"
    ):
        fa.load_data(path)
    marked = fa.load_data(written(tmp_path / "marked.txt"), missing="mean")
    assert fa.load_data(path, missing="mean").fingerprint == marked.fingerprint
    holes = np.ma.masked_array(KNOWN, GONE)
    with_none = KNOWN.astype(object)
    with_none[GONE] = None
    made = fa.make_data(holes, Y, QUERY, document_ids=NAMES, missing="mean")
    assert made.fingerprint == marked.fingerprint
    assert fa.make_data(with_none, Y, QUERY, missing="mean").n_missing == GONE.sum()
    for infinite in ("inf", "-inf", "1e39"):
        with pytest.raises(DataError, match=r"expected a finite number$|is beyond float32"):
            fa.load_data(written(path, infinite), missing=0)


HUGE = 1.5 * 2.0**127  # a float32, twice of which is none


@settings(max_examples=60)
@given(
    features=arrays(np.float32, (9, 2), elements=st.sampled_from([MISSING, 0.5, -7.0, HUGE, -HUGE])),
    how=st.sampled_from(["min", "mean", "2.5"]),
)
def test_only_holes_are_filled_and_only_with_what_training_knows(features: np.ndarray, how: str) -> None:
    parts = {
        name: dataset(features[rows].copy(), [0] * 3, [3])
        for name, rows in (("test", slice(6, 9)), ("train", slice(0, 3)), ("vali", slice(3, 6)))
    }
    filled, count = fill_missing(parts, how)
    joined = np.concatenate([filled[name].features for name in ("train", "vali", "test")])
    assert count == np.count_nonzero(features == MISSING)
    np.testing.assert_array_equal(joined[features != MISSING], features[features != MISSING])
    for column in range(2):
        seen = features[:3, column][features[:3, column] != MISSING]
        values = joined[features[:, column] == MISSING, column]
        assert len(set(values.tolist())) <= 1
        if how == "2.5" or not seen.size:
            assert set(values.tolist()) <= {2.5 if how == "2.5" else 0.0}
        elif values.size:
            assert seen.min() <= values[0] <= (seen.min() if how == "min" else seen.max())
            assert how == "min" or values[0] == pytest.approx(seen.astype(float).mean(), rel=1e-6)


def test_the_mean_of_a_constant_feature_is_exactly_its_value() -> None:
    """The mean of ten numbers 0.1 is not 0.1 in float64, and its z-scores would be large."""
    features = np.tile(np.linspace(0.1, 0.9, 50), (60, 1))
    features[::6] = float(MARKER)
    for normalise in ("zscore", "zscore-parts"):
        made = fa.make_data(features, Y, QUERY, missing="mean", normalise=normalise, dtype="float64")
        assert not any(made.part(name).features.any() for name in Collection.PARTS)


@pytest.mark.parametrize(
    ("given", "text"),
    [(0, "0"), (-0.0, "0"), ("0.50", "0.5"), (1e-3, "0.001"), ("mean", "mean"), (None, None)],
)
def test_a_spec_holds_one_text(given: object, text: str | None) -> None:
    spec = fa.Spec.parse({"data": {"missing": given}})
    assert spec.data.missing == text
    assert fa.Spec.from_toml(spec.toml) == spec


@pytest.mark.parametrize("given", ["", "max", "nan", "inf", "1e39", "1,5", "0x1", True, [0]])
def test_what_is_no_setting(given: object) -> None:
    with pytest.raises(UsageError, match=r"missing: .* expected a number within float32, min or mean"):
        fa.Spec.parse({"data": {"missing": given}})


def test_data_info_counts_them(tmp_path: Path) -> None:
    path = written(tmp_path / "data.txt")
    facts = answer("data info", path, "--missing", "min")
    assert (facts["missing_values"], facts["missing_become"]) == (GONE.sum(), "min")
    assert "missing_values" not in answer("data info synthetic:mq2007:12")
    assert "--missing: 'median'" in refusal("data info", path, "--missing", "median")


def test_a_run_and_its_bare_trace_remember_the_setting(tmp_path: Path) -> None:
    path = written(tmp_path / "data.txt")
    few = "--clients 4 --rounds 2 --interactions 1 --method max-gain --target training"
    run = tmp_path / "run"
    first = answer(f"attack {few} --missing mean --data", path, "--out", run)
    assert first["config"]["data"]["missing"] == "mean"
    again = answer("attack --method max-gain --trace", run)
    assert again["results"] == first["results"]
    (trace,) = [header.parent for header in run.rglob("trace.toml")]
    bare = trace.rename(tmp_path / "bare")
    found = answer("attack --method max-gain --trace", bare, "--data", path)
    assert [row["auc"] for row in found["results"]] == [row["auc"] for row in first["results"]]
