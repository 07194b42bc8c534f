"""Traces of systems that compute in float64, with features recorded as float64 or rounded to float32."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foltr_audit as fa
from foltr_audit.errors import UsageError
from foltr_audit.trace import Trace, validate
from tests.fixtures import foreign_trace
from tests.fixtures.foreign_trace import System


def exact(folder: Path, system: System, **formats: Any) -> dict[str, float]:
    """Exact rates of olsr and lad on a trace in some number formats."""
    facts = {"normaliser": "shown", "pairs": None, "learning_rate": None}
    header = foreign_trace.header(system, dtype=formats["dtype"], facts=facts)
    report = fa.attack_trace(
        foreign_trace.write(folder, header, foreign_trace.records(system, **formats)), ["olsr", "lad"]
    )
    return {row.method: row.found.exact.value for row in report.results if row.method in ("olsr", "lad")}


@pytest.mark.parametrize("normaliser", ["shown", "candidates"])
def test_features_rounded_to_float32_cost_a_float64_system_no_list(tmp_path: Path, normaliser: str) -> None:
    """Most documents stand below the last click and have the weight 0, which rounding makes 1e-8."""
    system = System(pairs="last-click+1", normaliser=normaliser, shares=None)
    whole = exact(tmp_path / "whole", system, dtype="float64", feature_dtype="float64")
    rounded = exact(tmp_path / "rounded", system, dtype="float64", feature_dtype="float32")
    assert min(whole.values()) > 0.99
    assert rounded == pytest.approx(whole, abs=0.02)


def test_small_noise_on_a_weight_of_zero_is_no_click(tmp_path: Path) -> None:
    """A hundred shares of the noise leave most numbers as they are to 1e-9 or so, and float64 shows that."""
    system = System(pairs="last-click+1", normaliser="candidates", shares=100)
    found = [
        exact(tmp_path / f"{dtype}-{feature_dtype}", system, dtype=dtype, feature_dtype=feature_dtype)["lad"]
        for dtype, feature_dtype in (("float64", "float64"), ("float64", "float32"), ("float32", "float32"))
    ]
    assert min(found) > 0.93


def test_the_format_of_features_is_that_of_the_clients(tmp_path: Path) -> None:
    """Of a Run it is float32 unless the header says otherwise, of other systems that of the messages."""
    header = foreign_trace.header(System())
    assert header.feature_format == "float64"
    assert replace(header, dtype="float32").feature_format == "float32"
    assert replace(header, spec_hash="ab").feature_format == "float32"
    stated = {**header.knowledge, "feature_dtype": "float64"}
    assert replace(header, spec_hash="ab", knowledge=stated).feature_format == "float64"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_trace_keeps_the_features_that_it_is_given(tmp_path: Path, dtype: str) -> None:
    system = System(rounds=2)
    rounds = foreign_trace.records(system, feature_dtype=dtype)
    folder = foreign_trace.write(tmp_path / "trace", foreign_trace.header(system), rounds)
    assert validate(folder) == []
    for (record, _), read in zip(rounds, Trace.open(folder).rounds(), strict=True):
        assert np.asarray(read.features).dtype == dtype
        np.testing.assert_array_equal(np.asarray(read.features), record.features)


def test_all_rounds_of_a_trace_have_features_in_one_format(tmp_path: Path) -> None:
    system = System(rounds=3)
    wide, narrow = (foreign_trace.records(system, feature_dtype=dtype) for dtype in ("float64", "float32"))
    header = replace(foreign_trace.header(system), rounds_per_part=1)
    for resume in (False, True):
        with fa.TraceWriter(tmp_path, header, resume=resume) as writer:
            writer.write(*wide[writer.next_round])
            with pytest.raises(UsageError, match=r"round \d: features of type float32, expected float64"):
                writer.write(*narrow[writer.next_round])
    assert validate(tmp_path) == []
