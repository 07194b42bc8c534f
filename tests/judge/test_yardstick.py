"""The best guess beside an attack: lists in which positions, grades or messages explain the clicks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from foltr_audit.core.results import AttackRecord
from foltr_audit.experiments.decide import LeakKind, find_leak
from foltr_audit.judge.click_evidence import ClickEvidence, ClickGuesses
from foltr_audit.judge.doubts import shown_above
from foltr_audit.judge.scoring import KNOWS_GRADES, RANDOM, AttackScorer
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Bools, Floats
from tests.fixtures.comparisons import setting
from tests.fixtures.evidence import evidence

BY_POSITION = np.array([0.8, 0.5, 0.3, 0.15, 0.1])
"""How likely a click is at each position."""


def lists_of(rng: np.random.Generator, queries: int, *, by_grade: float) -> tuple[Bools, Floats]:
    """Clicks of two lists a query, and how likely each was, both (L, 5); grades shift them by `by_grade`."""
    good = rng.random((2 * queries, 5)) < 0.5
    likely = np.clip(BY_POSITION + np.where(good, by_grade, -by_grade), 0.02, 0.98)
    return rng.random(likely.shape) < likely, likely


def judged(clicks: Bools, scores: dict[str, Floats], guesses: tuple[str, ...]) -> ClickEvidence:
    """Lists with the scores of attacks and guesses."""
    query = [f"q{number // 2:03d}" for number in range(len(clicks))]
    made = evidence(query, clicks, clicks)
    answers = {
        name: ClickGuesses(scores=each, guess=each > 0.5, any_click=each.max(axis=1))
        for name, each in scores.items()
    }
    return replace(made, guessed=answers, baselines=frozenset(guesses))


def records(clicks: Bools, scores: dict[str, Floats], guesses: tuple[str, ...]) -> dict[str, AttackRecord]:
    scorer = AttackScorer(judged(clicks, scores, guesses), Streams(1))
    return {each.method: each for each in scorer.records()}


def kind_of(record: AttackRecord, every: dict[str, AttackRecord]) -> LeakKind:
    """What one attack alone is shown to do."""
    guesses = [each for each in every.values() if each.role != "attack"]
    found = find_leak(setting("a", 1.2, attacks=(*guesses, record)))
    assert found is not None
    return found.kind


GUESSES = ("first-position", "position-prior", KNOWS_GRADES)


def guessed(likely: Floats) -> dict[str, Floats]:
    """The scores of guesses."""
    prior = np.broadcast_to(BY_POSITION, likely.shape).copy()
    first = np.broadcast_to(-np.arange(5.0), likely.shape).copy()
    return {"first-position": first, "position-prior": prior, KNOWS_GRADES: likely}


def test_where_positions_explain_everything_only_messages_add_to_them() -> None:
    rng = np.random.default_rng(1)
    clicks, likely = lists_of(rng, 60, by_grade=0.0)
    scores = {**guessed(likely), "echo": guessed(likely)["position-prior"], "noise": rng.random(clicks.shape)}
    found = records(clicks, {**scores, "reader": clicks.astype(float)}, GUESSES)
    echo, noise, reader = (found[name] for name in ("echo", "noise", "reader"))
    assert echo.metric("auc").value > 0.7
    assert echo.metric("above_guess").value == 0.0
    assert [kind_of(each, found) for each in (echo, noise, reader)] == ["guess", "guess", "reads"]
    assert noise.metric("above_guess").value < -0.15
    assert reader.metric("above_guess").value == pytest.approx(1 - echo.metric("auc").value)


def test_who_only_knows_grades_beats_positions_and_is_no_better_than_who_knows_them() -> None:
    clicks, likely = lists_of(np.random.default_rng(2), 100, by_grade=0.3)
    found = records(clicks, {**guessed(likely), "grader": likely, "reader": clicks.astype(float)}, GUESSES)
    grader = found["grader"]
    assert grader.metric("above_grades").value == 0.0
    assert kind_of(grader, found) == "grades"
    assert kind_of(found["reader"], found) == "reads"
    assert (grader.more["grades"], grader.more["guess"]) == (KNOWS_GRADES, "first-position")


@pytest.mark.parametrize(
    ("backwards", "names", "best"),
    [
        (False, ("position-prior",), "position-prior"),
        (True, ("position-prior",), RANDOM),
        (True, (), RANDOM),
        (True, (KNOWS_GRADES,), RANDOM),
    ],
)
def test_the_excess_is_the_difference_to_the_best_guess(
    backwards: bool, names: tuple[str, ...], best: str
) -> None:
    """AUCs are scikit-learn's. A prior that orders backwards is no yardstick: a coin is better."""
    rng = np.random.default_rng(3)
    clicks, likely = lists_of(rng, 40, by_grade=0.1)
    scores = guessed(-likely if backwards else likely) | {"attack": likely + rng.random(likely.shape)}
    scores["position-prior"] = scores["position-prior"] * (-1 if backwards else 1)
    record = records(clicks, {name: scores[name] for name in (*names, "attack")}, names)["attack"]
    kept = clicks.any(axis=1)
    aucs = {
        name: float(roc_auc_score(clicks[kept].ravel(), each[kept].ravel())) for name, each in scores.items()
    }
    aucs[RANDOM] = 0.5
    assert record.more["guess"] == best
    assert record.more["guess_auc"] == pytest.approx(aucs[best])
    assert record.metric("above_guess").value == pytest.approx(aucs["attack"] - aucs[best])
    knows = KNOWS_GRADES in names
    assert record.more["grades_auc"] == (pytest.approx(aucs[KNOWS_GRADES]) if knows else None)
    assert record.metric("above_grades").known is knows
    ends = record.metric("above_guess").ci95
    assert ends is not None
    assert ends[0] < record.metric("above_guess").value < ends[1]


def test_an_attack_must_beat_every_guess_not_only_the_one_that_was_luckiest() -> None:
    """Two guesses of nearly one AUC: the lower end is the least of those to each of them."""
    rng = np.random.default_rng(4)
    clicks, likely = lists_of(rng, 40, by_grade=0.2)
    near = likely + 0.2 * rng.random(likely.shape)
    scores = {"first-position": near, "position-prior": guessed(likely)["position-prior"], "attack": likely}
    both = records(clicks, scores, ("first-position", "position-prior"))["attack"].metric("above_guess")
    lows = []
    for one in ("first-position", "position-prior"):
        alone = records(clicks, {one: scores[one], "attack": likely}, (one,))["attack"].metric("above_guess")
        assert alone.ci95 is not None
        lows.append(alone.ci95[0])
    assert both.ci95 is not None
    assert both.ci95[0] == min(lows)


def swapped(rng: np.random.Generator, queries: int, reads: float) -> AttackRecord:
    """An attack that is as good as the guess up to chance, or reads a share of the documents.

    The first two positions are clicked alike, and the attack takes the second for the first.
    """
    likely = np.broadcast_to([0.6, 0.6, 0.3, 0.2, 0.1], (2 * queries, 5))
    clicks = rng.random(likely.shape) < likely
    other = np.broadcast_to([4.0, 5.0, 3.0, 2.0, 1.0], likely.shape)
    told = rng.random(likely.shape) < reads
    scores = {
        "first-position": np.broadcast_to(-np.arange(5.0), likely.shape),
        "attack": np.where(told, 10.0 * clicks, other),
    }
    return records(clicks, scores, ("first-position",))["attack"]


@pytest.mark.slow
def test_an_attack_that_guesses_as_well_as_the_guess_is_rarely_said_to_read() -> None:
    """False alarms within a binomial limit of the nominal 5 %; an AUC above one half is always shown."""

    def shown(reads: float, runs: int) -> list[tuple[bool, bool, bool]]:
        made = []
        for seed in range(runs):
            record = swapped(np.random.default_rng([7, seed]), 100, reads)
            above, auc = record.metric("above_guess"), record.metric("auc").ci95
            assert auc is not None
            apart: Any = auc[0] > record.more["guess_auc"] + 0.04
            made.append((shown_above(above, 0.0), auc[0] > 0.5, apart))
        return made

    null = shown(0.0, 200)
    assert sum(each[0] for each in null) <= 20  # P[Bin(200, .05) > 20] < .002
    assert all(each[1] for each in null), "the rule of one half fails this test"
    reading = shown(0.08, 60)
    assert sum(each[0] for each in reading) > 45
    assert sum(each[2] for each in reading) < 20, "intervals that do not meet would miss most of these leaks"
