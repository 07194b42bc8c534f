"""A federated ranker in plain float64 NumPy that shares no code with foltr-audit, and traces of it.

Each client shows one sampled list, clicks down it, takes a step of PDGD (Oosterhuis & de Rijke 2018, section
4) and sends what it learnt, with a share of Laplace noise. Facts can be declared wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import foltr_audit as fa

K, FEATURES = 10, 46
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class System:
    """How the clients learn and what they send."""

    clients: int = 40
    rounds: int = 3
    learning_rate: float = 0.1
    pairs: str = "all"
    normaliser: str = "shown"
    shares: int | None = 1000
    scale: float = 2.5
    clip: float | None = None
    lists: int = 1
    seed: int = 1


@dataclass(frozen=True)
class Played:
    """One round: models before and after, and of each message its update, lists, clicks and features."""

    model: Floats
    after: Floats
    query: Ints
    updates: Floats
    shown: Ints
    clicks: Bools
    features: Floats


@cache
def pool(seed: int = 0, queries: int = 60) -> tuple[tuple[Floats, Ints], ...]:
    """Candidates of each query: features (documents, 46) and grades; queries differ in level and spread."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=FEATURES) / np.sqrt(FEATURES)
    made = []
    for _ in range(queries):
        documents = int(rng.integers(6, 25))
        features = rng.normal(size=FEATURES) + rng.normal(size=(documents, FEATURES))
        grades = np.digitize(features @ taste + 0.5 * rng.normal(size=documents), [0.3, 1.2])
        made.append((features, grades.astype(np.int64)))
    return tuple(made)


def list_probability(weights: Floats, order: list[int], rest: float) -> float:
    """Plackett-Luce probability of a list whose other candidates weigh `rest` together."""
    left, found = weights[order].sum() + rest, 1.0
    for place in order:
        found *= weights[place] / left
        left -= weights[place]
    return found


def gradient(scores: Floats, rest: float, clicks: Bools, features: Floats, pairs: str) -> Floats:
    """PDGD's gradient from one list, by its definition: pair by pair."""
    weights, k = np.exp(scores), scores.size
    shown = list(range(k))
    seen = k if pairs == "all" else min(k, int(np.flatnonzero(clicks).max(initial=-2)) + 2)
    found = np.zeros(features.shape[1])
    here = list_probability(weights, shown, rest)
    for i in np.flatnonzero(clicks[:seen]):
        for j in np.flatnonzero(~clicks[:seen]):
            other = shown.copy()
            other[i], other[j] = other[j], other[i]
            there = list_probability(weights, other, rest)
            slope = weights[i] * weights[j] / (weights[i] + weights[j]) ** 2
            found += there / (here + there) * slope * (features[i] - features[j])
    return found


def sampled_list(scores: Floats, rng: np.random.Generator) -> Ints:
    """The first places of a list drawn from Plackett-Luce."""
    return np.argsort(-(scores + rng.gumbel(size=scores.size)))[:K]


def clicked(grades: Ints, rng: np.random.Generator) -> Bools:
    """Clicks of a user who reads down and stops at times."""
    clicks = rng.random(grades.size) < np.array([0.3, 0.5, 0.8])[grades]
    stops = np.flatnonzero(clicks & (rng.random(grades.size) < 0.3))
    clicks[(int(stops[0]) + 1 if stops.size else grades.size) :] = False
    return np.asarray(clicks)


def play(system: System) -> list[Played]:
    """All rounds; the server averages and goes on."""
    rng, data = np.random.default_rng(system.seed), pool()
    model, rounds = 0.05 * rng.normal(size=FEATURES), []
    for _ in range(system.rounds):
        played = _round(system, model, data, rng)
        rounds.append(played)
        model = played.after
    return rounds


def _round(
    system: System, model: Floats, data: tuple[tuple[Floats, Ints], ...], rng: np.random.Generator
) -> Played:
    n = system.clients * system.lists
    query = rng.integers(len(data), size=n)
    shown, clicks = np.full((n, K), -1), np.zeros((n, K), dtype=np.bool_)
    features, updates = np.zeros((n, K, FEATURES)), np.zeros((system.clients, FEATURES))
    for row in range(n):
        rows, grades = data[query[row]]
        local = model + updates[row // system.lists]
        scores = rows @ local
        order = sampled_list(scores, rng)
        k = order.size
        shown[row, :k], features[row, :k] = order, rows[order]
        clicks[row, :k] = clicked(grades[order], rng)
        unseen = np.delete(scores, order) if system.normaliser == "candidates" else np.empty(0)
        step = gradient(
            scores[order], float(np.exp(unseen).sum()), clicks[row, :k], rows[order], system.pairs
        )
        local = local + system.learning_rate * step
        if system.clip is not None:
            local = local * min(1.0, system.clip / float(np.linalg.norm(local)))
        updates[row // system.lists] = local - model
    if system.shares is not None:
        shape = (system.clients, FEATURES)
        shares = rng.gamma(1 / system.shares, system.scale, shape)
        updates = updates + shares - rng.gamma(1 / system.shares, system.scale, shape)
    return Played(model, model + updates.mean(axis=0), query, updates, shown, clicks, features)


@cache
def rounds_of(system: System) -> tuple[Played, ...]:
    """The rounds of a system, played once."""
    return tuple(play(system))


def header(system: System, **changes: Any) -> fa.TraceHeader:
    """What the system's owner would declare; `facts` are added, those that are None left out."""
    facts: dict[str, Any] = {
        "interactions": system.lists,
        "learning_rate": system.learning_rate,
        "pairs": system.pairs,
        "normaliser": system.normaliser,
        "lists": "sampled",
        "noise": "none" if system.shares is None else f"gamma-share:n={system.shares},scale={system.scale}",
    }
    if system.clip is not None:
        facts |= {"clip_norm": system.clip, "clip_ord": 2}
    facts |= changes.pop("facts", {})
    made = fa.TraceHeader(
        kind="update",
        dtype="float64",
        parameters=FEATURES,
        k=K,
        dataset=fa.TraceDataset(source="", fold=0, fingerprint="", normalised="none", parts=("live",)),
        has_truth=True,
        embeds_features=True,
        knowledge={name: value for name, value in facts.items() if value is not None},
    )
    return replace(made, **changes)


def records(
    system: System, *, feature_dtype: str = "float64", dtype: str = "float64"
) -> list[tuple[fa.RoundRecord, fa.RoundTruth]]:
    """The rounds as records, with messages and features in these number formats."""
    made = []
    for number, played in enumerate(rounds_of(system)):
        n, lists = system.clients, system.lists
        record = fa.RoundRecord(
            round=number,
            parameters=played.model,
            aggregate=played.after,
            shares=n,
            survivors=np.ones(n, dtype=np.bool_),
            counts=np.full(n, lists),
            messages=played.updates.astype(dtype),
            slot=np.repeat(np.arange(n), lists),
            step=np.tile(np.arange(lists), n),
            part=np.zeros(n * lists, dtype=np.int64),
            query=played.query,
            shown=played.shown,
            features=played.features.astype(feature_dtype),
        )
        truth = fa.RoundTruth(
            clients=np.arange(n),
            updates=played.updates,
            clicks=played.clicks,
            clipped=np.zeros(n * lists, dtype=np.bool_),
        )
        made.append((record, truth))
    return made


def write(folder: Path, head: fa.TraceHeader, rounds: list[tuple[fa.RoundRecord, fa.RoundTruth]]) -> Path:
    """A trace of these rounds."""
    with fa.TraceWriter(folder, head) as writer:
        for record, truth in rounds:
            writer.write(record, truth if head.has_truth else None)
    return folder
