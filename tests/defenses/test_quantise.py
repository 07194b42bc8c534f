"""quantise and sign: on the grid, inside the range, unbiased; what each bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.defenses.compression import Quantise, Sign
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from foltr_audit.core.plugins import Defense
from foltr_audit.core.plugins.registry import make
from foltr_audit.privacy.events import NormBound, OpaqueChange
from foltr_audit.utils.arrays import Floats
from tests.fixtures import tiny

FALSE_ALARM = 1e-4


def quantised(defense: Quantise, update: float, clients: int, P: int) -> Floats:
    """What becomes of equal updates, around a global model of zeros for which nothing is rounded."""
    here = replace(tiny.context(range(clients), P=P), parameters=np.zeros(P))
    return defense.on_message(np.full((clients, P), update), here)


@settings(max_examples=80, derandomize=True)
@given(
    size=st.floats(1e-3, 1e3),
    grid=st.one_of(st.integers(2, 9), st.floats(0.05, 1.0)),
    update=st.floats(-2.0, 2.0),
)
def test_updates_come_to_a_neighbouring_grid_point_inside_the_range(
    size: float, grid: float, update: float
) -> None:
    defense = (
        Quantise(range=size, levels=grid) if isinstance(grid, int) else Quantise(range=size, step=grid * size)
    )
    sent = quantised(defense, update * size, 2, 30)
    (last,) = [event.norm for event in defense.events(tiny.context([0])) if isinstance(event, NormBound)]
    assert last <= size * (1 + 1e-9)
    assert np.abs(sent).max() <= last
    places = (sent + last) / defense.width
    np.testing.assert_allclose(places, np.rint(places), atol=1e-9)
    inside = max(-last, min(last, update * size))
    assert np.abs(sent - inside).max() < defense.width * (1 + 1e-9)


@pytest.mark.parametrize("update", [0.0, 0.1, -0.73, 0.999, -1.0])
@pytest.mark.parametrize(
    "defense",
    [Quantise(range=1.0, levels=2), Quantise(range=1.0, levels=5), Quantise(range=1.0, step=0.25)],
    ids=lambda defense: defense.text,
)
def test_the_expectation_is_the_update(defense: Quantise, update: float) -> None:
    """Two values, so their frequencies say all: an exact binomial test, which catches a wrong one."""
    sent = quantised(defense, update, 200, 50).ravel()
    below = math.floor((update + 1.0) / defense.width) * defense.width - 1.0
    chance = (update - below) / defense.width
    ups = int(np.sum(sent > below + 0.5 * defense.width))
    assert stats.binomtest(ups, sent.size, min(1.0, chance)).pvalue > FALSE_ALARM
    if 0.05 < chance < 0.95:
        assert stats.binomtest(ups, sent.size, chance * 0.85).pvalue < FALSE_ALARM
    else:
        assert np.ptp(sent) == 0 or chance > 0, "a grid point stays where it is"


def test_what_lies_outside_is_cut_off() -> None:
    for far in (1.5, 1e300):
        assert set(quantised(Quantise(range=1.0, levels=3), far, 3, 9).ravel().tolist()) == {1.0}
        assert set(quantised(Quantise(range=1.0, step=0.3), -far, 3, 9).ravel().tolist()) == {-0.3 * 3}


@settings(max_examples=60, derandomize=True)
@given(
    model=arrays(
        np.float64, 6, elements=st.sampled_from([0.3, -2e300, 1.7e308, math.nan, math.inf, -math.inf])
    ),
    size=st.floats(1e-6, 1e6),
)
@pytest.mark.parametrize("text", ["quantise:levels=4,range", "quantise:levels=5,range", "sign:scale"])
def test_bounds_hold_for_what_is_no_number(text: str, model: Floats, size: float) -> None:
    here = replace(tiny.context([0], P=6), parameters=np.zeros(6))
    (sent,) = make(Defense, f"{text}={size}").on_message(model[np.newaxis], here)
    assert np.abs(sent).max() <= size * (1 + 1e-12)
    usual = np.nan_to_num(model)
    (known,) = make(Defense, f"{text}={size}").on_message(usual[np.newaxis], here)
    assert sent.tobytes() == known.tobytes(), "NaN is no change, infinity a large one"


@settings(max_examples=40, derandomize=True)
@given(update=st.floats(-1e6, 1e6), scale=st.floats(1e-3, 1e3))
def test_signs(update: float, scale: float) -> None:
    here = replace(tiny.context([0], P=1), parameters=np.zeros(1))
    sent = Sign(scale=scale).on_message(np.array([[update]]), here)
    assert sent[0, 0] == (0.0 if update == 0 else math.copysign(scale, update))
    single = Sign(scale=scale).on_message(np.array([[update]], dtype=np.float32), here)
    assert single.dtype == np.float64


def test_events() -> None:
    here = tiny.context([0])
    assert Quantise(range=2.0, levels=5).events(here) == (
        OpaqueChange(mechanism="quantise"),
        NormBound(norm=2.0, ord=math.inf, of="update"),
    )
    assert Sign(scale=3.0).events(here) == (
        OpaqueChange(mechanism="sign"),
        NormBound(norm=3.0, ord=math.inf, of="update"),
    )
