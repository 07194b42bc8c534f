"""Parts of a collection that are joined."""

from __future__ import annotations

import numpy as np
import pytest

from foltr_audit.core.records import Collection
from foltr_audit.errors import DataError


def test_joined_parts_are_kept_until_others_are_wanted(collection: Collection) -> None:
    both = collection.joined_parts(("vali", "test"))
    assert collection.joined_parts(["vali", "test"]) is both
    assert both.n_queries == collection.vali.n_queries + collection.test.n_queries
    assert np.array_equal(both.labels, np.concatenate([collection.vali.labels, collection.test.labels]))
    assert collection.joined_parts(("train",)) is collection.train
    assert collection.joined_parts(("test", "vali")) is not both
    with pytest.raises(DataError, match="no part 'all'"):
        collection.joined_parts(("all",))
