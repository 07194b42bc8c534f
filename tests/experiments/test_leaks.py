"""What attacks on a pool are shown to do, and which pools are compared with each other."""

from __future__ import annotations

import math

import pytest

from foltr_audit.core.results import Estimate
from foltr_audit.experiments.decide import ComparedWorld, StrongestLeak, find_leak
from foltr_audit.report.compare_tables import above_cell
from tests.fixtures.comparisons import attack, guesses, report, setting


def leak(auc: float | Estimate | None) -> StrongestLeak | None:
    return find_leak(setting("a", 1.2, attacks=(*guesses(), attack("map", auc))))


@pytest.mark.parametrize(
    ("auc", "kind"),
    [
        (0.99, "reads"), (0.93, "reads"), (0.91, "grades"), (0.7, "grades"), (0.63, "grades"),
        (0.61, "guess"), (0.51, "guess"),
    ],
)  # fmt: skip
def test_an_attack_is_held_against_guesses_without_a_message(auc: float, kind: str) -> None:
    """Guesses have .5, .6 by position and .9 by grades; the interval is .02 wide to either side."""
    found = leak(auc)
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(("auc", "kind"), [(0.7, "guess"), (0.8, "reads")])
def test_grades_that_say_less_than_positions_are_no_yardstick(auc: float, kind: str) -> None:
    weak = [
        attack(name, value, guess=True)
        for name, value in (("position-prior", 0.75), ("relevance-prior", 0.7))
    ]
    found = find_leak(setting("a", 1.2, attacks=(*weak, attack("map", auc))))
    assert found is not None
    assert found.kind == kind


def test_a_leak_needs_no_guess_that_knows_grades() -> None:
    found = find_leak(setting("a", 1.2, attacks=(*guesses()[:2], attack("map", 0.7))))
    assert found is not None
    assert found.kind == "reads"


def test_who_is_no_better_than_grades_leaks_all_the_same() -> None:
    made = report(setting("a", 1.2, auc=0.7), setting("b", 1.2, auc=0.99))
    assert made.decision is not None
    assert [one.judgement for one in made.decision.judged] == ["leaks", "leaks"]
    (tables,) = made.world_tables
    assert [above_cell(row).mark for row in made.results] == ["bad", "bad"]
    (line,) = tables.no_better
    assert line.startswith("a, ")
    assert ".900" in line


def test_an_attack_without_an_interval_beats_nothing() -> None:
    unsure = Estimate(0.95)
    found = leak(unsure)
    assert found is not None
    assert found.kind == "unknown"
    made = report(setting("a", 1.2, attacks=(*guesses(), attack("map", unsure))))
    assert made.decision is not None
    assert made.decision.judged[0].judgement == "not tested"
    assert above_cell(made.results[0]).mark == ""
    assert leak(None) is None


def world(*pools: object) -> ComparedWorld:
    (only,) = report(*pools).worlds  # type: ignore[arg-type]
    return only


def test_no_sum_is_a_leak_of_chance_on_the_front() -> None:
    guard = setting("guard", auc=None, without_sum=2)
    found = world(setting("none", auc=None), guard)
    assert [found.front[pool.key].on for pool in found.pools] == [None, True]
    assert found.leaks[guard.key].kind == "no sum"
    assert found.leaks[guard.key].kind == "no sum"


def test_pools_are_beaten_by_those_of_their_own_world_only() -> None:
    x, z = setting("x", auc=0.9, ndcg=0.3), setting("z", auc=0.8, ndcg=0.4)
    w = setting("w", auc=None, ndcg=1)
    made = report(x, setting("y", auc=0.6, ndcg=0.5, click_model="b"), z, w)
    front = {name: place for one in made.worlds for (_, name), place in one.front.items()}
    assert front["x"].beaten_by == (z,)
    assert [front[name].on for name in "yzw"] == [True, True, None]
    rows = {row["name"]: row for row in made.results}
    assert (rows["x"]["pareto"], rows["x"]["dominated_by"]) == (False, ["z"])
    assert math.isnan(rows["w"].number("auc"))
