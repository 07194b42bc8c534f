"""Audits that stop early: batches, the two reasons to stop, false alarms at the stop, the same trials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.auditing.estimators import TrialScores
from foltr_audit.auditing.estimators.repeated_trials import hopeless
from foltr_audit.auditing.evaluation import Pair, batches, play_until_decided
from foltr_audit.core.defense_chain import parse_chain
from foltr_audit.utils.arrays import Floats, Ints
from tests.auditing.test_estimators import Mechanism, bound, gaussian, laplace, most, randomised_response
from tests.conftest import SetupOf
from tests.fixtures.audits import CLIENT, findings, session

SUM = "clip:norm=1.5+gamma-laplace:eps=1.2,sensitivity=3"


def stopped(mechanism: Mechanism, rng: np.random.Generator, claim: float, trials: int = 2000) -> TrialScores:
    """The trials of an audit of a claim that stops early."""
    choose, scores = (np.stack(mechanism.draw(rng, count)) for count in (125, trials))

    def play(part: range) -> Pair:
        return scores[:, part.start : part.stop]

    delta = mechanism.delta
    return play_until_decided(choose, play, claim=claim, delta=delta, confidence=0.95, most=trials)


# --- batches --------------------------------------------------------------------------------------


@given(most_trials=st.integers(20, 10_000_000))
def test_batches_follow_each_other_and_double(most_trials: int) -> None:
    every = list(batches(most_trials))
    ends = [batch.stop for batch in every]
    assert [batch.start for batch in every] == [0, *ends[:-1]]
    assert ends[-1] == most_trials
    assert ends[:-1] == [60 * 2**i for i in range(len(ends) - 1)]
    assert 2 * ends[-1] >= 3 * ([0, *ends][-2])
    assert len(every) < 20


# --- reasons to stop ------------------------------------------------------------------------------


def test_false_claims_are_refuted_early_and_by_the_bound() -> None:
    rng = np.random.default_rng(1)
    for mechanism in (laplace(3.0), randomised_response(3.0), gaussian(1.0, 1e-5)):
        trials = stopped(mechanism, rng, claim=0.3 * mechanism.true)
        assert trials.evaluated < 1000
        assert bound("betting", trials, mechanism.delta).epsilon > 0.3 * mechanism.true


def test_claims_far_above_the_truth_are_given_up_early() -> None:
    rng = np.random.default_rng(2)
    for mechanism in (laplace(0.5), randomised_response(0.5)):
        trials = stopped(mechanism, rng, claim=2.0)
        assert trials.evaluated < 1000
        assert bound("betting", trials).epsilon < 2.0


def test_what_is_not_claimed_is_measured_by_all_trials() -> None:
    assert stopped(randomised_response(1.0), np.random.default_rng(3), claim=np.inf).evaluated == 2000


def test_hope_is_lost_where_no_fitting_rate_refutes() -> None:
    """By the largest eps that the ends of exact intervals allow; more trials to come leave more hope."""
    game = randomised_response(1.0).trials(np.random.default_rng(4), 400)
    right, wrong = int(game.one.sum()), int(game.zero.sum())
    only_right = int(((game.one == 1) & (game.zero == 0)).sum())
    only_wrong = int(((game.one == 0) & (game.zero == 1)).sum())
    highest = stats.beta.ppf(0.999, only_right + 1, 400 - only_right)
    lowest = stats.beta.ppf(0.001, only_wrong, 400 - only_wrong + 1)
    both = stats.beta.ppf(0.001, right - only_right, 400 - right + only_right + 1)
    assert wrong - only_wrong == right - only_right
    largest = float(np.log((highest + both) / (lowest + both)))
    assert largest > 1.0
    assert hopeless(game, 10**6, largest + 0.02, delta=0.0, confidence=0.95)
    assert not hopeless(game, 10**6, largest - 0.1, delta=0.0, confidence=0.95)
    lost = [hopeless(game, n, largest - 0.1, delta=0.0, confidence=0.95) for n in (400, 1000, 10**5)]
    assert lost == sorted(lost, reverse=True)
    assert lost[0]


@pytest.mark.parametrize("mechanism", [randomised_response(2.0), laplace(1.0)], ids=lambda each: each.name)
def test_false_alarms_at_the_stop_stay_within_the_nominal_level(mechanism: Mechanism) -> None:
    """The claim is true. One of half the truth is refuted more often, so the test would see such a fault."""
    rng = np.random.default_rng(6)

    def alarms(claim: float, trials: int) -> int:
        games = [stopped(mechanism, rng, claim, trials) for _ in range(60)]
        return sum(bound("betting", game).epsilon > claim for game in games)

    assert alarms(mechanism.true, 480) <= most(60)
    assert alarms(0.5 * mechanism.true, 480) > most(60)


# --- audits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [1, 8])
@pytest.mark.parametrize("lists", [None, "sampled"])
def test_a_trial_is_the_same_whichever_others_are_played(
    setup_of: SetupOf, members: int, lists: str | None
) -> None:
    some = np.array([7, 3, 90, 41])

    def seen(trials: Ints) -> list[Floats]:
        game: dict[str, Any] = {"views": ("individual+lists",), "lists": lists, "interactions": 2}
        played = session(setup_of(chain=parse_chain([SUM])), **game)
        canary = played.canary("data:worst", "interaction")
        ((zero, one),) = played.games.play(canary, trials, members=members, lists=True, released=True)
        assert zero.list_evidence is not None
        assert one.list_evidence is not None
        return [zero.seen, one.seen, zero.list_evidence, one.list_evidence]

    for few, all_of_them in zip(seen(some), seen(np.arange(100)), strict=True):
        np.testing.assert_allclose(few, all_of_them[some], rtol=1e-12)


def test_an_audit_stops_at_the_same_trial_with_the_same_bound(setup_of: SetupOf) -> None:
    def found(**changes: Any) -> tuple[object, ...]:
        game: dict[str, Any] = {"views": ("aggregate",), "trials": 4000, "claim": 0.3, "stop_early": True}
        game |= changes
        (only,) = findings(setup_of(chain=parse_chain([SUM])), **game)
        return only.verdict, only.lower, only.estimates, only.why

    verdict, lower, estimates, why = found()
    assert found() == (verdict, lower, estimates, why)
    assert verdict == "refuted"
    assert str(why).endswith("of 4000 trials")
    assert [each.estimator for each in estimates] == ["betting"]  # type: ignore[attr-defined]
    assert found(stop_early=False)[2] != estimates


def test_a_proven_claim_is_not_refuted_by_luck(setup_of: SetupOf) -> None:
    """Only a contradiction would end it: a bound above it by more than one run in a million shows."""
    chain = "clip:norm=1.5,ord=1+laplace:eps=1.2,sensitivity=3"
    game = {**CLIENT, "trials": 4000}
    (only,) = findings(setup_of(chain=parse_chain([chain])), **game, stop_early=True)
    assert only.verdict == "proven"
    assert only.lower.trials <= 4000
    (loose,) = findings(setup_of(chain=parse_chain([chain])), **game, stop_early=True, claim=50.0)
    assert loose.lower.trials == 60
    assert "stopped after 60 of 4000 trials" in loose.why
