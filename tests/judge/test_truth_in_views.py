"""No truth can be reached from the view of a played round, by attributes, caches or bases of arrays."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.plugins import View
from foltr_audit.core.records.interactions import RoundTruth
from foltr_audit.testing.samples import MADE
from tests.fixtures.played_rounds import played_rounds
from tests.fixtures.there import there


def played_view(kind: str) -> tuple[View, RoundTruth]:
    """What a server sees of a training round, and the truth that it does not see."""
    played = played_rounds(kind)
    (seen,) = played.server.views(played.store.records[1])
    return seen.view, played.store.truth[1]


def reachable(start: object) -> Iterator[Any]:
    """Every object that can be reached from one without going through classes, functions and modules."""
    seen, waiting = set(), [start]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type | FunctionType | ModuleType):
            continue
        seen.add(id(each))
        yield each
        waiting += gc.get_referents(each)
        if isinstance(each, np.ndarray) and each.base is not None:
            waiting.append(each.base)


def truths_in(view: View, truth: RoundTruth) -> list[str]:
    """Names of the parts of a truth that can be reached from a view: the arrays, or copies of them."""
    objects = list(reachable(view))
    arrays = [one for one in objects if isinstance(one, np.ndarray)]
    found = ["the truth"] if any(isinstance(one, RoundTruth) for one in objects) else []
    for name in ("clicks", "updates", "clipped", "clients"):
        hidden = getattr(truth, name)
        for array in arrays:
            alike = array.dtype == hidden.dtype and array.tobytes() == hidden.tobytes()
            copied = alike and name != "clients"  # small whole numbers stand elsewhere too
            if hidden.size and (np.shares_memory(array, hidden) or copied):
                found.append(name)
    return found


@pytest.mark.parametrize("kind", MADE)
def test_no_truth_can_be_reached_from_a_view(kind: str) -> None:
    view, truth = played_view(kind)
    view.updates, view.jacobian, view.is_document  # noqa: B018  caches are there
    assert len(list(reachable(view))) > 20
    found = truths_in(view, truth)
    labels = there(played_rounds(kind).server.collection).train.labels
    assert not any(np.shares_memory(one, labels) for one in reachable(view) if isinstance(one, np.ndarray))
    # Without noise an update is what the client computed: it is sent, and no secret.
    assert set(found) <= {"updates"}
    assert truth.clicks.any()


def test_a_truth_that_can_be_reached_is_found() -> None:
    view, truth = played_view("update")
    seen = {name: getattr(view, name) for name in ("kind", "parameters", "messages", "shown", "features")}
    other = View(observer="individual", **seen)
    vars(other)["cache"] = {"rows": [truth.clicks[:2]]}
    assert "clicks" in truths_in(other, truth)
    vars(other)["cache"] = [truth]
    assert "the truth" in truths_in(other, truth)
