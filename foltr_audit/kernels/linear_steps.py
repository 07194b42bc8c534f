"""A gradient step of a linear ranker: features are summed and the model is moved, with no gradient in memory.

Each sum stays in a register until all of its terms are added, in the order of the documents. The bits are
those of `plain_move_model` on every processor, whatever the width of its registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .blocks import BLOCK, VECTOR, VectorAccess, compiled_or_plain, is_array, repeated, slot
from .jit import Floats, Ints
from .ranking import Features

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

    Typing = tuple[Signature, Callable[..., ir.Value]]

_INDEX, _DOUBLE = ir.IntType(64), ir.DoubleType()

MoveModel = Callable[[Features, Ints, Floats, int, float, Floats, Floats, int], None]


def plain_move_model(
    features: Features,
    documents: Ints,
    amounts: Floats,
    count: int,
    rate: float,
    models: Floats,
    steps: Floats,
    row: int,
) -> None:
    """The same in Python, for when nothing is compiled."""
    gradient = np.zeros(models.shape[1])
    for i in range(count):
        gradient += amounts[i] * features[documents[i]].astype(np.float64)
    # The rounded difference instead of the gradient: by this the model really moves.
    stepped = models[row] + rate * gradient
    steps[row] += stepped - models[row]
    models[row] = stepped


class _Step:
    """The instructions of a step, for some parameters at a time."""

    def __init__(
        self, context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> None:
        self.builder, self.access = builder, VectorAccess(context, builder, signature, args)
        self.count, self.rate, self.row = args[3], args[4], args[7]
        self.narrow = signature.args[0].dtype == types.float32

    def numbers(self, place: int, row: ir.Value, column: ir.Value, lanes: int) -> ir.Value:
        """Numbers of a row as float64."""
        narrow = place == 0 and self.narrow
        kind, wanted = ir.FloatType() if narrow else _DOUBLE, _DOUBLE
        if lanes > 1:
            kind, wanted = ir.VectorType(kind, lanes), ir.VectorType(wanted, lanes)
        found = self.access.load(place, row, column, kind, 4 if narrow else 8)
        return self.builder.fpext(found, wanted) if narrow else found

    def repeated(self, number: ir.Value, lanes: int) -> ir.Value:
        return number if lanes == 1 else repeated(self.builder, number, VECTOR)

    def moved(self, column: ir.Value, lanes: int) -> tuple[ir.Value, ir.Value]:
        """The model and the step after it, of `lanes` parameters from a column on."""
        builder, kind = self.builder, ir.VectorType(_DOUBLE, lanes) if lanes > 1 else _DOUBLE
        total = slot(builder, ir.Constant(kind, [0.0] * lanes if lanes > 1 else 0.0))
        begin, step = ir.Constant(_INDEX, 0), ir.Constant(_INDEX, 1)
        with cgutils.for_range_slice(builder, begin, self.count, step, inc=True) as (i, _):
            document = self.access.load(1, None, i, _INDEX)
            amount = self.repeated(self.access.load(2, None, i, _DOUBLE), lanes)
            product = builder.fmul(amount, self.numbers(0, document, column, lanes))
            builder.store(builder.fadd(builder.load(total), product), total)
        before, steps = (self.numbers(place, self.row, column, lanes) for place in (5, 6))
        after = builder.fadd(before, builder.fmul(self.repeated(self.rate, lanes), builder.load(total)))
        return after, builder.fadd(steps, builder.fsub(after, before))

    def store(self, column: ir.Value, found: tuple[ir.Value, ir.Value]) -> None:
        for place, numbers in zip((5, 6), found, strict=True):
            self.access.store(numbers, place, self.row, column)

    def move(self, begin: ir.Value, end: ir.Value, lanes: int) -> None:
        """Move the parameters begin .. end - 1, `lanes` of them at once."""
        step = ir.Constant(_INDEX, lanes)
        with cgutils.for_range_slice(self.builder, begin, end, step, inc=True) as (first, _):
            self.store(first, self.moved(first, lanes))


def _emit(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    step = _Step(context, builder, signature, args)
    size, none = step.access.size(5, 1), ir.Constant(_INDEX, 0)
    whole = builder.and_(size, ir.Constant(_INDEX, -BLOCK))
    few = builder.icmp_signed("<", size, ir.Constant(_INDEX, BLOCK))
    with builder.if_else(few) as (small, large):
        with small:
            step.move(none, size, 1)
        with large:
            # The last eight parameters overlap with those before, and are computed before these move.
            last = builder.sub(size, ir.Constant(_INDEX, BLOCK))
            rest = step.moved(last, BLOCK)
            step.move(none, whole, BLOCK)
            step.store(last, rest)
    return context.get_dummy_value()  # type: ignore[no-untyped-call]


def _typed(
    _typing: object,
    features: types.Type,
    documents: types.Type,
    amounts: types.Type,
    count: types.Type,
    rate: types.Type,
    models: types.Type,
    steps: types.Type,
    row: types.Type,
) -> Typing | None:  # numba reads how many arguments there are from the signature
    known = is_array(features, 2, types.float32) or is_array(features, 2)
    known &= is_array(documents, 1, types.int64) and is_array(amounts, 1)
    if not (known and is_array(models, 2) and is_array(steps, 2)):
        return None
    one = types.int64
    return types.void(features, documents, amounts, one, types.float64, models, steps, one), _emit


move_model: MoveModel = compiled_or_plain(_typed, plain_move_model)
"""Move models[row] by `rate` times the sum of amounts[i] features[documents[i]] over the first `count` of i.

steps[row] grows by what the model has moved.
"""
