"""Judging who asked what, and counts in sums: decoys, ranks with ties, and what stands beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
import pytest
from foltr_audit.attacks.olsr import OLSR
from foltr_audit.attacks.query_identification import QueryIdentification
from scipy.stats import binom

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.inference.count_decoder import cascade_rates, median_rates
from foltr_audit.judge.counts import CountEvidence
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.protocol import judge
from foltr_audit.judge.queries import QueryEvidence, TruthRanks, draw_choices
from foltr_audit.rng import Streams
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import MemoryRoundStore, trace_header
from tests.conftest import SetupOf
from tests.fixtures.there import there
from tests.inference.test_replay import learner, wide

SHARES = ("clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3")
QUERIES = wide(40)


@cache
def fresh(
    setup_of: SetupOf, *, clients: int, repeats: int = 1, lists: str = "deterministic", **attack: Any
) -> tuple[MemoryRoundStore, Collection]:
    """Rounds of fresh clients of a trained-looking model, and their data."""
    setup = setup_of(
        learner=learner("all", "shown"),
        defense=SHARES,
        clients=clients,
        data=QUERIES,
        attack={"repeats": repeats, **attack},
    )
    protocol = there(setup.spec.attack)
    sending = FreshClients(setup, protocol)
    header = trace_header(setup, "informational", sending.queries.size, protocol.interactions)
    header = replace(header, knowledge={**header.knowledge, "lists": lists})
    memory = MemoryRoundStore(header)
    model = np.random.default_rng(5).normal(size=46) / 8
    for played in sending.rounds(model, "informational"):
        memory.write(*played.recorded())
    return memory, QUERIES


class Blind(Attack):
    """Says what it is told to, and notes the views that it got."""

    name: ClassVar[str] = "toy-blind"
    asks: ClassVar[str | type] = "query"
    says: str = "all alike"
    seen: ClassVar[list[View]] = []

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        self.seen.append(view)
        shape = view.shown.shape[:2]
        lists = None if self.says == "nothing" else np.full(shape, np.nan if self.says == "nonsense" else 0.1)
        nothing = np.zeros(view.shown.shape)
        return Inference(scores=nothing, guess=nothing > 0, answer=lists)


def judged(
    recording: MemoryRoundStore,
    data: Collection,
    attacks: Sequence[Attack],
    choices: int = 10,
    hidden: frozenset[str] = frozenset(),
    seed: int = 1,
) -> QueryEvidence:
    observer = Observer(recording.header, data, hidden)
    protocol = AttackSpec(choices=choices)
    found = judge(recording, observer, attacks, Streams(seed), protocol).found["query"]
    assert isinstance(found, QueryEvidence)
    return found


# --- what noise hides -----------------------------------------------------------------------------


def test_shares_of_noise_hide_no_query_and_whole_noise_hides_all(setup_of: SetupOf) -> None:
    """One of 1,000 shares leaves the query in the open; the whole Laplace noise on one client does not."""
    attack = [QueryIdentification()]
    shares = judged(*fresh(setup_of, clients=1000, repeats=4), attack)
    whole = judged(*fresh(setup_of, clients=1, repeats=4), attack)
    for evidence, low, high in ((shares, 0.97, 1.0), (whole, 0.0, 0.2)):
        told = evidence.has_pairs
        n = int(told.sum())
        assert n > 100
        assert low <= evidence.placed["query-id"].first[told].mean() <= high
    hits = int((whole.placed["query-id"].ahead == 0).sum())
    assert 1e-4 < binom.cdf(hits, whole.query.size, 0.1) < 1 - 1e-4
    assert shares.placed["query-id"].probability[shares.has_pairs].mean() > 0.97


def test_hiding_the_query_changes_nothing(setup_of: SetupOf) -> None:
    rounds = fresh(setup_of, clients=100)
    known = judged(*rounds, [QueryIdentification()])
    hidden = judged(*rounds, [QueryIdentification()], hidden=frozenset({"query", "shown"}))
    assert hidden.placed["query-id"].probability.tobytes() == known.placed["query-id"].probability.tobytes()
    reason = judged(*rounds, [QueryIdentification()], hidden=frozenset({"candidates"})).refused["query-id"]
    assert reason == "the observer does not know: candidates"


def test_only_messages_with_pairs_can_say_anything(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100)
    evidence = judged(recording, data, [Blind()])
    (truth,), (record,) = recording.truth, recording.records
    clicks = truth.clicks.sum(axis=1)
    assert np.array_equal(evidence.has_pairs, (clicks > 0) & (clicks < record.lengths))


# --- ranks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row",
    [[0.4, 0.3, 0.2, 0.1], [0.25] * 4, [0.4, 0.2, 0.2, 0.2], [0, 0, 0.5, 0.5], [1e-300, 1e-290, 0, 1]],
)
def test_ranks_average_over_all_orders_of_ties(row: list[float]) -> None:
    for right in range(4):
        ranks = []
        for order in permutations(range(4)):
            ranked = sorted(order, key=lambda choice: -row[choice])  # ties stay in their random order
            ranks.append(ranked.index(right) + 1)
        placed = TruthRanks.of(np.array([row]), np.array([right]))
        assert placed.probability[0] == row[right]
        assert placed.rank[0] == pytest.approx(np.mean(ranks))
        assert placed.first[0] == pytest.approx(np.mean([rank == 1 for rank in ranks]))
        assert placed.reciprocal_rank[0] == pytest.approx(np.mean([1 / rank for rank in ranks]))


def test_rounding_makes_no_difference_between_choices() -> None:
    lists = np.array([[0.25, 0.25 * (1 + 1e-13), 0.25 * (1 - 1e-13), 0.25]])
    placed = TruthRanks.of(lists, np.array([0]))
    assert (placed.ahead[0], placed.tied[0], placed.first[0]) == (0, 4, 0.25)


# --- decoys ---------------------------------------------------------------------------------------


def test_choices_are_sorted_distinct_and_hold_the_truth(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=2)
    Blind.seen.clear()
    judged(recording, data, [Blind()], choices=5)
    asked = np.concatenate([there(view.candidates).query for view in Blind.seen])
    assert np.all(np.diff(asked, axis=1) > 0)
    truth = np.concatenate([np.arange(record.n_messages) for record in recording.records])
    own = asked[:, :] == np.unique(asked)[truth][:, np.newaxis]
    assert np.array_equal(own.sum(axis=1), np.ones(truth.size)), "once each"
    half = truth.size // 2
    assert not np.array_equal(asked[:half], asked[half:]), "rounds draw anew"


def test_lists_go_with_their_queries(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100)
    (record,) = recording.records
    (seen,) = Observer(recording.header, data).views(record)
    Blind.seen.clear()
    judged(recording, data, [Blind()], choices=4)
    own = {int(query): i for i, query in enumerate(there(seen.view.candidates).query[:, 0])}
    for view in Blind.seen:
        assert view.labels is not None
        for i, b in np.ndindex(view.shown.shape[:2]):
            message = own[int(there(view.candidates).query[i, b])]
            assert np.array_equal(view.shown[i, b], seen.view.shown[message, 0])
            assert np.array_equal(view.features[i, b], seen.view.features[message, 0])
    messages = np.concatenate([view.messages for view in Blind.seen])
    assert np.array_equal(messages, seen.view.messages)


def test_decoys_depend_on_no_attacks_or_chunks(setup_of: SetupOf, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = fresh(setup_of, clients=1)
    attack = QueryIdentification()
    alone = judged(*rounds, [attack]).placed["query-id"]
    monkeypatch.setattr("foltr_audit.judge.queries._CHUNK_NUMBERS", 10_000)
    beside = judged(*rounds, [Blind(), attack]).placed["query-id"]
    assert alone.probability.tobytes() == beside.probability.tobytes()
    other = judged(*rounds, [attack], seed=2).placed["query-id"]
    assert alone.probability.tobytes() != other.probability.tobytes()


def test_the_place_of_the_truth_tells_nothing() -> None:
    """Of many queries in the middle, each place is as frequent as decoys below are."""
    places = [draw_choices(np.array([50]), 101, 3, ["q50"], Streams(seed))[1][0] for seed in range(600)]
    expected = np.array([0.25, 0.5, 0.25]) * 600  # 50 queries below and 50 above, two decoys
    counts = np.bincount(places, minlength=3)
    assert ((counts - expected) ** 2 / expected).sum() < 18.4  # chi-square, 2 degrees, 1 in 10,000


@pytest.mark.parametrize(("choices", "offered"), [(2, 2), (4, 4), (5, 5), (9, 5)])
def test_fewer_queries_than_asked_for_are_all_used(choices: int, offered: int) -> None:
    truth = np.arange(5)
    lists, right = draw_choices(truth, 5, choices, "abcde", Streams(1))
    assert lists.shape == (5, offered)
    assert np.array_equal(np.take_along_axis(lists, right[:, np.newaxis], axis=1)[:, 0], truth)


# --- refusals and pieces --------------------------------------------------------------------------


def test_one_query_alone_cannot_be_told_from_others(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100)
    (record,) = recording.records
    first = {name: getattr(record, name)[:1] for name in ("part", "query", "shown")}
    same = replace(record, **{name: row.repeat(record.n_messages, axis=0) for name, row in first.items()})
    evidence = judged(replace(recording, records=[same]), data, [Blind()])
    assert "1 different queries" in evidence.refused["toy-blind"]
    assert evidence.placed == {}


@pytest.mark.parametrize("says", ["nothing", "nonsense"])
def test_an_answer_without_probabilities_is_an_error(says: str, setup_of: SetupOf) -> None:
    with pytest.raises(PluginError, match="a probability for each list"):
        judged(*fresh(setup_of, clients=100), [Blind(says=says)])


# --- counts in sums -------------------------------------------------------------------------------


REPEATS = 5
SUMS = AttackSpec(view="aggregate", repeats=REPEATS)


class Peeking(Attack):
    """Says what it sees: the sum's clients and positions; notes the views that it got."""

    name: ClassVar[str] = "toy-peeking"
    asks: ClassVar[str | type] = "counts"
    observers: ClassVar[frozenset[str]] = frozenset({"aggregate"})
    seen: ClassVar[list[View]] = []

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        self.seen.append(view)
        scores = np.where(view.is_document, view.shown, 0) + 100.0 * view.clients[:, np.newaxis, np.newaxis]
        return Inference(scores=scores, guess=scores < 0)


def counted(
    recording: MemoryRoundStore,
    data: Collection,
    attacks: Sequence[Attack] = (Peeking(),),
    hidden: frozenset[str] = frozenset(),
) -> CountEvidence:
    observer = Observer(recording.header, data, hidden)
    found = judge(recording, observer, attacks, Streams(1), SUMS).found["counts"]
    assert isinstance(found, CountEvidence)
    return found


def lost(recording: MemoryRoundStore, rounds: int, row: int) -> MemoryRoundStore:
    """The same rounds; a message of the first ones did not arrive."""
    records = [
        replace(record, survivors=record.survivors & ((np.arange(record.n_messages) != row) | (i >= rounds)))
        for i, record in enumerate(recording.records)
    ]
    return replace(recording, records=records)


# --- sums -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["model", "update"])
def test_sums_are_those_of_all_rounds(kind: str, setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=REPEATS)
    updates = [one.messages - one.parameters for one in recording.records]
    if kind == "update":
        header = replace(recording.header, kind="update")
        sent = zip(recording.records, updates, strict=True)
        records = [replace(one, messages=update) for one, update in sent]
        recording = replace(recording, header=header, records=records)
    Peeking.seen.clear()
    evidence = counted(recording, data)
    (view,) = Peeking.seen
    np.testing.assert_allclose(view.messages, sum(updates), rtol=1e-12, atol=1e-12)
    assert (view.observer, view.kind) == ("aggregate", "update")
    assert np.array_equal(view.clients, np.full(len(view), REPEATS))
    counts = sum(truth.clicks.astype(np.int64) for truth in recording.truth)
    assert np.array_equal(evidence.counts, counts)
    assert np.array_equal(evidence.shown, recording.records[0].shown)
    assert np.array_equal(view.shown[:, 0], evidence.shown)
    asked = zip(recording.records[0].part, recording.records[0].query, strict=True)
    assert evidence.query.tolist() == [data.query_name(data.PARTS[part], query) for part, query in asked]


def test_only_what_arrived_is_summed_and_counted(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=REPEATS)
    whole, evidence = counted(recording, data), counted(lost(recording, 2, row=3), data)
    place = evidence.query.tolist().index(whole.query[3])
    assert place == evidence.query.size - 1, "it begins in a later round"
    assert evidence.clients[place] == REPEATS - 2
    late = sum(truth.clicks[3].astype(np.int64) for truth in recording.truth[2:])
    assert np.array_equal(evidence.counts[place], late)
    assert np.all(np.delete(evidence.clients, place) == REPEATS)
    gone = counted(lost(recording, REPEATS, row=3), data)
    assert whole.query[3] not in gone.query


def test_another_model_or_list_makes_another_sum(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=REPEATS)
    first, *others = recording.records
    turned = replace(first, shown=first.shown[:, ::-1].copy()) if (first.shown >= 0).all() else first
    moved = replace(others[0], parameters=others[0].parameters + 1e-9)
    changed = replace(recording, records=[turned, moved, *others[1:]])
    evidence = counted(changed, data)
    assert sorted(np.unique(evidence.clients)) == [1, REPEATS - 2]
    assert evidence.query.size == 3 * first.n_messages


def test_documents_keep_their_places_where_the_order_is_hidden(setup_of: SetupOf) -> None:
    rounds = fresh(setup_of, clients=100, repeats=2)
    known, blind = counted(*rounds), counted(*rounds, hidden=frozenset({"order"}))
    assert np.array_equal(known.estimates["toy-peeking"], known.shown + 200.0 + (known.shown < 0))
    assert np.array_equal(known.estimates["toy-peeking"], blind.estimates["toy-peeking"])


# --- what stands beside ---------------------------------------------------------------------------


def test_baselines_know_no_message(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=REPEATS)
    evidence = counted(recording, data, hidden=frozenset({"click_model", "relevance"}))
    record, k = recording.records[0], evidence.shown.shape[1]
    belief = there(Observer(recording.header, data).knowledge(record).belief)
    here = evidence.is_document
    found = {name: values[here] for name, values in evidence.baselines.items()}
    asked = zip(record.part, record.query, record.shown, strict=True)
    labels = np.concatenate(
        [data.part(data.PARTS[part]).shown_labels(np.array([q]), shown[None]) for part, q, shown in asked]
    )
    for name, rates in {
        "position-prior": np.tile(cascade_rates(*belief.by_position(k)), (len(here), 1)),
        "position-prior:median": np.tile(median_rates(belief, k), (len(here), 1)),
        "relevance-prior": cascade_rates(*belief.by_grade(labels)),
    }.items():
        np.testing.assert_allclose(found[name], REPEATS * rates[here])
    constants = [np.abs(rate * REPEATS - evidence.counts[here]).mean() for rate in np.linspace(0, 1, 101)]
    assert np.abs(found["constant"] - evidence.counts[here]).mean() <= min(constants) + 1e-12
    assert np.unique(found["constant"]).size == 1


def test_a_system_of_its_own_has_the_constant_only(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=2)
    facts = {**recording.header.knowledge, "click_model": "of another system"}
    strange = replace(recording, header=replace(recording.header, knowledge=facts))
    assert list(counted(strange, data).baselines) == ["constant"]


# --- refusals and pieces --------------------------------------------------------------------------


def test_attacks_on_single_messages_are_refused(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=2)
    attacks = [OLSR(), QueryIdentification(), Peeking()]
    found = judge(recording, Observer(recording.header, data), attacks, Streams(1), SUMS)
    evidence = found.found["counts"]
    assert isinstance(evidence, CountEvidence)
    assert list(evidence.estimates) == ["toy-peeking"]
    assert set(found.refused) == {"olsr", "query-id"}
    assert "and these are sums over clients who saw the same list" in found.refused["olsr"]


@pytest.mark.parametrize(
    ("change", "word"), [({"interactions": 2}, "one interaction"), ({"lists": "sampled"}, "sampled")]
)
def test_recordings_that_do_not_fit_are_refused(change: dict[str, Any], word: str, setup_of: SetupOf) -> None:
    rounds = fresh(setup_of, clients=100, **change)
    evidence = judged(*rounds, [Blind()])
    assert word in evidence.refused["toy-blind"]
    assert list(evidence.scores(Streams(1))) == []
    with pytest.raises(UsageError, match=f"view aggregate: .*{word}"):
        counted(*rounds)


def test_without_truth_or_messages_nothing_is_scored(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100)
    for changes, why in (
        ({"has_truth": False}, "holds no truth"),
        ({"records": [], "truth": []}, "no message"),
    ):
        lacking = replace(recording, **changes)
        for judging in (judged, counted):
            with pytest.raises(UsageError, match=why):
                judging(lacking, data, [Blind() if judging is judged else Peeking()])
