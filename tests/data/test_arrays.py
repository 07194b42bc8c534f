"""Ranking data from arrays and data frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import foltr_audit as fa
from foltr_audit.errors import DataError, FoltrAuditError, UsageError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(240, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 240)
QUERY = np.repeat(np.arange(20), 12)


class Qrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int


def test_arrays_and_the_file_of_them_are_the_same_data(tmp_path: Path) -> None:
    made = fa.make_data(X, Y, QUERY, document_ids=[f"d{row}" for row in range(240)])
    lines = []
    for number, (row, grade, query) in enumerate(zip(X, Y, QUERY, strict=True)):
        pairs = " ".join(f"{place}:{value!r}" for place, value in enumerate(map(float, row), start=1))
        lines.append(f"{grade} qid:{query} {pairs} #docid = d{number}")
    path = tmp_path / "data.txt"
    path.write_text("\n".join(lines) + "\n")
    read = fa.load_data(path)
    assert made.fingerprint == read.fingerprint
    np.testing.assert_array_equal(made.test.features, read.test.features)


def test_rows_of_a_query_may_stand_anywhere() -> None:
    order = RNG.permutation(240)
    mixed = fa.make_data(X[order], Y[order], QUERY[order], normalise="none")
    plain = fa.make_data(X, Y, QUERY, normalise="none")
    rows = {tuple(row) for row in np.concatenate([plain.part(p).features for p in plain.PARTS])}
    again = {tuple(row) for row in np.concatenate([mixed.part(p).features for p in mixed.PARTS])}
    assert rows == again
    assert (mixed.train.lengths == 12).all()


def test_frames_name_columns() -> None:
    frame = pl.DataFrame({"grade": Y, "a": X[:, 0], "qid": QUERY, **{f"f{n}": X[:, n] for n in (1, 2, 3)}})
    assert fa.make_data(frame, "grade", "qid").fingerprint == fa.make_data(X, Y, QUERY).fingerprint
    columns = frame.drop("grade", "qid"), frame["grade"], frame["qid"]
    assert fa.make_data(*columns).fingerprint == fa.make_data(X, Y, QUERY).fingerprint
    with pytest.raises(DataError, match="X: no column 'label'; expected one of grade, a, qid"):
        fa.make_data(frame, "label", "qid")


def test_frames_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"qid": QUERY, "grade": Y, **{f"f{n}": X[:, n] for n in range(4)}})
    assert fa.make_data(frame, "grade", "qid").fingerprint == fa.make_data(X, Y, QUERY).fingerprint


def test_judgements_with_features_of_each_pair() -> None:
    qrels = [Qrel(f"q{row // 12}", f"d{row}", int(Y[row]) - 1) for row in range(240)]
    given = {(one.query_id, one.doc_id): X[row] for row, one in enumerate(qrels)}
    made = fa.make_data_of_qrels(iter(qrels), given)
    same = fa.make_data_of_qrels(iter(qrels), lambda query, document: given[query, document])
    assert made.fingerprint == same.fingerprint
    assert made.train.labels.max() == 1
    del given["q3", "d40"]
    with pytest.raises(DataError, match="no features of query q3, document d40"):
        fa.make_data_of_qrels(iter(qrels), given)


def test_a_spec_of_arrays_runs_here_and_nowhere_else() -> None:
    made = fa.make_data(X, Y, QUERY)
    spec = fa.Spec(data=made, population={"clients": 5}, train={"rounds": 1})
    assert spec == fa.Spec.from_toml(spec.toml)
    report = fa.simulate(spec)
    assert report.dataset["folds"][0]["fingerprint"] == made.fingerprint
    other = fa.Spec(data={"source": "arrays:data-000000000000"}, train={"rounds": 1})
    with pytest.raises(DataError, match="made of arrays in another Python process"):
        fa.simulate(other)
    with pytest.raises(UsageError, match="made with normalise=zscore"):
        fa.simulate(fa.Spec(data={"source": made.source, "normalise": "none"}, train={"rounds": 1}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": X[:, 0]}, r"X of train: shape \(240,\); expected \(n, d\)"),
        ({"y": Y[1:]}, "numbers of rows differ: X 240, y 239"),
        ({"y": Y - 1}, "whole numbers from 0"),
        ({"y": Y + 0.5}, "whole numbers from 0"),
        ({"X": np.where(X[0, 0] == X, np.nan, X)}, "not finite"),
        ({"query_ids": np.zeros(240)}, "1 training queries; expected at least 3"),
        ({"X": np.full((240, 2), "a")}, "X of train: expected numbers"),
        ({"normalise": "z"}, "no normalisation 'z'"),
        ({"dtype": "float16"}, "expected float32 or float64"),
        ({"test": (X[:, :2], Y, QUERY)}, "different numbers of features"),
    ],
)
def test_what_is_no_ranking_data(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FoltrAuditError, match=message):
        fa.make_data(**{"X": X, "y": Y, "query_ids": QUERY, **changes})
