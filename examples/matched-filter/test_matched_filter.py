"""The attack keeps the contract of all attacks, and finds clicks that were put into a view by hand."""

from collections.abc import Callable

import numpy as np
import pytest
from foltr_audit.plugins import View
from foltr_audit.testing import attack_checks

from matched_filter import MatchedFilter


@pytest.mark.parametrize(("name", "check"), attack_checks(MatchedFilter))
def test_contract(name: str, check: Callable[[], None]) -> None:
    check()


def test_it_finds_the_only_clicked_document_of_each_list() -> None:
    rng = np.random.default_rng(1)
    features = rng.normal(size=(50, 1, 10, 46)).astype(np.float32)
    clicked = np.arange(10) == rng.integers(10, size=(50, 1, 1))
    view = View(
        observer="individual",
        kind="update",
        parameters=np.zeros((50, 46)),
        messages=np.einsum("nbk,nbkp->np", clicked, features),
        shown=np.tile(np.arange(10), (50, 1, 1)),
        features=features,
    )
    scores = MatchedFilter().infer(view, rng).scores
    assert np.array_equal(scores.argmax(axis=2), clicked.argmax(axis=2))
