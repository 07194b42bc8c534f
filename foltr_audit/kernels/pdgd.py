"""Pair weights of PDGD in a form that never overflows into NaN.

Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", section 4.
The reweighting rho is computed as a product of ratios of Plackett-Luce denominators. Each
denominator is a sum of positive terms, scaled so that none that matters underflows; a product that
overflows means rho = 0, which is its limit.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

from .jit import kernel, parallel_kernel

_SAFE_SPREAD = 600.0  # exp(-600) and its products with other terms are normal numbers


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
def _scales(f: NDArray[np.float64], tail_top: float) -> NDArray[np.float64]:
    """The score that each suffix of a list is taken relative to, shape (k,).

    One for all of them where every term is then far from underflow, which saves exponentials; else the
    maximum of each suffix and the tail.
    """
    scales = np.empty(f.size)
    top = tail_top
    low = np.inf
    for s in range(f.size - 1, -1, -1):
        top = max(top, f[s])
        low = min(low, f[s])
        scales[s] = top
    if top - low < _SAFE_SPREAD:
        scales[:] = top
    return scales


@kernel
def _suffix_sums(
    f: NDArray[np.float64], scales: NDArray[np.float64], tail_top: float, tail_sum: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For every suffix t of the list: its denominator, and that without document q.

    `without[t, q]` sums the tail and every document of positions t.. but q.
    """
    k = f.size
    whole = np.empty(k)
    without = np.zeros((k, k))
    terms = np.empty(k)
    tail = 0.0
    for t in range(k):
        if t == 0 or scales[t] != scales[t - 1]:
            tail = tail_sum * math.exp(tail_top - scales[t]) if tail_sum > 0.0 else 0.0
            for s in range(t, k):
                terms[s] = math.exp(f[s] - scales[t])
        before = tail
        for s in range(t, k):
            without[t, s] = before
            before += terms[s]
        whole[t] = before
        after = 0.0
        for s in range(k - 1, t - 1, -1):
            without[t, s] += after
            after += terms[s]
    return whole, without


@kernel
def _pair_weight(
    f: NDArray[np.float64],
    scales: NDArray[np.float64],
    whole: NDArray[np.float64],
    without: NDArray[np.float64],
    p: int,
    q: int,
) -> float:
    """`rho * u / (1 + u)^2` of positions p < q, u = exp(-|f_p - f_q|)."""
    product: float = 1.0
    moved = 0.0
    for t in range(p + 1, q + 1):
        if t == p + 1 or scales[t] != scales[t - 1]:
            moved = np.exp(f[p] - scales[t])
        product *= (without[t, q] + moved) / whole[t]
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
    scales = _scales(f, tail_top)
    whole, without = _suffix_sums(f, scales, tail_top, tail_sum)
    return f, scales, whole, without


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
        f, scales, whole, without = _prepare(scores[starts[c] : starts[c + 1]], shown[c], candidates)
        for p in range(f.size):
            for q in range(p + 1, f.size):
                W[c, p, q] = _pair_weight(f, scales, whole, without, p, q)
                W[c, q, p] = W[c, p, q]
    return W


@kernel
def _observed(shown: NDArray[np.int64], clicks: NDArray[np.bool_], only_observed: bool) -> int:
    """How many top documents take part in pairs: all, or those down to one below the last click."""
    length = 0
    last = -1
    while length < shown.size and shown[length] >= 0:
        if clicks[length]:
            last = length
        length += 1
    if not only_observed:
        return length
    return min(last + 2, length) if last >= 0 else 0


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
        observed = _observed(shown[c], clicks[c], only_observed)
        clicked = 0
        for i in range(observed):
            clicked += clicks[c, i]
        if clicked == 0 or clicked == observed:
            continue
        f, scales, whole, without = _prepare(scores[starts[c] : starts[c + 1]], shown[c], candidates)
        for p in range(observed):
            for q in range(p + 1, observed):
                if clicks[c, p] != clicks[c, q]:
                    weight = _pair_weight(f, scales, whole, without, p, q)
                    winner, loser = (p, q) if clicks[c, p] else (q, p)
                    coefficients[c, winner] += weight
                    coefficients[c, loser] -= weight
                    pairs[c] += 1
    return coefficients, pairs
