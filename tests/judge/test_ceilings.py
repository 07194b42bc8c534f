"""Ceilings on attacks: the best attack on a coin reaches them, and what is known otherwise is allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.core.results import Estimate
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.experiments.stages import attack_fresh
from foltr_audit.judge.click_evidence import ClickEvidence, ClickPriors
from foltr_audit.judge.intents import IntentDecisions, IntentEvidence, usual_intent
from foltr_audit.judge.linkage import counts_are_alike
from foltr_audit.judge.promises import RecordedPromises, any_click_ceiling, click_ceilings
from foltr_audit.judge.protocol import TaskEvidence
from foltr_audit.judge.queries import QueryEvidence, TruthRanks, usual_choice
from foltr_audit.judge.scoring import AttackScorer
from foltr_audit.judge.task import Evidence, TaskScore
from foltr_audit.privacy.accounting import AccountingContext, SumMembers
from foltr_audit.privacy.accounting.proven_curve import ProvenPromise
from foltr_audit.privacy.events import (
    ClickRandomization,
    CorrelatedNoise,
    MessageAggregation,
    MetricRandomization,
    NormBound,
    event_text,
)
from foltr_audit.report.attack import AttackReport
from foltr_audit.rng import Streams
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.setup import Setup
from foltr_audit.trace import TraceHeader
from tests.conftest import SetupOf
from tests.fixtures.evidence import evidence
from tests.fixtures.result_rows import attacked_by, report_on
from tests.fixtures.there import there
from tests.judge.test_clicks import recording_of

Floats = NDArray[np.float64]

SITUATION = AccountingContext(
    view="individual",
    unit="click",
    parameters=1,
    members=SumMembers(cohort=1),
)
LISTS = 20_000


def promise(eps: float) -> ProvenPromise:
    return ProvenPromise.of([ClickRandomization(epsilon=eps)], SITUATION, 1e-5)


def coin_evidence(eps: float, priors: Sequence[float], lists: int = LISTS) -> ClickEvidence:
    """Lists of one document each, which is clicked with a known probability and reported by a coin.

    The attack knows the probabilities, and orders by the posterior.
    """
    rng = np.random.default_rng(5)
    prior = rng.choice(np.array(priors), size=(lists, 1))
    clicks = rng.random((lists, 1)) < prior
    honest = rng.random((lists, 1)) < 1 / (1 + math.exp(-eps))
    said = clicks == honest
    odds = np.log(prior / (1 - prior)) + np.where(said, eps, -eps)
    found = evidence([f"q{i}" for i in range(lists)], clicks, odds > 0, scores=odds)
    sure = np.ones(lists)
    return replace(found, priors=ClickPriors(clicked=prior, pattern=sure, any_click=prior[:, 0]))


@pytest.mark.parametrize("eps", [0.4, 1.2, 3.0])
def test_the_best_attack_on_a_coin_reaches_the_ceiling_of_any_click(eps: float) -> None:
    """With one document a list, whether it has a click is the click itself, pooled over different priors."""
    found = coin_evidence(eps, (0.1, 0.4, 0.8))
    scores, clicked = found.guessed["attack"].scores[:, 0], found.has_click
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    hits = int(clicked.sum())
    auc = (ranks[clicked].sum() - hits * (hits + 1) / 2) / (hits * (LISTS - hits))
    ceiling = any_click_ceiling(found, promise(eps))["auc"]
    assert abs(auc - ceiling) < 5 / math.sqrt(LISTS)
    # An attack on a coin that tells more than is promised exceeds the ceiling.
    assert auc - any_click_ceiling(found, promise(eps / 8))["auc"] > 2 / math.sqrt(LISTS)


def pair_evidence(eps: float, lists: int = LISTS) -> ClickEvidence:
    """Lists of two documents, one of which is clicked; a coin says which, and the attack believes it."""
    rng = np.random.default_rng(6)
    first = rng.random(lists) < 0.5
    honest = rng.random(lists) < 1 / (1 + math.exp(-eps))
    clicks = np.stack([first, ~first], axis=1)
    said = np.stack([first == honest, first != honest], axis=1)
    found = evidence([f"q{i}" for i in range(lists)], clicks, said)
    half = np.full((lists, 2), 0.5)
    return replace(found, priors=ClickPriors(clicked=half, pattern=half[:, 0], any_click=np.ones(lists)))


def test_the_best_attack_on_a_coin_reaches_accuracy_exact_and_auc() -> None:
    found, ceiling = pair_evidence(1.2), click_ceilings(pair_evidence(1.2), promise(1.2))
    coin = 1 / (1 + math.exp(-1.2))
    assert ceiling["accuracy"] == pytest.approx(coin)
    assert ceiling["exact"] == pytest.approx(coin)
    assert ceiling["auc"] == pytest.approx(coin, abs=1e-3)
    metrics = {one.method: one.metrics for one in AttackScorer(found, Streams(1)).records()}["attack"]
    for name in ("accuracy", "exact", "auc"):
        assert abs(metrics[name].value - ceiling[name]) < 5 / math.sqrt(LISTS)
        assert metrics[name].value - click_ceilings(found, promise(0.8))[name] > 0.05


def test_pairs_inside_a_message_count_in_full() -> None:
    """Documents of one message are seen through one observation, which promises nothing of such pairs."""
    found = pair_evidence(0.0, lists=1)
    assert click_ceilings(found, promise(1e-6))["auc"] == 1.0
    assert click_ceilings(pair_evidence(0.0, lists=1000), promise(1e-6))["auc"] == pytest.approx(
        0.5, abs=2e-3
    )


def test_nothing_is_known_without_a_proof_or_without_priors() -> None:
    found = pair_evidence(1.2, lists=5)
    unknown = replace(found, priors=ClickPriors.unknown(found.shown.shape))
    nothing = ProvenPromise.of([], SITUATION, 1e-5)
    for judged, proof in ((found, None), (found, nothing), (unknown, promise(1.2))):
        assert click_ceilings(judged, proof) == any_click_ceiling(judged, proof) == {}


# --- probabilities of clicks ----------------------------------------------------------------------


def law_of_clicks(click: Floats, stop: Floats) -> dict[tuple[bool, ...], float]:
    """The probability of every pattern of clicks, from the first document on."""
    if not click.size:
        return {(): 1.0}
    found = {(True, *[False] * (click.size - 1)): float(click[0] * stop[0])}
    for rest, chance in law_of_clicks(click[1:], stop[1:]).items():
        goes_on = {(True, *rest): click[0] * (1 - stop[0]), (False, *rest): 1 - click[0]}
        for pattern, share in goes_on.items():
            found[pattern] = found.get(pattern, 0.0) + chance * float(share)
    return found


def fresh(setup: Setup, repeats: int, click_model: str = "informational") -> ClickEvidence:
    protocol = AttackSpec(methods=("first-position",), click_models=(click_model,), repeats=repeats)
    clients = FreshClients(setup, protocol)
    return there(attack_fresh(setup, clients, np.zeros(setup.ranker.n_parameters))[click_model].clicks)


def test_priors_by_walking_down_the_list(setup_of: SetupOf) -> None:
    setup = setup_of()
    found = fresh(setup, 1, "navigational")
    click, stop = (0.05, 0.5, 0.95), (0.2, 0.5, 0.9)
    data = setup.collection
    places = {
        data.query_name(part, query): (part, query)
        for part in ("vali", "test")
        for query in range(data.part(part).n_queries)
    }
    priors = found.priors
    lists = zip(found.query, found.shown, priors.clicked, priors.pattern, priors.any_click, strict=True)
    for name, shown, chances, pattern, anything in lists:
        part, query = places[name]
        documents = shown[shown >= 0]
        labels = data.part(part).shown_labels(np.array([query]), documents[np.newaxis])[0]
        law = law_of_clicks(np.array(click)[labels], np.array(stop)[labels])
        likely = {clicks: chance for clicks, chance in law.items() if any(clicks)}
        total = sum(likely.values())
        assert anything == pytest.approx(total)
        assert pattern == pytest.approx(max(likely.values()) / total)
        for j in range(documents.size):
            clicked = sum(chance for clicks, chance in likely.items() if clicks[j])
            assert chances[j] == pytest.approx(clicked / total)


# --- what a header promises -----------------------------------------------------------------------


def test_promises_of_a_header(setup_of: SetupOf) -> None:
    setup = setup_of(defense=("clip:norm=1.5,ord=1", "laplace:eps=1.2,sensitivity=3"), dtype="float32")
    recording = recording_of(setup, rounds=2)
    header, first = recording.header, next(iter(recording.rounds()))

    def promised(hide: tuple[str, ...], header: TraceHeader = header) -> RecordedPromises | None:
        return RecordedPromises.of(header, first, 2, AttackSpec(target="training", hide=hide))

    found = there(promised(("query",)))
    assert found.interaction.upper.epsilon == pytest.approx(1.2)
    assert found.message.upper.epsilon == pytest.approx(1.2)
    assert 1.2 < found.client.upper.epsilon <= 2.4
    assert found.clicks.upper.epsilon == found.client.upper.epsilon
    for hide in ((), ("shown",)):
        seen = there(promised(hide))
        assert seen.message.known
        assert not seen.client.known, "who knows the queries of a client links its messages by them"
    silent = {name: fact for name, fact in header.knowledge.items() if name != "events"}
    assert promised(("query",), replace(header, knowledge=silent)) is None
    strange = replace(header, knowledge={**header.knowledge, "events": ["of another program"]})
    assert not there(promised(("query",), strange)).interaction.known


# --- secrets that can be attacked otherwise -------------------------------------------------------


SUMS = [AttackSpec(view=view, repeats=8, hide=("shown",)) for view in ("aggregate", "pooled")]
OF_CLIENTS = AccountingContext(
    view="individual",
    unit="client",
    parameters=1,
    members=SumMembers(cohort=1),
)
SHARES = ("clip:norm=1.5,ord=1", "gamma-laplace:eps=1.2,sensitivity=3")
WHOLE = ("clip:norm=1.5,ord=1", "laplace:eps=1.2,sensitivity=3")
WEAK = ProvenPromise.of([MetricRandomization(epsilon=0.1)], OF_CLIENTS, 1e-5)
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


def test_a_sum_hides_less_of_a_message_that_weighs_more(setup_of: SetupOf) -> None:
    chain = ("clip:norm=1.5", "skellam:sigma=1,step=0.0001220703125", "secure-aggregation")
    recording = recording_of(setup_of(defense=chain, dtype="float32"))
    first = next(iter(recording.rounds()))

    def proven(others: float, one: float) -> float:
        counts = np.where(np.arange(first.n_messages) == 3, one, others)
        protocol = AttackSpec(target="training", hide=("shown",))
        promises = RecordedPromises.of(recording.header, replace(first, counts=counts), 1, protocol)
        return there(promises).message.upper.epsilon

    assert proven(4, 4) == proven(0.2, 0.2) < proven(1, 2) == proven(0.5, 1) <= proven(0.1, 1)
    assert proven(0, 1) == proven(0.1, 1), "its own noise is left, and messages without weight bring none"


@pytest.mark.parametrize("stated", [True, 0, 1])
def test_a_number_of_interactions_that_cannot_be_promises_nothing(setup_of: SetupOf, stated: int) -> None:
    """The messages are of four lists, each ranked with a model that has learned from the one before."""
    setup = setup_of(defense=WHOLE, dtype="float32")
    protocol = AttackSpec(target="training")
    assert not promises_of(setup, protocol, interactions=stated).interaction.known


# --- what is known without a message --------------------------------------------------------------


def report_of(**found: Evidence) -> AttackReport:
    return report_on(attacked_by(TaskEvidence(found=found, promises=PROMISES)))


def test_a_query_that_most_clients_ask_is_named_without_a_message() -> None:
    """Nine of ten clients ask the first of two queries: who knows that is right nine times in ten."""
    query = np.array([0] * 9 + [1])
    popular = np.tile([0.9, 0.1], (10, 1))
    evidence = QueryEvidence(
        query=query.astype(np.str_),
        has_pairs=np.ones(10, np.bool_),
        choices=np.full(10, 2),
        prior=usual_choice(query, np.tile([0, 1], (10, 1))),
        asked=2,
        placed={"popular": TruthRanks.of(popular, query)},
    )
    (row,) = report_of(query=evidence).query_identification
    assert (row["chance"], row.number("accuracy")) == (0.5, 0.9)
    assert 0.9 <= row["ceiling_accuracy"] < 0.92


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
        (row,) = report_of(intent=IntentEvidence(told={"by-round": told})).intent_inference
        assert (row["most_frequent"], row.number("accuracy")) == (0.5, 1.0)
        return row.number("ceiling_accuracy")

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
