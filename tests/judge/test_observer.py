"""What an observer is to do without: hidden knowledge, and above all the order of the shown lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.core.plugins.registry import names, plugin_class
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord
from foltr_audit.core.records.view import KNOWLEDGE
from foltr_audit.judge import observer as observer_room
from foltr_audit.judge.clicks import infer_round
from foltr_audit.judge.observer import Observer, RoundView, whole_round, with_lists
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.fresh_clients import FreshClients
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.trace import TraceHeader
from tests.conftest import SetupOf
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.plugin_examples import example
from tests.fixtures.there import there
from tests.fixtures.tiny import FEATURES
from tests.inference.test_replay import wide

MODEL = np.linspace(-0.4, 0.5, FEATURES)
EMBEDDED, GIVEN = "features in the trace", "the data set"
WITHOUT_ORDER = [
    name
    for name in names(Attack)
    if "order" not in plugin_class(Attack, name).needs
    and plugin_class(Attack, name).asks == "clicks"
    and "model" in plugin_class(Attack, name).reads
]


class Round(NamedTuple):
    """A recorded round and who may look at it."""

    header: TraceHeader
    record: RoundRecord
    collection: Collection | None

    def seen(self, *hidden: str) -> RoundView:
        """The round without some knowledge, in one view."""
        (seen,) = Observer(self.header, self.collection, frozenset(hidden)).views(self.record)
        return seen


@pytest.fixture(params=[GIVEN, EMBEDDED])
def played(request: Any, setup_of: SetupOf) -> Round:
    """Three interactions a message, lists of 2 to 10 documents, no two documents alike."""
    data, embeds = wide(20, FEATURES), request.param == EMBEDDED
    setup = setup_of(learner="fpdgd:interactions=3", clients=12, embed_features=embeds, data=data)
    record, _ = Federation(setup).play(MODEL, 0).recorded()
    assert len(np.unique((record.shown >= 0).sum(axis=1))) > 3
    return Round(trace_header(setup, "perfect", 12), record, None if embeds else data)


# --- the order ------------------------------------------------------------------------------------


def test_without_the_order_documents_stand_as_in_their_query(played: Round) -> None:
    """And whatever is told of a document moves along."""
    ordered, sorted_ = played.seen(), played.seen("order")
    assert ordered.order is None
    before, after, moved = ordered.view, sorted_.view, 0
    for i, b in np.ndindex(before.shown.shape[:2]):
        documents = [d for d in before.shown[i, b].tolist() if d >= 0]
        padding = [-1] * (10 - len(documents))
        assert after.shown[i, b].tolist() == sorted(documents) + padding
        moved += documents != sorted(documents)
        for place, document in enumerate(sorted(documents)):
            came = documents.index(document)
            assert there(sorted_.order)[i, b, place] == came
            assert np.array_equal(after.features[i, b, place], before.features[i, b, came])
            if before.labels is not None:
                assert there(after.labels)[i, b, place] == before.labels[i, b, came]
        assert not after.features[i, b, len(documents) :].any()
    assert moved > 10
    assert (before.labels is None) == (after.labels is None) == (played.collection is None)
    assert np.array_equal(after.messages, before.messages)
    assert not after.knowledge.order


def test_the_recorded_order_is_not_in_the_view(played: Round) -> None:
    """Two rounds that differ in the order of their lists alone look the same."""
    record, turned = played.record, {}
    for name in ("shown", "features") if played.collection is None else ("shown",):
        turned[name] = getattr(record, name).copy()
        for row, length in zip(turned[name], (record.shown >= 0).sum(axis=1), strict=True):
            row[:length] = row[:length][::-1].copy()
    other = replace(record, **turned)
    for hidden, same in ((("order",), True), ((), False)):
        one, two = (played._replace(record=r).seen(*hidden).view for r in (record, other))
        assert np.array_equal(one.shown, two.shown) == same
        assert np.array_equal(one.features, two.features) == same


def test_answers_come_back_in_the_recorded_order(played: Round) -> None:
    ordered, sorted_ = played.seen(), played.seen("order")
    for dtype in (np.int64, np.float64):
        answers = sorted_.view.shown.astype(dtype)
        assert np.array_equal(sorted_.restored(answers), ordered.view.shown)
        assert sorted_.restored(answers).dtype == dtype
    assert ordered.restored(answers) is answers
    named = sorted_.view.shown == sorted_.view.shown.max(axis=2, keepdims=True)
    last = ordered.view.shown == ordered.view.shown.max(axis=2, keepdims=True)
    assert np.array_equal(sorted_.restored(named), last)


class Largest(Attack):
    """Names the document with the largest number in its query, by its number."""

    name: ClassVar[str] = "largest"

    def infer(self, view: View, rng: np.random.Generator) -> Inference:
        scores = view.shown.astype(float)
        largest = scores.max(axis=2, keepdims=True)
        guess = (scores == largest) & view.is_document
        return Inference(scores=scores, guess=guess, any_click=largest[..., 0])


def answers_of(played: Round, attack: Attack, *hidden: str) -> tuple[NDArray[np.float64], ...]:
    """Scores, guess and belief in any click, in the order of the record."""
    observer = Observer(played.header, played.collection, frozenset(hidden))
    answer = infer_round(played.record, observer, [attack], Streams(1)).guessed[attack.label]
    return answer.scores, answer.guess.astype(np.float64), answer.any_click


@pytest.mark.parametrize("chunk", [2048, 5])
def test_judged_answers_stand_beside_the_recorded_documents(
    chunk: int, played: Round, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer_room, "_CHUNK", chunk)
    shown = played.record.shown
    for hidden in ((), ("order",)):
        scores, guess, any_click = answers_of(played, Largest(), *hidden)
        assert np.array_equal(scores, shown)
        assert np.array_equal(guess, (shown == shown.max(axis=1, keepdims=True)) & (shown >= 0))
        assert np.array_equal(any_click, shown.max(axis=1))


@pytest.mark.parametrize("name", WITHOUT_ORDER)
def test_an_attack_that_does_not_need_the_order_answers_the_same(name: str, played: Round) -> None:
    attack = example(Attack, name)
    for here, hidden in zip(answers_of(played, attack), answers_of(played, attack, "order"), strict=True):
        mask = played.record.shown >= 0 if here.ndim == 2 else ...
        np.testing.assert_allclose(hidden[mask], here[mask], rtol=0, atol=1e-9)


def test_some_attacks_need_no_order() -> None:
    assert {"olsr", "higher-score"} <= set(WITHOUT_ORDER)


def test_lists_of_fresh_clients_are_sorted_too(setup_of: SetupOf, collection: Collection) -> None:
    """Their queries come from several parts."""
    setup = setup_of(attack={"min_documents": 3, "on": ["train", "vali", "test"]})
    clients = FreshClients(setup, there(setup.spec.attack))
    record, _ = next(clients.rounds(MODEL, "perfect")).recorded()
    header = trace_header(setup, "perfect", clients.queries.size, 1)
    played = Round(header, record, collection)
    ordered, sorted_ = played.seen().view, played.seen("order").view
    assert np.array_equal(np.sort(ordered.shown, axis=2), np.sort(sorted_.shown, axis=2))
    for seen in (ordered, sorted_):
        candidates = there(seen.candidates)
        for i, b in np.ndindex(seen.shown.shape[:2]):
            data = collection.part(("train", "vali", "test")[record.part[i]])
            first, here = data.offsets[record.query[i]], seen.is_document[i, b]
            rows = first + seen.shown[i, b][here]
            assert np.array_equal(seen.features[i, b][here], data.features[rows])
            assert np.array_equal(there(seen.labels)[i, b][here], data.labels[rows])
            query = candidates.query[i, b]
            pool = candidates.features[slice(*candidates.offsets[query : query + 2])]
            assert np.array_equal(pool, data.features[first : data.offsets[record.query[i] + 1]])


# --- everything else that can be hidden -----------------------------------------------------------


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_what_is_hidden_is_not_known(name: str, played: Round) -> None:
    everything = played.seen().view.knowledge
    known = played.seen(name).view.knowledge
    assert not known.has(name)
    lost = {"belief"} if name == "click_model" and everything.belief is not None else set()
    if name == "query":  # with it goes all that is known of its documents
        lost = {"shown", "order", "candidates", "relevance"}
    for other in KNOWLEDGE.keys() | {"ranker", "belief"}:
        changed = getattr(known, other) != getattr(everything, other)
        if other == "belief" and name != "click_model":
            continue  # learnt anew for each view
        assert changed == (other in lost | {name} and everything.has(other)), other


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_an_attack_is_refused_what_it_needs(name: str, played: Round) -> None:
    seen = played.seen(name).view
    for attack in names(Attack):
        if name in plugin_class(Attack, attack).needs:
            assert example(Attack, attack).why_not(seen) is not None, attack


def test_hidden_candidates_and_grades_leave_the_view(played: Round) -> None:
    seen, blind = played.seen().view, played.seen("candidates", "relevance").view
    assert (seen.candidates is None) == (seen.labels is None) == (played.collection is None)
    assert (blind.candidates, blind.labels) == (None, None)


# --- intents --------------------------------------------------------------------------------------


def test_grades_under_each_intent_follow_the_documents(setup_of: SetupOf) -> None:
    """In the order of the view; hidden with the grades themselves."""
    data = intent_collection(3)
    setup = setup_of(learner="fpdgd:interactions=3", clients=12, data=data)
    record, _ = Federation(setup).play(MODEL, 0).recorded()
    played = Round(trace_header(setup, "perfect", 12), record, data)
    for hidden in ((), ("order",)):
        seen = played.seen(*hidden).view
        grades, asked = there(seen.intent_labels), there(seen.candidates).query
        assert grades.shape == (*seen.shown.shape, 3)
        assert np.array_equal(grades.max(axis=3), there(seen.labels))
        for i, b, j in np.argwhere(seen.is_document).tolist():
            row = data.train.offsets[asked[i, b]] + seen.shown[i, b, j]
            assert np.array_equal(grades[i, b, j], data.train.grades[:, row])
        assert np.all(grades[~seen.is_document] == -1)
        assert np.array_equal(there(seen.under(1).labels), grades[..., 1])
    whole = whole_round([seen.view for seen in Observer(played.header, data).views(record)])
    moved = with_lists(whole, np.array([2, 0]), np.array([[1], [2]]))
    assert np.array_equal(there(moved.intent_labels)[:, 0], there(whole.intent_labels)[[1, 2], 0])
    assert np.array_equal(there(moved.candidates).query[:, 0], there(whole.candidates).query[[1, 2], 0])
    for name in ("intents", "relevance", "query"):
        blind = played.seen(name).view
        assert blind.intent_labels is None
        assert not blind.knowledge.intents
        with pytest.raises(ValueError, match="under one intent"):
            blind.under(0)
