"""Standard normal numbers of counter-based streams.

Box-Muller takes exactly one uniform number for each normal one, so number n of a stream is known without
those before it; the faster ziggurat rejects an unknown number of them.

Source: Box & Muller 1958, "A note on the generation of random normal deviates".
"""

from __future__ import annotations

import math

import numpy as np

from .elementary import cosine_and_sine, log_normal
from .jit import Floats, kernel
from .philox import fill_uniforms


@kernel
def fill_normals(
    out: Floats, row: int, size: int, block: int, client: int, round_: int, purpose: int, key: np.uint64
) -> None:
    """Fill out[row, :size] with normal numbers 2 block, 2 block + 1, ... of a stream; size is even.

    Numbers 2 i and 2 i + 1 are made from the uniform numbers of the same places.
    """
    fill_uniforms(out, row, size, block, client, round_, purpose, key)
    # One loop for each step: each compiles to wide registers, a single loop over both does not.
    for i in range(size // 2):
        out[row, 2 * i] = math.sqrt(-2.0 * log_normal(out[row, 2 * i]))
    for i in range(size // 2):
        length = out[row, 2 * i]
        cosine, sine = cosine_and_sine(out[row, 2 * i + 1])
        out[row, 2 * i] = length * cosine
        out[row, 2 * i + 1] = length * sine
