"""What the contract suites play with: tiny ranking data, a small experiment, and views of random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from foltr_audit.core.plugins import Ball, Knowledge, RoundContext, View
from foltr_audit.core.records import Collection
from foltr_audit.core.records.view import Candidates, ClickBelief
from foltr_audit.core.settings.data import DataSpec
from foltr_audit.core.settings.defaults import CLICK_MODELS, LEARNER, NO_DEFENSE
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.data.load import load_collection
from foltr_audit.privacy.randomized_response import RandomizedResponse
from foltr_audit.rng import Streams
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.arrays import Floats, Ints
from foltr_audit.utils.seed_generators import NUMPY_RANDOMSTATE

FEATURES = 6
_SOURCE = "synthetic:mq2007:20"


def generator(seed: int) -> Generator:
    return Generator(PCG64(seed))


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


@cache
def data() -> Collection:
    return load_collection(DataSpec(source=_SOURCE), 1, cache=False)


def tiny_setup(learner: str = LEARNER, defense: str = NO_DEFENSE, clients: int = 12, seed: int = 1) -> Setup:
    """Three rounds of a small experiment with plug-ins given by their texts."""
    spec = {
        "seed": seed,
        "defense": [defense],
        "data": {"source": _SOURCE},
        "population": {"clients": clients},
        "train": {"rounds": 3, "learner": learner, "click_model": CLICK_MODELS[-1]},
        "trace": {"dtype": "float64"},
    }
    return Setup(Spec.parse(spec), data())


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
    steps = (features * rng.normal(size=(n, B, k, 1))).sum(axis=(1, 2))
    steps += 0.01 * rng.normal(size=(n, FEATURES))
    labels = np.where(shown >= 0, rng.integers(0, 3, size=shown.shape), -1)
    # Under the other intent, what is best under the first is worth nothing.
    first, other = (np.where(labels == grade, 0, labels) for grade in (1, 2))
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
    halves = (B + 1) // 2, B // 2
    means = [values[rng.integers(11, size=(n, size))].sum(axis=1) / max(1, size) for size in halves]
    return replace(
        seen,
        kind="es",
        messages=np.stack(means, axis=1),
        seeds=rng.integers(2**32, size=n, dtype=np.uint64),
        knowledge=known,
    )


def clicks_view(n: int, B: int = 1, *, seed: int = 0) -> View:
    seen = view(n, B, seed=seed)
    clicks = (generator(seed).random(seen.shown.shape) < 0.3) & seen.is_document
    known = replace(EVERYTHING, interactions=B)
    messages = clicks.reshape(n, -1).astype(np.float64)
    return replace(seen, kind="clicks", messages=messages, knowledge=known)


_LISTS = {"shown": -1, "features": 0, "labels": -1, "intent_labels": -1}
"""Parts of a view with a value for each place of a list (n, B, k), by the value of empty places."""


def _in_lists(
    seen: View, change: Callable[[NDArray[np.generic], int], NDArray[np.generic]], **others: object
) -> View:
    there = [name for name in _LISTS if getattr(seen, name) is not None]
    parts: dict[str, Any] = others | {name: change(getattr(seen, name), _LISTS[name]) for name in there}
    if seen.kind == "clicks":
        clicks = change(seen.messages.reshape(seen.shown.shape), 0)
        parts["messages"] = clicks.reshape(clicks.shape[0], clicks.shape[1] * clicks.shape[2])
    return replace(seen, **parts)


def rearranged(seen: View, order: Ints | slice, documents: Ints | slice = slice(None)) -> View:
    """Some messages of a view in another order, their lists in another order as well."""
    return _in_lists(
        seen,
        lambda part, _: part[order][:, :, documents],
        parameters=seen.parameters[order],
        messages=seen.messages[order],
        seeds=None if seen.seeds is None else seen.seeds[order],
        candidates=seen.candidates and replace(seen.candidates, query=seen.candidates.query[order]),
        clients=seen.clients[order],
    )


def cut(seen: View, B: int, k: int | None = None) -> View:
    """The same messages with their first B lists only, or with other padding: k places a list."""
    k = seen.shown.shape[2] if k is None else k
    more = ((0, 0), (0, max(0, B - seen.shown.shape[1])), (0, max(0, k - seen.shown.shape[2])))

    def narrowed(part: NDArray[np.generic], fill: int) -> NDArray[np.generic]:
        return np.pad(part, (*more, (0, 0))[: part.ndim], constant_values=fill)[:, :B, :k]

    candidates = seen.candidates
    if candidates is not None:
        queries = np.pad(candidates.query, more[:2], constant_values=-1)[:, :B]
        candidates = replace(candidates, query=queries)
    return _in_lists(seen, narrowed, candidates=candidates)


def with_updates(seen: View, updates: Floats) -> View:
    """The same view with other updates (n, P), or other messages where they are no models."""
    return replace(seen, messages=seen.parameters + updates if seen.kind == "model" else updates)


MADE: dict[str, Callable[[int, int], View]] = {
    "model": view,
    "update": partial(view, kind="update"),
    "es": es_view,
    "clicks": clicks_view,
}
"""A view of n messages of B interactions for each kind of message."""
