"""The benchmark of heavy tails: what it calls out of range is what secure aggregation refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.heavy_tails import CHAINS, NORMALISATIONS, main, out_of_range
from foltr_audit.errors import UsageError
from foltr_audit.privacy.secure_aggregation import FixedPoint

ENCODING = FixedPoint(bits=48, range=2.0, fraction=24)


@given(st.lists(st.floats(-3, 3) | st.just(float("nan")), min_size=1, max_size=4))
def test_a_message_is_out_of_range_if_the_encoding_refuses_it(message: list[float]) -> None:
    given_ = np.array([message])
    try:
        ENCODING.encode(given_, np.ones(1, dtype=np.int64))
        refused = False
    except UsageError:
        refused = True
    assert out_of_range(given_, ENCODING).tolist() == [refused]


def test_every_normalisation_has_a_row_with_and_without_clip(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--data", "synthetic:mq2007:40", "--rounds", "1", "--seeds", "3"])
    found = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["normalise"], row["defense"]) for row in found] == [
        (n, c) for n in NORMALISATIONS for c in CHAINS
    ]
    assert all(row["largest_coordinate"] <= 1.5 + 1e-6 for row in found if row["defense"] != "none")
    assert all(row["clipped"] == 0 for row in found if row["defense"] == "none")
