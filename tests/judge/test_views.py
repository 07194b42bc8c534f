"""From recorded rounds to views: placement, features, knowledge, beliefs, what is hidden, and no truth."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from types import FunctionType, ModuleType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from foltr_audit.core.click_models import InformationalClickModel, NavigationalClickModel, PerfectClickModel
from foltr_audit.core.plugins import Attack, Ball, ClickModel, Inference, Knowledge, View
from foltr_audit.core.plugins.registry import make, names
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.records import Collection
from foltr_audit.core.records.interactions import RoundRecord, RoundTruth
from foltr_audit.core.records.view import KNOWLEDGE, ClickBelief
from foltr_audit.data.sources import normalise
from foltr_audit.errors import DataError, TraceError, UsageError
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.judge import observer as observer_room
from foltr_audit.judge.clicks import infer_round
from foltr_audit.judge.observer import (
    InteractionPlacement,
    Observer,
    RoundView,
    check_collection,
    click_belief,
    features_of,
    knowledge_of,
    query_names,
    whole_round,
)
from foltr_audit.judge.observer import with_lists as other_lists
from foltr_audit.kernels.patterns import cascade_log_priors
from foltr_audit.rng import Streams
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.simulation.setup import Setup
from foltr_audit.testing.samples import MADE
from foltr_audit.trace import TraceHeader
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.intent_data import intent_collection
from tests.fixtures.played_rounds import played_rounds
from tests.fixtures.reference import chi_square_p, dataset
from tests.fixtures.rounds import round_of, with_lists, without_messages
from tests.fixtures.there import there
from tests.fixtures.tiny import BELIEF, FEATURES, collection_of, rearranged, view
from tests.fixtures.tiny import dataset as toy_dataset
from tests.inference.test_replay import wide

MODEL = np.linspace(-0.4, 0.5, FEATURES)
SHARES = ("clip:norm=1.5", "gamma-laplace:eps=1.2,sensitivity=3")


def recorded(setup: Setup, lists: str = "sampled") -> tuple[RoundRecord, TraceHeader]:
    """The first round of an experiment and its header."""
    record, _ = Federation(setup).play(np.linspace(-0.5, 0.5, FEATURES), 0).recorded()
    header = trace_header(setup, setup.spec.train.click_model, record.n_messages)
    return record, replace(header, knowledge={**header.knowledge, "lists": lists})


def whole(record: RoundRecord, header: TraceHeader, data: Collection | None) -> View:
    """The view of all messages of a round at once."""
    (seen,) = Observer(header, data).views(record)
    assert (seen.rows, seen.order) == (slice(0, record.n_messages), None)
    return seen.view


# --- placement ------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4), min_size=0, max_size=6), st.integers(1, 3))
def test_placement_against_a_slow_loop(counts: list[int], k: int) -> None:
    slots = [slot for slot, count in enumerate(counts) for _ in range(count)]
    rows, M = len(slots), len(counts)
    step = np.array([2 * s for count in counts for s in range(count)], dtype=np.int64)
    shown, slot = np.zeros((rows, k), dtype=np.int64), np.array(slots, dtype=np.int64)
    record = round_of(np.zeros((M, 2)), shown, slot=slot, step=step)
    values = np.arange(rows * k).reshape(rows, k)
    placement = InteractionPlacement.of(record)
    expected = np.full((M, max(counts, default=0), k), -7)
    taken = [0] * M
    for row, message in enumerate(slots):
        expected[message, taken[message]] = values[row]
        taken[message] += 1
    spread = placement.spread(values, -7)
    assert np.array_equal(spread, expected)
    assert np.array_equal(spread[placement.slot, placement.place], values)


def test_a_view_against_a_slow_loop(setup_of: SetupOf, collection: Collection) -> None:
    record, header = recorded(setup_of(clients=5, learner="fpdgd:interactions=3"))
    record = with_lists(record, np.array([0, 1, 2, 4, 6, 7, 8, 13]))
    seen = whole(record, header, collection)
    assert seen.shown.shape == (5, 3, 10)
    data = collection.train
    for slot in range(5):
        rows = [row for row in range(record.n_interactions) if record.slot[row] == slot]
        for b in range(3):
            if b >= len(rows):
                assert (seen.shown[slot, b] == -1).all()
                assert not seen.features[slot, b].any()
                continue
            row = rows[b]
            assert np.array_equal(seen.shown[slot, b], record.shown[row])
            for rank, document in enumerate(record.shown[row]):
                expected = data.features[data.offsets[record.query[row]] + document] if document >= 0 else 0.0
                assert np.array_equal(seen.features[slot, b, rank], np.broadcast_to(expected, FEATURES))
    assert np.array_equal(seen.messages, record.messages)
    assert np.array_equal(seen.parameters, np.tile(record.parameters, (5, 1)))


def test_updates_and_scores_of_a_view(setup_of: SetupOf, collection: Collection) -> None:
    record, header = recorded(setup_of())
    update, other = recorded(setup_of(message="update"))
    seen = whole(record, header, collection)
    assert (seen.kind, seen.observer) == ("model", "individual")
    assert np.array_equal(seen.updates, record.messages - record.parameters)
    assert np.array_equal(whole(update, other, collection).updates, update.messages)
    x = seen.features.astype(np.float64)
    np.testing.assert_allclose(
        seen.score_changes, (x * seen.updates[:, None, None, :]).sum(-1), rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(seen.scores_before, (x * record.parameters).sum(-1), rtol=1e-12, atol=1e-14)
    assert not seen.score_changes[~seen.is_document].any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_view_is_read_only_and_exact(dtype: str, setup_of: SetupOf, collection: Collection) -> None:
    record, header = recorded(setup_of(dtype=dtype))
    seen = whole(record, header, collection)
    for name in ("parameters", "messages", "shown", "features"):
        assert not getattr(seen, name).flags.writeable
    assert np.array_equal(seen.messages, record.messages)
    assert seen.messages.dtype == np.float64
    assert len(seen) == record.n_messages


def test_a_round_without_messages_has_no_view(setup_of: SetupOf, collection: Collection) -> None:
    record, header = recorded(setup_of())
    empty = without_messages(record)
    assert list(Observer(header, collection).views(empty)) == []
    assert query_names(empty, header, collection).shape == (0,)


# --- features and data sets -----------------------------------------------------------------------


def test_embedded_features_are_those_of_the_data_set(setup_of: SetupOf, collection: Collection) -> None:
    record, header = recorded(setup_of(embed_features=True))
    bare = replace(record, features=None)
    assert np.array_equal(features_of(bare, header, collection), np.asarray(record.features))
    with_data, without = whole(bare, header, collection), whole(record, header, None)
    for field in fields(View):
        mine, other = getattr(with_data, field.name), getattr(without, field.name)
        if isinstance(mine, np.ndarray) and isinstance(other, np.ndarray):
            assert np.array_equal(mine, other)
    known = without.knowledge
    assert with_data.candidates is not None
    assert (without.candidates, without.labels, known.belief) == (None, None, None)
    assert not known.candidates
    assert not known.relevance


def test_parts_are_looked_up_by_the_names_of_the_trace(setup_of: SetupOf, collection: Collection) -> None:
    record, header = recorded(setup_of())
    turned = replace(header, dataset=replace(header.dataset, parts=("test", "vali", "train")))
    moved = replace(record, part=np.full(record.n_interactions, 2))
    assert np.array_equal(features_of(moved, turned, collection), features_of(record, header, collection))
    assert query_names(moved, turned, collection).tolist() == query_names(record, header, collection).tolist()


def test_data_that_do_not_fit_are_refused(setup_of: SetupOf, collection: Collection) -> None:
    record, header = recorded(setup_of())
    beyond = {name: getattr(record, name).copy() for name in ("query", "shown")}
    beyond["query"][3] = collection.train.n_queries
    beyond["shown"][3, 0] = collection.train.lengths[record.query[3]]
    strange = replace(header, dataset=replace(header.dataset, parts=("logs", "vali", "test")))
    scaled, other = normalise(collection, "zscore"), replace(collection, fingerprint="ab" * 32)
    assert scaled.fingerprint == collection.fingerprint
    check_collection(header, collection)
    outside = "round 0 shows documents that the data set does not have"
    for call, error, reason in (
        (lambda: whole(record, header, None), UsageError, r"features are not embedded; .*--data"),
        (lambda: features_of(record, strange, collection), DataError, "no part 'logs'"),
        (lambda: whole(replace(record, query=beyond["query"]), header, collection), TraceError, outside),
        (lambda: whole(replace(record, shown=beyond["shown"]), header, collection), TraceError, outside),
        (
            lambda: check_collection(header, other),
            TraceError,
            r"on tiny \(finger.*\(abababababab\); .*--data",
        ),
        (
            lambda: check_collection(header, scaled),
            TraceError,
            "recorded on none features, not zscore; expected",
        ),
    ):
        with pytest.raises(error, match=reason):
            call()


def test_names_of_queries(setup_of: SetupOf, collection: Collection) -> None:
    record, header = recorded(setup_of())
    assert query_names(record, header, collection).tolist() == [f"train{q}" for q in record.query]
    assert query_names(record, header, None).tolist() == [f"train:{q}" for q in record.query]


# --- knowledge ------------------------------------------------------------------------------------


def test_an_observer_knows_the_published_settings(setup_of: SetupOf) -> None:
    setup = setup_of(clients=40, learner="fpdgd:learning_rate=0.2,pairs=all", defense=SHARES)
    known = knowledge_of(trace_header(setup, "navigational", 40))
    assert known == Knowledge(
        interactions=4,
        lists="sampled",
        learning_rate=0.2,
        pairs="all",
        normaliser="candidates",
        clip=Ball(norm=1.5, ord=2),
        noise="gamma-share:n=40,scale=2.5",
        number_format="float64",
        click_model="navigational",
    )
    bare = knowledge_of(trace_header(setup_of(), "perfect", 8))
    assert (bare.clip, bare.noise) == (None, "none")


@pytest.mark.parametrize(
    ("facts", "known"),
    [
        ({}, {}),
        ({"learning_rate": "quick"}, {}),
        ({"pairs": 3, "normaliser": ["shown"]}, {}),
        ({"clip_ord": 2}, {}),
        ({"noise": 1.5, "click_model": False}, {}),
        ({"something": "else"}, {}),
        ({"clip_norm": 3, "clip_ord": 1}, {"clip": Ball(norm=3.0, ord=1)}),
        ({"clip_norm": 3.0, "clip_ord": 3}, {}),
        ({"clip_norm": 3.0}, {"clip": Ball(norm=3.0, ord=2)}),
    ],
)
def test_an_observer_knows_only_what_the_header_says_in_a_known_form(
    facts: dict[str, Any], known: dict[str, Any], setup_of: SetupOf
) -> None:
    header = replace(trace_header(setup_of(), "perfect", 8), knowledge=facts)
    found = knowledge_of(header)
    assert found == Knowledge(number_format="float64", **known)
    assert not [name for name in ("candidates", "relevance", "sigma", "noise") if found.has(name)]
    assert all(found.has(name) for name in ("features", "shown", "order", "query", "ranker"))


def test_a_header_states_the_experiment(setup_of: SetupOf, collection: Collection) -> None:
    setup = setup_of(defense=SHARES, seed=7, dtype="float32")
    header = trace_header(setup, "perfect", 8, setup.learner.interactions)
    assert (header.kind, header.dtype, header.parameters, header.k) == ("model", "float32", FEATURES, 10)
    assert header.spec_hash == setup.spec.hash
    assert header.dataset.fingerprint == collection.fingerprint
    assert header.dataset.parts == Collection.PARTS
    assert header.knowledge["eps_claimed"] == 1.2
    assert header.knowledge["defense"] == list(SHARES)
    assert trace_header(setup, "perfect", 8, 1).knowledge["interactions"] == 1
    assert trace_header(setup, "perfect", 8).knowledge["interactions"] == 4
    assert trace_header(setup, "perfect", 10**9).rounds_per_part == 1
    assert header.rounds_per_part == 4_000_000 // (8 * FEATURES * 4)


@pytest.mark.parametrize("chunk", [1, 3, 8])
def test_chunks_change_no_answer(
    chunk: int, setup_of: SetupOf, collection: Collection, monkeypatch: Any
) -> None:
    record, header = recorded(setup_of(clients=8))
    record = with_lists(record, np.arange(record.n_interactions) % 5 != 0)
    together = whole(record, header, collection)
    monkeypatch.setattr(observer_room, "_CHUNK", chunk)
    pieces = list(Observer(header, collection).views(record))
    assert [seen.rows.start for seen in pieces] == list(range(0, 8, chunk))
    assert pieces[-1].rows.stop == 8
    for name in names(Attack):
        attack = make(Attack, name)
        if attack.why_not(together) is not None or name in ("joint-map", "raifle"):
            continue  # those two take their time; the contract has them one by one
        at_once = attack.infer(together, np.random.default_rng(0))
        parts = [attack.infer(seen.view, np.random.default_rng(0)) for seen in pieces]
        assert np.concatenate([part.scores for part in parts]).tobytes() == at_once.scores.tobytes()
        assert np.array_equal(np.concatenate([part.guess for part in parts]), at_once.guess)


# --- no truth can be reached ----------------------------------------------------------------------


def played_view(kind: str) -> tuple[View, RoundTruth]:
    """What a server sees of a training round, and the truth that it does not see."""
    played = played_rounds(kind)
    (seen,) = played.server.views(played.store.records[1])
    return seen.view, played.store.truth[1]


def reachable(start: object) -> Iterator[Any]:
    """Every object that can be reached from one without going through classes, functions and modules."""
    seen, waiting = set(), [start]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | FunctionType | ModuleType):
            continue
        seen.add(id(each))
        yield each
        waiting += gc.get_referents(each)
        if isinstance(each, np.ndarray) and each.base is not None:
            waiting.append(each.base)


def truths_in(view: View, truth: RoundTruth) -> list[str]:
    """Names of the parts of a truth that can be reached from a view: the arrays, or copies of them."""
    objects = list(reachable(view))
    arrays = [one for one in objects if isinstance(one, np.ndarray)]
    found = ["the truth"] if any(isinstance(one, RoundTruth) for one in objects) else []
    for name in ("clicks", "updates", "clipped", "clients"):
        hidden = getattr(truth, name)
        for array in arrays:
            alike = array.dtype == hidden.dtype and array.tobytes() == hidden.tobytes()
            copied = alike and name != "clients"  # small whole numbers stand elsewhere too
            if hidden.size and (np.shares_memory(array, hidden) or copied):
                found.append(name)
    return found


@pytest.mark.parametrize("kind", MADE)
def test_no_truth_can_be_reached_from_a_view(kind: str) -> None:
    view, truth = played_view(kind)
    view.updates, view.jacobian, view.is_document  # noqa: B018  caches are there
    assert len(list(reachable(view))) > 20
    found = truths_in(view, truth)
    labels = there(played_rounds(kind).server.collection).train.labels
    assert not any(np.shares_memory(one, labels) for one in reachable(view) if isinstance(one, np.ndarray))
    # Without noise an update is what the client computed: it is sent, and no secret.
    assert set(found) <= {"updates"}
    assert truth.clicks.any()


EMBEDDED, GIVEN = "features in the trace", "the data set"


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


# --- everything else that can be hidden -----------------------------------------------------------


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_what_is_hidden_is_not_known(name: str, played: Round) -> None:
    everything = played.seen().view.knowledge
    blind = played.seen(name).view
    known = blind.knowledge
    assert not known.has(name)
    without_data = played.collection is None
    assert (blind.candidates is None) == (without_data or name in ("candidates", "query"))
    assert (blind.labels is None) == (without_data or name in ("relevance", "query"))
    lost = {"belief"} if name == "click_model" and everything.belief is not None else set()
    if name == "query":  # with it goes all that is known of its documents
        lost = {"shown", "order", "candidates", "relevance"}
    for other in KNOWLEDGE.keys() | {"ranker", "belief"}:
        changed = getattr(known, other) != getattr(everything, other)
        if other == "belief" and name != "click_model":
            continue  # learnt anew for each view
        assert changed == (other in lost | {name} and everything.has(other)), other


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
    moved = other_lists(whole, np.array([2, 0]), np.array([[1], [2]]))
    assert np.array_equal(there(moved.intent_labels)[:, 0], there(whole.intent_labels)[[1, 2], 0])
    assert np.array_equal(there(moved.candidates).query[:, 0], there(whole.candidates).query[[1, 2], 0])
    for name in ("intents", "relevance", "query"):
        blind = played.seen(name).view
        assert blind.intent_labels is None
        assert not blind.knowledge.intents
        with pytest.raises(ValueError, match="under one intent"):
            blind.under(0)


CHANCES = st.sampled_from([0.0, 0.05, 0.3, 0.5, 0.9, 1.0])


def patterns(click: Floats, stop: Floats) -> Floats:
    """Probability of every click pattern of lists of this cascade, (n, 2^L)."""
    lengths = np.full(len(click), click.shape[1])
    logs = cascade_log_priors(np.ascontiguousarray(click), np.ascontiguousarray(stop), lengths)
    return np.asarray(np.exp(logs))


# --- by position and by grade ---------------------------------------------------------------------


@settings(max_examples=60, derandomize=True)
@given(
    click=arrays(np.float64, 3, elements=CHANCES),
    stop=arrays(np.float64, 3, elements=CHANCES),
    weights=arrays(np.float64, (4, 3), elements=st.floats(0.01, 1.0)),
)
def test_unknown_grades_make_a_cascade_again(click: Floats, stop: Floats, weights: Floats) -> None:
    """Patterns by position are those of every combination of grades, mixed by how likely it is."""
    belief = ClickBelief(click=click, stop=stop, grades=weights / weights.sum(axis=1, keepdims=True))
    grades = np.array(list(product(range(3), repeat=4)))
    chances = np.prod(belief.grades[np.arange(4), grades], axis=1)
    expected = chances @ patterns(click[grades], stop[grades])
    mixed_click, mixed_stop = belief.by_position(4)
    found = patterns(mixed_click[np.newaxis], mixed_stop[np.newaxis])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


def test_positions_beyond_the_known_ones_are_like_the_last() -> None:
    click, stop = BELIEF.by_position(13)
    assert click.shape == stop.shape == (13,)
    np.testing.assert_allclose(click[:10], BELIEF.grades @ BELIEF.click, rtol=1e-12)
    assert np.unique(click).size == 10
    assert np.all(click[10:] == click[9])
    assert np.all(stop[10:] == stop[9])
    assert np.array_equal(BELIEF.by_position(4)[1], stop[:4])


def test_known_grades_are_looked_up() -> None:
    labels = np.array([[0, 2, 1, -1], [7, 0, -1, -1]])
    click, stop = BELIEF.by_grade(labels)
    np.testing.assert_array_equal(click, [[0.1, 0.9, 0.5, 0], [0.9, 0.1, 0, 0]])
    np.testing.assert_array_equal(stop, [[0.0, 0.4, 0.2, 0], [0.4, 0.0, 0, 0]])


def test_a_belief_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        BELIEF.grades[0, 0] = 1.0


# --- learnt from the training split ----------------------------------------------------------------


@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=3"])
def test_grades_are_counted_by_position_on_lists_in_score_order(ranker: str, collection: Collection) -> None:
    parameters = make_ranker(ranker, FEATURES).initial(np.random.default_rng(1)) + 0.1
    belief = there(click_belief(collection, ranker, parameters, "informational", "deterministic"))
    counts, data = np.full((10, 3), 0.5), collection.train
    for q in range(data.n_queries):
        rows = slice(data.offsets[q], data.offsets[q + 1])
        scores = make_ranker(ranker, FEATURES).score(parameters, data.features[rows]).tolist()
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        for position, document in enumerate(order[:10]):
            counts[position, data.labels[rows][document]] += 1
    np.testing.assert_allclose(belief.grades, counts / counts.sum(axis=1, keepdims=True), rtol=1e-12)
    assert tuple(belief.click) == InformationalClickModel.click_given_grade[1]
    assert tuple(belief.stop) == InformationalClickModel.stop_given_grade[1]


@pytest.mark.parametrize("lists", ["sampled", None])
def test_sampled_lists_show_grades_as_clients_see_them(lists: str | None) -> None:
    """Queries that are all alike: the grades at the first position follow the softmax of the scores."""
    features = np.tile(np.eye(3, FEATURES), (4000, 1))
    train = dataset(features, np.tile([2, 0, 1], 4000), [3] * 4000)
    small = dataset(features[:3], [0, 1, 2], [3])
    belief = there(click_belief(collection_of(train, small, small), "linear", MODEL, "perfect", lists))
    softmax = np.exp(MODEL[:3]) / np.exp(MODEL[:3]).sum()
    counts = np.rint(belief.grades[0] * 4001.5 - 0.5)
    assert counts.sum() == 4000
    assert chi_square_p(counts, softmax[[1, 2, 0]]) > 1e-3
    assert chi_square_p(counts, np.roll(softmax, 1)) < 1e-9
    np.testing.assert_allclose(belief.grades[3:], 1 / 3, rtol=1e-12)


@pytest.mark.parametrize("cls", [PerfectClickModel, NavigationalClickModel])
def test_the_setting_follows_the_largest_grade(cls: type[PerfectClickModel]) -> None:
    data = toy_dataset([5, 6, 7], 0, largest=4)
    data = replace(data, labels=np.minimum(np.arange(18) % 6, 4))
    belief = there(click_belief(collection_of(data, data, data), "linear", MODEL, cls.name, "sampled"))
    assert tuple(belief.click) == cls.click_given_grade[2]
    assert belief.grades.shape == (10, 5)
    np.testing.assert_allclose(belief.grades.sum(axis=1), 1.0, rtol=1e-12)
    assert belief.grades.min() > 0, "nothing is impossible"


def test_no_belief_without_a_cascade(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(ClickModel):
        pass

    for model in (None, "no-such-model", "perfect:no=1"):
        assert click_belief(collection, "linear", MODEL, model, "sampled") is None
    graded = replace(collection.train, labels=np.full(collection.train.n_documents, 9))
    high = collection_of(graded, graded, graded)
    assert click_belief(high, "linear", MODEL, "perfect", "sampled") is None, "no published setting"
    monkeypatch.setattr("foltr_audit.judge.observer.make", lambda base, text: Own())
    assert click_belief(collection, "linear", MODEL, "own", "sampled") is None


def test_an_observer_learns_anew_from_every_global_model(setup_of: SetupOf, collection: Collection) -> None:
    setup = setup_of()
    header = trace_header(setup, "perfect", 8)
    for hidden, known_here in (((), True), (("click_model",), False), (("relevance",), True)):
        observer = Observer(header, collection, frozenset(hidden))
        found = []
        for model in (MODEL, -3 * MODEL):
            record, _ = Federation(setup).play(model, 0).recorded()
            known = observer.knowledge(record)
            assert (known.belief is not None) == known_here == (known.click_model is not None)
            if known.belief is not None:
                own = there(click_belief(collection, "linear", model, "perfect", "sampled"))
                assert known.belief.grades.tobytes() == own.grades.tobytes()
                found.append(known.belief.grades.tobytes())
        assert len(set(found)) == len(found)
    record, _ = Federation(setup_of(embed_features=True)).play(MODEL, 0).recorded()
    (blind,) = Observer(header, None).views(record)
    assert blind.view.knowledge.belief is None


# --- what a decoder makes of it -------------------------------------------------------------------


def test_a_decoder_takes_the_prior_it_is_told_or_the_next_best() -> None:
    """By relevance, else by position, else every pattern alike."""
    seen = view(8)
    every, lengths = np.arange(8), seen.is_document[:, 0].sum(axis=1)
    by_position = [np.tile(row, (8, 1)) for row in BELIEF.by_position(10)]
    expected = {
        "position": cascade_log_priors(by_position[0], by_position[1], lengths),
        "relevance": cascade_log_priors(*BELIEF.by_grade(there(seen.labels)[:, 0]), lengths),
        "uniform": np.where(
            np.arange(1024) < 2 ** lengths[:, np.newaxis], -lengths[:, np.newaxis] * np.log(2), -np.inf
        ),
    }
    unlabelled = replace(seen, labels=None)
    naive = replace(seen, knowledge=seen.knowledge.having(belief=None))
    for prior, what, source in (
        ("position", seen, "position"),
        ("relevance", seen, "relevance"),
        ("uniform", seen, "uniform"),
        ("relevance", unlabelled, "position"),
        ("position", naive, "uniform"),
        ("relevance", naive, "uniform"),
    ):
        decoder = PatternDecoder(what, prior)  # type: ignore[arg-type]
        found = decoder.log_priors(every, 0)
        np.testing.assert_allclose(found, expected[source], rtol=1e-12, atol=1e-12)
        patterns = np.array([0, 1, 3, 5, 9, 7, 0, 2]) % 2**lengths
        clicks = (patterns[:, np.newaxis] >> np.arange(10)) & 1 == 1
        one = decoder.log_prior_of(every, 0, clicks)
        np.testing.assert_array_equal(one, found[every, patterns])
    some = np.array([5, 2, 5])
    picked = PatternDecoder(rearranged(seen, some), "relevance").log_priors(np.arange(3), 0)
    assert picked.tobytes() == PatternDecoder(seen, "relevance").log_priors(some, 0).tobytes()
