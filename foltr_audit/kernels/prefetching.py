"""Hints to the processor that numbers will be needed soon: they change no result.

Clients of a group read and write rows that lie anywhere in arrays larger than the second-level cache. A row
that is asked for before the group needs it arrives while the processor works on other things.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numpy.typing import NDArray

from .blocks import compiled_or_plain

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

    Typing = tuple[Signature, Callable[..., ir.Value]]

Prefetch = Callable[[NDArray[np.generic], int], None]

_KIND, _BYTES = ir.IntType(32), ir.IntType(8).as_pointer()


def plain_prefetch(array: NDArray[np.generic], index: int) -> None:
    """Nothing, for when nothing is compiled."""


def _emit(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    array = context.make_array(signature.args[0])(context, builder, args[0])  # type: ignore[no-untyped-call]
    place = builder.bitcast(builder.gep(array.data, [args[1]]), _BYTES)
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, _KIND, _KIND, _KIND])
    hint = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
        builder.module, kind, "llvm.prefetch.p0"
    )
    reading, kept, data = (ir.Constant(_KIND, value) for value in (0, 3, 1))
    builder.call(hint, [place, reading, kept, data])
    return context.get_dummy_value()  # type: ignore[no-untyped-call]


def _typed(_typing: object, array: types.Type, index: types.Type) -> Typing | None:
    if not (isinstance(array, types.Array) and array.layout == "C"):
        return None
    return types.void(array, types.int64), _emit


prefetch: Prefetch = compiled_or_plain(_typed, plain_prefetch)
"""Ask for the line of the cache with one number of an array, which is counted as if it had one dimension."""
