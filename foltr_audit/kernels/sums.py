"""Sums of vectors and products of matrices in one fixed order, written in vector instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from foltr_audit.kernels.jit import Floats, Ints, kernel

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

    Typing = tuple[Signature, Callable[..., ir.Value]]

    class ArrayFields(Protocol):
        """What is read of the struct that an array is in compiled code."""

        data: ir.Value
        shape: ir.Value

# --- blocks of eight numbers -----------------------------------------------------------------------
# Written out number by number each takes three to five times as many instructions. A block is summed in
# pairs, `((a + b) + (c + d)) + ((e + f) + (g + h))`, on every processor.

F = TypeVar("F", bound=Callable[..., object])

BLOCK = 8
"""Numbers of a block."""

_INDEX, _DOUBLE, _PLACE = ir.IntType(64), ir.DoubleType(), ir.IntType(32)
VECTOR, _WHOLE = ir.VectorType(_DOUBLE, BLOCK), ir.VectorType(_INDEX, BLOCK)


class VectorAccess:
    """Reads and writes eight numbers at once of arrays, named by their place among the arguments."""

    def __init__(
        self, context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> None:
        """Unpack the arrays among the arguments."""
        self._builder = builder
        self._arrays = {
            place: context.make_array(kind)(context, builder, value)  # type: ignore[no-untyped-call]
            for place, (kind, value) in enumerate(zip(signature.args, args, strict=True))
            if isinstance(kind, types.Array)
        }

    def size(self, place: int, axis: int) -> ir.Value:
        """The length of an array."""
        return self._builder.extract_value(self._arrays[place].shape, axis)

    def _at(self, place: int, row: ir.Value | None, column: ir.Value, kind: ir.Type) -> ir.Value:
        index = column
        if row is not None:
            index = self._builder.add(self._builder.mul(row, self.size(place, 1)), column)
        first = self._builder.gep(self._arrays[place].data, [index])
        return self._builder.bitcast(first, kind.as_pointer())

    def load(
        self, place: int, row: ir.Value | None, column: ir.Value, kind: ir.Type = VECTOR, align: int = 8
    ) -> ir.Value:
        """Numbers from a column of a row on; of a vector without a row."""
        # NumPy aligns single numbers, not vectors.
        return self._builder.load(self._at(place, row, column, kind), align=align)

    def store(self, numbers: ir.Value, place: int, row: ir.Value | None, column: ir.Value) -> None:
        """Write numbers from a column of a row on."""
        self._builder.store(numbers, self._at(place, row, column, numbers.type), align=8)


def plain_block_sum(values: Floats, row: int, first: int) -> float:
    """The same sum in Python, for when nothing is compiled."""
    a, b, c, d, e, f, g, h = values[row, first : first + BLOCK].tolist()
    return float(((a + b) + (c + d)) + ((e + f) + (g + h)))


def plain_sum_without(values: Floats, row: int, first: int, place: int) -> float:
    """The same in Python, for when nothing is compiled."""
    values[row, first + place] = 0.0
    return plain_block_sum(values, row, first)


def plain_find_blocks(
    sums: Floats,
    first: int,
    blocks: int,
    lasts: Ints,
    u: Floats,
    rank: int,
    column: int,
    tails: Floats,
    found: Ints,
    targets: Floats,
) -> None:
    """The same in Python, for when nothing is compiled."""
    for row in range(first, first + BLOCK):
        target, running, block = u[rank, column + row] * tails[row], 0.0, 0
        before = running
        while block < lasts[row] and running + sums[block, row] <= target:
            running += sums[block, row]
            before, block = running, block + 1
        found[row], targets[row] = block, target - before


def plain_add_blocks(sums: Floats, first: int, blocks: int, lasts: Ints, tails: Floats) -> None:
    """The same in Python, for when nothing is compiled."""
    for row in range(first, first + BLOCK):
        total = 0.0
        for block in range(lasts[row] + 1):
            total += sums[block, row]
        tails[row] = total


def _summed(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    """Neighbours are added until one number is left."""
    lanes = BLOCK
    while lanes > 1:
        even, odd = (
            builder.shuffle_vector(
                vector, vector, ir.Constant(ir.VectorType(_PLACE, lanes // 2), list(range(first, lanes, 2)))
            )
            for first in (0, 1)
        )
        vector, lanes = builder.fadd(even, odd), lanes // 2
    return builder.extract_element(vector, ir.Constant(_PLACE, 0))


def repeated(builder: ir.IRBuilder, number: ir.Value, kind: ir.Type) -> ir.Value:
    """A number in every lane of a vector."""
    none, places = ir.Constant(kind, ir.Undefined), ir.VectorType(_PLACE, BLOCK)
    one = builder.insert_element(none, number, ir.Constant(_PLACE, 0))
    return builder.shuffle_vector(one, none, ir.Constant(places, [0] * BLOCK))


def _emit_sum(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    return _summed(builder, VectorAccess(context, builder, signature, args).load(0, args[1], args[2]))


def _emit_sum_without(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    access = VectorAccess(context, builder, signature, args)
    # A mask: to insert a number at a place that is known late, the vector would go through memory.
    here = builder.icmp_signed(
        "==", repeated(builder, args[3], _WHOLE), ir.Constant(_WHOLE, list(range(BLOCK)))
    )
    rest = builder.select(here, ir.Constant(VECTOR, [0.0] * BLOCK), access.load(0, args[1], args[2]))
    access.store(rest, 0, args[1], args[2])
    return _summed(builder, rest)


def _emit_find(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    access = VectorAccess(context, builder, signature, args)
    _, first, blocks, _, _, rank, column, _, _, _ = args
    drawn = access.load(4, rank, builder.add(column, first))
    target = builder.fmul(drawn, access.load(7, None, first))
    last = access.load(3, None, first, _WHOLE)
    zeros, none = ir.Constant(VECTOR, [0.0] * BLOCK), ir.Constant(_WHOLE, [0] * BLOCK)
    running, before, block = (slot(builder, value) for value in (zeros, zeros, none))
    begin, step = ir.Constant(_INDEX, 0), ir.Constant(_INDEX, 1)
    with cgutils.for_range_slice(builder, begin, blocks, step, inc=True) as (number, _):
        total = builder.fadd(builder.load(running), access.load(0, number, first))
        builder.store(total, running)
        # The last block is not tested: where rounding moved the target past the end, it is taken.
        tested = builder.icmp_signed("<", repeated(builder, number, _WHOLE), last)
        passed = builder.and_(builder.fcmp_ordered("<=", total, target), tested)
        builder.store(builder.add(builder.load(block), builder.zext(passed, _WHOLE)), block)
        builder.store(builder.select(passed, total, builder.load(before)), before)
    access.store(builder.load(block), 8, None, first)
    access.store(builder.fsub(target, builder.load(before)), 9, None, first)
    return context.get_dummy_value()  # type: ignore[no-untyped-call]


def _emit_add(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    access, first, blocks = VectorAccess(context, builder, signature, args), args[1], args[2]
    total, last = slot(builder, ir.Constant(VECTOR, [0.0] * BLOCK)), access.load(3, None, first, _WHOLE)
    begin, step = ir.Constant(_INDEX, 0), ir.Constant(_INDEX, 1)
    with cgutils.for_range_slice(builder, begin, blocks, step, inc=True) as (number, _):
        before = builder.load(total)
        after = builder.fadd(before, access.load(0, number, first))
        there = builder.icmp_signed("<=", repeated(builder, number, _WHOLE), last)
        builder.store(builder.select(there, after, before), total)
    access.store(builder.load(total), 4, None, first)
    return context.get_dummy_value()  # type: ignore[no-untyped-call]


def slot(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A stack slot for a value that changes; LLVM turns it into a register."""
    return cgutils.alloca_once_value(builder, value)  # type: ignore[no-untyped-call]


def is_array(kind: object, dimensions: int, dtype: types.Type = types.float64) -> bool:
    """Whether arguments of a type are C-ordered arrays of numbers like these."""
    if not isinstance(kind, types.Array):
        return False
    return kind.ndim == dimensions and kind.layout == "C" and kind.dtype == dtype


def _sum_typed(_typing: object, values: types.Type, row: types.Type, first: types.Type) -> Typing | None:
    if not is_array(values, 2):
        return None
    return types.float64(values, types.int64, types.int64), _emit_sum


def _without_typed(
    _typing: object, values: types.Type, row: types.Type, first: types.Type, place: types.Type
) -> Typing | None:
    if not is_array(values, 2):
        return None
    return types.float64(values, types.int64, types.int64, types.int64), _emit_sum_without


def _find_typed(
    _typing: object,
    sums: types.Type,
    first: types.Type,
    blocks: types.Type,
    lasts: types.Type,
    u: types.Type,
    rank: types.Type,
    column: types.Type,
    tails: types.Type,
    found: types.Type,
    targets: types.Type,
) -> Typing | None:
    floats = is_array(sums, 2) and is_array(u, 2) and is_array(tails, 1) and is_array(targets, 1)
    if not (floats and is_array(lasts, 1, types.int64) and is_array(found, 1, types.int64)):
        return None
    one = types.int64
    return types.void(sums, one, one, lasts, u, one, one, tails, found, targets), _emit_find


def _add_typed(
    _typing: object,
    sums: types.Type,
    first: types.Type,
    blocks: types.Type,
    lasts: types.Type,
    tails: types.Type,
) -> Typing | None:
    if not (is_array(sums, 2) and is_array(lasts, 1, types.int64) and is_array(tails, 1)):
        return None
    return types.void(sums, types.int64, types.int64, lasts, tails), _emit_add


def compiled_or_plain(typed: Callable[..., Typing | None], plain: F) -> F:
    """The instructions of `typed`, whose signature numba reads; where numba is off, the `plain` function."""
    return plain if getattr(numba.config, "DISABLE_JIT", False) else cast(F, intrinsic(typed))


block_sum = compiled_or_plain(_sum_typed, plain_block_sum)
"""The sum of values[row, first : first + 8]."""

sum_without = compiled_or_plain(_without_typed, plain_sum_without)
"""Set values[row, first + place] to 0; the sum of its block values[row, first : first + 8] then."""

find_blocks = compiled_or_plain(_find_typed, plain_find_blocks)
"""Find the blocks that contain `u[rank, column + r] tails[r]` for the rows r = first .. first + 7.

found[r] is the first block up to which the sums of sums[:, r] exceed that number, but lasts[r] at most;
targets[r] is what the blocks before leave of it. `blocks` is above all of `lasts`.
"""

add_blocks = compiled_or_plain(_add_typed, plain_add_blocks)
"""Fill in tails[r] of the rows r = first .. first + 7 with the sum over sums[: lasts[r] + 1, r].

`blocks` is above all of `lasts`.
"""


# --- sums over coordinates -------------------------------------------------------------------------
# A loop in Python that adds one term after the other compiles to scalar instructions: without fast-math the
# compiler keeps the order of a sum. These sums have an order that vector instructions can follow. Term j goes
# to lane j mod 8 as long as eight more terms are left. The upper lanes are then added to the lower ones, four
# more terms go to the four remaining lanes, and the last three at most are added one by one. Lanes are plain
# LLVM vectors, so the bits are those of `_plain` on every processor, whatever the width of its registers.

_LANES, _HALF = 8, 4  # two registers of AVX2, whose additions overlap, or one of AVX-512
_UNSIGNED = 2**63 - 1  # every bit of a float64 but its sign

Vector = NDArray[np.float64] | NDArray[np.float32]
Term = Callable[..., object]
Sum = Callable[..., float]


def _plain(term: Term) -> Sum:
    """The same sum in Python, for when nothing is compiled."""

    def total(*vectors: Vector) -> float:
        terms = np.asarray(term(*(vector.astype(np.float64) for vector in vectors)))
        full = terms.size - terms.size % _LANES
        lanes = np.zeros(_LANES)
        for first in range(0, full, _LANES):
            lanes += terms[first : first + _LANES]
        four = lanes[:_HALF] + lanes[_HALF:]
        if terms.size - full >= _HALF:
            four += terms[full : full + _HALF]
            full += _HALF
        two = four[:2] + four[2:]
        found = float(two[0] + two[1])
        for rest in terms[full:].tolist():
            found += rest
        return found

    return total


def _loaded(
    builder: ir.IRBuilder, array: ArrayFields, kind: ir.Type, index: ir.Value, lanes: int
) -> ir.Value:
    """`lanes` numbers of an array from an index on, as float64; one number where that is 1."""
    place = builder.gep(array.data, [index])
    narrow = isinstance(kind, ir.FloatType)
    if lanes == 1:
        number = builder.load(place)
        return builder.fpext(number, _DOUBLE) if narrow else number
    place = builder.bitcast(place, ir.VectorType(kind, lanes).as_pointer())
    # NumPy aligns single numbers, not vectors: a row of a matrix may begin anywhere.
    numbers = builder.load(place, align=4 if narrow else 8)
    return builder.fpext(numbers, ir.VectorType(_DOUBLE, lanes)) if narrow else numbers


def _halved(builder: ir.IRBuilder, vector: ir.Value, lanes: int) -> ir.Value:
    """The lower half of the lanes plus the upper one."""
    parts = [
        builder.shuffle_vector(
            vector, vector, ir.Constant(ir.VectorType(ir.IntType(32), lanes // 2), list(range(first, last)))
        )
        for first, last in ((0, lanes // 2), (lanes // 2, lanes))
    ]
    return builder.fadd(*parts)


def _emitted(
    term: Term, context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    """Emit the instructions of a sum of `term(builder, *numbers)`."""
    arrays = [
        context.make_array(kind)(context, builder, arg)  # type: ignore[no-untyped-call]
        for kind, arg in zip(signature.args, args, strict=True)
    ]
    kinds = [
        context.get_data_type(kind.dtype)  # type: ignore[no-untyped-call]
        for kind in signature.args
    ]
    size = builder.extract_value(arrays[-1].shape, 0)

    def terms(index: ir.Value, lanes: int) -> ir.Value:
        pairs = zip(arrays, kinds, strict=True)
        return term(builder, *(_loaded(builder, array, kind, index, lanes) for array, kind in pairs))

    def add(total: ir.Value, index: ir.Value, lanes: int) -> None:
        builder.store(builder.fadd(builder.load(total), terms(index, lanes)), total)

    def number(value: int) -> ir.Constant:
        return ir.Constant(_INDEX, value)

    zeros = ir.Constant(ir.VectorType(_DOUBLE, _LANES), [0.0] * _LANES)
    eight = slot(builder, zeros)
    full = builder.and_(size, number(-_LANES))
    with cgutils.for_range_slice(builder, number(0), full, number(_LANES), inc=True) as (index, _):
        add(eight, index, _LANES)
    four = slot(builder, _halved(builder, builder.load(eight), _LANES))
    most = builder.and_(size, number(-_HALF))
    with builder.if_then(builder.icmp_signed("<", full, most)):
        add(four, full, _HALF)
    two = _halved(builder, builder.load(four), _HALF)
    ends = [builder.extract_element(two, ir.Constant(ir.IntType(32), lane)) for lane in range(2)]
    total = slot(builder, builder.fadd(*ends))
    with cgutils.for_range_slice(builder, most, size, number(1), inc=True) as (index, _):
        add(total, index, 1)
    return builder.load(total)


def _is_vector(kind: object) -> bool:
    if not isinstance(kind, types.Array):
        return False
    return kind.ndim == 1 and kind.layout == "C" and kind.dtype in (types.float32, types.float64)


def _size(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """The absolute value, by clearing the sign bit: llvmlite's builder has no `fabs`."""
    many = isinstance(number.type, ir.VectorType)
    words = ir.VectorType(_INDEX, number.type.count) if many else _INDEX
    unsigned = [_UNSIGNED] * number.type.count if many else _UNSIGNED
    bits = builder.and_(builder.bitcast(number, words), ir.Constant(words, unsigned))
    return builder.bitcast(bits, number.type)


def _compiled(term: Term, *, vectors: int, plain: Sum) -> Sum:
    """The sum of `term(builder, *numbers)` over one vector or two; where numba is off, the `plain` one."""

    def emit(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        return _emitted(term, context, builder, signature, args)

    def typed(*kinds: types.Type) -> Typing | None:
        return (types.float64(*kinds), emit) if all(map(_is_vector, kinds)) else None

    def of_one(
        _typing: object, a: types.Type
    ) -> Typing | None:  # numba reads how many arguments there are from the signature
        return typed(a)

    def of_two(_typing: object, a: types.Type, b: types.Type) -> Typing | None:
        return typed(a, b)

    return compiled_or_plain(of_one if vectors == 1 else of_two, plain)


plain_product_sum = _plain(np.multiply)
plain_size_sum = _plain(np.abs)

product_sum = _compiled(lambda builder, x, y: builder.fmul(x, y), vectors=2, plain=plain_product_sum)
"""`sum_j a_j b_j` of two vectors."""
size_sum = _compiled(_size, vectors=1, plain=plain_size_sum)
"""`sum_j |a_j|` of a vector."""

# --- products of small matrices --------------------------------------------------------------------
# A loop in Python that adds to `sums[u, i]` writes every sum back to memory after each term, because the
# compiler cannot rule out that another array is stored there. Here four rows of eight sums are LLVM vectors:
# each sum is read once, gets its terms one after the other, and is written once. The bits are those of
# `plain_add_products` on every processor, whatever the width of its registers.

COLUMNS = 8
"""Sums of a row in one tile: two registers of AVX2, or one of AVX-512."""
_ROWS = 4  # rows that share each number that is read: additions of four rows overlap

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


def _is_double_matrix(kind: object) -> bool:
    return isinstance(kind, types.Array) and kind.layout == "C" and kind.dtype == types.float64


def _compiled_products(rows: int, columns: int) -> AddProducts:
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
        if not all(map(_is_double_matrix, (weights, inputs, sums))):
            return None
        return types.void(weights, three, inputs, two, sums, two, types.int64), _emitter(rows, columns)

    return compiled_or_plain(typed, plain_add_products(rows, columns))


_four_by_eight, _four_by_one = _compiled_products(_ROWS, COLUMNS), _compiled_products(_ROWS, 1)
_one_by_eight, _one_by_one = _compiled_products(1, COLUMNS), _compiled_products(1, 1)


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
