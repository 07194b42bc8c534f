"""Sums of vectors and products of matrices in one fixed order, written in vector instructions.

A loop in Python compiles to scalar instructions here: without fast-math the compiler keeps the order of a
sum, and it writes every sum of a matrix back to memory after each term, since another array may be stored
there. These are plain LLVM vectors, so the bits are those of the plain forms below on every processor,
whatever the width of its registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from foltr_audit.kernels.jit import Floats, kernel

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

    Typing = tuple[Signature, Callable[..., ir.Value]]

F = TypeVar("F", bound=Callable[..., object])

_INDEX, _DOUBLE, _PLACE = ir.IntType(64), ir.DoubleType(), ir.IntType(32)


def _compiled_or_plain(typed: Callable[..., Typing | None], plain: F) -> F:
    """The instructions of `typed`, whose signature numba reads; where numba is off, the `plain` function."""
    if getattr(numba.config, "DISABLE_JIT", False):
        return plain
    return cast(F, intrinsic(prefer_literal=True)(typed))


def _is_vector(kind: object) -> bool:
    if not isinstance(kind, types.Array):
        return False
    return kind.ndim == 1 and kind.layout == "C" and kind.dtype in (types.float32, types.float64)


def _is_double_matrix(kind: object) -> bool:
    return isinstance(kind, types.Array) and kind.layout == "C" and kind.dtype == types.float64


class _Emitter:
    """Instructions on neighbouring numbers of the arrays among the arguments, named by their place."""

    def __init__(
        self, context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> None:
        self.builder = builder
        self._narrow = [
            isinstance(kind, types.Array) and kind.dtype == types.float32 for kind in signature.args
        ]
        self._arrays = {
            place: context.make_array(kind)(context, builder, value)  # type: ignore[no-untyped-call]
            for place, (kind, value) in enumerate(zip(signature.args, args, strict=True))
            if isinstance(kind, types.Array)
        }

    def size(self, place: int) -> ir.Value:
        """The length of a vector."""
        return self.builder.extract_value(self._arrays[place].shape, 0)

    def at(self, place: int, index: ir.Value, lanes: int) -> ir.Value:
        """Where `lanes` numbers of an array from an index on are; one number where that is 1."""
        first = self.builder.gep(self._arrays[place].data, [index])
        kind = first.type.pointee if lanes == 1 else ir.VectorType(first.type.pointee, lanes)
        return self.builder.bitcast(first, kind.as_pointer())

    def load(self, place: int, index: ir.Value, lanes: int) -> ir.Value:
        """These numbers, as float64."""
        # NumPy aligns single numbers, not vectors: a row of a matrix may begin anywhere.
        numbers = self.builder.load(self.at(place, index, lanes), align=4 if self._narrow[place] else 8)
        wide = _DOUBLE if lanes == 1 else ir.VectorType(_DOUBLE, lanes)
        return self.builder.fpext(numbers, wide) if self._narrow[place] else numbers

    def slot(self, value: ir.Value) -> ir.Value:
        """A stack slot for a value that changes; LLVM turns it into a register."""
        return cgutils.alloca_once_value(self.builder, value)  # type: ignore[no-untyped-call]

    def add(self, slot: ir.Value, term: ir.Value) -> None:
        self.builder.store(self.builder.fadd(self.builder.load(slot), term), slot)

    def halved(self, vector: ir.Value, lanes: int) -> ir.Value:
        """The lower half of the lanes plus the upper one."""
        kind, half = ir.VectorType(_PLACE, lanes // 2), lanes // 2
        low, high = (ir.Constant(kind, list(range(first, first + half))) for first in (0, half))
        return self.builder.fadd(*(self.builder.shuffle_vector(vector, vector, one) for one in (low, high)))


# --- sums over coordinates -------------------------------------------------------------------------
# Term j goes to lane j mod 8 as long as eight more terms are left. The upper lanes are then added to the
# lower ones, four more terms go to the four remaining lanes, and the last three at most are added one by one.
# Without lanes a whole round takes a quarter longer.

_LANES, _HALF = 8, 4  # two registers of AVX2, whose additions overlap, or one of AVX-512
_UNSIGNED = 2**63 - 1  # every bit of a float64 but its sign

Vector = NDArray[np.float64] | NDArray[np.float32]


def _plain_sum(terms: Floats) -> float:
    """The same sum in Python, for when nothing is compiled."""
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


def plain_product_sum(a: Vector, b: Vector) -> float:
    return _plain_sum(a.astype(np.float64) * b)


def plain_size_sum(a: Vector) -> float:
    return _plain_sum(np.abs(a.astype(np.float64)))


def _size(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    """The absolute value, by clearing the sign bit: llvmlite's builder has no `fabs`."""
    many = isinstance(number.type, ir.VectorType)
    words = ir.VectorType(_INDEX, number.type.count) if many else _INDEX
    unsigned = [_UNSIGNED] * number.type.count if many else _UNSIGNED
    bits = builder.and_(builder.bitcast(number, words), ir.Constant(words, unsigned))
    return builder.bitcast(bits, number.type)


def _emit_sum(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    """The sum of the products of two vectors, or of the sizes of one."""
    emitter = _Emitter(context, builder, signature, args)

    def term(index: ir.Value, lanes: int) -> ir.Value:
        numbers = [emitter.load(place, index, lanes) for place in range(len(args))]
        return builder.fmul(*numbers) if len(numbers) == 2 else _size(builder, *numbers)

    def number(value: int) -> ir.Constant:
        return ir.Constant(_INDEX, value)

    size = emitter.size(len(args) - 1)
    full, most = builder.and_(size, number(-_LANES)), builder.and_(size, number(-_HALF))
    eight = emitter.slot(ir.Constant(ir.VectorType(_DOUBLE, _LANES), [0.0] * _LANES))
    with cgutils.for_range_slice(builder, number(0), full, number(_LANES), inc=True) as (index, _):
        emitter.add(eight, term(index, _LANES))
    four = emitter.slot(emitter.halved(builder.load(eight), _LANES))
    with builder.if_then(builder.icmp_signed("<", full, most)):
        emitter.add(four, term(full, _HALF))
    two = emitter.halved(builder.load(four), _HALF)
    ends = [builder.extract_element(two, ir.Constant(_PLACE, lane)) for lane in range(2)]
    total = emitter.slot(builder.fadd(*ends))
    with cgutils.for_range_slice(builder, most, size, number(1), inc=True) as (index, _):
        emitter.add(total, term(index, 1))
    return builder.load(total)


def _product_typed(_typing: object, a: types.Type, b: types.Type) -> Typing | None:
    return (types.float64(a, b), _emit_sum) if _is_vector(a) and _is_vector(b) else None


def _size_typed(_typing: object, a: types.Type) -> Typing | None:
    return (types.float64(a), _emit_sum) if _is_vector(a) else None


product_sum = _compiled_or_plain(_product_typed, plain_product_sum)
"""`sum_j a_j b_j` of two vectors."""
size_sum = _compiled_or_plain(_size_typed, plain_size_sum)
"""`sum_j |a_j|` of a vector."""

# --- products of small matrices --------------------------------------------------------------------
# Four rows of eight sums are LLVM vectors: each sum is read once, gets its terms one after the other, and is
# written once. With plain loops rounds of a neural ranker take more than three times as long.

COLUMNS = 8
"""Sums of a row in one tile: two registers of AVX2, or one of AVX-512."""
_ROWS = 4  # rows that share each number that is read: additions of four rows overlap
# Of AVX-512 registers there are enough for four rows of twice as many sums, which reads each weight half as
# often: two thirds of the time. With AVX2 it would be twice the time.
_WIDE = 2 * COLUMNS
_HAS_WIDE = bool(binding.get_host_cpu_features().get("avx512f"))

Strides = tuple[int, int, int]
Stride = tuple[int, int]


def plain_add_tile(
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
    """The same sums in Python, for when nothing is compiled."""
    w, x, out = weights.reshape(-1), inputs.reshape(-1), sums.reshape(-1)
    for j in range(terms):
        first = input_[0] + j * input_[1]
        for u in range(rows):
            place = sum_[0] + u * sum_[1]
            number = w[weight[0] + u * weight[1] + j * weight[2]]
            out[place : place + columns] += number * x[first : first + columns]


def _emit_tile(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    emitter = _Emitter(context, builder, signature, args)
    rows, columns = (kind.literal_value for kind in signature.args[7:])
    (weight, row_step, term_step), (input_, input_step), (sum_, sum_step) = (
        [builder.extract_value(args[place], i) for i in range(len(signature.args[place]))]
        for place in (1, 3, 5)
    )
    kind, places = ir.VectorType(_DOUBLE, columns), ir.VectorType(_PLACE, columns)
    none, zero = ir.Constant(kind, ir.Undefined), ir.Constant(_INDEX, 0)

    def along(first: ir.Value, number: ir.Value, step: ir.Value) -> ir.Value:
        return builder.add(first, builder.mul(number, step))

    def repeated(number: ir.Value) -> ir.Value:
        if columns == 1:
            return number
        one = builder.insert_element(none, number, ir.Constant(_PLACE, 0))
        return builder.shuffle_vector(one, none, ir.Constant(places, [0] * columns))

    every = [ir.Constant(_INDEX, u) for u in range(rows)]
    outs = [along(sum_, u, sum_step) for u in every]
    slots = [emitter.slot(emitter.load(4, out, columns)) for out in outs]
    with cgutils.for_range_slice(builder, zero, args[6], ir.Constant(_INDEX, 1), inc=True) as (j, _):
        x = emitter.load(2, along(input_, j, input_step), columns)
        for u, slot in zip(every, slots, strict=True):
            w = emitter.load(0, along(along(weight, u, row_step), j, term_step), 1)
            emitter.add(slot, builder.fmul(repeated(w), x))
    for out, slot in zip(outs, slots, strict=True):
        builder.store(builder.load(slot), emitter.at(4, out, columns), align=8)
    return context.get_dummy_value()  # type: ignore[no-untyped-call]


def _tile_typed(
    _typing: object,
    weights: types.Type,
    weight: types.Type,
    inputs: types.Type,
    input_: types.Type,
    sums: types.Type,
    sum_: types.Type,
    terms: types.Type,
    rows: types.Type,
    columns: types.Type,
) -> Typing | None:  # numba reads how many arguments there are from the signature
    if not all(map(_is_double_matrix, (weights, inputs, sums))):
        return None
    three, two = (types.UniTuple(types.int64, n) for n in (3, 2))  # type: ignore[no-untyped-call]
    return types.void(weights, three, inputs, two, sums, two, types.int64, rows, columns), _emit_tile


_add_tile = _compiled_or_plain(_tile_typed, plain_add_tile)
"""`add_products` of as many rows and columns as literals say."""


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
    (first, row, term), (x, input_step), (s, sum_step) = weight, input_, sum_
    fours, eights = rows // _ROWS * _ROWS, columns // COLUMNS * COLUMNS
    wides = columns // _WIDE * _WIDE if _HAS_WIDE else 0
    for u in range(0, fours, _ROWS):
        w, out = (first + u * row, row, term), s + u * sum_step
        for i in range(0, wides, _WIDE):
            _add_tile(weights, w, inputs, (x + i, input_step), sums, (out + i, sum_step), terms, _ROWS, _WIDE)
        for i in range(wides, eights, COLUMNS):
            _add_tile(
                weights, w, inputs, (x + i, input_step), sums, (out + i, sum_step), terms, _ROWS, COLUMNS
            )
        for i in range(eights, columns):
            _add_tile(weights, w, inputs, (x + i, input_step), sums, (out + i, sum_step), terms, _ROWS, 1)
    for u in range(fours, rows):
        w, out = (first + u * row, row, term), s + u * sum_step
        for i in range(0, eights, COLUMNS):
            _add_tile(weights, w, inputs, (x + i, input_step), sums, (out + i, sum_step), terms, 1, COLUMNS)
        for i in range(eights, columns):
            _add_tile(weights, w, inputs, (x + i, input_step), sums, (out + i, sum_step), terms, 1, 1)
