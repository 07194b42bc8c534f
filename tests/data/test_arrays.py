"""Ranking data from arrays and data frames."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import foltr_audit as fa
from foltr_audit.errors import DataError, UsageError

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


def test_frames_name_columns() -> None:
    frame = pl.DataFrame({"grade": Y, "a": X[:, 0], "qid": QUERY, **{f"f{n}": X[:, n] for n in (1, 2, 3)}})
    assert fa.make_data(frame, "grade", "qid").fingerprint == fa.make_data(X, Y, QUERY).fingerprint
    columns = frame.drop("grade", "qid"), frame["grade"], frame["qid"]
    assert fa.make_data(*columns).fingerprint == fa.make_data(X, Y, QUERY).fingerprint
    with pytest.raises(DataError, match="X of train: no column 'label'; expected one of grade, a, qid"):
        fa.make_data(frame, "label", "qid")


def test_frames_of_parts_have_the_same_columns() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    columns = {"grade": Y, "a": X[:, 0], "b": X[:, 1], "qid": QUERY}
    for frame in (pl.DataFrame(columns), pandas.DataFrame(columns)):
        same = (frame[["a", "qid", "b", "grade"]], "grade", "qid")
        three = fa.make_data(X[:, :2], Y, QUERY, vali=(X[:, :2], Y, QUERY), test=(X[:, :2], Y, QUERY))
        both = fa.make_data(frame, "grade", "qid", vali=same, test=(X[:, :2], Y, QUERY))
        assert both.fingerprint == three.fingerprint
        for names, message in (("bagq", "column b; expected a"), ("acgq", "column c; expected b")):
            renamed = pl.DataFrame({"b": X[:, 1], "a": X[:, 0], "c": X[:, 2], "g": Y, "q": QUERY})
            other = (renamed[list(names)], "g", "q")
            with pytest.raises(DataError, match=f"X of test: {message}, as in X of train"):
                fa.make_data(frame, "grade", "qid", test=other)


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
    for field, value, kept in (("normalise", "none", "zscore"), ("missing", "min", "None")):
        with pytest.raises(UsageError, match=f"made with {field}={kept}"):
            fa.simulate({"data": {"source": made.source, field: value}, "train": {"rounds": 1}})


# Data frames: columns of any type, with missing values.


def pandas_frame(**columns: object) -> Any:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    return pandas.DataFrame({"qid": QUERY, "grade": Y, **{f"f{n}": X[:, n] for n in range(4)}, **columns})


def polars_frame(**columns: Any) -> pl.DataFrame:
    given = {"qid": QUERY, "grade": Y, **{f"f{n}": X[:, n] for n in range(4)}, **columns}
    return pl.DataFrame(given, strict=False)


def with_none(values: np.ndarray, row: int = 7) -> list[object]:
    listed: list[object] = values.tolist()
    listed[row] = None
    return listed


@pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("f1", X[:, 1], "X of train: column f1: row 7: value nan; expected a finite number, or missing"),
        ("f1", Y, "X of train: column f1: row 7: value nan"),
        ("grade", Y, "y of train: row 7: label nan is not a number; expected 0 to 31"),
        ("qid", QUERY, "query_ids of train: row 7: no name"),
        ("qid", QUERY.astype(str), "query_ids of train: row 7: no name"),
    ],
)
def test_a_missing_value_of_a_frame(frame: Any, column: str, values: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fa.make_data(frame(**{column: with_none(values)}), "grade", "qid")


def test_types_of_pandas_that_can_be_missing() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    plain = fa.make_data(X, Y, QUERY)
    for kind in ("Float64", "Float32"):
        frame = pandas_frame(**{f"f{n}": pandas.array(X[:, n], dtype=kind) for n in range(4)})
        assert fa.make_data(frame.astype({"grade": "Int64", "qid": "Int32"}), "grade", "qid") is not None
        assert fa.make_data(frame, "grade", "qid").fingerprint == plain.fingerprint
    frame = pandas_frame(f2=pandas.array(with_none(X[:, 2]), dtype="Float64"))
    with pytest.raises(DataError, match="column f2: row 7: value nan"):
        fa.make_data(frame, "grade", "qid")
    zero = X.copy()
    zero[7, 2] = 0
    one = fa.make_data(frame, "grade", "qid", missing=0, normalise="none")
    other = fa.make_data(zero, Y, QUERY, normalise="none")
    assert sorted(one.train.features.tolist()) == sorted(other.train.features.tolist())
    for kind, row in (("Int64", 7), ("category", 7), ("string", 7)):
        frame = pandas_frame(qid=pandas.array(with_none(QUERY.astype(str)), dtype=kind))
        with pytest.raises(DataError, match=f"query_ids of train: row {row}: no name"):
            fa.make_data(frame, "grade", "qid")
    whole = pandas_frame(qid=pandas.Categorical(QUERY), grade=pandas.array(Y, dtype="Int8"))
    assert fa.make_data(whole, "grade", "qid").fingerprint == plain.fingerprint
    with pytest.raises(DataError, match="X of train: column f0: row 0: expected numbers, not"):
        fa.make_data(pandas_frame(f0=pandas.Categorical(["a", "b"] * 120)), "grade", "qid")
    with pytest.raises(DataError, match="X of train: column f0: expected numbers, not datetime64"):
        fa.make_data(pandas_frame(f0=pandas.date_range("2020", periods=240)), "grade", "qid")
    with pytest.raises(DataError, match="X of train: several columns 'qid'"):
        fa.make_data(pandas.concat([pandas_frame(), pandas_frame()[["qid"]]], axis=1), "grade", "qid")
    with pytest.raises(DataError, match="X of train: no features"):
        fa.make_data(pandas_frame()[["grade", "qid"]], "grade", "qid")


# Sparse matrices: those of SciPy, and sparse columns of pandas.

FORMATS = ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")


@settings(max_examples=60, deadline=None)
@given(
    dense=arrays(
        np.float64,
        (12, 5),
        elements=st.sampled_from([0.0, 0.0, 0.0, 1.5, -2.25, 1e-3, 3e38, 1.79769313486e308]),
        fill=st.nothing(),
    ),
    form=st.sampled_from(FORMATS),
    kind=st.sampled_from(["matrix", "array"]),
    dtype=st.sampled_from(["float32", "float64"]),
    missing=st.sampled_from([None, "-3", "min", "mean"]),
)
def test_a_sparse_matrix_is_the_dense_one(
    dense: np.ndarray, form: str, kind: str, dtype: str, missing: str | None
) -> None:
    sparse: Any = getattr(scipy.sparse, f"{form}_{kind}")(dense)
    query = np.repeat(np.arange(4), 3)
    how: dict[str, Any] = {"dtype": dtype, "missing": missing, "normalise": "none"}
    one, other = (fa.make_data(X, np.arange(12) % 3, query, **how) for X in (sparse, dense))
    assert one.fingerprint == other.fingerprint
    np.testing.assert_array_equal(one.test.features, other.test.features)
    np.testing.assert_array_equal(sparse.toarray(), dense)


def test_what_scikit_learn_reads_sparse_is_what_we_read(tmp_path: Path) -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    rows = ["2 qid:1 3:1.5 5:2", "0 qid:1 1:4", "1 qid:2 5:1.79769313486e+308", "0 qid:2", "1 qid:3 2:7"]
    path = tmp_path / "data.txt"
    path.write_text("\n".join(rows) + "\n")
    sparse = datasets.load_svmlight_file(str(path), query_id=True)
    made, read = fa.make_data(*sparse), fa.load_data(path)
    assert made.fingerprint == read.fingerprint
    assert (made.n_features, made.n_missing) == (read.n_features, read.n_missing) == (5, 1)


def test_sparse_parts_are_padded_to_the_widest_and_dense_ones_are_not() -> None:
    narrow = scipy.sparse.csr_array(np.where(X > 0, X, 0)[:, :2])
    made = fa.make_data(X, Y, QUERY, vali=(narrow, Y, QUERY), normalise="none")
    assert sorted(made.vali.features[:, :2].tolist()) == sorted(narrow.toarray().tolist())
    assert not made.vali.features[:, 2:].any()
    assert made.n_features == 4


@pytest.mark.parametrize(
    ("sparse", "message"),
    [
        (scipy.sparse.csr_matrix((10**7, 60_000)), "10000000 rows of 60000 features, of which 0 are given"),
        (scipy.sparse.csr_matrix((240, 70_000)), "feature 70000 is above the largest, 65536"),
        (scipy.sparse.csr_matrix((240, 0)), "no features; expected at least one"),
        (scipy.sparse.csr_matrix(X * 1j), "expected numbers, not complex"),
        (scipy.sparse.coo_array(([np.nan], ([7], [1])), shape=(240, 3)), "row 7, column 1: value nan"),
        (scipy.sparse.coo_array(([1e39], ([9], [2])), shape=(240, 3)), "row 9, column 2: value 1e[+]39 is"),
    ],
)
def test_sparse_matrices_that_are_refused(sparse: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"X of train: {message}"):
        fa.make_data(sparse, np.zeros(sparse.shape[0]), np.zeros(sparse.shape[0]))


def test_sparse_columns_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    dense = np.where(X > 1, X, 0)
    columns = {f"f{n}": pandas.arrays.SparseArray(dense[:, n], fill_value=0) for n in range(4)}
    made = fa.make_data(pandas_frame(**columns), "grade", "qid")
    assert made.fingerprint == fa.make_data(dense, Y, QUERY).fingerprint
    unknown = pandas.arrays.SparseArray(np.where(X[:, 0] > 1, X[:, 0], np.nan))
    with pytest.raises(DataError, match=r"column f0: row \d+: value nan"):
        fa.make_data(pandas_frame(f0=unknown), "grade", "qid")
    wide = pandas.DataFrame.sparse.from_spmatrix(scipy.sparse.csr_matrix((4_000, 20_000)))
    with pytest.raises(DataError, match="4000 rows of 20000 features, of which 0 are given"):
        fa.make_data(wide, np.zeros(4_000), np.zeros(4_000))


@pytest.mark.parametrize(
    ("changes", "features", "message"),
    [
        ({"relevance": 1.5}, None, "label 1.5 is fractional"),
        ({"relevance": None}, None, "label nan is not a number"),
        ({"relevance": "1"}, None, "relevance of qrels: row 3: expected numbers, not str"),
        ({"query_id": None}, None, "query_id of qrels: row 3: no name"),
        ({"doc_id": ""}, None, "doc_id of qrels: row 3: no name"),
        ({"doc_id": "d2"}, None, "qrels: query q0, document d2 is judged twice"),
        ({}, lambda *_: 1.0, r"X of train: shape \(240,\)"),
        ({}, lambda _, name: [0.0] * len(name), "different numbers of features"),
        ({}, lambda *_: [math.nan], "X of train: row 0, column 0: value nan"),
        ({}, lambda *_: [1e39], "X of train: row 0, column 0: value 1e[+]39 is beyond float32"),
        ({}, lambda *_: ["a"], "X of train: row 0, column 0: expected numbers, not str"),
    ],
)
def test_judgements_that_are_refused(changes: dict[str, Any], features: Any, message: str) -> None:
    qrels = [Qrel(f"q{row // 12}", f"d{row}", int(Y[row])) for row in range(240)]
    assert fa.make_data_of_qrels(qrels, lambda *_: [1.0, math.nan], missing="mean").n_missing == 240
    qrels[3] = qrels[3]._replace(**changes)
    with pytest.raises(DataError, match=message):
        fa.make_data_of_qrels(qrels, features or (lambda query, document: X[len(query + document)]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([(1, 2, 3)], "no attribute 'query_id'; expected judgements with query_id, doc_id"),
        ([], "no judgement"),
    ],
)
def test_what_are_no_judgements(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fa.make_data_of_qrels(given, lambda *_: [1.0])
