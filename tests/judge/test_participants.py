"""What sums of rounds tell about each client: brute force, known and null worlds, the task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from foltr_audit.attacks.participation_regression import (
    ExplainedSum,
    ParticipationRegression,
    expected_updates,
    intent_weights,
    knows_expected_updates,
)
from scipy.stats import binom

from foltr_audit.core.plugins import (
    Attack,
    Inference,
    ParticipantAttack,
    ParticipantEstimates,
    Participation,
    RoundMembers,
    View,
)
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import PluginError
from foltr_audit.inference.replay import Replay
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.participants import ParticipantEvidence, guessed
from foltr_audit.judge.protocol import judge
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import MemoryRoundStore
from foltr_audit.utils.arrays import Floats, Ints
from tests.conftest import SetupOf
from tests.fixtures.client_recordings import DATA, recorded
from tests.fixtures.there import there

SUMS = AttackSpec(target="training", view="aggregate")
INTENTS = [0, 1] * 8


def in_cohorts(recording: MemoryRoundStore, cohorts: Sequence[Ints]) -> MemoryRoundStore:
    """The same rounds, of which only some messages arrive."""
    rounds = zip(recording.records, cohorts, strict=True)
    arrived = [replace(one, survivors=np.isin(np.arange(one.n_messages), who)) for one, who in rounds]
    return replace(recording, records=arrived)


def drawn(rounds: int, size: int, clients: int = 16) -> list[Ints]:
    rng = np.random.default_rng(2)
    return [np.sort(rng.permutation(clients)[:size]) for _ in range(rounds)]


def judged(
    store: MemoryRoundStore, *attacks: Attack, hidden: tuple[str, ...] = (), protocol: AttackSpec = SUMS
) -> ParticipantEvidence:
    observer = Observer(store.header, DATA, frozenset(hidden))
    found = judge(store, observer, attacks or [ParticipationRegression()], Streams(1), protocol)
    evidence = found.found["participant"]
    assert isinstance(evidence, ParticipantEvidence)
    return evidence


# --- what lists are expected to add --------------------------------------------------------------------


def test_expected_updates_are_sums_over_all_clicks(setup_of: SetupOf) -> None:
    store = recorded(setup_of, rounds=1, intents=[0, 1, 0], seed=4)
    view = next(Observer(store.header, DATA).views(store.records[0])).view
    assert knows_expected_updates(view)
    found_mean, found_covariance = expected_updates(view)
    belief = there(view.knowledge.belief)
    k = view.shown.shape[2]
    covariance, mean = np.zeros_like(found_covariance), np.zeros_like(found_mean)
    for i, intent in np.ndindex(3, 2):
        here = view.is_document[i, 0]
        click, stop = belief.by_grade(view.under(intent).labels[i, 0])  # type: ignore[index]
        updates, chances = [], []
        for clicks in product([False, True], repeat=int(here.sum())):
            reading, done = 1.0, 0.0  # the chance of these clicks by users who read on, and who stopped
            for place, clicked in enumerate(clicks):
                here_too = reading * (click[place] if clicked else 1 - click[place])
                stopped = here_too * stop[place] if clicked else 0.0
                reading, done = here_too - stopped, stopped + (0.0 if clicked else done)
            padded = np.zeros((1, 1, k), np.bool_)
            padded[0, 0, : len(clicks)] = clicks
            path = Replay(view).paths(np.array([i]), padded)
            updates.append(path[-1, 0] - path[0, 0])
            chances.append(reading + done)
        weights, rows = np.array(chances), np.array(updates)
        assert weights.sum() == pytest.approx(1.0)
        mean[i, 0, intent] = weights @ rows
        away = rows - mean[i, 0, intent]
        covariance[i] += (weights[:, np.newaxis] * away).T @ away / 2
    np.testing.assert_allclose(found_mean, mean, atol=1e-10)
    np.testing.assert_allclose(found_covariance, covariance, atol=1e-10)


def explained(
    rng: np.random.Generator, intents: Ints, rounds: int, noise: float
) -> tuple[list[ExplainedSum], Participation]:
    """Sums of four clients each, whose lists are expected to add random vectors, in white noise."""
    N, most, P = intents.size, int(intents.max()) + 1, 6
    sums, members = [], []
    for _ in range(rounds):
        who = rng.permutation(N)[:4]
        mean = rng.normal(size=(4, most, P))
        total = mean[np.arange(4), intents[who]].sum(axis=0) + noise * rng.normal(size=P)
        covariance = noise**2 * np.eye(P)
        sums.append(ExplainedSum(total=total, owner=np.arange(4), mean=mean, covariance=covariance))
        members.append(RoundMembers(who, np.ones(4)))
    return sums, Participation(clients=N, rounds=tuple(members))


def test_weights_of_intents_are_the_best_linear_estimate() -> None:
    """By one dense system of all rounds, with noise whose covariance is known."""
    rng = np.random.default_rng(1)
    intents = rng.integers(0, 3, 10)
    sums, taking_part = explained(rng, intents, 400, noise=3.0)
    A, b = np.zeros((400 * 6, 30)), np.zeros(400 * 6)
    for number, (one, members) in enumerate(zip(sums, taking_part.rounds, strict=True)):
        rows = slice(6 * number, 6 * number + 6)
        for place, client in enumerate(members.clients.tolist()):
            A[rows, 3 * client : 3 * client + 3] = (one.mean[place] - one.mean[place].mean(axis=0)).T
        b[rows] = one.total - one.mean.mean(axis=1).sum(axis=0)
    variance = float(b @ b) / b.size  # what the estimate takes for that of noise: what clicks leave over too
    prior = np.eye(30) / 3
    best = prior @ A.T @ np.linalg.solve(A @ prior @ A.T + variance * np.eye(b.size), b)
    found = intent_weights(sums, taking_part)
    np.testing.assert_allclose(found - 1 / 3, best.reshape(10, 3), atol=1e-8)
    assert np.array_equal(found.argmax(axis=1), intents)


def test_intents_are_found_with_rounds_and_not_without_their_lists() -> None:
    rng = np.random.default_rng(2)
    intents = rng.integers(0, 3, 60)
    sums, taking_part = explained(rng, intents, 500, noise=4.0)

    def right(sums: list[ExplainedSum]) -> int:
        members = replace(taking_part, rounds=taking_part.rounds[: len(sums)])
        return int((intent_weights(sums, members).argmax(axis=1) == intents).sum())

    hits = [right(sums[:rounds]) for rounds in (20, 120, 500)]
    assert hits == sorted(hits)
    assert hits[-1] > 57
    others = [one._replace(mean=rng.normal(size=one.mean.shape)) for one in sums]
    assert binom.sf(right(others) - 1, 60, 1 / 3) > 1e-3, "lists of other rounds say nothing"
    assert binom.sf(hits[-1] - 1, 60, 1 / 3) < 1e-12


# --- the task -------------------------------------------------------------------------------------------


def test_intents_and_updates_are_found_in_sums_of_played_rounds(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=80, intents=INTENTS, seed=3)
    cohorts = drawn(80, 4)
    found = judged(in_cohorts(recording, cohorts))
    assert found.rounds[0] == 80
    assert found.members[0] == 4
    assert found.turns.sum() == 320
    assert found.intent.tolist() == INTENTS
    (said,) = found.told.values()
    hits = float(said.intent.sum())
    assert binom.sf(np.floor(hits) - 1, 16, 0.5) < 1e-3
    first = replace(recording, records=recording.records[:6], truth=recording.truth[:6])
    few = judged(in_cohorts(first, cohorts[:6]))
    assert few.told["participation-regression"].intent.mean() < said.intent.mean()
    assert np.all(found.baselines["mean"].placed.first == 1 / 16)
    assert np.all(found.baselines["mean"].cosine == 0)
    mean = np.zeros_like(recording.truth[0].updates)
    for record, truth, cohort in zip(recording.records, recording.truth, cohorts, strict=True):
        assert record.counts[cohort].tolist() == [1] * 4
        mean[cohort] += truth.updates[cohort]
    mean /= found.turns[:, np.newaxis]
    perfect = guessed(ParticipantEstimates(mean), mean, found.intent)
    np.testing.assert_allclose(perfect.cosine, 1.0)
    assert np.all(perfect.placed.first == 1)
    assert said.cosine.mean() > 0.1


def test_rounds_of_one_client_show_its_updates(setup_of: SetupOf) -> None:
    sent = recorded(setup_of, rounds=32, intents=INTENTS, seed=3)
    rounds = zip(sent.records, sent.truth, strict=True)
    truth = [replace(told, updates=record.messages - record.parameters) for record, told in rounds]
    found = judged(in_cohorts(replace(sent, truth=truth), [np.array([turn % 16]) for turn in range(32)]))
    own = found.baselines["own-mean"]
    assert np.all(own.placed.first == 1), "the sum of one message is that message"
    np.testing.assert_allclose(own.cosine, 1.0, atol=1e-3)


def test_without_the_lists_there_are_no_intents(setup_of: SetupOf) -> None:
    recording = in_cohorts(recorded(setup_of, rounds=8, intents=INTENTS, seed=3), drawn(8, 4))
    for hidden in ("intents", "click_model", "query", "learning_rate"):
        (said,) = judged(recording, hidden=(hidden,)).told.values()
        assert np.isnan(said.intent).all(), hidden
        assert np.isfinite(said.cosine).all(), hidden


def test_scores_name_what_was_judged(setup_of: SetupOf) -> None:
    found = judged(in_cohorts(recorded(setup_of, rounds=8, intents=INTENTS, seed=3), drawn(8, 4)))
    scores = {score.method: score for score in found.scores(Streams(1))}
    assert list(scores) == ["mean", "own-mean", "shown", "participation-regression"]
    assert scores["mean"].baseline
    facts = scores["participation-regression"].facts
    assert facts["rounds"] == 8
    assert facts["most_frequent"] == pytest.approx(np.bincount(found.intent).max() / found.intent.size)
    assert facts["chance"] == pytest.approx(1 / facts["clients"])
    assert scores["mean"].metrics["named"].value == pytest.approx(facts["chance"])


def test_other_views_are_refused(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=2, intents=INTENTS, seed=3)
    observer = Observer(recording.header, DATA)
    for view in ("individual", "aggregate"):
        protocol = AttackSpec(target="training" if view == "individual" else "fresh", view=view)
        found = judge(recording, observer, [ParticipationRegression()], Streams(1), protocol)
        assert "sums of training rounds" in found.refused["participation-regression"]


def test_a_truth_without_updates_is_refused(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=2, intents=INTENTS, seed=3)
    truth = [replace(each, updates=np.empty((16, 0))) for each in recording.truth]
    found = judged(replace(recording, truth=truth))
    assert "does not hold what each client learnt" in found.refused["participation-regression"]
    assert list(found.scores(Streams(1))) == []


class Broken(ParticipantAttack):
    """Answers about one client too few."""

    name = "toy-broken"
    needs = frozenset()

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        return Inference.about(view, view.updates)

    def participants(self, sums: Sequence[Floats], taking_part: Participation) -> ParticipantEstimates:
        return ParticipantEstimates(np.zeros((taking_part.clients - 1, sums[0].size)))


def test_answers_of_another_shape_are_named(setup_of: SetupOf) -> None:
    recording = recorded(setup_of, rounds=2, intents=INTENTS, seed=3)
    with pytest.raises(PluginError, match=r"attack toy-broken: participants: updates gave an array of shape"):
        judged(recording, Broken())
