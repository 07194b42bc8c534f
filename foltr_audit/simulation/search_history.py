"""Users with queries of their own, which they ask in the order in which they really asked them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from foltr_audit.core.records import Dataset
from foltr_audit.errors import UsageError
from foltr_audit.utils.arrays import Ints


@dataclass(frozen=True, eq=False)
class SearchHistory:
    """The queries of each user of a data set; client c is user c.

    Attributes:
        order: the queries of user 0 in order of time, then those of user 1, ..., int64 (queries,).
        offsets: int64 (users + 1,); user u has those from offsets[u] to offsets[u+1] - 1.
    """

    order: Ints
    offsets: Ints

    @classmethod
    def of(cls, data: Dataset) -> SearchHistory | None:
        """Those of a data set; None where queries are nobody's."""
        if data.users is None:
            return None
        counts = np.bincount(data.users)
        return cls(np.argsort(data.users, kind="stable"), np.concatenate([[0], np.cumsum(counts)]))

    def asked(self, clients: Ints, first: Ints, count: int) -> Ints:
        """Queries number first .. first + count - 1 of each client, (C,) to (C, count).

        After its last query a client starts again with the first. Every client must have one.
        """
        own = self.offsets[clients + 1] - self.offsets[clients]
        number = first[:, np.newaxis] + np.arange(count)
        return np.asarray(self.order[self.offsets[clients][:, np.newaxis] + number % own[:, np.newaxis]])


def refuse_missing_users(data: Dataset, clients: int, who: str) -> None:
    """Refuse more clients than data of users have users.

    Raises:
        UsageError: there are fewer users; `who` names the clients in the message.
    """
    if data.users is not None and clients > data.n_users:
        raise UsageError(
            f"clients: {who}, but the training split has {data.n_users} users; "
            f"expected at most {data.n_users}"
        )
