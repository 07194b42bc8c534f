"""Judging counts: sums by hand, who is in them, and what stands beside an attack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from foltr_audit.attacks.olsr import OLSR
from foltr_audit.attacks.query_identification import QueryIdentification

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.core.records import Collection
from foltr_audit.core.settings.attack import AttackSpec
from foltr_audit.errors import UsageError
from foltr_audit.inference.count_decoder import cascade_rates, median_rates
from foltr_audit.judge.counts import CountEvidence
from foltr_audit.judge.observer import Observer
from foltr_audit.judge.protocol import judge
from foltr_audit.rng import Streams
from foltr_audit.simulation.recorder import MemoryRoundStore
from tests.conftest import SetupOf
from tests.fixtures.there import there
from tests.judge.test_queries import fresh

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


def judged(
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
    evidence = judged(recording, data)
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
    whole, evidence = judged(recording, data), judged(lost(recording, 2, row=3), data)
    place = evidence.query.tolist().index(whole.query[3])
    assert place == evidence.query.size - 1, "it begins in a later round"
    assert evidence.clients[place] == REPEATS - 2
    late = sum(truth.clicks[3].astype(np.int64) for truth in recording.truth[2:])
    assert np.array_equal(evidence.counts[place], late)
    assert np.all(np.delete(evidence.clients, place) == REPEATS)
    gone = judged(lost(recording, REPEATS, row=3), data)
    assert whole.query[3] not in gone.query


def test_another_model_or_list_makes_another_sum(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=REPEATS)
    first, *others = recording.records
    turned = replace(first, shown=first.shown[:, ::-1].copy()) if (first.shown >= 0).all() else first
    moved = replace(others[0], parameters=others[0].parameters + 1e-9)
    changed = replace(recording, records=[turned, moved, *others[1:]])
    evidence = judged(changed, data)
    assert sorted(np.unique(evidence.clients)) == [1, REPEATS - 2]
    assert evidence.query.size == 3 * first.n_messages


def test_documents_keep_their_places_where_the_order_is_hidden(setup_of: SetupOf) -> None:
    rounds = fresh(setup_of, clients=100, repeats=2)
    known, blind = judged(*rounds), judged(*rounds, hidden=frozenset({"order"}))
    assert np.array_equal(known.estimates["toy-peeking"], known.shown + 200.0 + (known.shown < 0))
    assert np.array_equal(known.estimates["toy-peeking"], blind.estimates["toy-peeking"])


# --- what stands beside ---------------------------------------------------------------------------


def test_baselines_know_no_message(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100, repeats=REPEATS)
    evidence = judged(recording, data, hidden=frozenset({"click_model", "relevance"}))
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
    assert list(judged(strange, data).baselines) == ["constant"]


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
    with pytest.raises(UsageError, match=f"view aggregate: .*{word}"):
        judged(*fresh(setup_of, clients=100, **change))


def test_without_truth_or_messages_nothing_is_summed(setup_of: SetupOf) -> None:
    recording, data = fresh(setup_of, clients=100)
    with pytest.raises(UsageError, match="holds no truth"):
        judged(replace(recording, has_truth=False), data)
    with pytest.raises(UsageError, match="no message"):
        judged(replace(recording, records=[], truth=[]), data)
