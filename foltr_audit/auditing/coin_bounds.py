"""A lower bound on epsilon from coins that were really tossed, one for each canary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foltr_audit.auditing.estimators import ESTIMATORS, LowerBound, TrialScores, one_run_bound
from foltr_audit.auditing.estimators.base import FEWEST
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats

ONE_RUN, ONE_TAIL = "one-run", "clopper-pearson"
_SHARES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01)  # of the coins to be guessed
_CHOOSING = 0.25  # of the coins choose score and share
_FEW = 40  # fewer coins choose nothing: all are guessed by the first score
_SAME_LAW = "that the scores of all coins follow one law for each side"


class CoinGuesses(NamedTuple):
    """What guesses of coins show.

    Attributes:
        score: name of the score that guessed.
        guesses: how many coins were guessed.
        right: how many of these guesses were right.
        bounds: the lower bounds, `one-run` first.
    """

    score: str
    guesses: int
    right: int
    bounds: tuple[LowerBound, ...]


def guessed(
    coins: Bools, scores: Mapping[str, Floats], *, delta: float, confidence: float, streams: Streams
) -> CoinGuesses:
    """Guess coins (m,) by their scores, and bound epsilon from the number of right guesses.

    A quarter of the coins, drawn at random, chooses the score and how many of the others are guessed, those
    with the largest scores first; a score above 0 guesses 1.

    *Guarantees* for any mechanism: P(epsilon > true eps) <= 1 - confidence, over coins and noise, if the
    coins are fair and independent, and scores depend on them only through the mechanism's output. The unit is
    one interaction: neighbours differ in the clicks on one list.

    Source: Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", theorem 5.2.
    """
    order = streams.generator("audit/coins").permutation(coins.size)
    cut = int(_CHOOSING * coins.size) if coins.size >= _FEW else 0
    choose, rest = order[:cut], order[cut:]
    name, share = next(iter(scores)), 1.0
    if cut:
        worth = {
            (one, part): one_run_bound(cut, *_counted(coins[choose], values[choose], part), delta, confidence)
            for one, values in scores.items()
            for part in _SHARES
        }
        name, share = max(worth, key=lambda each: worth[each])
    count, right = _counted(coins[rest], scores[name][rest], share)
    bound = LowerBound(
        estimator=ONE_RUN,
        epsilon=one_run_bound(rest.size, count, right, delta, confidence),
        ceiling=one_run_bound(rest.size, rest.size, rest.size, delta, confidence),
        confidence=confidence,
        delta=delta,
        trials=rest.size,
    )
    bounds = [bound]
    trials = _trials(coins, scores[name], choose if cut else order[:0], rest)
    if trials is not None:
        rng = streams.generator("audit/coins/tail")
        tail = ESTIMATORS[ONE_TAIL](trials, delta=delta, confidence=confidence, rng=rng)
        bounds.append(replace(tail, assumes=_SAME_LAW))
    return CoinGuesses(name, count, right, tuple(bounds))


def _counted(coins: Bools, scores: Floats, share: float) -> tuple[int, int]:
    """How many coins are guessed, at least one, and how many of the guesses are right."""
    count = max(1, round(share * coins.size))
    first = np.argsort(-np.abs(scores), kind="stable")[:count]
    return count, int(((scores > 0) == coins)[first].sum())


def _trials(coins: Bools, scores: Floats, *parts: np.ndarray) -> TrialScores | None:
    """The scores as trials, equally many of each side; None where a part has too few."""
    pieces = []
    for part in parts:
        sides = [scores[part[coins[part] == side]] for side in (False, True)]
        size = min(side.size for side in sides)
        if size < FEWEST:
            return None
        pieces += [side[:size] for side in sides]
    return TrialScores(
        choose_zero=pieces[0], choose_one=pieces[1], zero=pieces[2], one=pieces[3], independent=True
    )
