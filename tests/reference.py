"""Plain, slow forms of the kernels, written from the definitions: an independent route for the tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, localcontext
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from foltr_audit.core.records import Dataset

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden"
LOW = 0xFFFFFFFF
_M0, _M1, _W0, _W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85

Words = tuple[int, int, int, int]


@cache
def golden(name: str) -> dict[str, NDArray[Any]]:
    """The golden vectors of a file beside the checkout; skips the test where there are none."""
    path = GOLDEN / name
    if not path.is_file():
        pytest.skip(f"no golden vectors {name} beside the checkout")
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


@contextmanager
def numba_threads(count: int) -> Iterator[None]:
    """Run parallel kernels on so many threads; skips the test where there are fewer."""
    if count > numba.config.NUMBA_NUM_THREADS:  # type: ignore[attr-defined]
        pytest.skip(f"fewer than {count} threads")
    before = numba.get_num_threads()
    numba.set_num_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def dataset(features: ArrayLike, labels: ArrayLike, lengths: Sequence[int]) -> Dataset:
    """Queries of the given lengths, one after the other."""
    matrix = np.asarray(features, dtype=np.float32)
    return Dataset(
        features=matrix,
        labels=np.asarray(labels, dtype=np.int64),
        offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        query_ids=tuple(f"q{query}" for query in range(len(lengths))),
        document_ids=("",) * matrix.shape[0],
    )


def philox_words(counter: Words, key: int) -> Words:
    """Philox4x32-10 on Python's own integers."""
    x, k0, k1 = counter, key & LOW, key >> 32
    for _ in range(10):
        (hi0, lo0), (hi1, lo1) = divmod(_M0 * x[0], 1 << 32), divmod(_M1 * x[2], 1 << 32)
        x = (hi1 ^ x[1] ^ k0, lo1, hi0 ^ x[3] ^ k1, lo0)
        k0, k1 = (k0 + _W0) & LOW, (k1 + _W1) & LOW
    return x


def philox_counter(words: Words, key: int) -> Words:
    """The counter that gives these words: Philox backwards."""
    inverse0, inverse1 = pow(_M0, -1, 1 << 32), pow(_M1, -1, 1 << 32)
    y = words
    for turn in reversed(range(10)):
        k0, k1 = (key + turn * _W0) & LOW, ((key >> 32) + turn * _W1) & LOW
        a, c = (y[3] * inverse0) & LOW, (y[1] * inverse1) & LOW
        y = (a, y[0] ^ k0 ^ ((_M1 * c) >> 32), c, y[2] ^ k1 ^ ((_M0 * a) >> 32))
    return y


def list_probability(weights: Sequence[Any], shown: Sequence[int], pool: Sequence[int]) -> Any:
    """Plackett-Luce probability of a list: each document by its share of what is left of the pool.

    `weights` are exp(score); exact for fractions, and for decimals to the context's precision.
    """
    left = list(pool)
    factors = []
    for document in shown:
        factors.append(weights[document] / sum(weights[other] for other in left))
        left.remove(document)
    return prod(factors)


def pair_weight(weights: Sequence[Any], shown: Sequence[int], p: int, q: int, candidates: bool) -> Any:
    """`rho e^f_i e^f_j / (e^f_i + e^f_j)^2` of positions p and q (Oosterhuis & de Rijke 2018, eq. 6-7)."""
    pool = range(len(weights)) if candidates else shown
    swapped = list(shown)
    swapped[p], swapped[q] = shown[q], shown[p]
    as_shown = list_probability(weights, shown, pool)
    as_swapped = list_probability(weights, swapped, pool)
    one, other = weights[shown[p]], weights[shown[q]]
    return as_swapped / (as_shown + as_swapped) * one * other / (one + other) ** 2


def exact_pair_weights(scores: ArrayLike, shown: Sequence[int], candidates: bool) -> NDArray[np.float64]:
    """All pair weights with 60 decimal digits and then rounded, (k, k)."""
    k = len(shown)
    W = np.zeros((k, k))
    with localcontext() as context:
        context.prec = 60
        weights = [Decimal(float(score)).exp() for score in np.asarray(scores)]
        for p in range(k):
            for q in range(k):
                if p != q:
                    W[p, q] = float(pair_weight(weights, shown, p, q, candidates))
    return W


def observed_pairs(clicks: Sequence[bool], last_click_plus_1: bool) -> list[tuple[int, int]]:
    """(clicked, unclicked) positions that form pairs."""
    last = max((i for i, clicked in enumerate(clicks) if clicked), default=-2)
    seen = [i for i in range(len(clicks)) if not last_click_plus_1 or i <= last + 1]
    return [(i, j) for i in seen for j in seen if clicks[i] and not clicks[j]]


def pairwise_gradient(
    W: NDArray[np.float64], J: NDArray[np.float64], clicks: Sequence[bool], last_click_plus_1: bool
) -> NDArray[np.float64]:
    """The PDGD gradient as it is defined: a sum over pairs of `W_ij (J_i - J_j)`, (P,)."""
    gradient = np.zeros(J.shape[1])
    for i, j in observed_pairs(clicks, last_click_plus_1):
        gradient += W[i, j] * (J[i] - J[j])
    return gradient


def chi_square_p(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """Pearson's chi-square test: how likely counts at least so far from their law are."""
    from scipy.stats import chi2

    observed, law = np.asarray(counts, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    np.testing.assert_allclose(law.sum(), 1.0, rtol=1e-9)
    if np.any(observed[law == 0] > 0):
        return 0.0
    expected = law[law > 0] * observed.sum()
    statistic = np.sum((observed[law > 0] - expected) ** 2 / expected)
    return float(chi2.sf(statistic, expected.size - 1))


def laplacian(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Graph Laplacian `diag(W 1) - W` of symmetric pair weights, shape (k, k): the gradient is `J^T L c`."""
    L: NDArray[np.float64] = np.diag(weights.sum(axis=1)) - weights
    return L


def observed_length(clicks: NDArray[np.bool_], length: int, pairs: str) -> int:
    """How many top documents of a list take part in pairs."""
    if pairs == "all":
        return length
    clicked = np.flatnonzero(clicks)
    return min(int(clicked[-1]) + 2, length) if clicked.size else 0
