"""Pair weights of PDGD, and the gradient coefficients of a list's clicks, in a form that never gives NaN.

Source: Oosterhuis & de Rijke 2018, "Differentiable unbiased online learning to rank", section 4.
The reweighting rho is computed from products of Plackett-Luce denominators, sums of positive terms.
Where the weights of a list are close enough together, those that the list was sampled with are reused, for
eight lists at once. Otherwise every denominator is scaled so that no term that matters underflows; a product
that overflows means rho = 0, which is its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from foltr_audit.kernels.elementary import exp
from foltr_audit.kernels.jit import Bools, Floats, Ints, inlined, inner, kernel, uncounted, unsigned
from foltr_audit.kernels.plackett_luce import SamplingBuffers, new_pool, put_scores, weigh_shown
from foltr_audit.kernels.sums import BLOCK, VECTOR, VectorAccess, compiled_or_plain, is_array, repeated, slot

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

    Typing = tuple[Signature, Callable[..., ir.Value]]

# --- eight lists at once ---------------------------------------------------------------------------
# One list after the other takes three times as long: how many pairs it has, and how far their documents stand
# apart, is random, so that the processor often guesses the ends of loops wrong. The bits are those of
# `plain_fill_pairs`.

_CLOSE = 1e-25  # products of nine denominators and two weights above it are normal numbers
_INDEX, _BIT, _PLACE = ir.IntType(64), ir.IntType(1), ir.IntType(32)
_WHOLE, _BITS, _BYTES = (ir.VectorType(kind, BLOCK) for kind in (_INDEX, _BIT, ir.IntType(8)))

FillPairs = Callable[[Floats, Floats, Bools, int, bool, bool, Floats, Floats, Ints], None]


@inlined
def fill_left(drawn: Floats, tail: float, column: int, left: Floats) -> bool:
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
def close_pair_weight(drawn: Floats, left: Floats, column: int, p: int, q: int) -> float:
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


def plain_fill_pairs(
    drawn: Floats,
    tails: Floats,
    clicks: Bools,
    first: int,
    candidates: bool,
    only_observed: bool,
    left: Floats,
    out: Floats,
    pairs: Ints,
) -> None:
    """The same in Python, for when nothing is compiled."""
    k, denominators = drawn.shape[0], np.empty((2, drawn.shape[0] + 1))
    for column in range(first, first + BLOCK):
        close = fill_left(drawn, tails[column] if candidates else 0.0, column, denominators)
        out[:, column], pairs[column] = 0.0, 0
        clicked = clicks[:, column].nonzero()[0]
        last = clicked[-1] + 1 if clicked.size else -1
        for q in range(1, min(k, last + 1) if only_observed else k):
            for p in range(q):
                if clicks[p, column] != clicks[q, column] and drawn[q, column] != 0.0:
                    pairs[column] += 1
                    if close:
                        weight = close_pair_weight(drawn, denominators, column, p, q)
                        out[p, column] += weight if clicks[p, column] else -weight
                        out[q, column] += weight if clicks[q, column] else -weight
        if not close:
            pairs[column] = -pairs[column]


class _Lists:
    """The instructions for eight lists: the arguments of `fill_pairs`, and what is read of them."""

    def __init__(
        self, context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> None:
        self.builder = builder
        self.access = VectorAccess(context, builder, signature, args)
        self.first, self.candidates, self.only_observed = args[3:6]
        self.ranks = self.access.size(0, 0)

    def number(self, value: int) -> ir.Constant:
        return ir.Constant(_INDEX, value)

    def drawn(self, rank: ir.Value) -> ir.Value:
        return self.access.load(0, rank, self.first)

    def left(self, rank: ir.Value) -> ir.Value:
        return self.access.load(6, rank, self.number(0))

    def product(self, rank: ir.Value) -> ir.Value:
        row = self.builder.add(rank, self.builder.add(self.ranks, self.number(1)))
        return self.access.load(6, row, self.number(0))

    def clicked(self, rank: ir.Value) -> ir.Value:
        return self.builder.icmp_signed(
            "!=", self.access.load(2, rank, self.first, _BYTES, 1), ir.Constant(_BYTES, [0] * BLOCK)
        )

    def fill_left(self) -> ir.Value:
        """`fill_left`, and zeros as coefficients; which lists are close."""
        builder, zeros = self.builder, ir.Constant(VECTOR, [0.0] * BLOCK)
        tails = self.access.load(1, None, self.first)
        running = slot(builder, builder.select(self.candidates, tails, zeros))
        close = slot(builder, ir.Constant(_BITS, [1] * BLOCK))
        self.access.store(builder.load(running), 6, self.ranks, self.number(0))
        with self.counting(self.ranks) as i:
            rank = builder.sub(builder.sub(self.ranks, self.number(1)), i)
            weight = self.drawn(rank)
            builder.store(builder.fadd(builder.load(running), weight), running)
            self.access.store(builder.load(running), 6, rank, self.number(0))
            near = builder.fcmp_ordered(">", weight, ir.Constant(VECTOR, [_CLOSE] * BLOCK))
            near = builder.or_(near, builder.fcmp_ordered("==", weight, zeros))
            builder.store(builder.and_(builder.load(close), near), close)
        product = slot(builder, ir.Constant(VECTOR, [1.0] * BLOCK))
        with self.counting(self.ranks) as rank:
            row = builder.add(rank, builder.add(self.ranks, self.number(1)))
            self.access.store(builder.load(product), 6, row, self.number(0))
            self.access.store(zeros, 7, rank, self.first)
            after = builder.fmul(builder.load(product), self.left(builder.add(rank, self.number(1))))
            builder.store(after, product)
        return builder.load(close)

    @contextmanager
    def counting(self, end: ir.Value, begin: int = 0) -> Iterator[ir.Value]:
        """A loop over the numbers begin .. end - 1."""
        step = self.number(1)
        with cgutils.for_range_slice(self.builder, self.number(begin), end, step, inc=True) as (i, _):
            yield i

    def last_observed(self) -> ir.Value:
        """The last rank that takes part in pairs, if there is one."""
        builder = self.builder
        last = slot(builder, ir.Constant(_WHOLE, [-1] * BLOCK))
        with self.counting(self.ranks) as rank:
            below = builder.add(repeated(builder, rank, _WHOLE), ir.Constant(_WHOLE, [1] * BLOCK))
            builder.store(builder.select(self.clicked(rank), below, builder.load(last)), last)
        return builder.select(self.only_observed, builder.load(last), repeated(builder, self.ranks, _WHOLE))

    def weight(self, p: ir.Value, q: ir.Value, mine: ir.Value, other: ir.Value) -> ir.Value:
        """`close_pair_weight`."""
        builder = self.builder
        swapped = slot(builder, self.product(p))
        running = slot(builder, builder.fadd(self.left(builder.add(q, self.number(1))), mine))
        with self.counting(builder.sub(q, p)) as i:
            builder.store(builder.fmul(builder.load(swapped), builder.load(running)), swapped)
            above = self.drawn(builder.sub(builder.sub(q, i), self.number(1)))
            builder.store(builder.fadd(builder.load(running), above), running)
        both, shown = builder.fadd(mine, other), self.product(q)
        total = builder.fmul(builder.fmul(both, both), builder.fadd(shown, builder.load(swapped)))
        return builder.fdiv(builder.fmul(builder.fmul(mine, other), shown), total)

    def add_pairs(self, last: ir.Value) -> ir.Value:
        """Add the weights of all pairs to `out`; the number of pairs."""
        builder, zeros = self.builder, ir.Constant(VECTOR, [0.0] * BLOCK)
        count = slot(builder, ir.Constant(_WHOLE, [0] * BLOCK))
        end = builder.add(_largest(builder, last), self.number(1))
        end = builder.select(builder.icmp_signed("<", end, self.ranks), end, self.ranks)
        with self.counting(end, 1) as q:
            other, clicked = self.drawn(q), self.clicked(q)
            there = builder.icmp_signed("<=", repeated(builder, q, _WHOLE), last)
            there = builder.and_(there, builder.fcmp_unordered("!=", other, zeros))
            own = slot(builder, zeros)
            with self.counting(q) as p:
                mine, above = self.drawn(p), self.clicked(p)
                weight = self.weight(p, q, mine, other)
                pair = builder.and_(builder.xor(above, clicked), there)
                amount = builder.select(above, weight, builder.fneg(weight))
                amount = builder.select(pair, amount, zeros)
                before = self.access.load(7, p, self.first)
                self.access.store(builder.fadd(before, amount), 7, p, self.first)
                builder.store(builder.fsub(builder.load(own), amount), own)
                builder.store(builder.add(builder.load(count), builder.zext(pair, _WHOLE)), count)
            self.access.store(builder.load(own), 7, q, self.first)
        return builder.load(count)


def _largest(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """The largest of eight whole numbers."""
    numbers = [builder.extract_element(vector, ir.Constant(_PLACE, lane)) for lane in range(BLOCK)]
    while len(numbers) > 1:
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        numbers = [builder.select(builder.icmp_signed(">", a, b), a, b) for a, b in pairs]
    return numbers[0]


def _emit_pairs(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    lists = _Lists(context, builder, signature, args)
    nothing = ir.Constant(_WHOLE, [0] * BLOCK)
    close = lists.fill_left()
    count = lists.add_pairs(lists.last_observed())
    count = builder.select(close, count, builder.sub(nothing, count))
    lists.access.store(count, 8, None, lists.first)
    return context.get_dummy_value()  # type: ignore[no-untyped-call]


def _typed(
    _typing: object,
    drawn: types.Type,
    tails: types.Type,
    clicks: types.Type,
    first: types.Type,
    candidates: types.Type,
    only_observed: types.Type,
    left: types.Type,
    out: types.Type,
    pairs: types.Type,
) -> Typing | None:  # numba reads how many arguments there are from the signature
    floats = all(is_array(kind, 2) for kind in (drawn, left, out)) and is_array(tails, 1)
    if not (floats and is_array(clicks, 2, types.boolean) and is_array(pairs, 1, types.int64)):
        return None
    yes = types.boolean
    return types.void(drawn, tails, clicks, types.int64, yes, yes, left, out, pairs), _emit_pairs


fill_pairs: FillPairs = compiled_or_plain(_typed, plain_fill_pairs)
"""Fill in coefficients out[:, c] (k, columns) and the numbers of pairs of the lists c = first .. first + 7.

`drawn` (k, columns) holds the weights of the shown documents, 0 at the padding, `tails` (columns,) the sums
of all others, `clicks` is (k, columns), `left` (2 k + 2, 8) scratch memory. Lists whose weights are too far
apart get their number of pairs with a minus sign, and coefficients that mean nothing.
"""


# --- pair weights, and coefficients of a list ------------------------------------------------------

_SAFE_SPREAD = 600.0  # exp(-600) and its products with other terms are normal numbers


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
    if top - low < _SAFE_SPREAD:
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
    marks, drawn, tails, left = pool.clicks, pool.drawn, pool.tails, pool.left
    coefficients, counts = pool.coefficients, pool.pairs
    for row in range(rows):
        for i in range(clicks.shape[1]):
            marks[i, row] = clicks[row, i]
    for first in range(0, rows, BLOCK):
        fill_pairs(drawn, tails, marks, first, candidates, only_observed, left, coefficients, counts)
    for row in range(rows):
        pairs[row] = abs(counts[row])
        for i in range(out.shape[1]):
            out[row, i] = coefficients[i, row] if counts[row] >= 0 else 0.0
        if counts[row] < 0:
            documents, observed = pool.sizes[row], _observed(shown, clicks, row, only_observed)
            _spread_coefficients(pool.scores, documents, shown, clicks, row, observed, candidates, out)


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
            table[p, q] = close_pair_weight(drawn, left, 0, p, q)


@inlined
def _coefficients_of_table(
    table: Floats, shown: Ints, clicks: Bools, row: int, only_observed: bool, out: Floats
) -> int:
    """Fill in the coefficients out[row] of a list whose pair weights are known; returns its number of pairs.

    Sums are in the order of `fill_pairs`.
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
                known = fill_left(pool.drawn, pool.tails[0] if candidates else 0.0, 0, left)
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
