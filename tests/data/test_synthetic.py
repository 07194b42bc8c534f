"""The synthetic data: in the likeness of the real sets, learnable but not easy, and frozen."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from foltr_audit.core.records import Collection, Dataset
from foltr_audit.data.synthetic import LIKES, PROFILES, synthesise
from tests.fixtures.reference import numba_threads

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


@pytest.mark.parametrize(
    ("like", "queries"), [("mq2007", None), pytest.param("mslr-web10k", 500, marks=pytest.mark.slow)]
)
def test_linear_learns_something_but_not_everything(like: str, queries: int | None) -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge

    collection = data(like, queries)
    train, test = collection.train, collection.test
    mean, spread = train.features.mean(axis=0), train.features.std(axis=0)
    spread[spread == 0] = 1
    ridge = Ridge(alpha=100.0).fit((train.features - mean) / spread, train.labels)
    boosting = HistGradientBoostingRegressor(max_iter=80, min_samples_leaf=40, random_state=0)
    boosting.fit(train.features, train.labels)

    order = ndcg10(test, -np.arange(test.n_documents, dtype=np.float64))
    linear = ndcg10(test, ridge.predict((test.features - mean) / spread))
    trees = ndcg10(test, boosting.predict(test.features))
    single = max(
        ndcg10(test, sign * test.features[:, j].astype(np.float64))
        for j in range(0, test.n_features, 5)
        for sign in (1, -1)
    )
    ceiling = test.has_relevant.mean()
    assert 0.18 < order < 0.32
    assert linear > order + 0.07
    assert trees > linear + 0.03
    assert ceiling > trees + 0.2
    assert single < linear


def test_bells_are_sums_of_four_uniform_words() -> None:
    from foltr_audit.kernels.philox import philox
    from foltr_audit.kernels.synthetic import fill_bells

    out = np.empty(5)
    fill_bells(out, 3, 4, 5, np.uint64(6))
    words = [[int(word) for word in philox(block, 3, 4, 5, np.uint64(6))] for block in range(3)]
    pairs = [pair for a, b, c, d in words for pair in ((a, b), (c, d))]
    for value, pair in zip(out, pairs, strict=False):
        uniform = [half / 65536 for word in pair for half in divmod(word, 65536)]
        assert value == pytest.approx((sum(uniform) - 2) * 3**0.5, abs=1e-3)
        assert value * 4096 == round(value * 4096)


def test_bells_have_variance_one() -> None:
    from scipy import stats

    from foltr_audit.kernels.synthetic import fill_bells

    draws = np.empty(40_000)
    fill_bells(draws, 0, 0, 1, np.uint64(2))
    # Kurtosis of a sum of four uniform numbers: 3 - 1.2/4; so the sample variance has this error.
    error = ((2.7 - 1) / draws.size) ** 0.5
    assert abs(draws.mean()) < 4 / draws.size**0.5
    assert abs(draws.var() - 1) < 4 * error
    assert stats.kstest(_bell_cdf(draws), "uniform").pvalue > 0.001


def _bell_cdf(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Irwin-Hall distribution of four uniform numbers, brought to variance 1."""
    s = np.clip(np.asarray(x) / 3**0.5 + 2, 0, 4)
    terms = [(1, 0), (-4, 1), (6, 2), (-4, 3)]
    total = sum(sign * np.maximum(s - k, 0.0) ** 4 for sign, k in terms)
    return np.asarray(total / 24)
