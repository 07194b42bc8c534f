"""The contract of a learner: rounds that it plays, and the parts of which its rounds are made."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import ClassVar

import numpy as np

from foltr_audit.core.plugins import (
    CentralLearner,
    Defense,
    Learner,
    MetricLearner,
    ModelLearner,
    RoundContext,
)
from foltr_audit.core.plugins.answers import arrays_of, facts_of, published_of, step_of
from foltr_audit.core.plugins.defense import STAGES
from foltr_audit.core.plugins.own_classes import at_hand
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.settings.defaults import CLIP, NO_DEFENSE
from foltr_audit.simulation.federation import Federation
from foltr_audit.testing.contract import CheckList, ContractCheck, checks_of, expect, run_checks
from foltr_audit.testing.plugin_checks import PLUGIN_CHECKS
from foltr_audit.testing.sample_data import FEATURES, generator, tiny_collection, tiny_setup
from foltr_audit.testing.surroundings import own_generators_only, threads
from foltr_audit.utils.arrays import Bools, Floats, Ints

_CHECKS = CheckList()
_CLIENTS = 12
_RANKERS = ("linear", "neural:hidden=3")
_KINDS = (ModelLearner, MetricLearner, CentralLearner)


def learner_checks(learner: Learner | type[Learner] | str) -> list[ContractCheck]:
    """The checks of a learner, each with its name, e.g. for `pytest.mark.parametrize`.

    Args:
        learner: an object, a class whose parameters all have defaults, or the text of a registered learner.

    Raises:
        ContractError: it cannot be made.
    """
    return checks_of(Learner, learner, [*PLUGIN_CHECKS, *_CHECKS])


def check_learner(learner: Learner | type[Learner] | str) -> None:
    """Check that a learner does what every learner must do; it need not be registered.

    Args:
        learner: as for `learner_checks`.

    Raises:
        ContractError: it does not; the error says which checks failed, and why.
    """
    run_checks(learner_checks(learner))


@_CHECKS("its kind and its facts")
def _facts(learner: Learner) -> None:
    wanted = " or ".join(kind.__name__ for kind in _KINDS)
    expect(isinstance(learner, _KINDS), f"a subclass of {wanted}", type(learner).__mro__[1].__name__)
    unknown = sorted(learner.stages - set(STAGES))
    expect(not unknown, f"stages of {', '.join(STAGES)}", f"{unknown}")
    refusal = learner.why_not("linear")
    expect(refusal is None, "that it trains the linear ranker", f"its refusal: {refusal}")
    chain = published_of(learner, math.inf, None)
    expect(chain == (NO_DEFENSE,), "no published defense for an infinite epsilon", f"{chain}")
    facts = facts_of(learner)
    plain = all(isinstance(fact, str | int | float | bool) for fact in facts.values())
    expect(plain, "facts that are texts, numbers or truth values", f"{facts}")


# --- whole rounds ---------------------------------------------------------------------------------


def _played(learner: Learner, seed: int = 1) -> tuple[RoundRecord, RoundTruth]:
    setup = tiny_setup(learner=learner.text, clients=_CLIENTS, seed=seed)
    return Federation(setup).play(_start(), 1).recorded()


def _start() -> Floats:
    return np.linspace(-0.4, 0.5, FEATURES)


@_CHECKS("a round")
def _plays(learner: Learner) -> None:
    record, truth = _played(learner)
    expect(np.isfinite(record.aggregate).all(), "a finite model after a round", "other numbers")
    expect(not np.array_equal(record.aggregate, _start()), "that it learns", "the model that it began with")
    named = isinstance(learner, ModelLearner)
    state = "none" if record.state is None else f"a state of {record.state.size} numbers"
    wanted = "no state beside the model" if named else "a state beside the model"
    expect((record.state is None) == named, wanted, state)
    expect(not truth.clicks[record.shown < 0].any(), "no click at the padding", "one")
    count = _CLIENTS * learner.interactions
    expect(record.n_interactions == count, f"{count} interactions", f"{record.n_interactions}")


@_CHECKS("same seed, same bytes")
def _same_seed(learner: Learner) -> None:
    with own_generators_only():
        one, two, other = (_played(learner, seed)[0] for seed in (1, 1, 2))
    expect(_bytes(one) == _bytes(two), "the same round from the same seed", "two rounds")
    expect(_bytes(one) != _bytes(other), "another round from another seed", "the same one")


@_CHECKS("any number of threads")
def _threads(learner: Learner) -> None:
    rounds = []
    for count in (1, 2):
        with threads(count):
            rounds.append(_bytes(_played(learner)[0]))
    expect(rounds[0] == rounds[1], "the same round on one thread and on two", "two rounds")


def _bytes(record: RoundRecord) -> list[bytes]:
    return [record.aggregate.tobytes(), record.messages.tobytes(), record.shown.tobytes()]


# --- local steps ----------------------------------------------------------------------------------


class _Interactions:
    """One interaction of each of five clients: the first shows one document, the last has no click."""

    def __init__(self, ranker: str) -> None:
        self.data, rng = tiny_collection().train, generator(4)
        self.ranker = make_ranker(ranker, self.data.n_features)
        self.queries = np.array([0, 5, 1, 9, 5])
        self.models = rng.normal(size=(5, self.ranker.n_parameters))
        self.shown = np.full((5, 10), -1)
        for row, length in enumerate(np.minimum(self.data.lengths[self.queries], 10)):
            self.shown[row, :length] = rng.permutation(length)
        self.clicks = (rng.random((5, 10)) < 0.4) & (self.shown >= 0)
        self.clicks[4] = False

    def stepped(self, learner: ModelLearner, rows: Ints | slice) -> tuple[Floats, Bools]:
        """A local step of some of the clients: their models (C, P), and which took a step (C,)."""
        models, queries = np.ascontiguousarray(self.models[rows]), self.queries[rows]
        scores, starts = self.ranker.scores(models, self.data, queries)
        given = (models, scores, starts, self.shown[rows].copy(), self.clicks[rows].copy())
        before = [array.tobytes() for array in given]
        models.flags.writeable = False
        out = learner.local_step(models, self.data, queries, *given[1:], self.ranker)
        after, moved = step_of(learner, out, models)
        same = before == [array.tobytes() for array in given]
        expect(same, "arrays that local_step leaves as they are", "that it changed one")
        expect(not np.shares_memory(after, models), "new models from local_step", "those it was given")
        return after, moved


def _trained(learner: Learner) -> Iterator[tuple[ModelLearner, _Interactions]]:
    """Interactions for each ranker that a learner trains, if its clients take local steps."""
    if isinstance(learner, ModelLearner):
        yield from ((learner, _Interactions(one)) for one in _RANKERS if learner.why_not(one) is None)


@_CHECKS("a local step")
def _local_step(learner: Learner) -> None:
    for stepping, given in _trained(learner):
        after, moved = given.stepped(stepping, slice(None))
        expect(np.isfinite(after).all(), "finite models", "other numbers")
        for row, why in ((4, "no click"), (0, "one document")):
            wanted = f"that a client learns nothing from a list with {why}"
            expect(after[row].tobytes() == given.models[row].tobytes(), wanted, "another model")
            expect(not moved[row], wanted, "that it reports a step")
        expect(moved.any(), "that clients learn from clicks", "no step")
        changed = np.any(after != given.models, axis=1)
        expect(np.array_equal(changed, moved), "a step reported where a model changed", f"{moved}")


@_CHECKS("a local step does not depend on other clients")
def _local_steps_alone(learner: Learner) -> None:
    for stepping, given in _trained(learner):
        after, moved = given.stepped(stepping, slice(None))
        order = np.array([2, 4, 0, 1, 3])
        turned, also = given.stepped(stepping, order)
        same = after[order].tobytes() == turned.tobytes() and np.array_equal(moved[order], also)
        expect(same, "the same steps for clients in another order", "other ones")
        for row in range(5):
            alone, _ = given.stepped(stepping, slice(row, row + 1))
            expect(alone[0].tobytes() == after[row].tobytes(), "the same step for a client alone", "another")
        nobody, _ = given.stepped(stepping, slice(0, 0))
        shape = (0, given.models.shape[1])
        expect(nobody.shape == shape, f"models of shape {shape} of nobody", f"shape {nobody.shape}")


class _IdleClicks(Defense):
    """Leaves all clicks as they are, by code of its own, which the compiled loop cannot run."""

    name: ClassVar[str] = "idle-clicks"

    def on_clicks(self, clicks: Bools, shown: Ints, step: int, context: RoundContext) -> Bools:
        return clicks.copy()


@_CHECKS("its compiled step is its local step")
def _compiled(learner: Learner) -> None:
    """With each ranker that it trains, with and without a ball that models are scaled into after a step."""
    if not isinstance(learner, ModelLearner) or learner.compiled_step is None:
        return
    with at_hand(Defense, _IdleClicks):
        for ranker, chain in product(_RANKERS, ((), (f"{CLIP}:norm=0.5",))):
            if learner.why_not(ranker) is None:
                compiled, stepped = (
                    _messages(learner, ranker, (*clicks, *chain)) for clicks in ((), (_IdleClicks.name,))
                )
                where = f"ranker {ranker}, {chain[0] if chain else 'no clip'}"
                wanted = f"the same messages by local_step as by compiled_step with {where}"
                expect(stepped == compiled, wanted, "other ones")


def _messages(learner: ModelLearner, ranker: str, chain: tuple[str, ...]) -> bytes:
    setup = tiny_setup(learner=learner.text, ranker=ranker, clients=_CLIENTS, defense=chain or (NO_DEFENSE,))
    start = np.linspace(-0.4, 0.5, setup.ranker.n_parameters)
    return Federation(setup).play(start, 1).recorded()[0].messages.tobytes()


# --- metrics --------------------------------------------------------------------------------------


@_CHECKS("metrics and perturbations")
def _metrics(learner: Learner) -> None:
    if not isinstance(learner, MetricLearner):
        return
    rng = generator(6)
    clicks = np.concatenate([np.zeros((1, 10), np.bool_), rng.random((200, 10)) < 0.3])
    outcomes, values = learner.outcomes(clicks), learner.values
    expect(outcomes.shape == (201,), "an outcome for each list", f"shape {outcomes.shape}")
    inside = (outcomes >= 0) & (outcomes < values.size)
    expect(inside.all(), f"outcomes from 0 to {values.size - 1}", "another one")
    order = rng.permutation(201)
    same = np.array_equal(learner.outcomes(clicks[order]), outcomes[order])
    expect(same, "the same outcome for the same clicks", "another in another order")
    seeds = rng.integers(2**63, size=8, dtype=np.uint64)
    several = learner.perturbations(seeds, FEATURES)
    expect(several.shape == (8, FEATURES), "a perturbation for each seed", f"shape {several.shape}")
    for i in range(8):
        alone = learner.perturbations(seeds[i : i + 1], FEATURES)
        same = alone[0].tobytes() == several[i].tobytes()
        expect(same, "that a perturbation follows from its seed", "another one alone")


@_CHECKS("the server's update")
def _update(learner: Learner) -> None:
    if not isinstance(learner, MetricLearner):
        return
    rng = generator(8)
    seeds, P = rng.integers(2**63, size=8, dtype=np.uint64), FEATURES
    messages, state = rng.random((8, 2 if learner.antithetic else 1)), learner.first_state(P)
    shapes = ((P,), state.shape)
    who = f"learner {learner.name}: update"
    model, after = arrays_of(who, learner.update(_start(), state, seeds, messages), shapes)
    finite = np.isfinite(model).all() and np.isfinite(after).all()
    expect(finite, "finite numbers from update", "others")
    order = rng.permutation(8)
    other, _ = arrays_of(who, learner.update(_start(), state, seeds[order], messages[order]), shapes)
    near = np.allclose(model, other, rtol=1e-9, atol=1e-12)
    expect(near, "the same update for messages in another order", "another one")
