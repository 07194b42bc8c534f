"""The contract of every registered defense, and of a toy of each stage; see `test_contract.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.plugins import (
    Defense,
    RoundContext,
    WireMessages,
)
from foltr_audit.core.plugins.defense import HOOKS, Stage
from foltr_audit.core.plugins.registry import names
from foltr_audit.privacy.observer_views import VIEWS
from foltr_audit.utils.arrays import Floats
from tests.fixtures import tiny
from tests.plugins.test_contract import example, registered

CLIENTS = np.array([11, 4, 7, 0, 23])
VALUES = np.append(0.0, 1 / np.arange(1, 11))


def defenses() -> list[Any]:
    """Every registered defense, and a toy of each stage."""
    known = [pytest.param(lambda name=name: example(Defense, name), id=name) for name in names(Defense)]
    return known + [pytest.param(lambda toy=toy: toy, id=toy.name) for toy in tiny.TOYS]


Make = Callable[[], Defense]


def acts_in(defense: Defense) -> Stage:
    """The first stage of a defense; of one that does nothing, that of messages."""
    return defense.stages[0] if defense.stages else "message"


def inputs(defense: Defense, C: int, P: int = tiny.FEATURES) -> tuple[np.ndarray[Any, Any], ...]:
    """Read-only arrays for the stage of a defense; every client has a row in each but an average."""
    rng = np.random.default_rng(5)
    models = 3 * rng.normal(size=(C, P))
    shown = np.where(np.arange(10) < rng.integers(1, 11, size=(C, 1)), np.arange(10), -1)
    clicks = (rng.random((C, 10)) < 0.4) & (shown >= 0)
    arrays: tuple[np.ndarray[Any, Any], ...] = (models,)
    if acts_in(defense) == "click":
        arrays = (clicks, shown)
    elif acts_in(defense) == "metric":
        arrays = (rng.integers(0, VALUES.size, size=C),)
    elif acts_in(defense) == "wire":
        arrays = (models, np.arange(C) % 4 != 1)
    elif acts_in(defense) == "aggregate":
        weights = np.arange(1.0, C + 1) / max(1.0, C * (C + 1) / 2)
        arrays = ((models * weights[:, np.newaxis]).sum(axis=0), models, weights)
    for array in arrays:
        array.flags.writeable = False
    return arrays


def applied(defense: Any, arrays: tuple[np.ndarray[Any, Any], ...], context: RoundContext) -> tuple[Any, ...]:
    """New arrays that a defense makes, after checks that hold for every stage."""
    before = [array.tobytes() for array in arrays]
    extra: tuple[Any, ...] = {"click": (0,), "metric": (VALUES, 0)}.get(acts_in(defense), ())
    out = getattr(defense, HOOKS[acts_in(defense)])(*arrays, *extra, context)
    made = (out.messages, out.survivors) if isinstance(out, WireMessages) else (out,)
    assert before == [array.tobytes() for array in arrays], "input changed"
    for new, old in zip(made, arrays, strict=False):
        assert new.shape == old.shape
        assert new.dtype == old.dtype or (isinstance(out, WireMessages) and out.is_encoded)
        assert new.flags.writeable or not defense.stages or isinstance(out, WireMessages), (
            "a new array, not the input"
        )
        assert not any(np.shares_memory(new, given) for given in arrays) or not defense.stages
    return made


def rows(made: tuple[Any, ...], order: Any) -> list[bytes]:
    """Bytes of the chosen clients' rows."""
    return [np.ascontiguousarray(array[order]).tobytes() for array in made]


@pytest.mark.parametrize("make_one", defenses())
class TestDefense:
    def test_same_seed_same_bytes(self, make_one: Make) -> None:
        defense, round_ = make_one(), tiny.context(CLIENTS)
        arrays = inputs(defense, CLIENTS.size)
        assert rows(applied(defense, arrays, round_), ...) == rows(applied(defense, arrays, round_), ...)

    def test_order_of_clients_is_irrelevant(self, make_one: Make) -> None:
        defense, order = make_one(), np.array([3, 1, 4, 0, 2])
        arrays = inputs(defense, CLIENTS.size)
        straight = applied(defense, arrays, tiny.context(CLIENTS))
        if acts_in(defense) == "aggregate":
            turned = (arrays[0], arrays[1][order], arrays[2][order])
            other = applied(defense, turned, tiny.context(CLIENTS[order]))
            np.testing.assert_allclose(straight[0], other[0], rtol=1e-12)
            return
        other = applied(defense, tuple(a[order].copy() for a in arrays), tiny.context(CLIENTS[order]))
        assert rows(straight, order) == rows(other, ...)

    def test_a_client_alone_is_treated_as_in_its_cohort(self, make_one: Make) -> None:
        defense = make_one()
        if acts_in(defense) in ("wire", "aggregate"):
            pytest.skip("it acts on a cohort as a whole")
        arrays = inputs(defense, CLIENTS.size)
        together = applied(defense, arrays, tiny.context(CLIENTS))
        for i in range(CLIENTS.size):
            alone = tuple(a[i : i + 1].copy() for a in arrays)
            assert rows(applied(defense, alone, tiny.context(CLIENTS[i : i + 1])), ...) == rows(
                together, slice(i, i + 1)
            ), "n must come from context.shares"

    def test_nobody(self, make_one: Make) -> None:
        defense = make_one()
        made = applied(defense, inputs(defense, 0), tiny.context([]))
        assert made[0].shape == inputs(defense, 0)[0].shape

    def test_one_parameter(self, make_one: Make) -> None:
        defense = make_one()
        applied(defense, inputs(defense, 3, P=1), tiny.context([0, 1, 2], P=1))

    def test_claims_are_complete(self, make_one: Make) -> None:
        for claim in make_one().claims(tiny.context(CLIENTS)):
            assert claim.epsilon > 0
            assert 0 <= claim.delta < 1
            assert claim.relation in ("replace-one", "add-remove")
            assert claim.unit
            assert claim.view in VIEWS


@registered(Defense)
def test_what_has_a_law_of_noise_does_nothing_but_add_it(name: str) -> None:
    """Attacks and audits take a message for what came before plus noise of that law, up to rounding."""
    defense, round_ = example(Defense, name), tiny.context(CLIENTS)
    if not ("message" in defense.stages and defense.law(round_) is not None):
        pytest.skip("it adds no noise")
    models = 30 * np.random.default_rng(5).normal(size=(CLIENTS.size, tiny.FEATURES))
    noise = defense.on_message(np.zeros_like(models), round_)
    np.testing.assert_allclose(defense.on_message(models, round_) - noise, models, rtol=1e-9, atol=2e-5)


@pytest.mark.parametrize("shares", [1, 2, 1000])
@registered(Defense)
def test_noise_depends_on_shares_not_on_who_is_there(name: str, shares: int) -> None:
    defense = example(Defense, name)
    if "message" not in defense.stages:
        pytest.skip("it adds no noise")
    models = np.zeros((2, tiny.FEATURES))
    few = defense.on_message(models, tiny.context([8, 9], shares=shares))
    many = defense.on_message(np.zeros((10, tiny.FEATURES)), tiny.context(range(10), shares=shares))
    assert few.tobytes() == many[8:].tobytes()
    more = defense.on_message(models, tiny.context([8, 9], shares=shares + 1))
    laws = [defense.law(tiny.context([8], shares=n)) for n in (shares, shares + 1)]
    assert (laws[0] == laws[1]) == (more.tobytes() == few.tobytes())


class _TakesNFromTheArray(Defense):
    """A wrong defense: its noise depends on how many rows it is given."""

    name = "wrong-n"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        noise = context.streams("wrong").uniform(models.shape[1])
        return np.asarray(models + noise / models.shape[0])


class _ChangesItsInput(Defense):
    """A wrong defense: it hands back the array it was given."""

    name = "wrong-array"

    def on_message(self, models: Floats, context: RoundContext) -> Floats:
        return models


def test_this_suite_catches_wrong_defenses() -> None:
    with pytest.raises(AssertionError, match=r"context\.shares"):
        TestDefense().test_a_client_alone_is_treated_as_in_its_cohort(_TakesNFromTheArray)
    with pytest.raises(AssertionError, match="a new array"):
        TestDefense().test_same_seed_same_bytes(_ChangesItsInput)
