"""docs/pitfalls.md says what the code does: every example in it runs, and none of them is empty talk."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.warning_kinds import WARNINGS
from foltr_audit.privacy.noise import GammaShare
from foltr_audit.rng import Streams

PAGE = Path(__file__).resolve().parents[2] / "docs" / "pitfalls.md"


def test_every_example_runs() -> None:
    options = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    done = doctest.testfile(str(PAGE), module_relative=False, optionflags=options)
    assert done.attempted > 20
    assert done.failed == 0


def test_every_section_that_a_warning_names_is_on_the_page() -> None:
    headings = {line.removeprefix("## ") for line in PAGE.read_text(encoding="utf-8").splitlines()}
    assert {kind.section for kind in WARNINGS.values() if kind.section} <= headings


@pytest.mark.parametrize(
    ("n", "dtype", "share"),
    [(1000, np.float64, 0.92), (1000, np.float32, 0.96), (100, np.float64, 0.45), (1, np.float32, 0.0)],
)
def test_coordinates_that_noise_leaves_alone(n: int, dtype: type, share: float) -> None:
    """The share of coordinates of a message that are bit for bit the un-noised ones (docs/maths.md)."""
    rng = np.random.default_rng(3)
    model: np.ndarray[Any, Any] = np.exp(rng.uniform(np.log(0.01), 0.0, size=(2000, 46))).astype(dtype)
    noise = GammaShare(n=n, scale=2.5).sample(Streams(5).clients("tell", 0, np.arange(2000)), 46)
    assert np.mean((model + noise).astype(dtype) == model) == pytest.approx(share, abs=0.02)
