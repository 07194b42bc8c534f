"""Log posteriors of click patterns as probabilities."""

from __future__ import annotations

import numpy as np

from .elementary import exp
from .jit import Floats, Ints, kernel, read_only
from .threads import in_parts

MOST_DOCUMENTS = 10
"""For longer lists a probability for each pattern takes too much memory."""

_LISTS = 64  # of one part: less work is done before a thread has started


def pattern_probabilities(log_posterior: Floats, lengths: Ints) -> Floats:
    """Unnormalised log posteriors (n, 2^k) as probabilities (n, 2^k): 0 beyond a list's length.

    If no pattern of a list is possible, all patterns count as equally likely.
    """
    out = np.zeros(log_posterior.shape)
    given = (read_only(log_posterior), lengths, out)
    in_parts(lambda begin, end: fill_probabilities(*given, begin, end), log_posterior.shape[0], _LISTS)
    return out


@kernel
def fill_probabilities(log_posterior: Floats, lengths: Ints, out: Floats, begin: int, end: int) -> None:
    """Fill out[begin:end] of `pattern_probabilities`."""
    for i in range(begin, end):
        patterns = 1 << lengths[i]
        top = -np.inf
        for p in range(patterns):
            top = max(top, log_posterior[i, p])
        total = 0.0
        for p in range(patterns):
            out[i, p] = exp(log_posterior[i, p] - top) if top > -np.inf else 1.0
            total += out[i, p]
        for p in range(patterns):
            out[i, p] /= total
