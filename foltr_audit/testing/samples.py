"""What the contract suites play with: tiny ranking data, views of random numbers, and played rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import PCG64, Generator

from foltr_audit.core.plugins import (
    Ball,
    Knowledge,
    Learner,
    Population,
    RoundContext,
    Scenario,
    ScenarioContext,
    Trait,
    TraitValue,
    View,
)
from foltr_audit.core.plugins.registry import at_hand, loadable, plugin_class
from foltr_audit.core.records import Collection, Dataset
from foltr_audit.core.records.dataset import joint_fingerprint
from foltr_audit.core.records.view import Candidates, ClickBelief
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.core.settings.defaults import CLICK_MODELS, LEARNER, NO_DEFENSE, SCENARIO
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.judge.counts import CountTask
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.participants import ParticipantTask
from foltr_audit.judge.protocol import TaskClass
from foltr_audit.privacy.randomized_response import RandomizedResponse
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import MemoryRoundStore, trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.seed_generators import NUMPY_RANDOMSTATE

FEATURES = 6
LENGTHS = {
    "train": (1, 14, 7, 10, 2, 11, 5, 3, 13, 10, 4, 12),
    "vali": (12, 1, 10, 9, 14),
    "test": (10, 11, 3, 13, 8, 14),
}


def generator(seed: int) -> Generator:
    """A generator whose numbers the seed fixes."""
    return Generator(PCG64(seed))


def dataset(lengths: Sequence[int], seed: int, name: str = "q", largest: int = 2) -> Dataset:
    """Random queries of these lengths; labels follow the first feature and noise, twins included."""
    rng = generator(seed)
    rows = sum(lengths)
    features = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    utility = features[:, 0] + 0.7 * rng.normal(size=rows)
    labels = np.clip(np.floor(1.5 * utility + 0.6), 0, largest).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    first = offsets[:-1][np.asarray(lengths) > 3]
    features[first + 1] = features[first + 2]
    labels[offsets[-2] :] = 0
    return Dataset(
        features=features,
        labels=labels,
        offsets=offsets,
        query_ids=tuple(f"{name}{i}" for i in range(len(lengths))),
        document_ids=("",) * rows,
    )


def collection_of(train: Dataset, vali: Dataset, test: Dataset) -> Collection:
    """Three parts as one fold."""
    return Collection(
        train=train,
        vali=vali,
        test=test,
        source="tiny",
        synthetic=True,
        fold=0,
        fingerprint=joint_fingerprint([train, vali, test]),
    )


def tiny_collection() -> Collection:
    """Queries of 1 to 14 documents, labels 0 to 2, six features; the last query of a part has no relevant."""
    train, vali, test = (dataset(LENGTHS[part], i, part) for i, part in enumerate(Collection.PARTS))
    return collection_of(train, vali, test)


def intent_collection() -> Collection:
    """The same data, judged under two intents: a document has its grade under one of them, or under both."""
    parts = []
    for i, part in enumerate(Collection.PARTS):
        data = dataset(LENGTHS[part], i, part)
        turn = generator(10 + i).integers(0, 3, size=data.n_documents)
        parts.append(data.with_intents(np.stack([np.where(turn == j, 0, data.labels) for j in range(2)])))
    return collection_of(*parts)


def context(
    clients: Sequence[int] | Ints,
    *,
    P: int = FEATURES,
    shares: int = 50,
    counts: Sequence[int] | None = None,
    seed: int = 1,
    round_: int = 3,
) -> RoundContext:
    """A round of these clients; by default all had four interactions, and 50 shares are reckoned with."""
    present = np.asarray(clients, dtype=np.int64)
    return RoundContext(
        round=round_,
        shares=shares,
        clients=present,
        counts=np.full(present.size, 4) if counts is None else np.asarray(counts),
        parameters=np.linspace(-1.0, 1.0, P),
        source=Streams(seed),
    )


def tiny_setup(
    *,
    learner: str = LEARNER,
    defense: tuple[str, ...] = (NO_DEFENSE,),
    message: str = "model",
    clients: int = 12,
    seed: int = 1,
    ranker: str = "linear",
    scenario: str = SCENARIO,
    collection: Collection | None = None,
) -> Setup:
    """Three rounds of a small experiment with plug-ins given by their texts; on `tiny_collection` if None."""
    spec = Spec.parse(
        {
            "seed": seed,
            "defense": defense,
            "data": {"source": "tiny", "normalise": "none"},
            "population": {"clients": clients, "scenario": scenario},
            "train": {"rounds": 3, "learner": learner, "ranker": ranker, "click_model": CLICK_MODELS[-1]},
            "trace": {"message": message, "dtype": "float64"},
        }
    )
    return Setup(spec, collection or tiny_collection())


# --- views ----------------------------------------------------------------------------------------

BELIEF = ClickBelief(
    click=np.array([0.1, 0.5, 0.9]),
    stop=np.array([0.0, 0.2, 0.4]),
    grades=np.linspace([0.2, 0.3, 0.5], [0.8, 0.1, 0.1], 10),
)
EVERYTHING = Knowledge(
    candidates=True,
    relevance=True,
    intents=True,
    interactions=1,
    lists="deterministic",
    belief=BELIEF,
    learning_rate=0.1,
    pairs="all",
    normaliser="shown",
    clip=Ball(norm=3.0),
    noise="gamma-share:n=1000,scale=2.5",
    click_model=CLICK_MODELS[0],
)


def view(n: int, B: int = 1, *, seed: int = 0, kind: str = "model", k: int = 10) -> View:
    """Random messages that lie near the span of their documents; lists of 0..k documents where B > 1."""
    rng = generator(seed)
    lengths = rng.integers(0 if B > 1 else 1, k + 1, size=(n, B))
    shown = np.argsort(rng.random((n, B, k)), axis=-1)
    shown[np.arange(k) >= lengths[..., np.newaxis]] = -1
    documents = k + 3  # of every query; shown are some of the first k
    pool = rng.normal(size=(n, B, documents, FEATURES)).astype(np.float32)
    features = np.take_along_axis(pool, np.maximum(shown, 0)[..., np.newaxis], axis=2)
    features[shown < 0] = 0
    parameters = np.tile(rng.normal(size=FEATURES), (n, 1))
    steps = (features * rng.normal(size=(n, B, k, 1))).sum(axis=(1, 2)) + 0.01 * rng.normal(
        size=(n, FEATURES)
    )
    labels = np.where(shown >= 0, rng.integers(0, 3, size=shown.shape), -1)
    other = np.where(
        labels == 2, 0, labels
    )  # the other intent: what is best under the first is worth nothing
    first = np.where(labels == 1, 0, labels)
    return View(
        observer="individual",
        kind=kind,
        parameters=parameters,
        messages=steps + parameters if kind == "model" else steps,
        shown=shown,
        features=features,
        candidates=Candidates(
            features=pool.reshape(-1, FEATURES),
            offsets=documents * np.arange(n * B + 1),
            query=np.arange(n * B).reshape(n, B),
        ),
        labels=labels,
        intent_labels=np.stack([first, other], axis=-1),
        knowledge=replace(EVERYTHING, interactions=B),
    )


def es_view(n: int, B: int = 1, *, seed: int = 0) -> View:
    """Seeds of NumPy's RandomState and mean reciprocal ranks of random lists."""
    seen, rng = view(n, B, seed=seed), generator(seed)
    known = replace(
        EVERYTHING,
        interactions=B,
        sigma=0.5,
        metric="maxrr",
        noise=RandomizedResponse(0.5, 11).text,
        perturbation=NUMPY_RANDOMSTATE,
    )
    values = np.append(0.0, 1 / np.arange(1, 11))
    halves = [(B + 1) // 2, B // 2]
    means = [values[rng.integers(11, size=(n, size))].sum(axis=1) / max(1, size) for size in halves]
    return replace(
        seen,
        kind="es",
        messages=np.stack(means, axis=1),
        seeds=rng.integers(2**32, size=n, dtype=np.uint64),
        knowledge=known,
    )


def clicks_view(n: int, B: int = 1, *, seed: int = 0) -> View:
    """Clicks on random lists, as a central server sees them."""
    seen = view(n, B, seed=seed)
    clicks = (generator(seed).random(seen.shown.shape) < 0.3) & seen.is_document
    known = replace(EVERYTHING, interactions=B)
    messages = clicks.reshape(n, -1).astype(np.float64)
    return replace(seen, kind="clicks", messages=messages, knowledge=known)


def rearranged(seen: View, order: Ints | slice, documents: Ints | slice = slice(None)) -> View:
    """Some messages of a view in another order, their lists in another order as well."""
    candidates, labels, messages = seen.candidates, seen.labels, seen.messages
    if seen.kind == "clicks":
        messages = messages.reshape(seen.shown.shape)[:, :, documents].reshape(messages.shape)
    return replace(
        seen,
        parameters=seen.parameters[order],
        messages=messages[order],
        seeds=None if seen.seeds is None else seen.seeds[order],
        shown=seen.shown[order][:, :, documents],
        features=seen.features[order][:, :, documents],
        candidates=None if candidates is None else replace(candidates, query=candidates.query[order]),
        labels=None if labels is None else labels[order][:, :, documents],
        intent_labels=None if seen.intent_labels is None else seen.intent_labels[order][:, :, documents],
        clients=seen.clients[order],
    )


def cut(seen: View, B: int, k: int | None = None) -> View:
    """The same messages with their first B lists only, or with other padding: k places a list."""
    k = seen.shown.shape[2] if k is None else k
    more = ((0, 0), (0, max(0, B - seen.shown.shape[1])), (0, max(0, k - seen.shown.shape[2])))
    candidates, messages = seen.candidates, seen.messages
    queries = None if candidates is None else np.pad(candidates.query, more[:2], constant_values=-1)[:, :B]

    def narrowed(grades: Ints | None) -> Ints | None:
        beside = () if grades is None else ((0, 0),) * (grades.ndim - 3)
        return None if grades is None else np.pad(grades, (*more, *beside), constant_values=-1)[:, :B, :k]

    if seen.kind == "clicks":
        messages = np.pad(messages.reshape(seen.shown.shape), more)[:, :B, :k].reshape(len(seen), B * k)
    return replace(
        seen,
        messages=messages,
        shown=np.pad(seen.shown, more, constant_values=-1)[:, :B, :k],
        features=np.pad(seen.features, (*more, (0, 0)))[:, :B, :k].astype(np.float32),
        candidates=None if candidates is None or queries is None else replace(candidates, query=queries),
        labels=narrowed(seen.labels),
        intent_labels=narrowed(seen.intent_labels),
    )


def with_updates(seen: View, updates: Floats) -> View:
    """The same view with other updates (n, P), or other messages where they are no models."""
    return replace(seen, messages=seen.parameters + updates if seen.kind == "model" else updates)


MADE: dict[str, Callable[[int, int], View]] = {
    "model": lambda n, B: view(n, B, kind="model"),
    "update": lambda n, B: view(n, B, kind="update"),
    "es": es_view,
    "clicks": clicks_view,
}
"""A view of n messages of B interactions for each kind of message."""


# --- played rounds --------------------------------------------------------------------------------

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
