"""Which values of rows are taken: a file and arrays of the same content get the same verdict."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import foltr_audit as fa
from foltr_audit.core.records import Collection
from foltr_audit.data import arrays
from foltr_audit.data.values import is_marker
from foltr_audit.errors import DataError, FoltrAuditError

ROWS, QUERIES = 24, 6
X = np.random.default_rng(7).normal(size=(ROWS, 3)).astype(np.float32)
Y = np.arange(ROWS) % 3
QUERY = np.repeat(np.arange(QUERIES), ROWS // QUERIES)
LARGEST = float(np.finfo(np.float32).max)
MARKER = float(np.finfo(np.float64).max)
BAD_ROW = 5

# What stands in row 5 of a file, the same in an array, and what both say; nothing where both take it.
FEATURES: dict[str, tuple[str, object, str]] = {
    "beyond": ("1e39", 1e39, "value '?1e.?39'? is beyond float32"),
    "below": ("-3.5e38", -3.5e38, "value '?-3.5e.?38'? is beyond float32"),
    "rounded beyond": ("3.4028236e38", 3.4028236e38, "is beyond float32"),
    "squares overflow": ("1e300", 1e300, "is beyond float32"),
    "just no marker": ("1.79e308", 1.79e308, "is beyond float32"),
    "largest": (repr(LARGEST), LARGEST, ""),
    "rounded to largest": ("3.40282347e38", 3.40282347e38, ""),
    "smallest": ("1e-300", 1e-300, ""),
    "marker": ("1.79769313486e+308", 1.79769313486e308, ""),
    "minus marker": (f"-{MARKER!r}", -MARKER, ""),
    "nan": ("nan", math.nan, "expected a finite number, or (--)?missing to say"),
    "none": ("NULL", None, "expected a finite number, or (--)?missing to say"),
    "infinite": ("inf", math.inf, "value '?inf'?; expected a finite number$"),
    "minus infinite": ("-inf", -math.inf, "value '?-inf'?; expected a finite number$"),
    "whole": ("7", 7, ""),
    "huge whole": ("1" + "0" * 400, 10**400, "float32|finite"),
    "decimal": ("0.25", Decimal("0.25"), ""),
    "text": ("abc", "abc", "is not a number|expected numbers, not str"),
    "text of a number": ("'1'", "1", "is not a number|expected numbers, not str"),
    "complex": ("1+2j", 1 + 2j, "is not a number|expected numbers, not complex"),
    "date": ("2020-01-01", datetime.date(2020, 1, 1), "is not a number|expected numbers, not date"),
    "list": ("[1,2]", [1, 2], "is not a number|expected numbers, not list"),
}
LABELS: dict[str, tuple[str, object, str]] = {
    "negative": ("-1", -1, "row.*label -1 is negative|'-1' is negative; expected 0 to 31"),
    "above": ("32", 32, "'?32'? is above 31; expected 0 to 31"),
    "far above": ("1100", 1100, "'?1100'? is above 31; expected 0 to 31"),
    "fraction": ("1.5", 1.5, "'?1.5'? is fractional; expected a whole number"),
    "tiny fraction": ("1e-9", 1e-9, "is fractional; expected a whole number"),
    "nan": ("nan", math.nan, "is not a number; expected 0 to 31"),
    "none": ("null", None, "is not a number; expected 0 to 31"),
    "infinite": ("1e999", math.inf, "is above 31"),
    "huge whole": ("9" * 400, 10**400, "is above 31"),
    "text": ("good", "good", "is not a number|expected numbers, not str"),
    "largest": ("31", 31, ""),
    "zero with a sign": ("-0.0", -0.0, ""),
    "whole as float": ("2.0", 2.0, ""),
}
QUERY_IDS: dict[str, tuple[str, object, str]] = {
    "none": ("", None, "query id missing|query_ids of train: row 5: no name"),
    "nan": ("", math.nan, "query id missing|row 5: no name"),
    "not a time": ("", np.datetime64("NaT"), "query id missing|row 5: no name"),
    "masked": ("", np.ma.masked, "query id missing|row 5: no name"),
    "empty": ("", "", "query id missing|row 5: no name"),
    "NUL": ("a\0", "a\0", "a NUL"),
    "half a character": ("a\udc80", "a\udc80", "not UTF-8|is not text"),
    "half a character of bytes": ("a\udc80", b"a\x80", "not UTF-8|is not text"),
}


def through_a_file(folder: Path, X: Any, y: Any, query_ids: Any, **how: Any) -> Collection:
    """The data of texts or numbers, written to a file and read."""
    path = folder / "data.txt"
    lines = (
        f"{grade} qid:{query} {' '.join(f'{n}:{value}' for n, value in enumerate(row, start=1))}\n"
        for row, grade, query in zip(X, y, query_ids, strict=True)
    )
    path.write_bytes("".join(lines).encode("utf-8", "surrogateescape"))
    return fa.load_data(path, **how)


def verdict(read: Any, *given: Any, **how: Any) -> Collection | str:
    try:
        found: Collection = read(*given, **how)
    except FoltrAuditError as error:
        return str(error)
    return found


def having(values: np.ndarray, place: int | tuple[int, int], value: object) -> np.ndarray:
    """The same values as objects, with another one in a place."""
    changed = values.astype(object)
    changed[place] = value
    return changed


def assert_same_verdict(one: Collection | str, other: Collection | str, said: str) -> None:
    for found in (one, other):
        assert isinstance(found, str) == bool(said), found
        assert str(found).isprintable()
    if isinstance(one, Collection) and isinstance(other, Collection):
        for name in Collection.PARTS:
            for kind in ("features", "labels", "offsets"):
                ours, theirs = (getattr(data.part(name), kind) for data in (one, other))
                np.testing.assert_array_equal(ours, theirs)
        return
    for found in (one, other):
        assert isinstance(found, str)
        assert re.search(said, found), found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", FEATURES)
def test_features(tmp_path: Path, case: str, dtype: str) -> None:
    text, value, said = FEATURES[case]
    words = having(np.vectorize(repr)(X.astype(np.float64)), (BAD_ROW, 1), text)
    how = {"dtype": dtype, "normalise": "none"}
    file = verdict(through_a_file, tmp_path, words, Y, QUERY, **how)
    made = verdict(fa.make_data, having(X, (BAD_ROW, 1), value), Y, QUERY, **how)
    assert_same_verdict(file, made, said)
    if isinstance(made, str) and isinstance(value, float):
        assert "X of train: row 5, column 1: value" in made
        assert verdict(fa.make_data, having(X, (BAD_ROW, 1), value).astype(float), Y, QUERY, **how) == made


@pytest.mark.parametrize("case", LABELS)
def test_labels(tmp_path: Path, case: str) -> None:
    text, value, said = LABELS[case]
    file = verdict(through_a_file, tmp_path, X, having(Y, BAD_ROW, text), QUERY)
    made = verdict(fa.make_data, X, having(Y, BAD_ROW, value), QUERY)
    assert_same_verdict(file, made, said)


@pytest.mark.parametrize("case", QUERY_IDS)
def test_query_ids(tmp_path: Path, case: str) -> None:
    text, value, said = QUERY_IDS[case]
    names = QUERY.astype(str)
    file = verdict(through_a_file, tmp_path, X, Y, having(names, BAD_ROW, text))
    made = verdict(fa.make_data, X, Y, having(names, BAD_ROW, value))
    assert_same_verdict(file, made, said)


def test_widths_and_rows(tmp_path: Path) -> None:
    wide = np.ones((ROWS, 65_537), dtype=np.int8)
    file = verdict(through_a_file, tmp_path, wide[:6], Y[:6], QUERY[:6])
    assert_same_verdict(file, verdict(fa.make_data, wide, Y, QUERY), "above the largest, 65536")
    file = verdict(through_a_file, tmp_path, X[:, :0], Y, QUERY)
    assert_same_verdict(file, verdict(fa.make_data, X[:, :0], Y, QUERY), "no row has a feature|no features")
    file = verdict(through_a_file, tmp_path, X[:0], Y[:0], QUERY[:0])
    assert_same_verdict(file, verdict(fa.make_data, X[:0], Y[:0], QUERY[:0]), "no row")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("1.79769313486e+308", True),
        ("1.7976931348623157e308", True),
        ("-1.7976931348623157E+308", True),
        ("1.797693134862316e+308", True),  # rounded up: no float64
        ("1.798e308", True),
        (f"{MARKER:f}", True),
        ("0.1797693e309", True),
        ("1.7e308", False),
        ("1.8e308", False),
        ("3.4028234663852886e38", False),
        ("1e999", False),
        ("1e99999999999999999999", False),
        ("0e999", False),
    ],
)
def test_forms_of_the_marker(text: str, is_one: bool) -> None:
    assert is_marker(text) == is_one


# What no file can hold.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": X[:, 0]}, r"X of train: shape \(24,\); expected \(n, d\)"),
        ({"X": X[np.newaxis]}, r"X of train: shape \(1, 24, 3\); expected \(n, d\)"),
        ({"X": 1.0}, r"X of train: shape \(\); expected \(n, d\)"),
        ({"X": None}, r"X of train: shape \(\); expected \(n, d\)"),
        ({"X": [[1, 2], [3]]}, "X of train: expected an array of numbers, its rows of one length"),
        ({"X": X.astype(complex)}, "X of train: expected numbers, not complex128"),
        ({"X": X.astype("M8[s]")}, "X of train: expected numbers, not datetime64"),
        ({"X": X.astype(str)}, "X of train: expected numbers, not <U"),
        ({"X": [*X.tolist()[:-1], [1, "?", 3]]}, "X of train: row 23, column 1: expected numbers, not str"),
        ({"X": np.full((ROWS, 3), np.inf, np.float16)}, "row 0, column 0: value inf; expected a finite"),
        (
            {"X": np.ma.masked_where(X[4, 2] == X, X)},
            "row 4, column 2: value nan; expected .* missing to say",
        ),
        ({"X": [np.ma.masked_where(X[4, 2] == row, row) for row in X]}, "row 4, column 2: value nan"),
        ({"y": Y[1:]}, "train: numbers of rows differ: X 24, y 23, query_ids 24$"),
        ({"y": Y[:, np.newaxis]}, r"y of train: shape \(24, 1\); expected \(n,\)"),
        ({"y": np.ma.masked_where(Y == 2, Y)}, "y of train: row 2: label nan is not a number"),
        ({"y": [*Y.tolist()[:-1], "1"]}, "y of train: row 23: expected numbers, not str"),
        ({"y": Y.astype("m8[s]")}, "y of train: expected numbers, not timedelta64"),
        ({"y": Y.astype(str)}, "y of train: expected numbers, not <U"),
        ({"query_ids": QUERY[:, np.newaxis]}, r"query_ids of train: shape \(24, 1\); expected \(n,\)"),
        ({"query_ids": np.ma.masked_where(QUERY == 1, QUERY)}, r"query_ids of train: row 4: no name \(--\)"),
        ({"query_ids": np.where(QUERY == 1, np.nan, QUERY)}, r"query_ids of train: row 4: no name \(nan\)"),
        ({"query_ids": [*QUERY.astype("M8[D]")[1:], np.datetime64("NaT")]}, "row 23: no name"),
        ({"document_ids": "docid"}, r"document_ids: shape \(\); expected \(n,\)"),
        ({"query_ids": set(range(ROWS))}, r"query_ids of train: shape \(\); expected \(n,\)"),
        ({"document_ids": 5}, r"document_ids: shape \(\); expected \(n,\)"),
        ({"document_ids": ["a"]}, "numbers of rows differ: X 24, y 24, query_ids 24, document_ids 1"),
        ({"document_ids": ["a\0"] * ROWS}, "document_ids: row 0: 'a.x00' contains a NUL"),
        ({"query_ids": np.zeros(ROWS)}, "1 training queries; expected at least 3"),
        ({"vali": (X, Y)}, r"vali: expected \(X, y, query_ids\)"),
        ({"vali": (X[:0], Y[:0], QUERY[:0])}, "vali: no row; expected at least one document"),
        ({"test": (X[:, :2], Y, QUERY)}, "rows of 3 features in X of train, but of 2 in X of test"),
        ({"test": (np.full((ROWS, 3), 1e39), Y, QUERY)}, "X of test: row 0, column 0: value .* is beyond"),
        ({"test": (X, Y + 30, QUERY)}, "y of test: row 2: label 32 is above 31"),
        ({"normalise": "z"}, "make_data: normalise=z: input should be 'zscore'"),
        ({"dtype": "float16"}, "make_data: dtype=float16: input should be 'float32'"),
        ({"missing": "median"}, "missing: 'median'; expected a number within float32, min or mean"),
    ],
)
def test_what_is_no_ranking_data(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FoltrAuditError, match=message):
        fa.make_data(**{"X": X, "y": Y, "query_ids": QUERY, **changes})


def test_numbers_of_any_type_are_taken() -> None:
    whole = np.round(np.abs(X))
    plain = fa.make_data(whole, Y, QUERY)
    for kind in (np.float16, np.int8, np.longdouble, np.dtype(">f8"), object):
        same = fa.make_data(whole.astype(kind), Y.astype(kind), QUERY)
        assert same.fingerprint == plain.fingerprint
    grades = fa.make_data(X > 0, Y > 0, QUERY)
    assert grades.fingerprint == fa.make_data((X > 0) * 1.0, (Y > 0) * 1, QUERY).fingerprint


def test_documents_without_a_name_have_none() -> None:
    named = [None, math.nan, "a", 7, b"b", np.ma.masked] * 4
    made = fa.make_data(X, Y, QUERY, document_ids=iter(named))
    names = [name for part in Collection.PARTS for name in made.part(part).document_ids]
    assert sorted(set(names)) == ["", "7", "a", "b"]
    assert fa.make_data(X, Y, QUERY.astype("S")).train.query_ids == made.train.query_ids


def test_equal_numbers_are_one_query() -> None:
    plain = fa.make_data(X, Y, QUERY)
    for kind in (float, np.float32, object):
        assert fa.make_data(X, Y, QUERY.astype(kind)).fingerprint == plain.fingerprint
    mixed = [float(one) if row % 2 else one for row, one in enumerate(QUERY.tolist())]
    assert fa.make_data(X, Y, mixed).fingerprint == plain.fingerprint


def test_given_arrays_stay_as_they_are() -> None:
    wide = X.astype(np.float64)
    wide[3, 1] = MARKER
    for given in (wide, np.ma.masked_greater(wide, 1)):
        before = given.copy()
        fa.make_data(given, Y, QUERY, missing=5, dtype="float64")
        np.testing.assert_array_equal(np.asarray(given), np.asarray(before))


@pytest.mark.parametrize("batch", [1, 20, 1 << 20])
def test_the_first_bad_row_is_named(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_BATCH_VALUES", batch)
    bad = X.copy()
    bad[20, 0] = np.inf
    bad[9, 2] = np.nan
    for form in (np.asarray, scipy.sparse.csr_matrix):
        with pytest.raises(DataError, match="row 9, column 2"):
            fa.make_data(form(bad), Y, QUERY)
