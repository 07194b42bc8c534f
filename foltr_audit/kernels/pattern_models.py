"""The local model that each click pattern of a list leads to."""

from __future__ import annotations

import numpy as np

from .jit import Floats, Ints, kernel
from .patterns import ClipRule, shrunk
from .threads import in_parts


@kernel
def _coefficients(W: Floats, i: int, pattern: int, observed: int, out: Floats) -> bool:
    """How much each document's gradient counts under a pattern; whether there is any pair."""
    pairs = False
    for j in range(out.size):
        out[j] = 0.0
    for j in range(observed):
        for s in range(j):
            if (pattern >> j) & 1 != (pattern >> s) & 1:
                weight = W[i, j, s] if (pattern >> j) & 1 else -W[i, j, s]
                out[j] += weight
                out[s] -= weight
                pairs = True
    return pairs


def pattern_models(
    starts: Floats, rows: Floats, weights: Floats, lengths: Ints, only_observed: bool, ball: ClipRule
) -> Floats:
    """Local models after one interaction, for every click pattern, (n, 2^k, P).

    Patterns beyond a list's length lead where none clicked does. Arguments as for `pattern_likelihoods`.
    """
    n, k, P = rows.shape
    out = np.empty((n, 1 << k, P))
    given = (starts, rows, weights, lengths, only_observed, ball, out)
    in_parts(lambda begin, end: fill_pattern_models(*given, begin, end), n, 1)
    return out


@kernel
def fill_pattern_models(
    starts: Floats,
    rows: Floats,
    weights: Floats,
    lengths: Ints,
    only_observed: bool,
    ball: ClipRule,
    out: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill out[begin:end] of `pattern_models`."""
    _, k, P = rows.shape
    for i in range(begin, end):
        L, counts = lengths[i], np.zeros(k)
        for pattern in range(1 << k):
            clicked = pattern if pattern < 1 << L else 0
            last = L - 1
            while last >= 0 and not (clicked >> last) & 1:
                last -= 1
            observed = min(last + 2, L) if only_observed else L
            pairs = _coefficients(weights, i, clicked, observed if last >= 0 else 0, counts)
            model = out[i, pattern]
            for p in range(P):
                model[p] = starts[i, p]
            for j in range(L):
                if counts[j] != 0.0:
                    for p in range(P):
                        model[p] += counts[j] * rows[i, j, p]
            scale = shrunk(model, ball, L > 0 and (pairs or ball.always))
            for p in range(P):
                model[p] *= scale
