"""What the sentences on a comparison rest on; the sentences themselves are in tests/golden."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from foltr_audit.core.results import Estimate
from foltr_audit.report.results.compare_summary import StrongestLeak, describe_claims, find_leaks, worlds
from foltr_audit.report.results.decision import decide
from foltr_audit.report.tables.compare import glance_table
from tests.fixtures.comparisons import (
    LEARNER,
    against,
    attack,
    claim,
    guesses,
    report,
    result,
    setting,
    several,
    where,
)


def test_p_values_are_corrected_for_the_tests_of_their_world() -> None:
    (world,) = worlds(several())
    key = (LEARNER, "skellam, eps 1.2")
    assert world.corrected[key] == 1.0  # 3 tests of .4
    assert world.corrected[LEARNER, "laplace, eps 1.2"] == pytest.approx(0.003)
    a, b = setting("a", **against(-0.1, 0.02)), setting("b", click_model="x", **against(0, 0.02))
    two = report(setting("none"), a, b)
    assert [list(one.corrected.values()) for one in worlds(two)] == [[0.02], [0.02]]


def leak(auc: float | None, width: float = 0.02) -> StrongestLeak | None:
    place = where("a", 1.2)
    attacks = [*guesses(place), attack(place, "map", auc, width=width)]
    made = report({"results": [result(place, attacks)], "attacks": attacks, "curves": []})
    (world,) = worlds(made)
    return next(iter(find_leaks(world)), None)


@pytest.mark.parametrize(
    ("auc", "bound"),
    [
        (0.99, None), (0.93, "relevance-prior"), (0.7, "relevance-prior"), (0.63, "position-prior"),
        (0.51, "random:k=3"),
    ],
)  # fmt: skip
def test_an_attack_is_held_against_guesses_without_a_message(auc: float, bound: str | None) -> None:
    found = leak(auc)
    assert found is not None
    assert (found.bound and found.bound.method) == bound
    assert found.held is (bound in ("position-prior", "random:k=3"))


def test_an_attack_without_an_interval_beats_nothing() -> None:
    place = where("a", 1.2)
    best = attack(place, "map", 0.95)
    best = replace(best, found=replace(best.found, auc=Estimate(0.95)))
    attacks = [*guesses(place), best]
    made = report({"results": [result(place, attacks)], "attacks": attacks, "curves": []})
    (world,) = worlds(made)
    (found,) = find_leaks(world)
    assert not found.held
    decision = decide(made)
    assert decision is not None
    assert glance_table(world, decision).lines[0].cells[2].mark == ""
    assert leak(None) is None


def test_the_worst_view_of_a_false_claim_is_told() -> None:
    place, loss = where("a", 1.2), "false by exact loss"
    finite = claim(place, loss, exact=5.0)
    infinite = claim(place, loss, exact=math.inf, view="aggregate")
    refuted = claim(place, "refuted", measured=2.0, exact=2.5, view="aggregate+lists")
    worse = claim(place, "refuted", measured=1.9, exact=math.inf)
    for rows, told in (
        ([finite, infinite], "a, eps 1.2: an infinite exact loss, from the sum"),
        ([finite, infinite, refuted], "a, eps 1.2: at least 2 measured, from the sum and lists"),
        ([worse, refuted], "a, eps 1.2: at least 1.9 measured, from the message"),
    ):
        assert told in describe_claims(rows)
        assert told in describe_claims(rows[::-1])
