"""Users of one server, who read and click one list after the other while the server learns in between."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cascade import click_row
from .jit import Bools, Floats, Ints, kernel
from .philox import fill_uniforms
from .ranking import Features


class UserQueries(NamedTuple):
    """A data set and how users click on it: query q owns rows offsets[q] .. offsets[q + 1] - 1.

    Attributes:
        features: (documents, d).
        grades: int8, those of all documents, for one click model and intent after the other.
        lifts: where in them the grades of each interaction begin, int64 (N,).
        offsets: int64 (queries + 1,).
        click, stop: P(click | grade) and P(stop | click, grade), float64 (G,).
    """

    features: Features
    grades: NDArray[np.int8]
    lifts: Ints
    offsets: Ints
    click: Floats
    stop: Floats


class UserStreamKeys(NamedTuple):
    """Names of the random numbers: the round, and the purposes of lists, clicks and directions."""

    round: int
    show: int
    click: int
    direction: int
    key: np.uint64


class UserInteractions(NamedTuple):
    """What the users of a round saw and did: lists int64 (N, k), padded with -1, and clicks bool (N, k)."""

    shown: Ints
    clicks: Bools


@kernel
def show_numbers(names: UserStreamKeys, client: int, size: int) -> Floats:
    """Numbers 0 .. size-1 that a client's list is made of, (size,); size is even."""
    u = np.empty((1, size))
    fill_uniforms(u, 0, size, 0, client, names.round, names.show, names.key)
    return u.reshape(size)


@kernel
def click_list(
    data: UserQueries, names: UserStreamKeys, query: int, client: int, seen: UserInteractions, i: int
) -> None:
    """Fill seen.clicks[i] with a client's clicks on seen.shown[i], by numbers 2r and 2r + 1 at rank r."""
    k = seen.shown.shape[1]
    u, grades = np.empty((1, 2 * k)), np.empty((1, k), dtype=np.int64)
    fill_uniforms(u, 0, 2 * k, 0, client, names.round, names.click, names.key)
    first = data.lifts[i] + data.offsets[query]
    for rank in range(k):
        position = seen.shown[i, rank]
        grades[0, rank] = data.grades[first + position] if position >= 0 else -1
    click, stop = data.click, data.stop
    click_row(grades, 0, u.reshape(2 * k, 1), 0, click, stop, seen.clicks[i : i + 1])
