"""Judging who asked what: decoys, ranks with ties, and that noise that hides clicks hides queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
import pytest
from foltr_audit.attacks.query_identification import QueryIdentification
from scipy.stats import binom

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import PluginError, UsageError
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.protocol import judge
from foltr_audit.judge.queries import QueryEvidence, RoundQueries, TruthRanks
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
    names = np.array([f"q{i}" for i in range(101)])
    pages = RoundQueries(np.arange(101), np.arange(101), names)
    places = [pages.offered(3, Streams(seed), 0)[1][50] for seed in range(600)]
    expected = np.array([0.25, 0.5, 0.25]) * 600  # 50 queries below and 50 above, two decoys
    counts = np.bincount(places, minlength=3)
    assert ((counts - expected) ** 2 / expected).sum() < 18.4  # chi-square, 2 degrees, 1 in 10,000


@pytest.mark.parametrize(("choices", "offered"), [(2, 2), (4, 4), (5, 5), (9, 5)])
def test_fewer_queries_than_asked_for_are_all_used(choices: int, offered: int) -> None:
    names = np.array(list("aabccde"))
    pages = RoundQueries(np.array([0, 2, 3, 5, 6]), np.array([0, 0, 1, 2, 2, 3, 4]), names)
    lists, right = pages.offered(choices, Streams(1), 0)
    assert lists.shape == (7, offered)
    assert np.array_equal(np.take_along_axis(lists, right[:, np.newaxis], axis=1)[:, 0], pages.query)
    assert np.array_equal(lists[0], lists[1]), "the same query, the same choices"
    assert pages.why_not(choices) is None


# --- refusals and pieces --------------------------------------------------------------------------


def test_one_query_alone_cannot_be_told_from_others(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100)
    (record,) = recording.records
    first = {name: getattr(record, name)[:1] for name in ("part", "query", "shown")}
    same = replace(record, **{name: row.repeat(record.n_messages, axis=0) for name, row in first.items()})
    evidence = judged(replace(recording, records=[same]), data, [Blind()])
    assert "1 different queries" in evidence.refused["toy-blind"]
    assert evidence.placed == {}


@pytest.mark.parametrize("change", [{"interactions": 2}, {"lists": "sampled"}])
def test_recordings_that_do_not_fit_are_refused(change: dict[str, Any], setup_of: SetupOf) -> None:
    evidence = judged(*fresh(setup_of, clients=100, **change), [Blind()])
    assert set(evidence.refused) == {"toy-blind"}
    word = "sampled" if "lists" in change else "one interaction"
    assert word in evidence.refused["toy-blind"]
    assert list(evidence.scores(Streams(1))) == []


@pytest.mark.parametrize("says", ["nothing", "nonsense"])
def test_an_answer_without_probabilities_is_an_error(says: str, setup_of: SetupOf) -> None:
    with pytest.raises(PluginError, match="a probability for each list"):
        judged(*fresh(setup_of, clients=100), [Blind(says=says)])


def test_without_truth_or_messages_nothing_is_scored(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100)
    with pytest.raises(UsageError, match="holds no truth"):
        judged(replace(recording, has_truth=False), data, [Blind()])
    with pytest.raises(UsageError, match="no message"):
        judged(replace(recording, records=[], truth=[]), data, [Blind()])
