"""Coins of a round's truth: they come with their patterns, and a click is the pattern that its coin chose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from foltr_audit.core.records.interactions import RoundTruth
from foltr_audit.errors import UsageError

CANARIES = np.array([[[1, 0, 0], [0, 1, 0]], [[0, 0, 0], [0, 0, 0]]], dtype=bool)


def truth() -> RoundTruth:
    """Two interactions: a coin chose pattern 1 of the first, none was tossed for the second."""
    return RoundTruth(
        clients=np.array([3]),
        updates=np.zeros((1, 2)),
        clicks=np.array([[0, 1, 0], [0, 0, 1]], dtype=bool),
        clipped=np.zeros(2, dtype=bool),
        canaries=CANARIES,
        coins=np.array([1, -1]),
    )


def test_coins_are_kept_read_only() -> None:
    found = truth()
    assert found.coins is not None
    assert found.coins.dtype == np.int8
    assert found.canaries is not None
    assert not found.canaries.flags.writeable


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"canaries": None}, "expected both canaries and coins, or neither"),
        ({"coins": None}, "expected both canaries and coins, or neither"),
        ({"coins": np.array([0, -1])}, "clicks of interaction 0 are not the pattern that its coin chose"),
        ({"coins": np.array([1, 2])}, "expected 0, 1 or -1"),
        ({"coins": np.array([1])}, "coins has shape"),
        ({"canaries": CANARIES[:, :1]}, "canaries has shape"),
    ],
)
def test_refuses_coins_that_do_not_fit(changes: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        replace(truth(), **changes)  # type: ignore[arg-type]
