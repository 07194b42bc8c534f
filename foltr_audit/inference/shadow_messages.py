"""Messages that an observer simulates on its own queries, whose clicks it has drawn itself.

Source: Shokri, Stronati, Song & Shmatikov 2017, "Membership inference attacks against machine learning
models", section V: what an attacker has simulated itself teaches it to read what it has not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.core.records.view import Candidates, View
from foltr_audit.inference.linear_systems import least_squares, roundings, with_model_column
from foltr_audit.inference.pattern_decoder import noise_law
from foltr_audit.inference.replay import StepReplay, replay_of
from foltr_audit.privacy.noise import AdditiveNoise
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats, Ints

_POOL = 64  # lists that shadows of a client step share: a step may be slow
_SEEDS = 1 << 32  # from which the chance in a client's step is drawn
_HALF = 0.5  # chance of a click where no click model is known
_SAME = 1e-3  # relative difference of numbers that count as one size


class MessageForm(NamedTuple):
    """What an observer knows of a message before it reads its numbers.

    Attributes:
        lists: number of its lists.
        documents: the most documents that its lists have.
        kept: number of its coordinates that were sent; 0 for all.
        signs: whether only signs were sent.
    """

    lists: int
    documents: int
    kept: int
    signs: bool


def message_forms(view: View) -> list[MessageForm]:
    """The form of each message of a view.

    Where all numbers of an update have one size, only signs were sent. Coordinates were left out of an update
    that no weights of the documents explain and that changes less than half of the coordinates on which their
    scores depend. In sums over several clients neither shows. Above ten, numbers of lists and documents are
    rounded up to powers of two, and that of coordinates down, so that messages have few forms.
    """
    there = view.is_document
    lists, longest = there.any(axis=2).sum(axis=1), there.sum(axis=2).max(axis=1, initial=0)
    sizes, errors = np.abs(view.updates), roundings(view)
    changed = sizes > errors
    count, most = changed.sum(axis=1), sizes.max(axis=1, initial=0.0)
    least = np.where(changed, sizes, np.inf).min(axis=1, initial=np.inf)
    signs = (count > 1) & (most - least <= _SAME * most + 2 * errors.max(axis=1, initial=0.0))
    thinned = ~signs & (count > 0) & (2 * count < view.columns.any(axis=2).sum(axis=1))
    if thinned.any():
        fit = least_squares(with_model_column(view), view.click_updates, errors, view.feature_resolution)
        thinned &= fit.noisy
    return [
        MessageForm(
            lists=_rounded_up(int(lists[i])),
            documents=max(LIST_LENGTH, _rounded_up(int(longest[i]))),
            kept=1 << (int(count[i]).bit_length() - 1) if thinned[i] else 0,
            signs=bool(signs[i]),
        )
        for i in range(len(view))
    ]


def is_compressed(view: View) -> bool:
    """Whether most updates of a view were sent in part or as signs, which no likelihood models."""
    forms, moved = message_forms(view), (np.abs(view.updates) > roundings(view)).any(axis=1)
    return 2 * sum(form.signs or form.kept > 0 for form in forms) > int(moved.sum())


def _rounded_up(count: int) -> int:
    return count if count <= LIST_LENGTH else 1 << (count - 1).bit_length()


def as_signs(view: View) -> View:
    """The same messages as signs of their updates, whatever size their sender gave them."""
    signs = np.where(np.abs(view.updates) > roundings(view), np.sign(view.updates), 0.0)
    return replace(view, kind="update", messages=signs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Shadows:
    """Simulated messages, as a view of updates, and the clicks behind them, bool (n, B, k)."""

    view: View
    clicks: Bools


def shadow_messages(view: View, row: int, form: MessageForm, count: int, part: int) -> Shadows:
    """Simulate `count` messages of a form that start from the model of message `row` of a view.

    Queries are drawn from all candidates, and the global model ranks them: it samples lists unless the
    observer knows that they are deterministic. Users find the usual grades by position and follow the click
    model; without one they click every document with probability 1/2. Updates are those of a replay, with
    noise if its law is known, and then with as few coordinates as the form has, or signs alone. In a sum all
    clients weigh the same and have as many lists. Draws of another `part` are others.
    """
    streams = Streams(part)
    rng = streams.generator("shadow messages")
    started, grades = _started(view, row, form, count, rng)
    there = started.is_document
    clicks = _clicks(started, grades, rng) & there
    reported, law = clicks, view.knowledge.click_law
    if law is not None:
        reported = (rng.random(clicks.shape) < np.where(clicks, law.clicked, law.unclicked)) & there
    replay, step = replay_of(started), view.knowledge.client_step
    if step is not None:
        drawn = [step.drawn(int(seed)) for seed in rng.integers(0, _SEEDS, size=count)]
        replay = StepReplay(started, drawn)
    updates = replay.updates(reported)
    noise = noise_law(view.knowledge)
    if isinstance(noise, AdditiveNoise):
        clients = streams.clients("shadow messages", 0, np.arange(count))
        updates = updates + noise.sample(clients, updates.shape[1])
    # What was computed of this view stays with it: the effects of clicks do not depend on the messages.
    sent = replace(started, messages=_sent(updates, form))
    if "step_effects" in vars(started):
        vars(sent)["step_effects"] = started.step_effects
    return Shadows(view=sent, clicks=clicks)


def _started(
    view: View, row: int, form: MessageForm, count: int, rng: np.random.Generator
) -> tuple[View, Ints]:
    """A view of simulated lists without messages yet, and the grades of their documents, (n, B, k)."""
    total, slow = count * form.lists, view.knowledge.client_step is not None
    pool = _pool(view, row, min(total, _POOL) if slow else total, form.documents, rng)
    which = rng.integers(0, len(pool), size=total) if slow else np.arange(total)
    which = which.reshape(count, form.lists)
    shown, clients = pool.shown[which, 0], int(view.clients[row])
    grades, place = _grades(view, shown, rng), np.arange(form.lists)
    # In a sum all clients have as many lists.
    senders = place * max(1, min(form.lists, clients)) // form.lists if view.observer == "aggregate" else None
    started = replace(
        pool,
        parameters=pool.parameters[which[:, 0]],
        messages=pool.messages[which[:, 0]],
        shown=shown,
        features=pool.features[which, 0],
        candidates=pool.candidates and replace(pool.candidates, query=pool.candidates.query[which, 0]),
        labels=grades,
        clients=np.full(count, clients),
        senders=None if senders is None else np.tile(senders, (count, 1)),
    )
    if slow:  # each list of the pool is computed once
        still, added = pool.step_effects
        vars(started)["step_effects"] = still[which].sum(axis=1), added[which, 0]
    return started, grades


def _pool(view: View, row: int, size: int, k: int, rng: np.random.Generator) -> View:
    """Lists of up to k documents of queries that are drawn from all candidates, each in its own message."""
    theta, candidates = view.parameters[row], view.candidates
    if candidates is None:
        raise ValueError("shadow messages need candidates")
    query = rng.choice(np.flatnonzero(np.diff(candidates.offsets)), size=size)
    shown = _lists(view, theta, candidates, query, k, rng)
    features = candidates.features[candidates.offsets[query][:, np.newaxis] + np.maximum(shown, 0)]
    features[shown < 0] = 0
    return replace(
        view,
        kind="update",
        parameters=np.tile(theta, (size, 1)),
        messages=np.zeros((size, theta.size)),
        seeds=None,
        shown=shown[:, np.newaxis],
        features=features[:, np.newaxis],
        candidates=replace(candidates, query=query[:, np.newaxis]),
        labels=None,
        intent_labels=None,
        clients=np.ones(size, dtype=np.int64),
        senders=None,
    )


def _lists(
    view: View, theta: Floats, candidates: Candidates, query: Ints, k: int, rng: np.random.Generator
) -> Ints:
    """The first k documents of queries (Q,), ranked by a model (P,): int64 (Q, k), -1 at the padding.

    Documents that the observer cannot score come in a random order.
    """
    ends = candidates.offsets
    step, sampled = view.knowledge.client_step, view.knowledge.lists != "deterministic"
    starts = np.concatenate([[0], np.cumsum(ends[query + 1] - ends[query])])
    if step is None:
        scores, starts = view.ranker.scores(theta[np.newaxis], candidates, query)
    elif step.gives_scores:
        rows = [candidates.features[ends[q] : ends[q + 1]].astype(np.float64) for q in query]
        scores = np.concatenate([step.scores(theta.copy(), each) for each in rows])
    else:
        scores, sampled = np.zeros(starts[-1]), True
    if sampled:  # the largest scores with Gumbel noise are a sample of Plackett-Luce
        scores = scores + rng.gumbel(size=scores.shape)
    shown = np.full((query.size, k), -1)
    for each, first, end in zip(shown, starts[:-1], starts[1:], strict=True):
        best = np.argsort(-scores[first:end], kind="stable")[:k]
        each[: best.size] = best
    return shown


def _grades(view: View, shown: Ints, rng: np.random.Generator) -> Ints:
    """Usual grades of documents (n, B, k), drawn by position; 0 if they are not known, -1 at the padding."""
    belief, drawn = view.knowledge.belief, np.zeros(shown.shape, dtype=np.int64)
    if belief is not None:
        places = np.minimum(np.arange(shown.shape[2]), len(belief.grades) - 1)
        below = np.cumsum(belief.grades, axis=1)[places, :-1]
        drawn = (rng.random(shown.shape)[..., np.newaxis] > below).sum(axis=-1)
    return np.where(shown >= 0, drawn, -1)


def _clicks(view: View, grades: Ints, rng: np.random.Generator) -> Bools:
    """Clicks (n, B, k) on documents with these grades."""
    from foltr_audit.kernels.cascade import cascade_clicks

    belief, (n, B, k) = view.knowledge.belief, grades.shape
    if belief is None:
        return np.asarray(rng.random(grades.shape) < _HALF)
    drawn = rng.random((n * B, 2 * k))
    clicks: Bools = cascade_clicks(grades.reshape(n * B, k), drawn, belief.click.copy(), belief.stop.copy())
    return clicks.reshape(n, B, k)


def _sent(updates: Floats, form: MessageForm) -> Floats:
    """What clients send of updates (n, P)."""
    if form.signs:
        return np.sign(updates)
    if not form.kept:
        return updates
    largest = np.argsort(-np.abs(updates), axis=1, kind="stable")[:, : form.kept]
    out = np.zeros(updates.shape)
    np.put_along_axis(out, largest, np.take_along_axis(updates, largest, axis=1), axis=1)
    return out
