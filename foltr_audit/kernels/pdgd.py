"""Pair weights of PDGD in a form that never overflows into NaN.

Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", section 4.
The reweighting rho is computed as a product of ratios of Plackett-Luce denominators. Each
denominator is scaled by the maximum of its own suffix, so it is at least 1 and a sum of positive
terms; a product that overflows means rho = 0, which is its limit.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from .jit import kernel, parallel_kernel


@kernel
def _tail(scores: NDArray[np.float64], shown: NDArray[np.int64], length: int) -> tuple[float, float]:
    """Maximum of the scores not shown, and the sum of exp(score - maximum) over them."""
    hidden = np.ones(scores.size, dtype=np.bool_)
    for i in range(length):
        hidden[shown[i]] = False
    top = -np.inf
    for i in range(scores.size):
        if hidden[i] and scores[i] > top:
            top = scores[i]
    total = 0.0
    for i in range(scores.size):
        if hidden[i]:
            total += np.exp(scores[i] - top)
    return top, total


@kernel
def _suffix_sums(
    f: NDArray[np.float64], tail_top: float, tail_sum: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For every suffix t of the list: its maximum, its denominator, and that without document q.

    `without[t, q]` sums the tail and every document of positions t.. but q.
    """
    k = f.size
    top = np.empty(k)
    whole = np.empty(k)
    without = np.zeros((k, k))
    terms = np.empty(k)
    for t in range(k):
        top[t] = tail_top
        for s in range(t, k):
            top[t] = max(top[t], f[s])
        tail = tail_sum * np.exp(tail_top - top[t]) if tail_sum > 0.0 else 0.0
        before = tail
        for s in range(t, k):
            terms[s] = np.exp(f[s] - top[t])
            without[t, s] = before
            before += terms[s]
        whole[t] = before
        after = 0.0
        for s in range(k - 1, t - 1, -1):
            without[t, s] += after
            after += terms[s]
    return top, whole, without


@kernel
def _pair_weight(
    f: NDArray[np.float64],
    top: NDArray[np.float64],
    whole: NDArray[np.float64],
    without: NDArray[np.float64],
    p: int,
    q: int,
) -> float:
    """`rho * u / (1 + u)^2` of positions p < q, u = exp(-|f_p - f_q|)."""
    product: float = 1.0
    for t in range(p + 1, q + 1):
        product *= (without[t, q] + np.exp(f[p] - top[t])) / whole[t]
    u = math.exp(-abs(f[p] - f[q]))
    return u / (1.0 + u) ** 2 / (1.0 + product)


@kernel
def _prepare(
    scores: NDArray[np.float64], shown: NDArray[np.int64], candidates: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Scores of the shown documents and the suffix sums of their denominators."""
    length = 0
    while length < shown.size and shown[length] >= 0:
        length += 1
    f = np.empty(length)
    for i in range(length):
        f[i] = scores[shown[i]]
    tail_top, tail_sum = -np.inf, 0.0
    if candidates:
        tail_top, tail_sum = _tail(scores, shown, length)
    top, whole, without = _suffix_sums(f, tail_top, tail_sum)
    return f, top, whole, without


@parallel_kernel
def pair_weights(
    scores: NDArray[np.float64],
    starts: NDArray[np.int64],
    shown: NDArray[np.int64],
    candidates: bool,
) -> NDArray[np.float64]:
    """All pair weights W, symmetric with a zero diagonal, shape (C, k, k); 0 at the padding.

    `candidates` takes the Plackett-Luce normaliser over all candidates, else over the shown ones.
    """
    C, k = shown.shape
    W = np.zeros((C, k, k))
    for c in numba.prange(C):
        f, top, whole, without = _prepare(scores[starts[c] : starts[c + 1]], shown[c], candidates)
        for p in range(f.size):
            for q in range(p + 1, f.size):
                W[c, p, q] = _pair_weight(f, top, whole, without, p, q)
                W[c, q, p] = W[c, p, q]
    return W


@parallel_kernel
def pdgd_coefficients(
    scores: NDArray[np.float64],
    starts: NDArray[np.int64],
    shown: NDArray[np.int64],
    clicks: NDArray[np.bool_],
    candidates: bool,
    only_observed: bool,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """How much each shown document's gradient counts, and the number of pairs of each list.

    A pair is a clicked document over an unclicked one; with `only_observed` the unclicked one must
    stand no lower than one place below the last click. Shapes (C, k) and (C,).
    """
    C, k = shown.shape
    coefficients = np.zeros((C, k))
    pairs = np.zeros(C, dtype=np.int64)
    for c in numba.prange(C):
        f, top, whole, without = _prepare(scores[starts[c] : starts[c + 1]], shown[c], candidates)
        observed = f.size
        if only_observed:
            observed = 0
            for i in range(f.size):
                if clicks[c, i]:
                    observed = min(i + 2, f.size)
        for p in range(observed):
            for q in range(p + 1, observed):
                if clicks[c, p] != clicks[c, q]:
                    weight = _pair_weight(f, top, whole, without, p, q)
                    winner, loser = (p, q) if clicks[c, p] else (q, p)
                    coefficients[c, winner] += weight
                    coefficients[c, loser] -= weight
                    pairs[c] += 1
    return coefficients, pairs
