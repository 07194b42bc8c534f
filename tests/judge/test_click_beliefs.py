"""What an observer believes before a message: clicks by position, by grade, and the grades it learns."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foltr_audit.core.click_models import InformationalClickModel, NavigationalClickModel, PerfectClickModel
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.rankers import make_ranker
from foltr_audit.core.records import Collection
from foltr_audit.core.records.view import ClickBelief
from foltr_audit.inference.pattern_decoder import PatternDecoder
from foltr_audit.judge.observer import Observer, click_belief
from foltr_audit.kernels.patterns import cascade_log_priors
from foltr_audit.simulation.federation import Federation
from foltr_audit.simulation.recorder import trace_header
from foltr_audit.utils.arrays import Floats
from tests.conftest import SetupOf
from tests.fixtures.reference import chi_square_p, dataset
from tests.fixtures.there import there
from tests.fixtures.tiny import BELIEF, FEATURES, collection_of, rearranged, view
from tests.fixtures.tiny import dataset as toy_dataset

MODEL = np.linspace(-0.5, 0.7, FEATURES)
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


def test_the_same_model_teaches_the_same(collection: Collection) -> None:
    one, same, other = (
        there(click_belief(collection, "linear", model, "perfect", "sampled"))
        for model in (MODEL, MODEL, -3 * MODEL)
    )
    assert one.grades.tobytes() == same.grades.tobytes()
    assert not np.array_equal(one.grades, other.grades)


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
