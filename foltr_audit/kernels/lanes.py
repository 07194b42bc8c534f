"""Sums over the coordinates of a vector in one fixed order, written in vector instructions.

Term j goes to lane j mod 8, as long as there are eight terms more; the lanes are halved by adding the
upper to the lower ones; four more terms go to the four lanes that are then left, and the last three at
most are added one after the other. The compiler may not change this order, nor fuse a product with a sum,
so the bits are those of `_plain` on every processor, whatever the width of its registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

_LANES, _HALF = 8, 4
_INDEX, _DOUBLE = ir.IntType(64), ir.DoubleType()
_UNSIGNED = 2**63 - 1  # every bit of a float64 but its sign

Vector = NDArray[np.float64] | NDArray[np.float32]
Term = Callable[..., Any]
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


def _loaded(builder: Any, array: Any, kind: Any, index: Any, lanes: int) -> Any:
    """`lanes` numbers of an array from an index on, as float64; one number where that is 1."""
    place = builder.gep(array.data, [index])
    narrow = isinstance(kind, ir.FloatType)
    if lanes == 1:
        number = builder.load(place)
        return builder.fpext(number, _DOUBLE) if narrow else number
    place = builder.bitcast(place, ir.VectorType(kind, lanes).as_pointer())
    numbers = builder.load(place, align=4 if narrow else 8)
    return builder.fpext(numbers, ir.VectorType(_DOUBLE, lanes)) if narrow else numbers


def _halved(builder: Any, vector: Any, lanes: int) -> Any:
    """The lower half of the lanes plus the upper one."""
    parts = [
        builder.shuffle_vector(
            vector, vector, ir.Constant(ir.VectorType(ir.IntType(32), lanes // 2), list(range(first, last)))
        )
        for first, last in ((0, lanes // 2), (lanes // 2, lanes))
    ]
    return builder.fadd(*parts)


def _slot(builder: Any, value: Any) -> Any:
    """A place for a value that changes."""
    return cgutils.alloca_once_value(builder, value)  # type: ignore[no-untyped-call]


def _emitted(term: Term, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """The instructions of a sum of `term(builder, *numbers)`."""
    arrays = [
        context.make_array(kind)(context, builder, arg)
        for kind, arg in zip(signature.args, args, strict=True)
    ]
    kinds = [context.get_data_type(kind.dtype) for kind in signature.args]
    size = builder.extract_value(arrays[-1].shape, 0)

    def terms(index: Any, lanes: int) -> Any:
        pairs = zip(arrays, kinds, strict=True)
        return term(builder, *(_loaded(builder, array, kind, index, lanes) for array, kind in pairs))

    def add(total: Any, index: Any, lanes: int) -> None:
        builder.store(builder.fadd(builder.load(total), terms(index, lanes)), total)

    def number(value: int) -> Any:
        return ir.Constant(_INDEX, value)

    zeros = ir.Constant(ir.VectorType(_DOUBLE, _LANES), [0.0] * _LANES)
    eight = _slot(builder, zeros)
    full = builder.and_(size, number(-_LANES))
    with cgutils.for_range_slice(builder, number(0), full, number(_LANES), inc=True) as (index, _):
        add(eight, index, _LANES)
    four = _slot(builder, _halved(builder, builder.load(eight), _LANES))
    most = builder.and_(size, number(-_HALF))
    with builder.if_then(builder.icmp_signed("<", full, most)):
        add(four, full, _HALF)
    two = _halved(builder, builder.load(four), _HALF)
    ends = [builder.extract_element(two, ir.Constant(ir.IntType(32), lane)) for lane in range(2)]
    total = _slot(builder, builder.fadd(*ends))
    with cgutils.for_range_slice(builder, most, size, number(1), inc=True) as (index, _):
        add(total, index, 1)
    return builder.load(total)


def _is_vector(kind: Any) -> bool:
    flat = isinstance(kind, types.Array) and kind.ndim == 1 and kind.layout == "C"
    return flat and kind.dtype in (types.float32, types.float64)


def _size(builder: Any, number: Any) -> Any:
    many = isinstance(number.type, ir.VectorType)
    words = ir.VectorType(_INDEX, number.type.count) if many else _INDEX
    unsigned = [_UNSIGNED] * number.type.count if many else _UNSIGNED
    bits = builder.and_(builder.bitcast(number, words), ir.Constant(words, unsigned))
    return builder.bitcast(bits, number.type)


def _square(builder: Any, number: Any) -> Any:
    return builder.fmul(number, number)


@intrinsic
def _products(typing: Any, a: Any, b: Any) -> Any:
    def generate(*where: Any) -> Any:
        return _emitted(lambda builder, x, y: builder.fmul(x, y), *where)

    return (types.float64(a, b), generate) if _is_vector(a) and _is_vector(b) else None


@intrinsic
def _sizes(typing: Any, a: Any) -> Any:
    def generate(*where: Any) -> Any:
        return _emitted(_size, *where)

    return (types.float64(a), generate) if _is_vector(a) else None


@intrinsic
def _differences(typing: Any, a: Any, b: Any) -> Any:
    def generate(*where: Any) -> Any:
        return _emitted(lambda builder, x, y: _size(builder, builder.fsub(x, y)), *where)

    return (types.float64(a, b), generate) if _is_vector(a) and _is_vector(b) else None


@intrinsic
def _squared_differences(typing: Any, a: Any, b: Any) -> Any:
    def generate(*where: Any) -> Any:
        return _emitted(lambda builder, x, y: _square(builder, builder.fsub(x, y)), *where)

    return (types.float64(a, b), generate) if _is_vector(a) and _is_vector(b) else None


plain_product_sum = _plain(np.multiply)
plain_size_sum = _plain(np.abs)
plain_difference_sum = _plain(lambda a, b: np.abs(a - b))
plain_squared_difference_sum = _plain(lambda a, b: (a - b) ** 2)


def _either(compiled: Any, plain: Sum) -> Sum:
    """The instructions, or the same sum in Python where numba compiles nothing."""
    return plain if getattr(numba.config, "DISABLE_JIT", False) else cast(Sum, compiled)


product_sum = _either(_products, plain_product_sum)
"""`sum_j a_j b_j` of two vectors."""
size_sum = _either(_sizes, plain_size_sum)
"""`sum_j |a_j|` of a vector."""
difference_sum = _either(_differences, plain_difference_sum)
"""`sum_j |a_j - b_j|` of two vectors."""
squared_difference_sum = _either(_squared_differences, plain_squared_difference_sum)
"""`sum_j (a_j - b_j)^2` of two vectors."""
