"""Pair weights of PDGD, and the gradient coefficients of a list's clicks, in a form that never gives NaN.

Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", section 4.
The reweighting rho is computed from products of Plackett-Luce denominators, sums of positive terms.
Where the weights of a list are close enough together, those that the list was sampled with are reused.
Otherwise every denominator is scaled so that no term that matters underflows; a product that overflows means
rho = 0, which is its limit.
"""

from __future__ import annotations

import numpy as np

from .elementary import exp
from .jit import Bools, Floats, Ints, inlined, inner, kernel, uncounted, unsigned
from .one_scale import SAFE_SPREAD, one_scale_coefficients
from .plackett_luce import SamplingBuffers, new_pool, put_scores, weigh_shown

_CLOSE = 1e-25  # products of nine denominators and two weights above it are normal numbers


@inlined
def _tail(scores: Floats, shown: Ints, length: int) -> tuple[float, float]:
    """Maximum of the scores not shown, and the sum of exp(score - maximum) over them."""
    hidden = np.empty(scores.size, dtype=np.bool_)
    hidden[:] = True
    for i in range(length):
        hidden[shown[i]] = False
    top = -np.inf
    for i in range(scores.size):
        if hidden[i] and scores[i] > top:
            top = scores[i]
    total = 0.0
    for i in range(scores.size):
        if hidden[i]:
            total += exp(scores[i] - top)
    return top, total


@inlined
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
    if top - low < SAFE_SPREAD:
        scales[:] = top
    return scales


@inlined
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
        tail_top, tail_sum = _tail(scores, shown, length)
    scales = _scales(f, tail_top)
    whole, without = _suffix_sums(f, scales, tail_top, tail_sum)
    return f, scales, whole, without


@kernel
def pair_weights(scores: Floats, starts: Ints, shown: Ints, candidates: bool) -> Floats:
    """All pair weights W, symmetric with a zero diagonal, shape (C, k, k); 0 at the padding.

    `candidates` takes the Plackett-Luce normaliser over all candidates, else over the shown ones.
    """
    C, k = shown.shape
    W = np.empty((C, k, k))
    W[:] = 0.0
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
def _fill_left(drawn: Floats, tail: float, shown: Ints, row: int, left: Floats) -> bool:
    """Fill left[0] with the denominator of every rank, left[1] with their products from rank 1 on.

    Whether no product of them can underflow.
    """
    length = 0
    while length < shown.shape[1] and shown[row, length] >= 0:
        length += 1
    left[0, unsigned(length)] = tail
    close = True
    for t in range(length - 1, -1, -1):
        left[0, unsigned(t)] = left[0, unsigned(t + 1)] + drawn[row, unsigned(t)]
        # NaN fails too: it marks lists whose weights were taken relative to several maxima.
        close &= drawn[row, unsigned(t)] > _CLOSE
    left[1, 0] = 1.0
    for t in range(1, length):
        left[1, t] = left[1, t - 1] * left[0, t]
    return close


@inlined
def _close_pair_weight(drawn: Floats, left: Floats, row: int, p: int, q: int) -> float:
    """`rho * u / (1 + u)^2` of positions p < q, from their weights and the denominators `left`."""
    swapped = left[1, unsigned(p)]
    running = left[0, unsigned(q + 1)] + drawn[row, unsigned(p)]
    for t in range(q, p, -1):
        swapped *= running
        running += drawn[row, unsigned(t - 1)]
    as_shown, mine, other = left[1, unsigned(q)], drawn[row, unsigned(p)], drawn[row, unsigned(q)]
    both = mine + other
    return float(mine * other * as_shown / (both * both * (as_shown + swapped)))


@inner
def _spread_coefficients(
    scores: Floats,
    documents: int,
    shown: Ints,
    clicks: Bools,
    row: int,
    observed: int,
    candidates: bool,
    out: Floats,
) -> None:
    """The coefficients of one list from its scores, however far apart they are."""
    f, scales, whole, without = _prepare(scores[row, :documents], shown[row], candidates)
    for p in range(observed):
        for q in range(p + 1, observed):
            if clicks[row, p] != clicks[row, q]:
                weight = _pair_weight(f, scales, whole, without, p, q)
                out[row, p] += weight if clicks[row, p] else -weight
                out[row, q] += weight if clicks[row, q] else -weight


@inlined
def _close_coefficients(
    drawn: Floats, left: Floats, row: int, sides: Ints, clicked: int, unclicked: int, out: Floats
) -> None:
    """The coefficients of one list from the weights that it was drawn with.

    `sides` (2, k + 1) lists the unclicked and the clicked ranks.
    """
    for i in range(clicked):
        winner = sides[1, i]
        for j in range(unclicked):
            loser = sides[0, j]
            weight = _close_pair_weight(drawn, left, row, min(winner, loser), max(winner, loser))
            out[row, unsigned(winner)] += weight
            out[row, unsigned(loser)] -= weight


@inlined
def _fill_close(
    drawn: Floats,
    tails: Floats,
    rows: int,
    shown: Ints,
    clicks: Bools,
    candidates: bool,
    only_observed: bool,
    left: Floats,
    sides: Ints,
    out: Floats,
    pairs: Ints,
) -> bool:
    """Fill in coefficients of each shown document's gradient, and the number of pairs, of some lists.

    `drawn` (rows, k) holds the weights of the shown documents, `tails` (rows,) the sums of the others.
    `left` and `sides`, of which the first (2, k + 1) numbers are used, are scratch memory. Lists whose
    weights are too far apart get their number of pairs with a minus sign and no coefficients. True if there
    is no such list.
    """
    every = True
    for row in range(rows):
        observed = _observed(shown, clicks, row, only_observed)
        clicked, unclicked = 0, 0
        for i in range(observed):
            # Both are written and one is counted: a branch on a click, which is random, would often be
            # guessed wrong.
            sides[1, unsigned(clicked)] = i
            sides[0, unsigned(unclicked)] = i
            clicked += clicks[row, i]
            unclicked += not clicks[row, i]
        for i in range(out.shape[1]):
            out[row, i] = 0.0
        pairs[row] = clicked * unclicked
        if pairs[row] > 0:
            if _fill_left(drawn, tails[row] if candidates else 0.0, shown, row, left):
                _close_coefficients(drawn, left, row, sides, clicked, unclicked, out)
            else:
                pairs[row] = -pairs[row]
                every = False
    return every


@inlined
def _fill_spread(
    scores: Floats,
    sizes: Ints,
    rows: int,
    shown: Ints,
    clicks: Bools,
    candidates: bool,
    only_observed: bool,
    terms: Floats,
    scratch: Floats,
    sides: Ints,
    out: Floats,
    pairs: Ints,
) -> None:
    """The coefficients of lists whose number of pairs is negative; it becomes positive. `terms` are lost."""
    for row in range(rows):
        if pairs[row] < 0:
            documents, observed = sizes[row], _observed(shown, clicks, row, only_observed)
            if not one_scale_coefficients(
                scores, documents, shown, clicks, row, observed, candidates, terms, scratch, sides, out
            ):
                _spread_coefficients(scores, documents, shown, clicks, row, observed, candidates, out)
            pairs[row] = -pairs[row]


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

    The first rows of `shown` (rows, k) were drawn from the pool, whose weights may be lost.
    """
    scores, weights, sizes, drawn, tails = pool.scores, pool.weights, pool.sizes, pool.drawn, pool.tails
    scratch, sides = pool.scratch, pool.sides
    if not _fill_close(
        drawn, tails, rows, shown, clicks, candidates, only_observed, scratch, sides, out, pairs
    ):
        _fill_spread(
            scores, sizes, rows, shown, clicks, candidates, only_observed, weights, scratch, sides, out, pairs
        )


@inlined
def _same_list(scores: Floats, starts: Ints, shown: Ints, c: int) -> bool:
    """Whether a list and its candidates' scores are those of the row before, as where only clicks differ."""
    first, before = starts[c], starts[c - 1]
    same = starts[c + 1] - first == first - before
    for i in range(shown.shape[1]):
        same &= shown[c, i] == shown[c - 1, i]
    if same:
        for i in range(first - before):
            same &= scores[first + i] == scores[before + i]
    return bool(same)


@inlined
def _fill_table(drawn: Floats, left: Floats, length: int, table: Floats) -> None:
    """Fill in the weights of all pairs of positions p < q of the first list of a pool, (k, k)."""
    for p in range(length):
        for q in range(p + 1, length):
            table[p, q] = _close_pair_weight(drawn, left, 0, p, q)


@inlined
def _coefficients_of_table(
    table: Floats, shown: Ints, clicks: Bools, row: int, only_observed: bool, out: Floats
) -> int:
    """Fill in the coefficients out[row] of a list whose pair weights are known; returns its number of pairs.

    Sums are in the order of `_close_coefficients`.
    """
    observed, clicked = _observed(shown, clicks, row, only_observed), 0
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
    pool, left, table = new_pool(one, longest, k), np.empty((2, k + 1)), np.empty((k, k))
    known = False  # whether the table is that of the list
    for c in range(C):
        mine, clicked = shown[c : c + 1], clicks[c : c + 1]
        if c > 0 and _same_list(scores, starts, shown, c):
            if not known:
                known = _fill_left(pool.drawn, pool.tails[0] if candidates else 0.0, mine, 0, left)
                _fill_table(pool.drawn, left, _observed(mine, clicked, 0, False), table)
        else:
            put_scores(pool, scores[starts[c] : starts[c + 1]])
            weigh_shown(pool, one, mine)
            known = False
        if known:
            pairs[c] = _coefficients_of_table(table, shown, clicks, c, only_observed, coefficients)
        else:
            out, found = coefficients[c : c + 1], pairs[c : c + 1]
            fill_coefficients(pool, one, mine, clicked, candidates, only_observed, out, found)
    return coefficients, pairs
