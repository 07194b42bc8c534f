"""The synthetic data: in the likeness of the real sets, topics included, and frozen."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foltr_audit.studies.model_merging.categories import CategoryRule
from foltr_audit.studies.model_merging.splits import QueryTopics, mixture_rows
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.data.synthetic import CATEGORY_FEATURE, LIKES, PROFILES, _bounds, synthesise
from foltr_audit.kernels import synthetic
from foltr_audit.kernels.jit import kernel
from foltr_audit.kernels.synthetic import query_topics
from foltr_audit.rng import Streams
from foltr_audit.utils.arrays import Floats
from tests.fixtures.reference import numba_threads, philox_words

FROZEN = {
    ("mq2007", None): "4fb8201e6851119349aaae917a99154c0153e09afc8dca72fa509bf089b2e506",
    ("mslr-web10k", 200): "d81512d1de5f350998c2c7a2369a3a6fe5c9c7e1e8bfc3b934db8d72d3110312",
    ("clueweb-intents", None): "5b08d9140e82fd0a757c1db522b29d1157aa5e33453d6cf3e365c063151c40a5",
    ("istella-s", 200): "3112d781a0445df4b47fa9dcbd8486322ca54b57476e39c14bcdf29e077965cf",
}


@cache
def data(like: str, queries: int | None = None, seed: int = 1) -> Collection:
    return synthesise(like, queries=queries, seed=seed)


def parts(collection: Collection) -> list[Dataset]:
    return [collection.train, collection.vali, collection.test]


def pooled(collection: Collection, name: str) -> NDArray[np.generic]:
    return np.concatenate([getattr(part, name) for part in parts(collection)])


def ndcg10(part: Dataset, scores: NDArray[np.float64]) -> float:
    """Mean nDCG@10, gain 2^r - 1, over all orders of equal scores; 0 without relevant documents."""
    from sklearn.metrics import ndcg_score

    total = 0.0
    for start, stop in zip(part.offsets[:-1], part.offsets[1:], strict=True):
        gain = 2.0 ** part.labels[start:stop] - 1.0
        if stop - start > 1 and gain.any():
            total += ndcg_score(gain[np.newaxis], scores[np.newaxis, start:stop], k=10)
        elif gain.any():
            total += 1.0
    return total / part.n_queries


def order_z(part: Dataset) -> float:
    """Standard score of sum(position * label) against a random order within each query."""
    excess = variance = 0.0
    for start, stop in zip(part.offsets[:-1], part.offsets[1:], strict=True):
        n, y = stop - start, part.labels[start:stop]
        place = np.arange(n) - (n - 1) / 2
        excess += float(place @ y)
        variance += float((place**2).sum() * y.var() * n / max(n - 1, 1))
    return float(excess / np.sqrt(variance))


@pytest.mark.parametrize(("like", "queries"), FROZEN)
def test_content_is_frozen(like: str, queries: int | None) -> None:
    """Every published number rests on this content.

    If it ever must change, say so in NUMBERS.md (which data, why, and
    the nDCG before and after), and only then put the new fingerprint here.
    """
    assert data(like, queries).fingerprint == FROZEN[like, queries]


def test_plain_interpreter_gives_the_same_bytes() -> None:
    code = (
        "from foltr_audit.data.synthetic import LIKES, synthesise; "
        "print({like: synthesise(like, queries=5).fingerprint for like in LIKES})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert literal_eval(done.stdout) == {like: synthesise(like, queries=5).fingerprint for like in LIKES}


def test_threads_do_not_matter() -> None:
    prints = []
    for count in (1, 2):
        with numba_threads(count):
            prints.append(synthesise("mq2007", queries=30).fingerprint)
    assert prints[0] == prints[1]


def test_seeds_differ() -> None:
    collections = [data("mq2007", 30, seed) for seed in (1, 2, 3)]
    assert len({collection.fingerprint for collection in collections}) == 3
    for one, other in pairwise(collections):
        assert not np.array_equal(one.train.lengths, other.train.lengths)


def test_mq2007_numbers() -> None:
    collection = data("mq2007")
    assert [part.n_queries for part in parts(collection)] == [1020, 340, 340]
    assert collection.n_features == 46
    lengths, labels = pooled(collection, "lengths"), pooled(collection, "labels").astype(np.int64)
    assert lengths.mean() == pytest.approx(41, rel=0.05)
    assert (lengths.min(), lengths.max()) == (6, 147)
    np.testing.assert_allclose(np.bincount(labels) / labels.size, [0.742, 0.203, 0.055], atol=0.001)
    assert 1 - pooled(collection, "has_relevant").mean() == pytest.approx(0.15, abs=0.02)
    features = pooled(collection, "features")
    assert (np.flatnonzero(features.max(axis=0) == 0) == [5, 6, 7, 8, 9, 42]).all()  # as in LETOR 4.0
    assert 0.01 <= 1 - len(np.unique(features, axis=0)) / len(features) <= 0.02


def test_mq2007_is_minmax_normalised_by_query() -> None:
    part = data("mq2007").vali
    low = np.minimum.reduceat(part.features, part.offsets[:-1])
    high = np.maximum.reduceat(part.features, part.offsets[:-1])
    assert (low == 0).all()
    assert np.isin(high, [0, 1]).all()
    decimals = part.features.astype(np.float64) * 1e6
    assert np.abs(decimals - np.round(decimals)).max() < 0.05  # six decimals, up to float32


def test_mslr_numbers() -> None:
    assert PROFILES["mslr-web10k"].queries == 10_000
    collection = data("mslr-web10k", 400)
    lengths, labels = pooled(collection, "lengths"), pooled(collection, "labels").astype(np.int64)
    assert collection.n_features == 136
    assert lengths.mean() == pytest.approx(125, rel=0.1)
    assert lengths.min() < 10
    assert 400 < lengths.max() <= 908
    shares = np.array([0.52, 0.32, 0.13, 0.017, 0.008])
    np.testing.assert_allclose(np.bincount(labels) / labels.size, shares / shares.sum(), atol=0.001)
    assert 0.002 <= 1 - pooled(collection, "has_relevant").mean() <= 0.04
    features = pooled(collection, "features").astype(np.float64)
    assert np.isfinite(features).all()
    spread = features.std(axis=0)
    assert spread.min() > 0
    assert spread.max() / spread.min() > 10_000
    z = (features - features.mean(axis=0)) / spread
    assert ((z**4).mean(axis=0) > 10).sum() >= 20  # heavy tails: normal would be 3
    idf = collection.train.features[:, 15:20]
    for start, stop in zip(collection.train.offsets[:-1], collection.train.offsets[1:], strict=True):
        assert (idf[start:stop] == idf[start]).all()


@pytest.mark.parametrize("like", LIKES)
def test_record(like: str) -> None:
    collection = data(like, 9)
    assert [part.n_queries for part in parts(collection)] == [5, 2, 2]
    assert (collection.source, collection.synthetic) == (f"synthetic:{like}", True)
    assert (collection.fold, collection.normalised) == (0, "none")
    queries = [name for part in parts(collection) for name in part.query_ids]
    documents = [name for part in parts(collection) for name in part.document_ids]
    assert queries == [str(number) for number in range(1, 10)]
    assert len(set(documents)) == len(documents)
    assert collection.test.document_ids[-1] == f"synthetic-9-{collection.test.lengths[-1]}"


@pytest.mark.parametrize(("like", "queries"), [("mq2007", None), ("mslr-web10k", 400), ("istella-s", 500)])
def test_order_says_nothing_about_labels(like: str, queries: int | None) -> None:
    part = data(like, queries).train
    assert abs(order_z(part)) < 3
    # The same statistic notices when one query in ten is sorted.
    labels = part.labels.copy()
    for query in range(0, part.n_queries, 10):
        labels[part.offsets[query] : part.offsets[query + 1]].sort()
    assert order_z(replace(part, labels=labels)) > 4


@kernel
def bells(out: Floats, client: int, round_: int, purpose: int, key: np.uint64) -> None:
    synthetic.fill_bells(out, client, round_, purpose, key)


def test_bells_are_sums_of_four_uniform_words() -> None:
    out = np.empty(5)
    bells(out, 3, 4, 5, np.uint64(6))
    words = [philox_words((block, 3, 4, 5), 6) for block in range(3)]
    pairs = [pair for a, b, c, d in words for pair in ((a, b), (c, d))]
    for value, pair in zip(out, pairs, strict=False):
        uniform = [half / 65536 for word in pair for half in divmod(word, 65536)]
        assert value == pytest.approx((sum(uniform) - 2) * 3**0.5, abs=1e-3)
        assert value * 4096 == round(value * 4096)


@cache
def istella() -> Collection:
    return synthesise("istella-s", queries=500)


def joined(name: str) -> NDArray[Any]:
    return np.concatenate([getattr(istella().part(part), name) for part in istella().PARTS])


def test_numbers() -> None:
    assert PROFILES["istella-s"].queries == 1500
    assert istella().n_features == 220
    lengths, labels = joined("lengths"), joined("labels")
    assert lengths.mean() == pytest.approx(106, rel=0.08)  # as in Istella-S
    assert lengths.min() >= 10
    shares = np.array([887, 22, 41, 33, 17]) / 1000
    np.testing.assert_allclose(np.bincount(labels) / labels.size, shares, atol=0.001)
    assert joined("has_relevant").mean() > 0.96
    features = joined("features")
    assert np.isfinite(features).all()
    assert (features.std(axis=0) > 0).all()


def test_one_column_is_the_category() -> None:
    categories, counts = np.unique(joined("features")[:, CATEGORY_FEATURE - 1], return_counts=True)
    assert categories.tolist() == list(range(1, 9))
    assert (np.diff(counts) < 0).all()  # of unequal frequency


def test_queries_are_mixed_as_in_the_paper() -> None:
    # Istella-S: 7 % of one category only, 12 % tied, 45 % with a small lead, 36 % with a clear one.
    row = mixture_rows(QueryTopics.of(istella(), CategoryRule(feature=CATEGORY_FEATURE), Streams(1)))[0]
    assert 0.08 < row["exclusive"] < 0.22
    assert 0.06 < row["tie"] < 0.18
    assert 0.35 < row["lead_1_to_3"] < 0.55
    assert 0.30 < row["lead_over_3"] < 0.50


def test_what_makes_a_document_relevant_differs_by_category() -> None:
    from sklearn.linear_model import Ridge

    features = joined("features")
    spread = (features - features.mean(axis=0)) / features.std(axis=0)
    category, labels = features[:, CATEGORY_FEATURE - 1], joined("labels")
    where = {one: category == one for one in (1, 2)}
    others = spread[:, :219]
    weights = {one: Ridge(alpha=100.0).fit(others[here], labels[here]) for one, here in where.items()}
    for one, other in ((1, 2), (2, 1)):
        here = where[one]
        own, foreign = (
            np.corrcoef(weights[which].predict(others[here]), labels[here])[0, 1] for which in (one, other)
        )
        assert own > foreign + 0.1


def test_topics_are_drawn_with_their_shares() -> None:
    popularity, mixtures = _bounds((26, 20, 15, 12, 10, 8, 5, 4)), _bounds((0.25, 0.75))
    found = query_topics(20_000, popularity, mixtures, 7, np.uint64(9))
    for column in (0, 1):
        shares = np.bincount(found[:, column], minlength=8) / 20_000
        # Five standard errors of the largest share.
        np.testing.assert_allclose(shares, np.array([26, 20, 15, 12, 10, 8, 5, 4]) / 100, atol=0.0156)
    assert found[:, 2].mean() == pytest.approx(0.75, abs=0.0154)
    word = philox_words((0, 3, 0, 7), 9)[0]
    assert found[3, 0] == np.searchsorted(np.cumsum([26, 20, 15, 12, 10, 8, 5]) / 100, word / 2**32, "right")
