"""Priors as baselines: the cascade, enumerated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from foltr_audit.attacks.baselines import PositionPrior, RelevancePrior

from foltr_audit.core.plugins import View
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from tests.fixtures.tiny import BELIEF, rearranged, view, with_updates
from tests.inference.test_pattern_decoder import answer, believed, walk_down


def short(n: int = 9, B: int = 2, k: int = 5) -> View:
    """Messages of lists with at most five documents."""
    return view(n, B, k=k)


@pytest.mark.parametrize("attack", [PositionPrior(), RelevancePrior()], ids=lambda attack: attack.name)
def test_scores_equal_all_ways_to_read_a_list(attack: PositionPrior) -> None:
    seen = short()
    said = answer(attack, seen)
    assert seen.labels is not None
    assert said.any_click is not None
    for i, b in np.ndindex(9, 2):
        grades = seen.labels[i, b]
        length = int((grades >= 0).sum())
        click, stop = believed(attack.name.removesuffix("-prior"), 5, grades)
        chances = walk_down(click, stop, length)
        expected = chances @ patterns_as_clicks(np.arange(2**length), 5)
        np.testing.assert_allclose(said.scores[i, b], expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(said.any_click[i, b], 1 - chances[0], rtol=1e-9, atol=1e-12)
        sure = np.abs(expected - 0.5) > 1e-9
        assert np.array_equal(said.guess[i, b, sure], (expected > 0.5)[sure])
        assert not said.guess[i, b, grades < 0].any()
    assert said.guess.any()
    assert not said.guess[seen.is_document].all()


def test_position_alone_or_relevance_decides() -> None:
    """One looks at no label, the other at no usual grade; neither at a message."""
    seen = short()
    assert seen.labels is not None
    other = replace(seen, labels=np.where(seen.labels >= 0, 2 - seen.labels, -1))
    flat = replace(BELIEF, grades=np.full((10, 3), 1 / 3))
    believes = replace(seen, knowledge=seen.knowledge.having(belief=flat))
    for attack, ignored, used in (
        (PositionPrior(), other, believes),
        (RelevancePrior(), believes, other),
    ):
        scores = answer(attack, seen).scores
        assert scores.tobytes() == answer(attack, ignored).scores.tobytes()
        assert np.abs(scores - answer(attack, used).scores).max() > 0.01
        changed = with_updates(seen, 1 - seen.updates)
        assert scores.tobytes() == answer(attack, changed).scores.tobytes()
        turned = answer(attack, rearranged(seen, slice(None, None, -1))).scores
        assert np.array_equal(turned, scores[::-1])


def test_why_they_cannot_run() -> None:
    seen = short()
    assert PositionPrior().why_not(seen) is None
    assert RelevancePrior().why_not(seen) is None
    unjudged = replace(seen, labels=None, knowledge=seen.knowledge.without(frozenset({"relevance"})))
    assert PositionPrior().why_not(unjudged) is None
    assert RelevancePrior().why_not(unjudged) == "the observer does not know: relevance"
    for attack in (PositionPrior(), RelevancePrior()):
        assert attack.why_not(replace(seen, knowledge=seen.knowledge.having(belief=None))) is not None
        hidden = replace(seen, knowledge=seen.knowledge.without(frozenset({"click_model"})))
        assert attack.why_not(hidden) is not None
        long = view(60, k=15)
        assert long.width == 15
        assert attack.why_not(long) == "a list has 15 documents; it weighs every click pattern of up to 14"
