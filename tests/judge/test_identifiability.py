"""What messages can tell at all: ranks, documents that stand for themselves, clicks too faint to send."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from foltr_audit.attacks.olsr import OLSR
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from foltr_audit.core.pdgd import observed_documents
from foltr_audit.core.plugins import Inference, View
from foltr_audit.core.records import Collection
from foltr_audit.inference.replay import Replay, pair_coefficients
from foltr_audit.judge.clicks import Revealed, revealed
from foltr_audit.utils.arrays import Bools, Floats
from tests.conftest import SetupOf
from tests.fixtures.reference import dataset, observed_pairs
from tests.fixtures.tiny import FEATURES, collection_of, cut, rearranged, view, with_updates
from tests.inference.test_replay import SETTINGS, Sent, learner, sent, wide


def with_features(seen: View, features: Floats) -> View:
    """The same lists with other feature rows (n, B, k, d)."""
    n, _, _, d = features.shape
    plain = seen.knowledge.having(pairs=None)  # no weights: candidates have other features
    model = np.ones((n, d))
    return replace(seen, features=features, parameters=model, messages=2 * model, knowledge=plain)


def alone(seen: View) -> Revealed:
    """What is told of documents that form no pairs: their columns decide."""
    nothing = np.zeros(seen.shown.shape, np.bool_)
    return revealed(seen, nothing, nothing)


def full(k: int, n: int = 1, B: int = 1) -> View:
    """Messages of B lists of k documents each."""
    seen = cut(view(n, B=B, k=k), B=B)
    return replace(seen, shown=np.tile(np.arange(k), (n, B, 1)))


# --- equations ------------------------------------------------------------------------------------


@settings(max_examples=80, derandomize=True)
@given(
    rows=arrays(np.float64, (2, 3, 4), elements=st.integers(-3, 3).map(float)),
    twin=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    nothing=st.integers(0, 5),
    stretch=arrays(np.float64, (2, 3, 1), elements=st.sampled_from([1e-9, 1.0, 1e6])),
)
def test_a_document_stands_for_itself_if_the_rank_falls_without_it(
    rows: Floats, twin: tuple[int, int], nothing: int, stretch: Floats
) -> None:
    """Small whole numbers, so that a rank is beyond doubt; the sizes of the columns do not matter."""
    flat = rows.reshape(6, 4)
    flat[twin[0]] = flat[twin[1]]
    flat[nothing] = 0.0
    found = alone(with_features(full(3, B=2), (rows * stretch)[np.newaxis]))
    rank = np.linalg.matrix_rank(flat)
    assert found.rank.tolist() == [[rank, rank]]
    assert found.unknowns.tolist() == [[6, 6]]
    falls = [np.linalg.matrix_rank(np.delete(flat, j, axis=0)) < rank for j in range(6)]
    assert found.told.reshape(-1).tolist() == falls
    assert not falls[nothing]


def test_more_documents_than_parameters_are_reported() -> None:
    """Ten random documents and six parameters: no click is told for sure; six documents: every one."""
    for k, independent in ((10, False), (6, True)):
        rows = np.random.default_rng(k).normal(size=(5, 1, k, 6))
        found = alone(with_features(full(k, n=5), rows))
        assert np.all(found.rank == 6)
        assert np.all(found.unknowns == k)
        assert np.all(found.told == independent)


def test_a_sum_of_others_takes_them_all_along() -> None:
    features = np.random.default_rng(0).normal(size=(1, 1, 5, 9))
    features[0, 0, 4] = features[0, 0, 1] - 2 * features[0, 0, 3]
    found = alone(with_features(full(5), features))
    assert found.told[0, 0].tolist() == [True, False, True, False, False]
    assert found.rank[0, 0] == 4


def test_nearly_equal_documents_are_told_apart_by_exact_messages_only() -> None:
    seen = full(4)
    features = seen.features.astype(np.float64)
    features[0, 0, 1] = features[0, 0, 0] * (1 + 1e-8 * np.random.default_rng(1).normal(size=FEATURES))
    clicks, observed = np.array([[[True, False, False, False]]]), np.ones((1, 1, 4), dtype=np.bool_)
    seen = replace(seen, features=features)
    told = {}
    for name in ("float32", "float64"):
        known = replace(seen, knowledge=seen.knowledge.having(number_format=name, normaliser="shown"))
        known = with_updates(known, Replay(known).updates(clicks))
        assert alone(known).told.all()
        told[name] = revealed(known, clicks, observed).told[0, 0].tolist()
    assert told["float32"] == [False, False, True, True]
    assert told["float64"] == [True] * 4


def test_padding_and_empty_messages() -> None:
    seen = view(6, B=3)
    found = alone(seen)
    assert not found.told[~seen.is_document].any()
    assert np.array_equal(found.unknowns[:, 0], seen.is_document.sum(axis=(1, 2)))
    assert np.all(found.rank == np.minimum(found.unknowns, 6))
    for empty in (cut(seen, B=0), rearranged(seen, np.arange(0))):
        nothing = alone(empty)
        for array in nothing:
            assert array.shape[:2] == empty.shown.shape[:2]
            assert array.size == 0


def test_messages_do_not_depend_on_each_other() -> None:
    seen = view(6, B=2)
    clicks = seen.is_document & (np.arange(10) % 3 == 1)
    together = revealed(seen, clicks, seen.is_document)
    for i in range(6):
        row = np.array([i])
        part = revealed(rearranged(seen, row), clicks[row], seen.is_document[row])
        assert all(np.array_equal(mine[0], whole[i]) for mine, whole in zip(part, together, strict=True))


# --- clicks ---------------------------------------------------------------------------------------


@settings(max_examples=60, derandomize=True)
@given(
    clicks=arrays(np.bool_, (4, 6)),
    sizes=arrays(np.float64, (4, 6, 6), elements=st.sampled_from([0.0, 1e-9, 0.01, 0.2])),
    only=st.booleans(),
)
def test_coefficients_against_a_loop_over_pairs(clicks: Bools, sizes: Floats, only: bool) -> None:
    weights = sizes + sizes.transpose(0, 2, 1)
    observed = observed_documents(clicks, np.ones((4, 6), dtype=np.bool_), only_observed=only)
    expected = np.zeros((4, 6))
    for i in range(4):
        for winner, loser in observed_pairs(clicks[i].tolist(), only):
            expected[i, winner] += weights[i, winner, loser]
            expected[i, loser] -= weights[i, winner, loser]
    found = pair_coefficients(weights, clicks, observed)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    one = pair_coefficients(weights[0], clicks, observed)[0]
    np.testing.assert_allclose(one, expected[0], rtol=1e-12, atol=1e-15)


def test_without_pdgds_settings_columns_alone_decide() -> None:
    """Else no message tells of documents that cancel out, as where all are clicked."""
    seen = view(4)
    clicks = seen.is_document
    expected = alone(seen).told
    assert expected.any()
    assert not revealed(seen, clicks, clicks).told.any()
    for name in ("learning_rate", "pairs", "normaliser", "order"):
        blind = replace(seen, knowledge=seen.knowledge.without(frozenset({name})))
        assert np.array_equal(revealed(blind, clicks, clicks).told, expected)


# --- real messages --------------------------------------------------------------------------------


class Read(NamedTuple):
    """Documents of real messages (n, k): right, identifiable, and shown in a list that is no tie."""

    right: Bools
    identifiable: Bools
    shown: Bools


def read(real: Sent) -> Read:
    """What OLSR makes of messages with one list each, and what it should be able to."""
    seen, clicks = real.view, real.clicks[:, 0]
    there = seen.is_document[:, 0]
    ties = ~clicks.any(axis=1) | (clicks == there).all(axis=1)
    observed = observed_documents(clicks, there, only_observed=seen.knowledge.pairs == "last-click+1")
    told = revealed(seen, real.clicks, observed[:, np.newaxis]).told[:, 0]
    answer: Inference = OLSR().infer(seen, np.random.default_rng(0))
    shown = there & ~ties[:, np.newaxis]
    return Read(answer.guess[:, 0] == clicks, told & shown, shown)


def crowded(queries: int) -> Collection:
    """Queries with twins, near twins, a document without features and a sum of two others."""
    data = wide(queries)
    rng = np.random.default_rng(9)
    parts = []
    for part in (data.train, data.vali, data.test):
        features = part.features.astype(np.float64)
        for first in part.offsets[:-1][part.lengths >= 8]:
            features[first + 1] = features[first]
            features[first + 2] = 0.0
            features[first + 3] = features[first + 4] * (1 + 1e-6 * rng.normal(size=features.shape[1]))
            features[first + 5] = features[first + 6] - features[first + 7]
        parts.append(dataset(features, part.labels, part.lengths.tolist()))
    return collection_of(*parts)


@pytest.mark.parametrize("ranker", ["linear", "neural:hidden=6"])
@pytest.mark.parametrize(("dtype", "message"), [("float32", "model"), ("float64", "update")])
@pytest.mark.parametrize(("pairs", "normaliser"), SETTINGS)
def test_least_squares_is_right_on_what_is_identifiable(
    pairs: str, normaliser: str, dtype: str, message: str, ranker: str, setup_of: SetupOf
) -> None:
    """Without defense; also where documents are crowded, far apart or hardly differ."""
    known = total = 0
    for data in (wide(30), crowded(30), spread(30)):
        setup = setup_of(learner=learner(pairs, normaliser), dtype=dtype, message=message, data=data)
        documents = read(sent(setup, ranker=ranker))
        assert documents.right[documents.identifiable].all()
        known += documents.identifiable.sum()
        total += documents.shown.sum()
    assert total > 1000
    assert 0.6 * total < known < 0.99 * total


def spread(queries: int) -> Collection:
    """Features of very different sizes: scores lie far apart, and many pairs hardly count."""
    data = wide(queries)
    sizes = 10.0 ** np.linspace(-2, 2, data.n_features)
    parts = [
        part.with_features(part.features * sizes.astype(np.float32))
        for part in (data.train, data.vali, data.test)
    ]
    return collection_of(*parts)


def test_what_is_not_identifiable_is_not_read(setup_of: SetupOf) -> None:
    """Twins and faint clicks are where least squares errs, and float32 loses more of them than float64."""
    lost = {}
    for name, data in (("wide", wide(30)), ("crowded", crowded(30)), ("spread", spread(30))):
        for dtype in ("float32", "float64"):
            setup = setup_of(learner=learner("all", "shown"), dtype=dtype, data=data)
            documents = read(sent(setup))
            others = documents.shown & ~documents.identifiable
            lost[name, dtype] = others.sum()
            assert others.sum() == 0 or not documents.right[others].all()
    assert lost["wide", "float64"] == lost["wide", "float32"] == 0
    assert lost["crowded", "float32"] > lost["crowded", "float64"] > 0
    assert lost["spread", "float32"] > lost["spread", "float64"] > 0


# --- messages that are no models ------------------------------------------------------------------


def of_kind(kind: str, B: int, metric: str | None = None, *, antithetic: bool = True) -> View:
    """Six messages of B lists each, with 1 to 10 documents."""
    seen = cut(view(6 * B), B=1)
    shape = (6, B, *seen.shown.shape[2:])
    return replace(
        seen,
        kind=kind,
        parameters=seen.parameters[:6],
        messages=np.zeros((6, 2 if kind == "es" else B * shape[2])),
        shown=seen.shown.reshape(shape),
        features=seen.features.reshape(*shape, -1),
        labels=None,
        candidates=None,
        clients=np.ones(6, dtype=np.int64),
        knowledge=seen.knowledge.having(metric=metric, antithetic=antithetic),
    )


def test_clicks_in_clear_tell_everything() -> None:
    seen = of_kind("clicks", 3)
    clicks = seen.is_document & (np.arange(10) % 2 == 0)
    facts = revealed(seen, clicks, seen.is_document)
    assert np.array_equal(facts.told, seen.is_document)
    assert np.array_equal(facts.rank, facts.unknowns)
    assert np.array_equal(facts.unknowns[:, 0], seen.is_document.sum(axis=(1, 2)))


@pytest.mark.parametrize("metric", ["maxrr", "dcg"])
@pytest.mark.parametrize(
    ("B", "antithetic", "alone", "rank"),
    [
        (1, True, [True], 1),
        (2, True, [True, True], 2),
        (3, True, [False, False, True], 2),
        (4, True, [False] * 4, 2),
        (1, False, [True], 1),
        (2, False, [False, False], 1),
    ],
)
def test_one_metric_tells_a_list(metric: str, B: int, antithetic: bool, alone: list[bool], rank: int) -> None:
    """MaxRR down to the first click, and that a list without one has none; means are not spoken of."""
    seen = of_kind("es", B, metric, antithetic=antithetic)
    here = seen.is_document
    clicks = here & (np.arange(10) >= 2) & (np.arange(6) > 1)[:, np.newaxis, np.newaxis]
    told, ranks, unknowns = revealed(seen, clicks, here)
    down = np.arange(10) <= 2 if metric == "maxrr" else np.ones(10, dtype=np.bool_)
    for i in range(6):
        for b in range(B):
            expected = here[i, b] & (down if clicks[i, b].any() else True) & alone[b]
            assert told[i, b].tolist() == expected.tolist()
    assert (ranks == rank).all()
    assert (unknowns[:, 0] == here.sum(axis=(1, 2))).all()
