"""Pair weights of PDGD, and the gradient coefficients of a list's clicks, in a form that never gives NaN.

Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", section 4.
The reweighting rho is computed from products of Plackett-Luce denominators, sums of positive terms.
Where the weights of a list are close enough together, those that the list was sampled with are reused.
Otherwise every denominator is scaled so that no term that matters underflows; a product that overflows means
rho = 0, which is its limit.
"""

from __future__ import annotations

import numpy as np

from foltr_audit.kernels.elementary import exp
from foltr_audit.kernels.jit import Bools, Floats, Ints, inlined, kernel, uncounted, unsigned
from foltr_audit.kernels.plackett_luce import SamplingBuffers, new_pool, put_scores, tail_weight, weigh_shown

# --- lists whose weights are close together --------------------------------------------------------

_CLOSE = 1e-25  # products of nine denominators and two weights above it are normal numbers


@inlined
def _fill_left(drawn: Floats, tail: float, column: int, left: Floats) -> bool:
    """Fill left[0] with the denominator of every rank, left[1] with their products from rank 1 on.

    The list is a column of `drawn` (k, columns), the weights of the shown documents, 0 at its padding.
    Whether no product of them can underflow.
    """
    k = drawn.shape[0]
    left[0, unsigned(k)] = tail
    close = True
    for t in range(k - 1, -1, -1):
        weight = drawn[unsigned(t), unsigned(column)]
        left[0, unsigned(t)] = left[0, unsigned(t + 1)] + weight
        # NaN fails too: it marks lists whose weights were taken relative to several maxima.
        close &= (weight > _CLOSE) | (weight == 0.0)
    left[1, 0] = 1.0
    for t in range(1, k):
        left[1, unsigned(t)] = left[1, unsigned(t - 1)] * left[0, unsigned(t)]
    return close


@inlined
def _close_pair_weight(drawn: Floats, left: Floats, column: int, p: int, q: int) -> float:
    """`rho * u / (1 + u)^2` of positions p < q of a column, from their weights and denominators `left`."""
    swapped = left[1, unsigned(p)]
    mine, other = drawn[unsigned(p), unsigned(column)], drawn[unsigned(q), unsigned(column)]
    running = left[0, unsigned(q + 1)] + mine
    for t in range(q, p, -1):
        swapped *= running
        running += drawn[unsigned(t - 1), unsigned(column)]
    as_shown = left[1, unsigned(q)]
    both = mine + other
    return float(mine * other * as_shown / (both * both * (as_shown + swapped)))


# --- pair weights, and coefficients of a list ------------------------------------------------------

_SAFE_SPREAD = 600.0  # exp(-600) and its products with other terms are normal numbers


@kernel
def _scales(f: Floats, tail_top: float) -> Floats:
    """The score that is subtracted from all scores of each suffix of a list, shape (k,).

    One for all suffixes if no term underflows then, which saves exponentials; else the maximum of each suffix
    and the tail.
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
def _suffix_sums(f: Floats, scales: Floats, tail_top: float, tail_sum: float) -> tuple[Floats, Floats]:
    """For every suffix t of the list: its denominator, and that without document q.

    `without[t, q]` sums the tail and every document of positions t.. but q; it is set from q = t on.
    """
    k = f.size
    whole = np.empty(k)
    without = np.empty((k, k))
    terms = np.empty(k)
    tail = 0.0
    # Sums from both ends instead of a total less one term: differences cancel where that term dominates.
    for t in range(k):
        if t == 0 or scales[t] != scales[t - 1]:
            tail = tail_sum * exp(tail_top - scales[t]) if tail_sum > 0.0 else 0.0
            for s in range(t, k):
                terms[s] = exp(f[s] - scales[t])
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
def _pair_weight(f: Floats, scales: Floats, whole: Floats, without: Floats, p: int, q: int) -> float:
    """`rho * u / (1 + u)^2` of positions p < q, u = exp(-|f_p - f_q|)."""
    product: float = 1.0
    moved = 0.0
    for t in range(p + 1, q + 1):
        if t == p + 1 or scales[t] != scales[t - 1]:
            moved = exp(f[p] - scales[t])
        product *= (without[t, q] + moved) / whole[t]
    u = exp(-abs(f[p] - f[q]))
    return u / (1.0 + u) ** 2 / (1.0 + product)


@kernel
def _prepare(scores: Floats, shown: Ints, candidates: bool) -> tuple[Floats, Floats, Floats, Floats]:
    """Scores of the shown documents and the suffix sums of their denominators."""
    length = 0
    while length < shown.size and shown[length] >= 0:
        length += 1
    f = np.empty(length)
    for i in range(length):
        f[i] = scores[shown[i]]
    tail_top, tail_sum = -np.inf, 0.0
    if candidates:
        tail_top, tail_sum = tail_weight(scores, shown)
    scales = _scales(f, tail_top)
    whole, without = _suffix_sums(f, scales, tail_top, tail_sum)
    return f, scales, whole, without


@kernel
def _fill_spread_table(
    scores: Floats, shown: Ints, clicks: Bools, observed: int, candidates: bool, table: Floats
) -> None:
    """The same as `_fill_table` of one list, however far apart its scores are."""
    f, scales, whole, without = _prepare(scores, shown, candidates)
    for p in range(observed):
        for q in range(p + 1, observed):
            if clicks[p] != clicks[q]:
                table[p, q] = _pair_weight(f, scales, whole, without, p, q)


@kernel
def pair_weights(scores: Floats, starts: Ints, shown: Ints, candidates: bool) -> Floats:
    """All pair weights W, symmetric with a zero diagonal, shape (C, k, k); 0 at the padding.

    `candidates` takes the Plackett-Luce normaliser over all candidates, else over the shown ones.
    """
    C, k = shown.shape
    W = np.zeros((C, k, k))
    for c in range(C):
        f, scales, whole, without = _prepare(scores[starts[c] : starts[c + 1]], shown[c], candidates)
        for p in range(f.size):
            for q in range(p + 1, f.size):
                W[c, p, q] = _pair_weight(f, scales, whole, without, p, q)
                W[c, q, p] = W[c, p, q]
    return W


@inlined
def _observed(shown: Ints, clicks: Bools, row: int, only_observed: bool) -> int:
    """How many top documents take part in pairs: all, or those down to one below the last click."""
    length = 0
    last = -1
    while length < shown.shape[1] and shown[row, length] >= 0:
        if clicks[row, length]:
            last = length
        length += 1
    if not only_observed:
        return length
    return min(last + 2, length) if last >= 0 else 0


@inlined
def _fill_table(
    pool: SamplingBuffers, row: int, shown: Ints, clicks: Bools, observed: int, candidates: bool
) -> None:
    """Fill in the weights of the pairs p < q of a drawn list that count."""
    drawn, left, table = pool.drawn, pool.left, pool.table
    if _fill_left(drawn, pool.tails[row] if candidates else 0.0, row, left):
        for q in range(1, observed):
            for p in range(q):
                if clicks[row, p] != clicks[row, q]:
                    table[p, q] = _close_pair_weight(drawn, left, row, p, q)
    else:
        scores = pool.scores[row, : pool.sizes[row]]
        _fill_spread_table(scores, shown[row], clicks[row], observed, candidates, table)


@inlined
def _sum_table(table: Floats, clicks: Bools, row: int, observed: int, out: Floats) -> int:
    """Fill in the coefficients out[row] of a list whose pair weights are known; its number of pairs."""
    clicked = 0
    for i in range(out.shape[1]):
        out[row, i] = 0.0
    for i in range(observed):
        if clicks[row, i]:
            clicked += 1
            for j in range(observed):
                if not clicks[row, j]:
                    weight = table[min(i, j), max(i, j)]
                    out[row, i] += weight
                    out[row, j] -= weight
    return clicked * (observed - clicked)


@uncounted
def fill_coefficients(
    pool: SamplingBuffers,
    rows: int,
    shown: Ints,
    clicks: Bools,
    candidates: bool,
    only_observed: bool,
    out: Floats,
    pairs: Ints,
) -> None:
    """Fill in coefficients of each shown document's gradient (rows, k), and the number of pairs (rows,).

    The first rows of `shown` (rows, k) were drawn from the pool.
    """
    for row in range(rows):
        observed = _observed(shown, clicks, row, only_observed)
        if observed > 0:  # else nothing was clicked
            _fill_table(pool, row, shown, clicks, observed, candidates)
        pairs[row] = _sum_table(pool.table, clicks, row, observed, out)


@kernel
def pdgd_coefficients(
    scores: Floats, starts: Ints, shown: Ints, clicks: Bools, candidates: bool, only_observed: bool
) -> tuple[Floats, Ints]:
    """Coefficients of each shown document's gradient, and the number of pairs of each list.

    A pair is a clicked document over an unclicked one; with `only_observed` the unclicked one must
    stand no lower than one place below the last click. Shapes (C, k) and (C,).
    """
    C, k = shown.shape
    coefficients = np.empty((C, k))
    pairs = np.empty(C, dtype=np.int64)
    one = min(C, 1)  # no literals, for which kernels would be compiled apart
    longest = starts[one] - starts[0]
    for c in range(C):
        longest = max(longest, starts[c + 1] - starts[c])
    pool = new_pool(one, longest, k)
    for c in range(C):
        mine = shown[c : c + 1]
        put_scores(pool, scores[starts[c] : starts[c + 1]])
        weigh_shown(pool, one, mine)
        of_list = candidates, only_observed, coefficients[c : c + 1], pairs[c : c + 1]
        fill_coefficients(pool, one, mine, clicks[c : c + 1], *of_list)
    return coefficients, pairs
