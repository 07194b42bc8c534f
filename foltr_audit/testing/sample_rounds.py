"""Played rounds with each kind of message that attacks read, for each of the tasks that judge them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from foltr_audit.core.plugins import Learner, Population, Scenario, ScenarioContext, Trait, TraitValue, View
from foltr_audit.core.plugins.own_classes import at_hand
from foltr_audit.core.plugins.registry import loadable, plugin_class
from foltr_audit.core.records.interactions import RoundTruth
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import CLICK_MODELS, LEARNER
from foltr_audit.judge.counts import CountTask
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.participants import ParticipantTask
from foltr_audit.judge.protocol import TaskClass
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import MemoryRoundStore, trace_header
from foltr_audit.testing.sample_data import FEATURES, intent_collection, tiny_setup
from foltr_audit.utils.seed_generators import NUMPY_RANDOMSTATE

TRAINING = AttackSpec(target="training")
FRESH = AttackSpec(on=("vali",), choices=3, repeats=2)
ROUND_SUMS = AttackSpec(target="training", view="aggregate")
SUMS = AttackSpec(on=("vali",), repeats=2, view="aggregate")

_SENT = {"es": "metrics", "clicks": "clicks"}


class PlayedRounds(NamedTuple):
    """Recorded rounds, the server that sees them, and the protocol in which attacks are judged on them."""

    store: MemoryRoundStore
    server: Observer
    protocol: AttackSpec


class _OneIntentEach(Scenario):
    """Half of the clients search with the first intent, half with the second."""

    name: ClassVar[str] = "one-intent-each"

    def population(self, before: Population, context: ScenarioContext) -> Population:
        values = tuple(TraitValue(name=f"intent {i}", intent=i) for i in range(context.intents))
        return before.with_trait(Trait(name="intent", values=values))


def _learner_of(kind: str) -> str:
    """The default learner with two interactions, or the quickest one whose messages are of this kind."""
    if kind not in _SENT:
        return f"{LEARNER}:interactions=2"
    classes = {name: plugin_class(Learner, name) for name in loadable(Learner)}
    fitting = [name for name, cls in classes.items() if cls.sends == _SENT[kind]]
    return min(fitting, key=lambda name: (classes[name].slowness, name))


@lru_cache(maxsize=16)
def played_rounds(kind: str, protocol: AttackSpec = TRAINING) -> PlayedRounds:
    """Two rounds of a small experiment with messages of a kind.

    Clients have one of two intents each. Three of them train in both rounds; or three fresh clients, each
    with another query, show a deterministic list each.
    """
    message = kind if kind == "update" else "model"
    with at_hand(Scenario, _OneIntentEach):
        setup = tiny_setup(
            learner=_learner_of(kind),
            message=message,
            clients=3,
            scenario=_OneIntentEach.name,
            collection=intent_collection(),
        )
        interactions = None if protocol.target == "training" else protocol.interactions
        store = MemoryRoundStore(trace_header(setup, CLICK_MODELS[-1], 3, interactions, protocol.lists))
        parameters = np.linspace(-0.4, 0.5, FEATURES)
        if protocol.target == "training":
            for number in range(2):
                record, truth = Federation(setup).play(parameters, number).recorded()
                store.write(record, truth)
                parameters = record.aggregate
        else:
            for result in FreshClients(setup, protocol).rounds(parameters, CLICK_MODELS[-1]):
                store.write(*result.recorded())
    return PlayedRounds(store, Observer(store.header, setup.collection), protocol)


def played_view(kind: str) -> tuple[View, RoundTruth]:
    """What a server sees of a training round, and the truth that it does not see."""
    played = played_rounds(kind)
    (seen,) = played.server.views(played.store.records[1])
    return seen.view, played.store.truth[1]


def _with_seeds_of_numpy(played: PlayedRounds) -> PlayedRounds:
    """The same rounds, as if NumPy's RandomState made perturbations of the first 32 bits of each seed."""
    header = played.store.header
    header = replace(header, knowledge={**header.knowledge, "perturbation": NUMPY_RANDOMSTATE})
    store = MemoryRoundStore(header)
    for record, truth in zip(played.store.records, played.store.truth, strict=True):
        seeds = None if record.seeds is None else record.seeds >> np.uint64(32)
        store.write(replace(record, seeds=seeds), truth)
    return PlayedRounds(store, Observer(header, played.server.collection), played.protocol)


def rounds_to_judge(kinds: frozenset[str], task: TaskClass) -> Iterator[PlayedRounds]:
    """Rounds with messages of these kinds in every form that a task may need; or sums, of updates only."""
    in_sums: dict[TaskClass, AttackSpec] = {CountTask: SUMS, ParticipantTask: ROUND_SUMS}
    sums = in_sums.get(task)
    for kind in sorted(kinds):
        if sums is None:
            several = [played_rounds(kind, protocol) for protocol in (TRAINING, FRESH)]
            yield from several
            if kind == "es":
                yield from map(_with_seeds_of_numpy, several)
        elif kind not in _SENT:
            yield played_rounds(kind, sums)
