"""The input of central learners' kernels: the data, and the names of random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from foltr_audit.core.plugins import Users
from foltr_audit.core.ranking_metrics import LIST_LENGTH
from foltr_audit.utils.arrays import Ints

if TYPE_CHECKING:
    from foltr_audit.kernels.central_learners import UserInteractions, UserQueries, UserStreamKeys


def kernel_input(
    users: Users, queries: Ints, direction: str
) -> tuple[UserQueries, UserStreamKeys, UserInteractions]:
    """Data and click model of users, the names of their streams, and empty lists for `queries` (N,).

    `direction` is the purpose of the learner's own random numbers.
    """
    from foltr_audit.kernels.central_learners import UserInteractions, UserQueries, UserStreamKeys

    data, show = users.data, users.streams("show")
    searched = UserQueries(data.features, users.grades, users.lifts, data.offsets, users.click, users.stop)
    names = UserStreamKeys(
        show.round,
        show.purpose_code,
        users.streams(users.clicks).purpose_code,
        users.streams(direction).purpose_code,
        np.uint64(show.key),
    )
    shape = (queries.size, LIST_LENGTH)
    return (
        searched,
        names,
        UserInteractions(np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=np.bool_)),
    )
