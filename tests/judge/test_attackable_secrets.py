"""What attacks know without a message, and what sums lack: ceilings must allow for both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.judge.intents import IntentDecisions, IntentEvidence, usual_intent
from foltr_audit.judge.linkage import counts_are_alike
from foltr_audit.judge.promises import RecordedPromises
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.queries import QueryEvidence, RoundQueries, TruthRanks
from foltr_audit.judge.task import Evidence, TaskScore
from foltr_audit.privacy.accounting import AccountingContext
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.privacy.events import (
    CorrelatedNoise,
    MessageAggregation,
    MetricRandomization,
    NormBound,
    event_text,
)
from foltr_audit.report.results.attack import AttackRows, inquiry_rows
from foltr_audit.rng import Streams
from foltr_audit.simulation.setup import Setup
from foltr_audit.utils.rows import Estimate
from tests.conftest import SetupOf
from tests.fixtures.result_rows import setting
from tests.fixtures.there import there
from tests.judge.test_clicks import recording_of

SUMS = [AttackSpec(view=view, repeats=8, hide=("shown",)) for view in ("aggregate", "pooled")]
SITUATION = AccountingContext(view="individual", unit="client", parameters=1, shares=1)
SHARES = ("clip:norm=1.5,ord=1", "gamma-laplace:eps=1.2,sensitivity=3")
WHOLE = ("clip:norm=1.5,ord=1", "laplace:eps=1.2,sensitivity=3")
WEAK = ProvenPromise.of([MetricRandomization(epsilon=0.1)], SITUATION, 1e-5)
PROMISES = RecordedPromises(interaction=WEAK, message=WEAK, clicks=WEAK, client=WEAK)


# --- what sums hold -------------------------------------------------------------------------------


def promises_of(setup: Setup, protocol: AttackSpec, **facts: Any) -> RecordedPromises:
    recording = recording_of(setup)
    first = next(iter(recording.rounds()))
    header = replace(recording.header, knowledge={**recording.header.knowledge, **facts})
    return there(RecordedPromises.of(header, first, 8, protocol))


@pytest.mark.parametrize("protocol", SUMS)
def test_attacked_sums_hold_the_noise_of_their_messages_only(setup_of: SetupOf, protocol: AttackSpec) -> None:
    """Sums are of eight messages, not of a whole cohort, and nobody adds the aggregator's noise to them."""
    bound = NormBound(norm=1.5, ord=1, of="model")
    noisy = [event_text(event) for event in (bound, CorrelatedNoise(sigma=100.0))]
    correlated = promises_of(setup_of(dtype="float32"), protocol, interactions=1, events=noisy)
    assert not correlated.interaction.known
    shares = setup_of(defense=SHARES, clients=100, dtype="float32")
    assert not promises_of(shares, protocol, interactions=1).interaction.known
    each = setup_of(defense=WHOLE, dtype="float32")
    assert promises_of(each, protocol, interactions=1).interaction.upper.epsilon == pytest.approx(1.2)


def test_open_messages_hold_no_noise_of_a_secure_sum(setup_of: SetupOf) -> None:
    """The header says that messages are summed securely, but the recording shows each of them."""
    setup = setup_of(defense=SHARES, clients=100, dtype="float32")
    events = [event_text(each) for each in (*setup.privacy.events(), MessageAggregation(at_least=100))]
    protocol = AttackSpec(target="training", hide=("shown",))
    assert not promises_of(setup, protocol, events=events).interaction.known


@pytest.mark.parametrize("stated", [True, 0, 1])
def test_a_number_of_interactions_that_cannot_be_promises_nothing(setup_of: SetupOf, stated: int) -> None:
    """The messages are of four lists, each ranked with a model that has learned from the one before."""
    setup = setup_of(defense=WHOLE, dtype="float32")
    protocol = AttackSpec(target="training")
    assert not promises_of(setup, protocol, interactions=stated).interaction.known


# --- what is known without a message --------------------------------------------------------------


def rows_of(**found: Evidence) -> AttackRows:
    return inquiry_rows(TaskEvidence(found=found, promises=PROMISES), "perfect", setting(), Streams(1))


def test_a_query_that_most_clients_ask_is_named_without_a_message() -> None:
    """Nine of ten clients ask the first of two queries: who knows that is right nine times in ten."""
    names = np.array([*"aaaaaaaaa", "b"])
    queries = RoundQueries(np.array([0, 9]), np.array([0] * 9 + [1]), names)
    offered, right = queries.offered(2, Streams(1), 0)
    popular = np.tile([0.9, 0.1], (10, 1))
    evidence = QueryEvidence(
        query=names,
        has_pairs=np.ones(10, np.bool_),
        choices=np.full(10, 2),
        prior=queries.prior(offered),
        asked=2,
        placed={"popular": TruthRanks.of(popular, right)},
    )
    (row,) = rows_of(query=evidence).query_identification
    assert (row.chance, row.accuracy.value) == (0.5, 0.9)
    assert 0.9 <= row.ceiling < 0.92


def test_intents_that_change_with_time_are_named_by_the_round() -> None:
    """All clients have one intent in the first round, and another in the second."""
    intent, rounds = np.repeat([0, 1], 20), np.repeat([[4], [5]], 20, axis=0)
    by_round = np.eye(2)[intent]

    def ceiling(rounds: np.ndarray) -> float:
        told = IntentDecisions(
            client=np.arange(40).astype(np.str_),
            intent=intent,
            probability=by_round,
            shown=np.ones((40, 2)),
            prior=usual_intent(intent, rounds),
            messages=1,
            mixed=0,
            left_over=0,
        )
        (row,) = rows_of(intent=IntentEvidence(told={"by-round": told})).intent_inference
        assert (row.most_frequent, row.accuracy.value) == (0.5, 1.0)
        return row.ceiling

    assert ceiling(rounds) == 1.0
    assert ceiling(np.zeros((40, 1), np.int64)) == pytest.approx(1 / (1 + np.exp(-0.1)))


def test_the_most_frequent_intent_of_decisions_on_the_same_rounds() -> None:
    rounds = np.array([[0, 1], [0, 1], [0, 1], [1, 2], [0, 2]])
    assert usual_intent(np.array([1, 1, 0, 0, 2]), rounds) == pytest.approx([2 / 3] * 3 + [1.0, 1.0])
    assert usual_intent(np.zeros(0, np.int64), np.zeros((0, 1), np.int64)).shape == (0,)


@pytest.mark.parametrize(("probability", "alike"), [(0.25, True), (0.3, False)])
def test_counts_that_guess_right_by_accident_are_not_alike(probability: float, alike: bool) -> None:
    metrics = {"accuracy": Estimate(0.25), "probability": Estimate(probability)}
    score = TaskScore(method="count", baseline=True, facts={"chance": 0.25}, metrics=metrics)
    assert counts_are_alike([score]) is alike
