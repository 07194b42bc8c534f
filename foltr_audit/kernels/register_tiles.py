"""Products of small matrices added to sums that stay in registers, in one fixed order.

A loop in Python that adds to `sums[u, i]` writes every sum back to memory after each term, because the
compiler cannot rule out that another array is stored there. Here four rows of eight sums are LLVM vectors:
each sum is read once, gets its terms one after the other, and is written once. The bits are those of
`plain_add_products` on every processor, whatever the width of its registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .jit import Floats, kernel

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

    Typing = tuple[Signature, Callable[..., ir.Value]]

COLUMNS = 8
"""Sums of a row in one tile: two registers of AVX2, or one of AVX-512."""
_ROWS = 4  # rows that share each number that is read: additions of four rows overlap
_INDEX, _DOUBLE = ir.IntType(64), ir.DoubleType()

Strides = tuple[int, int, int]
Stride = tuple[int, int]
AddProducts = Callable[[Floats, Strides, Floats, Stride, Floats, Stride, int], None]


def plain_add_products(rows: int, columns: int) -> AddProducts:
    """The same sums in Python, for when nothing is compiled."""

    def add(
        weights: Floats,
        weight: Strides,
        inputs: Floats,
        input_: Stride,
        sums: Floats,
        sum_: Stride,
        terms: int,
    ) -> None:
        w, x, out = weights.reshape(-1), inputs.reshape(-1), sums.reshape(-1)
        for j in range(terms):
            first = input_[0] + j * input_[1]
            for u in range(rows):
                place = sum_[0] + u * sum_[1]
                number = w[weight[0] + u * weight[1] + j * weight[2]]
                out[place : place + columns] += number * x[first : first + columns]

    return add


def _emitter(rows: int, columns: int) -> Callable[..., ir.Value]:
    kind = ir.VectorType(_DOUBLE, columns)
    none, places = ir.Constant(kind, ir.Undefined), ir.VectorType(ir.IntType(32), columns)

    def emit(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        weights, inputs, sums = (
            context.make_array(signature.args[i])(context, builder, args[i]).data  # type: ignore[no-untyped-call]
            for i in (0, 2, 4)
        )
        weight, row_stride, term_stride = (builder.extract_value(args[1], i) for i in range(3))
        (input_, input_stride), (sum_, sum_stride) = (
            (builder.extract_value(args[i], 0), builder.extract_value(args[i], 1)) for i in (3, 5)
        )

        def row(first: ir.Value, stride: ir.Value, number: int) -> ir.Value:
            return builder.add(first, builder.mul(stride, ir.Constant(_INDEX, number)))

        def vector_at(data: ir.Value, index: ir.Value) -> ir.Value:
            return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())

        def repeated(index: ir.Value) -> ir.Value:
            number = builder.load(builder.gep(weights, [index]))
            one = builder.insert_element(none, number, ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(one, none, ir.Constant(places, [0] * columns))

        outs = [vector_at(sums, row(sum_, sum_stride, u)) for u in range(rows)]
        # NumPy aligns single numbers, not vectors. LLVM turns the slots into registers.
        slots = [
            cgutils.alloca_once_value(builder, builder.load(out, align=8))  # type: ignore[no-untyped-call]
            for out in outs
        ]
        firsts = [row(weight, row_stride, u) for u in range(rows)]
        begin, step = ir.Constant(_INDEX, 0), ir.Constant(_INDEX, 1)
        with cgutils.for_range_slice(builder, begin, args[6], step, inc=True) as (j, _):
            x = builder.load(vector_at(inputs, builder.add(input_, builder.mul(j, input_stride))), align=8)
            along = builder.mul(j, term_stride)
            for first, slot in zip(firsts, slots, strict=True):
                product = builder.fmul(repeated(builder.add(first, along)), x)
                builder.store(builder.fadd(builder.load(slot), product), slot)
        for out, slot in zip(outs, slots, strict=True):
            builder.store(builder.load(slot), out, align=8)
        return context.get_dummy_value()  # type: ignore[no-untyped-call]

    return emit


def _is_matrix(kind: object) -> bool:
    return isinstance(kind, types.Array) and kind.layout == "C" and kind.dtype == types.float64


def _compiled(rows: int, columns: int) -> AddProducts:
    if getattr(numba.config, "DISABLE_JIT", False):
        return plain_add_products(rows, columns)
    three, two = (types.UniTuple(types.int64, n) for n in (3, 2))  # type: ignore[no-untyped-call]

    def typed(
        _typing: object,
        weights: types.Type,
        weight: types.Type,
        inputs: types.Type,
        input_: types.Type,
        sums: types.Type,
        sum_: types.Type,
        terms: types.Type,
    ) -> Typing | None:  # numba reads how many arguments there are from the signature
        if not all(map(_is_matrix, (weights, inputs, sums))):
            return None
        return types.void(weights, three, inputs, two, sums, two, types.int64), _emitter(rows, columns)

    return cast(AddProducts, intrinsic(typed))


_four_by_eight, _four_by_one = _compiled(_ROWS, COLUMNS), _compiled(_ROWS, 1)
_one_by_eight, _one_by_one = _compiled(1, COLUMNS), _compiled(1, 1)


@kernel
def add_products(
    weights: Floats,
    weight: Strides,
    inputs: Floats,
    input_: Stride,
    sums: Floats,
    sum_: Stride,
    terms: int,
    rows: int,
    columns: int,
) -> None:
    """Add `sum_j w[u, j] x[j, i]` over some terms, in their order, to `s[u, i]` of some rows and columns.

    All three matrices lie in contiguous arrays, whose numbers are counted from their beginning:

    Args:
        weights: array that holds w.
        weight: (number of w[0, 0], steps to the next row, steps to the next term).
        inputs: array that holds x, column by column next to each other.
        input_: (number of x[0, 0], steps to the next term).
        sums: array that holds s, column by column next to each other.
        sum_: (number of s[0, 0], steps to the next row).
        terms: number of terms.
        rows: number of rows of s.
        columns: number of columns of s.
    """
    (first, row, term), (x, input_stride), (s, sum_stride) = weight, input_, sum_
    fours, eights = rows // _ROWS * _ROWS, columns // COLUMNS * COLUMNS
    for u in range(0, fours, _ROWS):
        w, out = (first + u * row, row, term), s + u * sum_stride
        for i in range(0, eights, COLUMNS):
            _four_by_eight(weights, w, inputs, (x + i, input_stride), sums, (out + i, sum_stride), terms)
        for i in range(eights, columns):
            _four_by_one(weights, w, inputs, (x + i, input_stride), sums, (out + i, sum_stride), terms)
    for u in range(fours, rows):
        w, out = (first + u * row, row, term), s + u * sum_stride
        for i in range(0, eights, COLUMNS):
            _one_by_eight(weights, w, inputs, (x + i, input_stride), sums, (out + i, sum_stride), terms)
        for i in range(eights, columns):
            _one_by_one(weights, w, inputs, (x + i, input_stride), sums, (out + i, sum_stride), terms)
