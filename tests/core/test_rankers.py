"""Rankers: their texts, untrained models, scores, Jacobians and gradients."""

from __future__ import annotations

import numpy as np
import pytest

from foltr_audit.core.rankers import Ranker, known_ranker, make_ranker, ranker_text
from foltr_audit.core.records import Dataset
from foltr_audit.core.records.view import Candidates
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.simulation.learners.fpdgd import FPDGD
from foltr_audit.utils.arrays import Floats, Ints
from tests.fixtures.reference import dataset, exact_pair_weights, numba_threads, pairwise_gradient
from tests.fixtures.tiny import score_order

TEXTS = ["linear", "neural:hidden=1", "neural:hidden=4", "neural:hidden=10"]
TEXTS += ["neural:hidden=1,layers=2", "neural:hidden=6,layers=2"]
EVERY_RANKER = pytest.mark.parametrize("text", TEXTS)
LENGTHS = [3, 12, 1, 7]
QUERIES = np.array([1, 0, 3, 2, 1])


def ragged(seed: int = 0, features: int = 5) -> Dataset:
    rng = np.random.default_rng(seed)
    return dataset(rng.normal(size=(sum(LENGTHS), features)), np.zeros(sum(LENGTHS)), LENGTHS)


def rows_of(data: Dataset, query: int) -> Floats:
    return data.features[data.offsets[query] : data.offsets[query + 1]].astype(np.float64)


def shown_of(data: Dataset, queries: Ints, k: int, seed: int = 0) -> Ints:
    """Random lists, (C, k)."""
    rng = np.random.default_rng(seed)
    shown = np.full((queries.size, k), -1)
    for c, query in enumerate(queries):
        picked = rng.permutation(int(data.lengths[query]))[:k]
        shown[c, : picked.size] = picked
    return shown


def parts(ranker: Ranker, theta: Floats) -> tuple[list[tuple[Floats, Floats]], Floats]:
    """(W1, b1), ... and w of a model, cut out of its documented layout number by number."""
    numbers = iter(theta.tolist())
    layers, inputs = [], ranker.features
    for _ in range(ranker.layers):
        W = np.array([[next(numbers) for _ in range(inputs)] for _ in range(ranker.hidden)])
        layers.append((W, np.array([next(numbers) for _ in range(ranker.hidden)])))
        inputs = ranker.hidden
    w = np.array([next(numbers) for _ in range(ranker.hidden)])
    assert next(numbers, None) is None
    return layers, w


def unit_sums(ranker: Ranker, theta: Floats, x: Floats) -> list[Floats]:
    """`W x + b` of each hidden layer for one document."""
    sums = []
    for W, b in parts(ranker, theta)[0]:
        sums.append(np.array([sum(w * v for w, v in zip(row, x, strict=True)) for row in W]) + b)
        x = np.array([max(float(value), 0.0) for value in sums[-1]])
    return sums


def plain_score(text: str, theta: Floats, x: Floats) -> float:
    """The score of one document as it is defined."""
    ranker = make_ranker(text, x.size)
    if not ranker.hidden:
        return float(sum(t * value for t, value in zip(theta, x, strict=True)))
    w, sums = parts(ranker, theta)[1], unit_sums(ranker, theta, x)[-1]
    return float(sum(weight * max(value, 0.0) for weight, value in zip(w, sums, strict=True)))


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("linear", "linear"),
        (" linear ", "linear"),
        ("neural", "neural:hidden=64"),
        ("neural:layers=2", "neural:hidden=64,layers=2"),
        ("neural:layers=1", "neural:hidden=64"),
        ("neural:hidden=3,layers=1", "neural:hidden=3"),
        ("neural:hidden=3,layers=2", "neural:hidden=3,layers=2"),
        (" neural: layers = 02 , hidden=3 ", "neural:hidden=3,layers=2"),
        ("neural:hidden=3", "neural:hidden=3"),
        (" neural : hidden = 007 ", "neural:hidden=7"),
        ("neural:hidden=1000", "neural:hidden=1000"),
    ],
)
def test_a_text_has_one_canonical_form(text: str, canonical: str) -> None:
    assert known_ranker(text)
    assert ranker_text(text) == ranker_text(canonical) == make_ranker(text, 5).text == canonical
    assert Spec.parse({"train": {"ranker": text}}).train.ranker == canonical


def test_the_number_of_parameters() -> None:
    assert make_ranker("linear", 46).n_parameters == 46
    assert make_ranker("neural", 46).n_parameters == 46 * 64 + 64 + 64 == 3072
    assert make_ranker("neural:layers=2", 46).n_parameters == 46 * 64 + 64 + 64 * 64 + 64 + 64 == 7232
    assert make_ranker("neural:hidden=10", 46).n_parameters == 480
    assert make_ranker("neural:hidden=3", 136).n_parameters == 3 * 138


# --- the untrained model --------------------------------------------------------------------------


@EVERY_RANKER
def test_the_untrained_model_is_a_function_of_its_generator(text: str) -> None:
    ranker = make_ranker(text, 7)
    one, same, other = (ranker.initial(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one.shape == (ranker.n_parameters,)
    assert one.dtype == np.float64
    assert one.tobytes() == same.tobytes()
    assert np.array_equal(one, other) == (text == "linear")
    assert one.any() == (text != "linear")


def test_untrained_weights_have_the_variance_of_he_2015() -> None:
    from scipy.stats import chi2

    ranker = Ranker(50, 300, 2)
    ((W1, b1), (W2, b2)), w3 = parts(ranker, ranker.initial(np.random.default_rng(3)))
    assert not b1.any()
    assert not b2.any()

    def p_value(values: Floats, variance: float) -> float:
        return float(chi2.cdf((values**2).sum() / variance, values.size))

    for values, inputs in ((W1, 50), (W2, 300), (w3, 300)):
        assert 1e-3 < p_value(values, 2 / inputs) < 1 - 1e-3
    for factor in (0.9, 1.1):  # the test can fail
        assert not 1e-3 < p_value(W1, factor * 2 / 50) < 1 - 1e-3
        assert not 1e-3 < p_value(W2, factor * 2 / 300) < 1 - 1e-3


# --- scores ---------------------------------------------------------------------------------------


@EVERY_RANKER
@pytest.mark.parametrize("shared", [True, False])
def test_scores_are_those_of_each_candidate(text: str, shared: bool) -> None:
    data, ranker = ragged(), make_ranker(text, 5)
    models = np.random.default_rng(1).normal(size=(1 if shared else QUERIES.size, ranker.n_parameters))
    scores, starts = ranker.scores(models, data, QUERIES)
    assert np.diff(starts).tolist() == [12, 3, 7, 1, 12]
    bare = Candidates(features=data.features, offsets=data.offsets, query=QUERIES)
    flat, same = ranker.scores(models, bare, QUERIES)
    assert (flat.tobytes(), same.tobytes()) == (scores.tobytes(), starts.tobytes())
    for c, query in enumerate(QUERIES):
        theta, rows = models[0 if shared else c], rows_of(data, query)
        expected = [plain_score(text, theta, x) for x in rows]
        np.testing.assert_allclose(scores[starts[c] : starts[c + 1]], expected, rtol=0, atol=1e-13)
        np.testing.assert_allclose(ranker.score(theta, rows), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("features", [1, 7, 8, 46, 136])
def test_a_score_does_not_depend_on_where_a_document_stands(features: int, layers: int) -> None:
    """Rows whose sum depends on the order of its terms: every place in a cohort must choose the same."""
    rng = np.random.default_rng(features)
    ranker, lengths = Ranker(features, 6, layers), [1, 2, 3, 8, 17]
    row = (rng.normal(size=features) * 10.0 ** rng.integers(-8, 9, size=features)).astype(np.float32)
    theta = rng.normal(size=(1, ranker.n_parameters))
    data = dataset(np.tile(row, (sum(lengths), 1)).tolist(), [0] * sum(lengths), lengths)
    scores, _ = ranker.scores(theta, data, np.array([3, 0, 4, 1, 2]))
    assert len(set(scores.tolist())) == 1
    expected = plain_score(ranker.text, theta[0], row.astype(np.float64))
    np.testing.assert_allclose(scores[0], expected, rtol=1e-12)


# --- Jacobians ------------------------------------------------------------------------------------


@EVERY_RANKER
def test_many_at_once_are_one_by_one(text: str) -> None:
    rng = np.random.default_rng(6)
    for d in (1, 5, 46):
        ranker = make_ranker(text, d)
        X = rng.normal(size=(9, 3, 10, d)).astype(np.float32)
        models = rng.normal(size=(9, 1, ranker.n_parameters))
        scores, J = ranker.score(models, X), ranker.jacobian(models, X)
        assert scores.shape == (9, 3, 10)
        assert J.shape == (9, 3, 10, ranker.n_parameters)
        assert J.dtype == scores.dtype == np.float64
        for n in range(9):
            assert ranker.score(models[n, 0], X[n, 1]).tobytes() == scores[n, 1].tobytes()
            assert ranker.score(models[n : n + 1], X[n : n + 1]).tobytes() == scores[n].tobytes()
            assert ranker.jacobian(models[n, 0], X[n, 1]).tobytes() == J[n, 1].tobytes()
        shared = ranker.jacobian(models, X[0, 0])
        assert shared.shape == (9, 1, 10, ranker.n_parameters)
        assert shared[4, 0].tobytes() == ranker.jacobian(models[4, 0], X[0, 0]).tobytes()
        assert ranker.score(models[:0], X[:0]).shape == (0, 3, 10)
        assert ranker.jacobian(models[:0], X[:0]).shape == (0, 3, 10, ranker.n_parameters)


# --- gradients ------------------------------------------------------------------------------------


@EVERY_RANKER
@pytest.mark.parametrize("shared", [True, False])
def test_a_gradient_is_a_weighted_sum_of_jacobian_rows(text: str, shared: bool) -> None:
    data, ranker, rng = ragged(), make_ranker(text, 5), np.random.default_rng(7)
    models = rng.normal(size=(1 if shared else QUERIES.size, ranker.n_parameters))
    shown, weights = shown_of(data, QUERIES, 4), rng.normal(size=(5, 4))
    weights[1, 0] = 0.0  # and those at the padding must not count
    gradient = ranker.gradient(models, data, QUERIES, shown, weights)
    assert gradient.shape == (QUERIES.size, ranker.n_parameters)
    for c, query in enumerate(QUERIES):
        J = ranker.jacobian(models[0 if shared else c], rows_of(data, query))
        expected = np.zeros(ranker.n_parameters)
        for position, weight in zip(shown[c], weights[c], strict=True):
            expected += weight * J[position] if position >= 0 else 0.0
        np.testing.assert_allclose(gradient[c], expected, rtol=0, atol=1e-13)
    assert not ranker.gradient(models, data, QUERIES, shown, np.zeros((5, 4))).any()


@EVERY_RANKER
def test_a_local_step_goes_along_the_gradient_of_pdgd(text: str) -> None:
    data, ranker, rng = ragged(), make_ranker(text, 5), np.random.default_rng(8)
    models = rng.normal(size=(QUERIES.size, ranker.n_parameters))
    scores, starts = ranker.scores(models, data, QUERIES)
    shown = score_order(scores, starts, 10)
    clicks = (rng.random(shown.shape) < 0.4) & (shown >= 0)
    learner = FPDGD(learning_rate=0.3)
    after, moved = learner.local_step(models, data, QUERIES, scores, starts, shown, clicks, ranker)
    for c, query in enumerate(QUERIES):
        listed, rows = shown[c][shown[c] >= 0], rows_of(data, query)
        W = exact_pair_weights([plain_score(text, models[c], x) for x in rows], listed.tolist(), True)
        J = ranker.jacobian(models[c], rows[listed])
        gradient = pairwise_gradient(W, J, clicks[c, : listed.size].tolist(), last_click_plus_1=True)
        np.testing.assert_allclose(after[c], models[c] + 0.3 * gradient, rtol=0, atol=1e-11)
    assert moved.any()


@EVERY_RANKER
def test_threads_and_cohorts_change_no_byte(text: str) -> None:
    data, ranker, rng = ragged(features=40), make_ranker(text, 40), np.random.default_rng(10)
    queries = rng.integers(0, len(LENGTHS), size=300)
    models = rng.normal(size=(300, ranker.n_parameters))
    shown, weights = shown_of(data, queries, 10), rng.normal(size=(300, 10))

    def all_bytes(threads: int) -> list[bytes]:
        with numba_threads(threads):
            scores, _ = ranker.scores(models, data, queries)
            return [scores.tobytes(), ranker.gradient(models, data, queries, shown, weights).tobytes()]

    together = all_bytes(1)
    assert all_bytes(2) == together
    single = [slice(c, c + 1) for c in range(300)]
    scores = [ranker.scores(models[c], data, queries[c])[0].tobytes() for c in single]
    steps = [ranker.gradient(models[c], data, queries[c], shown[c], weights[c]).tobytes() for c in single]
    assert [b"".join(scores), b"".join(steps)] == together
