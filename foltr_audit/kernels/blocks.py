"""Blocks of eight numbers of a row of a matrix as one vector: their sum, and how many are not above a number.

Written out number by number each takes three to five times as many instructions. A block is summed in pairs,
`((a + b) + (c + d)) + ((e + f) + (g + h))`, on every processor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .jit import Floats, Ints

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

    Typing = tuple[Signature, Callable[..., ir.Value]]

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


def _block_at(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    """Where the block of the first three arguments begins."""
    array = context.make_array(signature.args[0])(context, builder, args[0])  # type: ignore[no-untyped-call]
    width = builder.extract_value(array.shape, 1)
    index = builder.add(builder.mul(args[1], width), args[2])
    return builder.bitcast(builder.gep(array.data, [index]), VECTOR.as_pointer())


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
    # NumPy aligns single numbers, not vectors.
    return _summed(builder, builder.load(_block_at(context, builder, signature, args), align=8))


def _emit_sum_without(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    at = _block_at(context, builder, signature, args)
    # A mask: to insert a number at a place that is known late, the vector would go through memory.
    lanes = ir.VectorType(_INDEX, BLOCK)
    here = builder.icmp_signed(
        "==", repeated(builder, args[3], lanes), ir.Constant(lanes, list(range(BLOCK)))
    )
    rest = builder.select(here, ir.Constant(VECTOR, [0.0] * BLOCK), builder.load(at, align=8))
    builder.store(rest, at, align=8)
    return _summed(builder, rest)


def _emit_find(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    sums, first, blocks, lasts, u, rank, column, tails, found, targets = args

    def arrays(place: int, value: ir.Value) -> ir.Value:
        return context.make_array(signature.args[place])(context, builder, value)  # type: ignore[no-untyped-call]

    def at(place: int, value: ir.Value, index: ir.Value, kind: ir.Type = VECTOR) -> ir.Value:
        return builder.bitcast(builder.gep(arrays(place, value).data, [index]), kind.as_pointer())

    width = builder.extract_value(arrays(4, u).shape, 1)
    drawn = builder.add(builder.mul(rank, width), builder.add(column, first))
    target = builder.fmul(builder.load(at(4, u, drawn), align=8), builder.load(at(7, tails, first), align=8))
    last = builder.load(at(3, lasts, first, _WHOLE), align=8)
    zeros, none = ir.Constant(VECTOR, [0.0] * BLOCK), ir.Constant(_WHOLE, [0] * BLOCK)
    running, before, block = (slot(builder, value) for value in (zeros, zeros, none))
    stride = builder.extract_value(arrays(0, sums).shape, 1)
    begin, step = ir.Constant(_INDEX, 0), ir.Constant(_INDEX, 1)
    with cgutils.for_range_slice(builder, begin, blocks, step, inc=True) as (number, _):
        place = builder.add(builder.mul(number, stride), first)
        total = builder.fadd(builder.load(running), builder.load(at(0, sums, place), align=8))
        builder.store(total, running)
        # The last block is not tested: where rounding moved the target past the end, it is taken.
        tested = builder.icmp_signed("<", repeated(builder, number, _WHOLE), last)
        passed = builder.and_(builder.fcmp_ordered("<=", total, target), tested)
        builder.store(builder.add(builder.load(block), builder.zext(passed, _WHOLE)), block)
        builder.store(builder.select(passed, total, builder.load(before)), before)
    builder.store(builder.load(block), at(8, found, first, _WHOLE), align=8)
    builder.store(builder.fsub(target, builder.load(before)), at(9, targets, first), align=8)
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
