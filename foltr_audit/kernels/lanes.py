"""Sums over the coordinates of a vector in one fixed order, written in vector instructions.

A loop in Python that adds one term after the other compiles to scalar instructions: without fast-math the
compiler keeps the order of a sum. These sums have an order that vector instructions can follow.
Term j goes to lane j mod 8 as long as eight more terms are left. The upper lanes are then added to the lower
ones, four more terms go to the four remaining lanes, and the last three at most are added one by one. Lanes
are plain LLVM vectors, so the bits are those of `_plain` on every processor, whatever the width of its
registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from .blocks import slot

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

    class ArrayFields(Protocol):
        """What is read of the struct that an array is in compiled code."""

        data: ir.Value
        shape: ir.Value

    Typing = tuple[Signature, Callable[..., ir.Value]]

_LANES, _HALF = 8, 4  # two registers of AVX2, whose additions overlap, or one of AVX-512
_INDEX, _DOUBLE = ir.IntType(64), ir.DoubleType()
_UNSIGNED = 2**63 - 1  # every bit of a float64 but its sign

Vector = NDArray[np.float64] | NDArray[np.float32]
Matrix = Vector
FourNumbers = tuple[float, float, float, float]
Term = Callable[..., object]
Sum = Callable[..., float]
RowProducts = Callable[[Matrix, int, Vector], FourNumbers]


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


def _square(builder: ir.IRBuilder, number: ir.Value) -> ir.Value:
    return builder.fmul(number, number)


def _compiled(term: Term, *, vectors: int, plain: Sum) -> Sum:
    """The sum of `term(builder, *numbers)` over one vector or two; where numba is off, the `plain` one."""
    if getattr(numba.config, "DISABLE_JIT", False):
        return plain

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

    return cast(Sum, intrinsic(of_one if vectors == 1 else of_two))


plain_product_sum = _plain(np.multiply)
plain_size_sum = _plain(np.abs)
plain_difference_sum = _plain(lambda a, b: np.abs(a - b))
plain_squared_difference_sum = _plain(lambda a, b: (a - b) ** 2)

product_sum = _compiled(lambda builder, x, y: builder.fmul(x, y), vectors=2, plain=plain_product_sum)
"""`sum_j a_j b_j` of two vectors."""
size_sum = _compiled(_size, vectors=1, plain=plain_size_sum)
"""`sum_j |a_j|` of a vector."""
difference_sum = _compiled(
    lambda builder, x, y: _size(builder, builder.fsub(x, y)), vectors=2, plain=plain_difference_sum
)
"""`sum_j |a_j - b_j|` of two vectors."""
squared_difference_sum = _compiled(
    lambda builder, x, y: _square(builder, builder.fsub(x, y)), vectors=2, plain=plain_squared_difference_sum
)
"""`sum_j (a_j - b_j)^2` of two vectors."""


# --- the products of several rows with one vector -------------------------------------------------------

ROWS = 4
"""Rows whose products are summed side by side: additions overlap, and a number of the vector is read once."""


def plain_row_products(matrix: Matrix, first: int, vector: Vector) -> FourNumbers:
    """The same in Python, for when nothing is compiled."""
    a, b, c, d = (plain_product_sum(matrix[first + row], vector) for row in range(ROWS))
    return a, b, c, d


def _shuffled(builder: ir.IRBuilder, one: ir.Value, other: ir.Value, places: Sequence[int]) -> ir.Value:
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
    return builder.shuffle_vector(one, other, mask)


def _totals(builder: ir.IRBuilder, fours: Sequence[ir.Value]) -> ir.Value:
    """The sums of four vectors of four lanes, each as `_emitted` adds its lanes."""
    twos = []
    for one, other in (fours[:2], fours[2:]):
        low = _shuffled(builder, one, other, (0, 1, 4, 5))
        twos.append(builder.fadd(low, _shuffled(builder, one, other, (2, 3, 6, 7))))
    even, odd = (_shuffled(builder, twos[0], twos[1], places) for places in ((0, 2, 4, 6), (1, 3, 5, 7)))
    return builder.fadd(even, odd)


def _emit_row_products(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    matrix, vector = (
        context.make_array(signature.args[i])(context, builder, args[i])  # type: ignore[no-untyped-call]
        for i in (0, 2)
    )
    kind, own = (context.get_data_type(signature.args[i].dtype) for i in (0, 2))  # type: ignore[no-untyped-call]
    size = builder.extract_value(vector.shape, 0)
    begins = [builder.mul(builder.add(args[1], ir.Constant(_INDEX, row)), size) for row in range(ROWS)]

    def numbers(begin: ir.Value, index: ir.Value, lanes: int) -> ir.Value:
        return _loaded(builder, matrix, kind, builder.add(begin, index), lanes)

    def add(totals: Sequence[ir.Value], index: ir.Value, lanes: int) -> None:
        shared = _loaded(builder, vector, own, index, lanes)
        for total, begin in zip(totals, begins, strict=True):
            product = builder.fmul(numbers(begin, index, lanes), shared)
            builder.store(builder.fadd(builder.load(total), product), total)

    zeros = ir.Constant(ir.VectorType(_DOUBLE, _LANES), [0.0] * _LANES)
    eights = [slot(builder, zeros) for _ in range(ROWS)]
    full, most = (builder.and_(size, ir.Constant(_INDEX, -lanes)) for lanes in (_LANES, _HALF))
    begin, step = ir.Constant(_INDEX, 0), ir.Constant(_INDEX, _LANES)
    with cgutils.for_range_slice(builder, begin, full, step, inc=True) as (index, _):
        add(eights, index, _LANES)
    fours = [slot(builder, _halved(builder, builder.load(eight), _LANES)) for eight in eights]
    with builder.if_then(builder.icmp_signed("<", full, most)):
        add(fours, full, _HALF)
    total = slot(builder, _totals(builder, [builder.load(four) for four in fours]))
    places = [ir.Constant(ir.IntType(32), row) for row in range(ROWS)]

    def in_lanes(values: Sequence[ir.Value]) -> ir.Value:
        found = ir.Constant(ir.VectorType(_DOUBLE, ROWS), ir.Undefined)
        for value, place in zip(values, places, strict=True):
            found = builder.insert_element(found, value, place)
        return found

    with cgutils.for_range_slice(builder, most, size, ir.Constant(_INDEX, 1), inc=True) as (index, _):
        rest = in_lanes([numbers(begin, index, 1) for begin in begins])
        shared = in_lanes([_loaded(builder, vector, own, index, 1)] * ROWS)
        builder.store(builder.fadd(builder.load(total), builder.fmul(rest, shared)), total)
    found = builder.load(total)
    values = [builder.extract_element(found, place) for place in places]
    return context.make_tuple(builder, signature.return_type, values)  # type: ignore[no-untyped-call]


def _is_matrix(kind: object) -> bool:
    if not isinstance(kind, types.Array):
        return False
    return kind.ndim == 2 and kind.layout == "C" and kind.dtype in (types.float32, types.float64)


def _row_products() -> RowProducts:
    if getattr(numba.config, "DISABLE_JIT", False):
        return plain_row_products

    def typed(
        _typing: object, matrix: types.Type, first: types.Type, vector: types.Type
    ) -> Typing | None:  # numba reads how many arguments there are from the signature
        if not (_is_matrix(matrix) and _is_vector(vector)):
            return None
        found = types.UniTuple(types.float64, ROWS)  # type: ignore[no-untyped-call]
        return found(matrix, types.int64, vector), _emit_row_products

    return cast(RowProducts, intrinsic(typed))


row_products = _row_products()
"""`product_sum` of the rows first .. first + 3 of a matrix and a vector as long as a row."""
