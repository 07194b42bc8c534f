"""The contract of every registered plug-in; a new one is tested here by being registered.

What holds for defenses only is in `test_contract_defenses.py`, for click models and scenarios in
`test_contract_worlds.py`.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.core.plugins import (
    Attack,
    CentralLearner,
    Defense,
    Inference,
    Learner,
    MetricLearner,
    ModelLearner,
    Plugin,
    View,
)
from foltr_audit.core.plugins.defense import STAGES
from foltr_audit.core.plugins.registry import GROUPS, make, names, plugin_class
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.records import Collection
from foltr_audit.errors import PluginError
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.utils.arrays import Bools, Floats
from tests.conftest import SetupOf
from tests.fixtures import tiny

REQUIRED = {
    "clip": "norm=2",
    "gamma-laplace": "eps=1.2,sensitivity=3",
    "laplace": "eps=1.2,sensitivity=3",
    "gaussian": "delta=1e-05,eps=1.2,sensitivity=3",
    "gaussian-shares": "delta=1e-05,eps=1.2,sensitivity=3",
    "discrete-gaussian": "delta=1e-05,sensitivity=3,sigma=2.5,step=1e-05",
    "skellam": "delta=1e-05,sensitivity=3,sigma=2.5,step=1e-05",
    "click-rr": "debias=true,eps=1",
    "top-k": "k=3",
    "random-k": "k=3,rescale=true",
    "quantise": "levels=5,range=2",
    "sign": "scale=0.5",
    "metric-rr": "eps=1.2",
}
"""Sensible values for plug-ins that cannot be made from their name alone."""

QUICK = {
    "coltr": "candidates=20",
    "raifle": "steps=10",
    "joint-map": "shortlist=4,sweeps=2",
    "aggregate": "restarts=1",
}
"""Less work for searches: what holds of every answer does not depend on how long they go on."""

NO_PAPER = {"first-position", "none"}
"""Plug-ins too plain to have a source."""


def example(base: type[Plugin], name: str) -> Any:
    """A registered plug-in with its defaults, and `REQUIRED` values where it has none."""
    cls = plugin_class(base, name)
    needed = [key for key, info in cls.model_fields.items() if info.is_required()]
    if needed and name not in REQUIRED:
        pytest.fail(
            f"{name} needs {', '.join(needed)}: give values in REQUIRED of tests/plugins/test_contract.py"
        )
    given = REQUIRED.get(name) or QUICK.get(name)
    return make(base, f"{name}:{given}" if given else name)


def registered(base: type[Plugin]) -> pytest.MarkDecorator:
    """A parameter set with the name of every registered plug-in of a kind."""
    return pytest.mark.parametrize("name", names(base))


EVERY = [pytest.param(base, name, id=name) for base in GROUPS for name in names(base)]


# --- every kind -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("base", "name"), EVERY)
class TestPlugin:
    def test_is_registered_under_its_own_name(self, base: type[Plugin], name: str) -> None:
        assert plugin_class(base, name).name == name

    def test_is_frozen(self, base: type[Plugin], name: str) -> None:
        plugin = example(base, name)
        for key in (*type(plugin).model_fields, "name", "anything"):
            with pytest.raises((ValueError, AttributeError)):
                setattr(plugin, key, 1)
        assert hash(plugin) == hash(example(base, name))

    def test_refuses_unknown_parameters(self, base: type[Plugin], name: str) -> None:
        with pytest.raises(PluginError, match=f"{name}: unknown parameter 'no_such_thing'"):
            make(base, f"{name}:no_such_thing=1")
        with pytest.raises(ValueError, match="no_such_thing"):
            plugin_class(base, name).model_validate({"no_such_thing": 1})

    @pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
    def test_refuses_numbers_that_are_none(self, base: type[Plugin], name: str, bad: str) -> None:
        plugin = example(base, name)
        for key, value in plugin.model_dump().items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                given = {**plugin.model_dump(), key: bad}
                text = ",".join(f"{k}={v}" for k, v in given.items() if v is not None)
                with pytest.raises(PluginError, match=f"{name}: {key}={bad}"):
                    make(base, f"{name}:{text}")

    def test_text_makes_it_again(self, base: type[Plugin], name: str) -> None:
        plugin = example(base, name)
        assert make(base, plugin.text) == plugin
        assert make(base, plugin.text).text == plugin.text
        assert make(base, plugin.label) == plugin

    @pytest.mark.parametrize("value", [0.1 + 0.2, 1e-9, 7.0, 1e20, 123456789012345678.0, math.pi * 1e-300])
    def test_text_makes_it_again_with_any_number(self, base: type[Plugin], name: str, value: float) -> None:
        plugin = example(base, name)
        for key, old in plugin.model_dump().items():
            if not isinstance(old, float):
                continue
            try:
                changed = type(plugin)(**{**plugin.model_dump(), key: value})
            except ValueError:
                continue  # outside the range of this parameter
            assert make(base, changed.text) == changed
            if base is Defense:
                assert parse_chain([changed.text]) == (changed,)

    def test_says_what_it_is(self, base: type[Plugin], name: str) -> None:
        cls = plugin_class(base, name)
        text = inspect.getdoc(cls) or ""
        assert text.split("\n")[0].strip().endswith(".")
        assert cls.__doc__ is not None, "a docstring of its own, not an inherited one"
        around = text + (sys.modules[cls.__module__].__doc__ or "")
        assert name in NO_PAPER or "Source:" in around, "author, year and section of its source"
        assert base is not Attack or "Sees:" in text, "what the observer must see"
        assert base is not Defense or "Guarantees:" in text, "what it guarantees, and what not"
        for key, info in cls.model_fields.items():
            assert info.description, f"parameter {key} needs a description for `foltr-audit list`"


# --- attacks --------------------------------------------------------------------------------------

MADE: dict[str, Callable[..., View]] = {"es": tiny.es_view, "clicks": tiny.clicks_view}
"""Views of messages that are no models."""

VIEWS = ("model", "update", "several", "one")


def kind_of(attack: Attack) -> str:
    """A kind of messages that an attack reads; models if it can."""
    return "model" if "model" in attack.reads else min(attack.reads)


def view(attack: Attack, n: int, B: int = 1, kind: str | None = None) -> View:
    """A view that an attack can read."""
    of = kind or kind_of(attack)
    return MADE[of](n, B) if of in MADE else tiny.view(n, B, kind=of)


def view_of(attack: Attack, what: str) -> View:
    """One of `VIEWS`; where an attack reads no models, of what it reads."""
    update = what == "update" and kind_of(attack) == "model"
    n, B = {"several": (5, 3), "one": (1, 1)}.get(what, (7, 1))
    return view(attack, n, B, "update" if update else None)


def answer(attack: Attack, seen: View, seed: int = 1) -> Inference:
    """What an attack says of a view, after checks that hold for every answer."""
    before = [a.tobytes() for a in (seen.parameters, seen.messages, seen.shown, seen.features)]
    legacy = np.random.get_state()[1].tobytes()  # type: ignore[index]  # noqa: NPY002
    said = attack.infer(seen, Streams(seed).generator("test"))
    assert before == [a.tobytes() for a in (seen.parameters, seen.messages, seen.shown, seen.features)]
    assert legacy == np.random.get_state()[1].tobytes()  # type: ignore[index]  # noqa: NPY002
    assert said.scores.shape == said.guess.shape == seen.shown.shape
    assert said.scores.dtype == np.float64
    assert said.guess.dtype == np.bool_
    assert not said.guess[~seen.is_document].any(), "a guess at the padding"
    assert np.isfinite(said.scores[seen.is_document]).all(), "a score that is not finite"
    return said


def same(a: Inference, b: Inference, here: Any = ...) -> bool:
    """Whether two answers are equal to the byte where there are documents."""
    return a.scores[here].tobytes() == b.scores[here].tobytes() and np.array_equal(a.guess, b.guess)


@registered(Attack)
class TestAttack:
    @pytest.mark.parametrize("what", VIEWS)
    def test_same_seed_same_bytes(self, name: str, what: str) -> None:
        attack = example(Attack, name)
        seen = view_of(attack, what)
        assert same(answer(attack, seen), answer(attack, seen))

    @pytest.mark.parametrize("B", [0, 1, 3])
    def test_a_view_without_messages(self, name: str, B: int) -> None:
        attack = example(Attack, name)
        nothing = tiny.rearranged(view(attack, 2, max(B, 1)), slice(0, 0))
        assert answer(attack, tiny.cut(nothing, B)).guess.shape == (0, B, 10)

    def test_messages_without_interactions(self, name: str) -> None:
        attack = example(Attack, name)
        assert answer(attack, tiny.cut(view(attack, 2), 0)).guess.shape == (2, 0, 10)

    def test_lists_without_documents(self, name: str) -> None:
        attack = example(Attack, name)
        seen = view(attack, 3, 2)
        nobody = replace(seen, shown=np.full_like(seen.shown, -1), features=np.zeros_like(seen.features))
        assert not answer(attack, nobody).guess.any()

    @pytest.mark.parametrize("what", VIEWS)
    def test_order_of_messages_is_irrelevant(self, name: str, what: str) -> None:
        attack = example(Attack, name)
        seen = view_of(attack, what)
        order = np.random.default_rng(0).permutation(len(seen))
        said, other = answer(attack, seen), answer(attack, tiny.rearranged(seen, order))
        assert np.array_equal(said.guess[order], other.guess)
        assert said.scores[order].tobytes() == other.scores.tobytes()

    @pytest.mark.parametrize("what", VIEWS)
    def test_all_at_once_is_one_by_one(self, name: str, what: str) -> None:
        attack = example(Attack, name)
        seen = view_of(attack, what)
        said = answer(attack, seen)
        for i in range(len(seen)):
            alone = answer(attack, tiny.rearranged(seen, slice(i, i + 1)))
            assert np.array_equal(said.guess[i : i + 1], alone.guess)
            assert said.scores[i : i + 1].tobytes() == alone.scores.tobytes()

    @pytest.mark.parametrize("what", VIEWS)
    def test_documents_may_come_in_another_order(self, name: str, what: str) -> None:
        attack = example(Attack, name)
        seen = view_of(attack, what)
        if "order" in attack.needs:
            pytest.skip("it looks at the order")
        seen = replace(seen, knowledge=seen.knowledge.without(frozenset({"order"})))
        order = np.random.default_rng(1).permutation(seen.shown.shape[2])
        said, other = answer(attack, seen), answer(attack, tiny.rearranged(seen, slice(None), order))
        here = seen.is_document
        turned, straight = np.empty_like(said.scores), np.where(here, said.scores, 0.0)
        turned[:, :, order] = np.where(here[:, :, order], other.scores, 0.0)
        np.testing.assert_allclose(turned, straight, rtol=1e-9, atol=1e-9 * np.abs(straight).max())
        assert np.array_equal(said.guess[:, :, order], other.guess)

    @pytest.mark.parametrize("what", VIEWS)
    @pytest.mark.parametrize(("lists", "places"), [(0, 3), (2, 0), (1, 2)])
    def test_padding_says_nothing(self, name: str, what: str, lists: int, places: int) -> None:
        attack = example(Attack, name)
        seen = view_of(attack, what)
        _, B, k = seen.shown.shape
        padded = tiny.cut(seen, B + lists, k + places)
        said, other = answer(attack, seen), answer(attack, padded)
        assert np.array_equal(said.guess, other.guess[:, :B, :k])
        here, scores = seen.is_document, other.scores[:, :B, :k]
        np.testing.assert_allclose(scores[here], said.scores[here], rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("size", [0.0, 1e-300, 1e30, 1e300])
    @pytest.mark.parametrize("what", ["model", "update", "several"])
    def test_updates_of_any_size(self, name: str, what: str, size: float) -> None:
        attack = example(Attack, name)
        seen = view_of(attack, what)
        answer(attack, tiny.with_updates(seen, size * np.sign(seen.updates)))

    def test_refuses_messages_that_it_cannot_read(self, name: str) -> None:
        attack = example(Attack, name)
        assert attack.reads
        for kind in attack.reads:
            several = [attack.why_not(view(attack, 7, B, kind=kind)) for B in (1, 2)]
            assert None in several, "it reads messages of one list, or of two"
        reason = attack.why_not(replace(view(attack, 7), kind="telegram"))
        assert reason is not None
        assert "telegram" in reason

    def test_refuses_to_guess_without_what_it_needs(self, name: str) -> None:
        attack = example(Attack, name)
        seen = view(attack, 7)
        for need in attack.needs:
            value = getattr(seen.knowledge, need)
            without = replace(
                seen.knowledge, **dict[str, Any]({need: False if isinstance(value, bool) else None})
            )
            reason = attack.why_not(replace(seen, knowledge=without))
            assert reason is not None
            assert need in reason


# --- learners ---------------------------------------------------------------------------------------


@registered(Learner)
def test_learner(name: str, setup_of: SetupOf) -> None:
    learner = example(Learner, name)
    assert isinstance(learner, ModelLearner | MetricLearner | CentralLearner)
    assert learner.stages <= set(STAGES)
    assert learner.why_not("linear") is None
    assert learner.published_chain(math.inf, None) == ("none",)
    assert all(isinstance(fact, str | int | float | bool) for fact in learner.facts.values())
    setup = setup_of(learner=learner.text, clients=12)
    start = np.linspace(-0.4, 0.5, tiny.FEATURES)
    one, two = (Federation(setup).play(start, 3) for _ in range(2))
    assert np.isfinite(one.aggregate).all()
    assert one.aggregate.shape == start.shape
    assert not np.array_equal(one.aggregate, start), "it learns"
    assert one.aggregate.tobytes() == two.aggregate.tobytes()
    record, truth = one.recorded()
    assert record.messages.tobytes() == two.recorded()[0].messages.tobytes()
    assert (record.state is None) == isinstance(learner, ModelLearner)
    assert not truth.clicks[record.shown < 0].any()
    assert setup.learner.interactions == 4
    assert record.n_interactions == 48


MODELS = [name for name in names(Learner) if issubclass(plugin_class(Learner, name), ModelLearner)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("text", ["linear", "neural:hidden=3"])
def test_local_step(name: str, text: str, collection: Collection) -> None:
    learner, data, rng = example(Learner, name), collection.train, np.random.default_rng(4)
    ranker = make_ranker(text, data.n_features)
    queries = np.array([0, 5, 1, 9, 5])
    models = rng.normal(size=(5, ranker.n_parameters))
    models.flags.writeable = False
    shown = np.full((5, 10), -1)
    for row, length in enumerate(np.minimum(data.lengths[queries], 10)):
        shown[row, :length] = rng.permutation(length)
    clicks = (rng.random((5, 10)) < 0.4) & (shown >= 0)
    clicks[4] = False

    def stepped(order: Any) -> tuple[Floats, Bools]:
        parameters = np.ascontiguousarray(models[order])
        scores, starts = ranker.scores(parameters, data, queries[order])
        after, moved = learner.local_step(
            parameters, data, queries[order], scores, starts, shown[order], clicks[order], ranker
        )
        return after, moved

    after, moved = stepped(slice(None))
    assert np.isfinite(after).all()
    assert after[4].tobytes() == models[4].tobytes(), "nothing clicked, nothing learnt"
    assert after[0].tobytes() == models[0].tobytes(), "one document, nothing learnt"
    assert not moved[[0, 4]].any()
    assert moved.any()
    assert np.array_equal(np.any(after != models, axis=1), moved)
    order = np.array([2, 4, 0, 1, 3])
    turned, also = stepped(order)
    assert after[order].tobytes() == turned.tobytes()
    assert np.array_equal(moved[order], also)
    nobody, _ = stepped(slice(0, 0))
    assert nobody.shape == (0, ranker.n_parameters)
