"""Comparisons of documents and positions against slow loops, and priors against enumeration."""

from __future__ import annotations

from dataclasses import replace
from math import exp

import numpy as np
import pytest
from foltr_audit.attacks.baselines import PositionPrior, RelevancePrior
from foltr_audit.attacks.score_changes import by_rank

from foltr_audit.core.plugins import Attack, Inference, View
from foltr_audit.core.plugins.registry import make
from foltr_audit.inference.pattern_decoder import patterns_as_clicks
from foltr_audit.testing import attack_checks
from foltr_audit.testing.contract import run_checks
from foltr_audit.utils.arrays import Floats
from tests.fixtures import tiny
from tests.fixtures.tiny import BELIEF, rearranged, view, with_updates
from tests.inference.test_pattern_decoder import answer, believed, walk_down

BY_CHANGE = "higher-score higher-probability max-gain higher-distance higher-distance:more_than=4"
EVERY = pytest.mark.parametrize("text", BY_CHANGE.split())
VIEWS = {
    "model": tiny.view(30),
    "update": tiny.view(30, kind="update", seed=1),
    "several": tiny.view(12, B=3, seed=2),
}


def attack(text: str, compare: str) -> Attack:
    name, _, rest = text.partition(":")
    return make(Attack, f"{name}:compare={compare}" + (f",{rest}" if rest else ""))


def infer(what: Attack, view: View) -> Inference:
    return what.infer(view, np.random.default_rng(0))


def scores(view: View, parameters: Floats, message: int, b: int, place: int) -> float:
    """One document's score, feature by feature."""
    row = view.features[message, b, place].astype(float)
    return sum(float(x) * float(w) for x, w in zip(row, parameters[message], strict=True))


def expected(
    view: View, message: int, b: int, text: str, *, positions: bool
) -> dict[int, tuple[float, bool]]:
    """Score and guess at each place with a document of one list, by loops over plain numbers."""
    places = [place for place in range(view.shown.shape[2]) if view.shown[message, b, place] >= 0]
    old = [scores(view, view.parameters, message, b, place) for place in places]
    new = [scores(view, view.models, message, b, place) for place in places]
    if positions:
        old, new = sorted(old, reverse=True), sorted(new, reverse=True)
    n = len(places)
    change = [new[i] - old[i] for i in range(n)]
    if text == "higher-score":
        found = [(change[i], change[i] > 0) for i in range(n)]
    elif text.startswith("higher-distance"):
        least = 5 if text.endswith("=4") else 6
        count = [sum(new[i] - new[j] > old[i] - old[j] for j in range(n) if j != i) for i in range(n)]
        found = [(float(count[i]), count[i] >= least) for i in range(n)]
    else:
        gain = [exp(new[i]) / sum(map(exp, new)) - exp(old[i]) / sum(map(exp, old)) for i in range(n)]
        found = [(gain[i], gain[i] > 0) for i in range(n)]
        if text == "max-gain":
            found = [(gain[i], gain[i] > 0 and gain[i] == max(gain)) for i in range(n)]
    return dict(zip(places, found, strict=True))


@EVERY
@pytest.mark.parametrize("compare", ["documents", "positions"])
@pytest.mark.parametrize("what", VIEWS)
def test_against_a_slow_loop(text: str, compare: str, what: str) -> None:
    view = VIEWS[what]
    said = infer(attack(text, compare), view)
    for message, b in np.ndindex(view.shown.shape[:2]):
        slow = expected(view, message, b, text, positions=compare == "positions")
        for place in range(view.shown.shape[2]):
            if place not in slow:
                assert not said.guess[message, b, place]
                continue
            score, guess = slow[place]
            assert said.scores[message, b, place] == pytest.approx(score, rel=1e-9, abs=1e-9)
            assert bool(said.guess[message, b, place]) == guess


def test_by_rank_sorts_documents_only_wherever_the_padding_stands() -> None:
    scores = np.array([[[5.0, -7.0, 9.0, 1.0]], [[2.0, 3.0, 0.0, 4.0]]])
    there = np.array([[[True, True, False, True]], [[False, True, True, True]]])
    assert by_rank(scores, there).tolist() == [[[5, 1, 0, -7]], [[0, 4, 3, 0]]]
    assert by_rank(scores[:, :0], there[:, :0]).shape == (2, 0, 4)


# --- what every attack promises, here of compare=positions ----------------------------------------


@EVERY
def test_the_contract_holds_for_positions_but_for_the_order_that_they_need(text: str) -> None:
    checks = attack_checks(attack(text, "positions"))
    run_checks([check for check in checks if check.name != "documents may come in another order"])


@EVERY
def test_positions_need_the_order_and_documents_do_not(text: str) -> None:
    view = VIEWS["model"]
    blind = replace(view, knowledge=view.knowledge.without(frozenset({"order"})))
    assert attack(text, "documents").why_not(blind) is None
    assert "order" in str(attack(text, "positions").why_not(blind))
    assert attack(text, "positions").why_not(view) is None
    assert attack(text, "documents").label == text


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
