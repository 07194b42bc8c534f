"""The clip in all its forms: what it bounds for any two inputs, when it acts, and how it is written."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from foltr_audit.defenses.clip import Clip
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foltr_audit.core.defense_chain import DefenseChain, parse_chain
from foltr_audit.core.plugins import Ball
from foltr_audit.errors import PluginError
from foltr_audit.privacy.events import NormBound, NormScaling
from foltr_audit.utils.arrays import Floats
from tests.fixtures import tiny

FORMS = [
    f"ord={order},of={of},at={at}"
    for order, of, at in product((1, 2), ("model", "update"), ("step", "message"))
]
form = pytest.mark.parametrize("form", FORMS)
BAD = [math.nan, math.inf, -math.inf]
numbers = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([0.0, 1e-300, 5e-324, 1e150, -1e300, 1e308, -1.7e308, *BAD])
)


def made(text: str) -> Clip:
    (defense,) = parse_chain([text])
    assert isinstance(defense, Clip)
    return defense


def through(defense: Clip, models: Floats, P: int) -> Floats:
    """Models through the whole chain of this one defense."""
    chain, here = DefenseChain((defense,)), tiny.context(range(len(models)), P=P)
    stepped, _ = chain.on_step(models, np.ones(len(models), dtype=np.bool_), 0, here)
    return chain.on_message(stepped, here)


def length(row: Floats, order: int) -> float:
    return math.fsum(abs(x) for x in row.tolist()) if order == 1 else math.hypot(*row.tolist())


@form
@settings(max_examples=60, derandomize=True)
@given(pair=arrays(np.float64, (2, 5), elements=numbers), norm=st.floats(1e-3, 1e3))
def test_any_two_messages_differ_by_two_radii_at_most(form: str, pair: Floats, norm: float) -> None:
    defense = made(f"clip:norm={norm},{form}")
    one, other = through(defense, pair, 5)
    order = defense.ord or 2
    slack = 1e-13 * norm + 5e-15  # models of size 1 are rounded to 1e-16
    assert length(one - other, order) <= 2 * norm + slack
    middle = tiny.context([0], P=5).parameters if defense.of == "update" else np.zeros(5)
    for row in (one, other):
        assert length(row - middle, order) <= norm + slack


@form
@settings(max_examples=40, derandomize=True)
@given(
    model=arrays(np.float64, 4, elements=numbers),
    bad=st.sampled_from(BAD),
    place=st.integers(0, 3),
    norm=st.floats(1e-12, 1e12),
)
def test_a_model_that_is_not_finite_becomes_the_centre(
    form: str, model: Floats, bad: float, place: int, norm: float
) -> None:
    defense = made(f"clip:norm={norm},{form}")
    middle = tiny.context([0], P=4).parameters if defense.of == "update" else np.zeros(4)
    model[place] = bad
    models = np.stack([model, np.full(4, 0.25 * norm)])
    chain, here = DefenseChain((defense,)), tiny.context([0, 1], P=4)
    stepped, moved = chain.on_step(models, np.ones(2, dtype=np.bool_), 0, here)
    sent = chain.on_message(stepped, here)
    assert sent[0].tolist() == middle.tolist()
    assert sent[1].tobytes() == through(defense, models[1:], 4).tobytes(), "another client's row"
    assert moved[0], "it counts as clipped"


@form
@settings(max_examples=40, derandomize=True)
@given(models=arrays(np.float64, (3, 4), elements=st.floats(-50, 50)), norm=st.floats(0.1, 80.0))
def test_it_scales_towards_the_middle_of_the_ball_and_leaves_the_inside_alone(
    form: str, models: Floats, norm: float
) -> None:
    defense = made(f"clip:norm={norm},{form}")
    middle = tiny.context([0], P=4).parameters if defense.of == "update" else np.zeros(4)
    for old, new in zip(models, through(defense, models, 4), strict=True):
        size = length(old - middle, defense.ord or 2)
        if size <= norm * (1 - 1e-12):
            assert new.tobytes() == old.tobytes()
        factor = min(1.0, norm / size) if size else 1.0
        np.testing.assert_allclose(new - middle, factor * (old - middle), rtol=1e-9, atol=1e-12)


# --- stages and events ---------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["step", "message"])
@pytest.mark.parametrize("of", ["model", "update"])
def test_it_acts_in_one_stage_only(at: str, of: str) -> None:
    defense = made(f"clip:norm=1,at={at},of={of}")
    assert defense.stages == (at,)
    far, here, chain = np.full((1, 3), 99.0), tiny.context([0], P=3), DefenseChain((defense,))
    _, clipped = chain.on_step(far, np.ones(1, dtype=np.bool_), 0, here)
    assert clipped.tolist() == [at == "step"]
    assert (chain.on_message(far, here).tobytes() != far.tobytes()) == (at == "message")
    alone = at == "step" and of == "model"
    assert chain.ball == (Ball(norm=1.0, ord=2) if alone else None)


def test_events_bound_one_and_give_up_the_other() -> None:
    here = tiny.context([0])
    for order, of in product((1, 2), ("model", "update")):
        events = made(f"clip:norm=3,ord={order},of={of},at=message").events(here)
        assert [type(event) for event in events] == [NormScaling, NormBound]
        assert {event.of for event in events} == {of}  # type: ignore[union-attr]
        assert isinstance(events[1], NormBound)
        assert (events[1].norm, events[1].ord) == (3.0, order)


def test_the_kernel_takes_a_clip_that_is_a_ball() -> None:
    assert DefenseChain((Clip(norm=1.0),)).ball == Ball(norm=1.0, ord=2)
    assert DefenseChain((Clip(norm=1.0, ord=1),)).ball == Ball(norm=1.0, ord=1)
    assert DefenseChain((Clip(norm=1.0, of="update"),)).ball is None
    assert DefenseChain((tiny.ToyStep(),)).ball is None
    assert DefenseChain((Clip(norm=1.0), Clip(norm=1.0))).ball is None, "the loop has room for one ball"


# --- texts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("clip:norm=1.5", "clip:norm=1.5"),
        ("clip:norm=1.5,ord=2,of=model,at=step", "clip:norm=1.5"),
        ("clip:norm=1.5,ord=1", "clip:norm=1.5,ord=1"),
        ("clip:of=update,norm=2,at=message", "clip:at=message,norm=2,of=update"),
    ],
)
def test_what_is_usual_is_not_written(text: str, canonical: str) -> None:
    assert made(text).text == made(text).label == canonical
    assert made(canonical) == made(text)


@pytest.mark.parametrize("bad", ["ord=0", "ord=3", "ord=1.5", "of=both", "at=click", "norm=0", "norm=inf"])
def test_other_values_are_refused(bad: str) -> None:
    text = f"clip:{bad}" if bad.startswith("norm") else f"clip:norm=1,{bad}"
    with pytest.raises(PluginError, match=f"^defense clip: {bad}: "):
        parse_chain([text])
