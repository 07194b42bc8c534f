"""What counts as a difference, and where data of a foreign Spec may be looked for."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr_audit.core.settings.experiment import Spec
from foltr_audit.evidence.bundle.comparison_checks import _same_chain
from foltr_audit.evidence.bundle.differences import (
    ACROSS_VERSIONS,
    EXACT,
    NumericTolerance,
    array_differences,
    first_lines,
    table_differences,
)
from foltr_audit.evidence.bundle.integrity import CheckUnavailableError
from foltr_audit.evidence.bundle.place import DataLocator

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(VALUES)
def test_nothing_differs_from_itself(value: object) -> None:
    assert not list(table_differences(value, value, EXACT))


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_without_a_tolerance_only_equal_numbers_agree(a: float, b: float) -> None:
    assert EXACT.agree(a, b) == (a == b)
    stored, found = np.array([a]), np.array([b])
    assert (not list(array_differences({"x": stored}, {"x": found}, EXACT))) == (a == b)


@given(st.floats(-1e6, 1e6), st.floats(0.0, 1e-3))
def test_numbers_and_arrays_agree_by_the_same_rule(a: float, by: float) -> None:
    b = a * (1 + by)
    near = abs(a - b) <= max(1e-9, 1e-6 * max(abs(a), abs(b)))
    assert ACROSS_VERSIONS.agree(a, b) == near
    lines = list(array_differences({"x": np.array([a])}, {"x": np.array([b])}, ACROSS_VERSIONS))
    assert (not lines) == near


def test_differences_name_their_place_and_values() -> None:
    stored = {"rows": [{"auc": 0.5, "n": 3}, {"auc": 1.0}], "gone": 1, "flag": True}
    found = {"rows": [{"auc": 0.5, "n": 4}, {"auc": 1.0 + 1e-9}], "new": [1], "flag": 1}
    assert list(table_differences(stored, found, ACROSS_VERSIONS)) == [
        "rows[0].n: 3, found 4",
        "gone: 1, found nothing",
        "flag: True, found 1",
        "new: nothing, found 1 values",
    ]
    lines = list(array_differences({"x": np.arange(6.0).reshape(2, 3)}, {"x": np.zeros((2, 3))}, EXACT))
    assert lines == ["x: 5 of 6 values differ, the first at [0, 1]: 1.0, found 0.0"]
    other = {"x": np.zeros(2), "y": np.zeros(1)}
    assert list(array_differences({"x": np.zeros(3)}, other, EXACT)) == [
        "x: float64 [3], found float64 [2]",
        "y: only found",
    ]


def test_infinite_and_missing_numbers_are_themselves_only() -> None:
    special = np.array([np.nan, np.inf, -np.inf, 0.0])
    for i, a in enumerate(special):
        for j, b in enumerate(special):
            assert NumericTolerance(1.0, 1e300).agree(a, b) == (i == j)
            lines = list(array_differences({"x": np.array([a])}, {"x": np.array([b])}, ACROSS_VERSIONS))
            assert (not lines) == (i == j)
    assert math.isnan(special[0])


def test_many_differences_are_counted() -> None:
    assert first_lines(str(i) for i in range(7)) == ["0", "1", "2", "3", "4", "and 2 more"]
    assert first_lines(str(i) for i in range(5)) == ["0", "1", "2", "3", "4"]


def test_chains_agree_but_for_the_last_digits_of_computed_numbers() -> None:
    chain = ("clip:norm=1.5,order=l1", "laplace:scale=0.30000000000000004")
    other = ("clip:norm=1.5,order=l1", "laplace:scale=0.3")
    assert _same_chain(chain, other, ACROSS_VERSIONS)
    assert not _same_chain(chain, other, EXACT)
    assert not _same_chain(chain, ("clip:norm=1.5,order=l2", "laplace:scale=0.3"), ACROSS_VERSIONS)
    assert not _same_chain(chain, ("clip:norm=1.5,order=l1", "laplace:scale=0.31"), ACROSS_VERSIONS)
    assert not _same_chain(chain, chain[:1], ACROSS_VERSIONS)


@pytest.mark.parametrize("field", ["source", "intents", "init"])
def test_a_foreign_spec_makes_nobody_read_a_device_or_a_pipe(tmp_path: Path, field: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "none", Path("x" * 5000)):
        table = {"train": {"init": str(path)}} if field == "init" else {"data": {field: str(path)}}
        with pytest.raises(CheckUnavailableError, match="not on this machine"):
            DataLocator().runner(Spec.parse(table), None, with_undefended=False)
