"""How likely a sum of several independent whole numbers is, given one of them: forward, then backward.

Numbers are added one after the other; a state is the sum so far, as its place among the sums that this
many numbers can make.

Source: Baum et al. 1970, "A maximization technique occurring in the statistical analysis
of probabilistic functions of Markov chains" (the forward-backward recursions).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .jit import Floats, Ints, kernel
from .threads import in_parts


def sum_likelihoods(laws: Floats, totals: Ints, after: NDArray[np.int32], sizes: Ints) -> Floats:
    """P(the sum is as it is | number i of a row has value r, the others follow their laws), (m, n, v).

    Args:
        laws: P(value) of each number of each row, (m, n, v).
        totals: each row's sum, as its place among the sums of n numbers, (m,).
        after: place of the sum with value r added, among the sums of j + 1 numbers, (n, widest, v).
        sizes: how many sums j numbers can make, j = 0 .. n, (n + 1,).
    """
    out = np.zeros(laws.shape)
    given = (laws, totals, after, sizes, out)
    in_parts(lambda begin, end: fill_sum_likelihoods(*given, begin, end), laws.shape[0], 1)
    return out


@kernel
def fill_sum_likelihoods(
    laws: Floats,
    totals: Ints,
    after: NDArray[np.int32],
    sizes: Ints,
    out: Floats,
    begin: int,
    end: int,
) -> None:
    """Fill out[begin:end] of `sum_likelihoods`, which begins as 0."""
    _, n, v = laws.shape
    for i in range(begin, end):
        before = np.zeros((n, after.shape[1]))  # P(sum of the first j numbers)
        before[0, 0] = 1.0
        for j in range(n - 1):
            for t in range(sizes[j]):
                if before[j, t] > 0.0:
                    for r in range(v):
                        before[j + 1, after[j, t, r]] += before[j, t] * laws[i, j, r]
        rest = np.zeros(sizes[n])  # P(the total | sum of the first j + 1 numbers)
        rest[totals[i]] = 1.0
        for j in range(n - 1, -1, -1):
            new = np.zeros(sizes[j])
            for t in range(sizes[j]):
                for r in range(v):
                    ahead = rest[after[j, t, r]]
                    if ahead > 0.0:
                        out[i, j, r] += before[j, t] * ahead
                        new[t] += laws[i, j, r] * ahead
            rest = new
