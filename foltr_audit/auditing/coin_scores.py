"""Scores of coins that clients of a recorded run tossed between two click patterns of one interaction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from foltr_audit.core.plugins.attack import UNKNOWN
from foltr_audit.core.records.interactions import RoundTruth
from foltr_audit.core.records.view import View
from foltr_audit.errors import UsageError
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.inference.replay import NEEDS, Replay, why_no_replay
from foltr_audit.inference.step_replay import StepReplay
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.view_builder import InteractionPlacement
from foltr_audit.simulation.recorder import RoundStore
from foltr_audit.utils.arrays import Bools, Floats, Ints

HOW_TO_RECORD = (
    "expected a laboratory run whose clients toss a fair coin between two click patterns of a list, recorded "
    "as canaries and coins of the truth"
)


OF_STEPS = frozenset({"features", "shown", "order"})
"""Knowledge that replays of a client step need."""


class CoinScores(NamedTuple):
    """Scores of m coins, by the name of the score; a score above 0 says that the coin was 1.

    Attributes:
        coins: how they fell, bool (m,).
        scores: float64 (m,) each.
        outputs: messages or sums that show them.
    """

    coins: Bools
    scores: dict[str, Floats]
    outputs: int


class _ViewScores(NamedTuple):
    """Scores of the coins behind one view: coins (c,), and two scores of each."""

    coins: Bools
    projection: Floats
    likelihood: Floats | None
    outputs: int


def score_coins(store: RoundStore, observer: Observer) -> CoinScores:
    """Scores of all coins of a store, from the messages or sums that an observer sees.

    The score of a coin never depends on how it or another coin fell, but through what the observer sees:
    other coins of the same message count as unknown, other clicks as known. So the guesses that follow are
    functions of the output of the mechanism, as bounds from guesses need.

    `projection` is the least-squares estimate of the coins behind a message from the steps of both patterns,
    over its variance. `likelihood` is the log likelihood ratio of the two replays under the noise law; it is
    there if no message has two coins.

    Raises:
        UsageError: no coin, no truth, or a fact that replays need is missing.
    """
    if not store.has_truth:
        raise UsageError(f"audit: the trace holds no truth; {HOW_TO_RECORD}")
    found: list[_ViewScores] = []
    for record, truth in zip(store.rounds(), store.truths(), strict=True):
        if not telling(truth).any():
            continue
        place = InteractionPlacement.of(record)
        coins, patterns, clicks = _spread(place, truth)
        known = np.ones(len(truth.clicks), np.bool_) if truth.known is None else truth.known
        unknown = place.spread(~known, False)
        coins[unknown] = -1
        for seen in observer.views(record):
            rows = np.flatnonzero((coins[seen.rows] >= 0).any(axis=1))
            if rows.size:
                _refuse_unknown(seen.full)
                at = rows + seen.rows.start
                found.append(_scored(seen.full, rows, coins[at], patterns[at], clicks[at], unknown[at]))
    if not found:
        raise UsageError(f"audit: the trace holds no coin; {HOW_TO_RECORD}")
    scores = {"projection": np.concatenate([one.projection for one in found])}
    likely = [one.likelihood for one in found if one.likelihood is not None]
    if len(likely) == len(found):
        scores["likelihood"] = np.concatenate(likely)
    return CoinScores(np.concatenate([one.coins for one in found]), scores, sum(one.outputs for one in found))


def telling(truth: RoundTruth) -> Bools:
    """Which lists of a round have a coin that chose between two different patterns, bool (I,)."""
    if truth.coins is None or truth.canaries is None:
        return np.zeros(len(truth.clicks), dtype=np.bool_)
    return np.asarray((truth.coins >= 0) & (truth.canaries[:, 0] != truth.canaries[:, 1]).any(axis=1))


def _spread(place: InteractionPlacement, truth: RoundTruth) -> tuple[Ints, Bools, Bools]:
    """Coins (n, B), both patterns (n, B, 2, k), and clicks (n, B, k) of messages."""
    none = np.zeros((truth.clicks.shape[0], 2, truth.clicks.shape[1]), dtype=np.bool_)
    patterns = none if truth.canaries is None else truth.canaries
    coins = np.where(telling(truth), np.full(len(patterns), -1) if truth.coins is None else truth.coins, -1)
    return place.spread(coins, -1), place.spread(patterns, False), place.spread(truth.clicks, False)


def _refuse_unknown(view: View) -> None:
    """Refuse views whose steps cannot be replayed.

    Raises:
        UsageError: they are.
    """
    step = view.knowledge.client_step
    needs = NEEDS if step is None else OF_STEPS
    missing = sorted(name for name in needs if not view.knowledge.has(name))
    reason = f"{UNKNOWN}{', '.join(missing)}" if missing else None
    if step is None:
        reason = reason or why_no_replay(view)
    if view.kind not in ("model", "update"):
        reason = f"messages of kind {view.kind} are no steps of PDGD"
    if reason is not None:
        raise UsageError(reason)


def _scored(
    view: View, rows: Ints, coins: Ints, patterns: Bools, clicks: Bools, unknown: Bools
) -> _ViewScores:
    """Scores of all coins of some messages (R,) of a view, in the order of messages and lists.

    `unknown` (R, B) are lists whose clicks the truth does not know.
    """
    base = np.where((coins >= 0)[..., np.newaxis], patterns[:, :, 0], clicks)
    start = _replayed(view, rows, base)
    at, place = np.nonzero(coins >= 0)
    other = base[at]
    other[np.arange(at.size), place] = patterns[at, place, 1]
    moved = _replayed(view, rows[at], other)
    difference, left = moved - start[at], view.models[rows] - start
    hidden = [
        view.jacobian[row][lists].reshape(-1, left.shape[1])
        for row, lists in zip(rows.tolist(), unknown, strict=True)
    ]
    projection = np.concatenate(
        [_estimated(*_beyond(hidden[i], difference[at == i], left[i])) for i in range(rows.size)]
    )
    likelihood = None
    if np.bincount(at).max() == 1 and not unknown.any():
        decoder = PatternDecoder(view)
        with np.errstate(invalid="ignore"):
            ratio = decoder.fit(rows[at], moved) - decoder.fit(rows[at], start[at])
        likelihood = np.nan_to_num(ratio, nan=0.0, posinf=np.inf, neginf=-np.inf)
    return _ViewScores(coins[at, place] == 1, projection, likelihood, rows.size)


def _replayed(view: View, messages: Ints, clicks: Bools) -> Floats:
    """The final models (H, P) of some messages (H,) with clicks (H, B, k): of PDGD, or of the client step."""
    if view.knowledge.client_step is None:
        return np.asarray(Replay(view).paths(messages, clicks)[-1])
    replay, found = StepReplay(view), view.parameters[messages]
    for h, i in enumerate(messages.tolist()):
        start, local, sender = view.parameters[i], view.parameters[i], -1
        total = start
        for b in np.flatnonzero(replay.lengths[i]).tolist():
            if view.senders is not None and view.senders[i, b] != sender:
                local, sender = start, int(view.senders[i, b])
            pattern = clicks[h, b, : replay.lengths[i, b]].astype(np.float64)
            after = replay.models(i, b, local, pattern[np.newaxis])[0]
            total, local = total + (after - local), after
        found[h] = total
    return found


def _beyond(hidden: Floats, differences: Floats, left: Floats) -> tuple[Floats, Floats]:
    """Differences (c, P) and what is left (P,) beyond what lists of unknown clicks with rows (m, P) may add.

    Unchanged where these rows leave nothing over.
    """
    rows = hidden[np.any(hidden, axis=1)]
    if not len(rows) or len(rows) >= left.size:
        return differences, left
    _, s, V = np.linalg.svd(rows, full_matrices=False)
    inside = V[s > 1e-10 * s[0]]
    return differences - differences @ inside.T @ inside, left - inside.T @ (inside @ left)


def _estimated(differences: Floats, left: Floats) -> Floats:
    """Estimates of the c coins of one message, less one half, over their variances; 0 where nothing is told.

    Args:
        differences: how each coin moves the message, (c, P).
        left: the message less the one with all coins at 0, (P,).
    """
    # The variance of a coin's estimate is infinite where its step is a combination of the other coins'.
    gram = differences @ differences.T
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-10 * values.max(initial=0.0)
    inverse = vectors[:, kept] / values[kept] @ vectors[:, kept].T if kept.any() else np.zeros(gram.shape)
    told = np.diag(inverse @ gram) > 1 - 1e-6
    estimate = inverse @ (differences @ left)
    variance = np.diag(inverse)
    return np.where(told, np.divide(estimate - 0.5, variance, out=np.zeros(variance.size), where=told), 0.0)
