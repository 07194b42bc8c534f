"""What a comparison decides: leaks that are shown, the front of choices, and what is recommended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.core.results import AttackRecord, Estimate
from foltr_audit.experiments.decide import (
    MOST_LOSS,
    ComparedWorld,
    Decision,
    JudgedDefense,
    ParetoChoice,
    StrongestLeak,
    beaten_by,
    cost_doubt,
    decide,
    find_leak,
)
from foltr_audit.experiments.table import Attacked, ComparedPool, Difference, over_queries
from foltr_audit.judge.doubts import shown_above
from foltr_audit.report.compare_tables import above_cell
from foltr_audit.utils.arrays import Floats
from tests.fixtures.comparisons import LISTS, SUM, attack, checked, guesses, report, seen_as, setting
from tests.fixtures.there import there

# --- what is recommended, by the losses on each query ---------------------------------------------


BASE = np.random.default_rng(5).uniform(0.3, 0.6, 240)
NONE = setting("none", auc=0.99, ndcg=float(BASE.mean()))

EPSILONS = (0.5, 1.2, 4.5)


def difference(losses: Sequence[float] | Floats) -> Difference:
    """Of queries whose nDCG falls by the losses, in order."""
    base = BASE[: len(losses)]
    return over_queries(base - np.asarray(losses), base)


def defense(losses: Sequence[float] | Floats, eps: float, name: str = "skellam") -> ComparedPool:
    """A defense that nothing but its losses can speak against."""
    ndcg = float(np.mean(BASE[: len(losses)] - np.asarray(losses)))
    found = difference(losses)
    return setting(name, eps, auc=0.52, ndcg=ndcg, difference=found, **checked("proven", proven=eps))


def decided(*pools: ComparedPool) -> Decision:
    return there(decide((NONE, *pools)))


def recommended(*pools: ComparedPool) -> str:
    best = decided(*pools).best
    return "nothing" if best is None else best.name


def between(low: float, high: float) -> st.SearchStrategy[list[float]]:
    """Losses of some queries in thousandths."""
    share = st.integers(round(1000 * low), round(1000 * high)).map(lambda loss: loss / 1000)
    return st.lists(share, min_size=1, max_size=24)


LOSSES = st.one_of(between(-0.3, 0.3), between(-0.05, 0.25), between(-0.02, 0.04), between(0.0, 0.0))
TABLES = st.lists(
    st.tuples(LOSSES, st.sampled_from(EPSILONS)), min_size=1, max_size=5, unique_by=lambda row: row[1]
)


@given(TABLES)
def test_what_is_recommended_is_shown_to_lose_at_most_the_limit(
    rows: list[tuple[list[float], float]],
) -> None:
    found = decided(*(defense(losses, eps) for losses, eps in rows))
    chosen = [one for one in (found.best, found.best_with_lists) if one is not None]
    assert all(pool.difference.upper_loss <= MOST_LOSS for one in chosen for pool in one.pools)
    passing = {eps for losses, eps in rows if difference(losses).upper_loss <= MOST_LOSS}
    if passing:
        assert there(found.best).eps_claimed == min(passing), "the safest of those that pass"
    else:
        assert found.best is None


@given(TABLES, TABLES)
def test_other_defenses_beside_it_change_no_judgement_of_a_defense(
    rows: list[tuple[list[float], float]], more: list[tuple[list[float], float]]
) -> None:
    pools = [defense(losses, eps) for losses, eps in rows]
    others = [defense(losses, eps, "laplace") for losses, eps in more]

    def judgements(judged: Sequence[JudgedDefense]) -> dict[str, str]:
        return {one.name: one.judgement for one in judged if one.name.startswith("skellam")}

    alone = decided(*pools)
    assert judgements(alone.judged) == judgements(decided(*pools, *others).judged)
    assert alone.best is None or decided(*pools, *others).best is not None


@given(LOSSES, st.integers(2, 10))
def test_fewer_queries_with_the_same_values_never_make_a_defense_pass(
    losses: list[float], times: int
) -> None:
    many = (losses * times)[:240]
    many = many[: len(many) // len(losses) * len(losses)]
    if cost_doubt(difference(losses)) is None:
        assert cost_doubt(difference(many)) is None


def of_study(queries: int, mean: float) -> Floats:
    """Normal losses with the spread of a study: 40 with a mean of .105 have a p-value of .0048 against 0."""
    normal = stats.norm.ppf((np.arange(queries) + 0.5) / queries)
    spread = 0.105 * np.sqrt(40) / stats.t.isf(0.0048 / 2, 39)
    return np.asarray(mean + (normal - normal.mean()) / normal.std(ddof=1) * spread)


@pytest.mark.parametrize("queries", [12, 40, 200])
@pytest.mark.parametrize("epsilons", [EPSILONS[:1], EPSILONS])
def test_neither_a_larger_grid_nor_fewer_queries_hide_what_a_defense_costs(
    epsilons: tuple[float, ...], queries: int
) -> None:
    """The rule before recommended the first one as soon as its p-value, times the rows, was above .05."""
    means = dict(zip(EPSILONS, (0.105, 0.052, -0.02), strict=True))
    losses = {eps: of_study(queries, means[eps]) for eps in epsilons}
    pools = [defense(values, eps) for eps, values in losses.items()]
    judged = {one.eps_claimed: one.judgement for one in decided(*pools).judged if one.defended}
    for eps, judgement in judged.items():
        upper = difference(losses[eps]).upper_loss
        assert (judgement == "holds") == (upper <= MOST_LOSS)
    assert judged[0.5] == ("costs too much" if queries == 200 else "cost not known")
    enough = queries >= 40 and len(epsilons) > 1
    assert recommended(*pools) == ("skellam, eps 4.5" if enough else "nothing")
    if queries == 40:
        p = there(pools[0].difference.p)
        assert p == pytest.approx(0.0048, rel=1e-6)
        assert 15 * p > 0.05 > p, "significant alone, and not in a grid of 15"


def test_a_defense_that_costs_nothing_passes_with_enough_queries_only() -> None:
    """Equal nDCG on few queries says little of others: the bound of a share that is never hit."""
    least = next(n for n in range(1, 240) if cost_doubt(difference(np.zeros(n))) is None)
    assert least == pytest.approx(np.log(0.05) / np.log(1 - MOST_LOSS), abs=8)


# --- what other servers see -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("others", "without", "with_lists"),
    [
        ([], "holds", "holds"),
        ([seen_as(LISTS, 0.9)], "holds", "leaks"),
        ([seen_as(SUM, 0.9)], "leaks", "leaks"),
        ([seen_as(LISTS, 0.55), seen_as(SUM, 0.55)], "holds", "holds"),
        ([seen_as(LISTS, 0.55, width=0.4)], "holds", "too few lists"),
        ([seen_as(LISTS, None)], "holds", "holds"),
    ],
)
def test_an_attack_counts_for_whoever_sees_as_much(
    others: list[Attacked], without: str, with_lists: str
) -> None:
    pool = replace(defense([0.0] * 240, 1.2), others=tuple(others))
    judged = decided(pool).judged[-1]
    assert (judged.judgement, judged.with_lists) == (without, with_lists)


def test_several_servers_share_the_chance_of_a_false_alarm() -> None:
    """Of three attacks that add nothing, one is shown to with 5 %: each has a third of it."""
    rng = np.random.default_rng(3)
    values = rng.normal(0.0, 1.0, (2000, 3))

    def lower(value: float) -> Estimate:
        return Estimate(value, lambda tail: (value - float(stats.norm.isf(tail)), value + 3.0))

    alarms = [any(shown_above(lower(value), 0.0, 3) for value in row) for row in values.tolist()]
    alone = [any(shown_above(lower(value), 0.0) for value in row) for row in values.tolist()]
    assert np.mean(alarms) < 0.065
    assert np.mean(alone) > 0.1


# --- the front, against its definition by brute force ---------------------------------------------


SHARES = st.sampled_from([0.3, 0.4997, 0.5, 0.5004, 0.6, 0.6004, 0.6006, 0.7, 0.9])
LEAKS = st.sampled_from([-0.2, -0.0003, 0.0, 0.0004, 0.1, 0.1004, 0.1006, 0.2, 0.4])


class SureChoice(ParetoChoice):
    """A choice of which everything is known exactly: a larger nDCG is a larger one."""

    def _is_more_useful(self, other: ParetoChoice) -> bool:
        return True


def sure(leak: float | None, utility: float | None, *, refuted: bool = False) -> ParetoChoice:
    none = np.array([], dtype=np.str_), np.array([])
    return SureChoice(leak, utility, None if leak is None else (leak, leak), none, refuted)


CHOICES = st.lists(st.builds(sure, st.none() | LEAKS, st.none() | SHARES, refuted=st.booleans()), max_size=7)


def front_of(choices: list[ParetoChoice]) -> list[bool | None]:
    return [choice.on_front(winners) for choice, winners in zip(choices, beaten_by(choices), strict=True)]


def printed(value: float | None) -> int:
    """Three digits as a table shows them, as a whole number."""
    return int(f"{value or 0:+.3f}".replace(".", ""))


@given(CHOICES)
def test_the_front_is_what_nobody_beats(choices: list[ParetoChoice]) -> None:
    front = front_of(choices)
    for number, one in enumerate(choices):
        better = []
        for other in choices:
            if None in one[:2] or None in other[:2] or other.refuted:
                continue
            leaks = max(printed(one.leak), 0), max(printed(other.leak), 0)
            gains = printed(one.utility), printed(other.utility)
            if leaks[1] <= leaks[0] and gains[1] >= gains[0] and (leaks[0], gains[0]) != (leaks[1], gains[1]):
                better.append(other)
        assert front[number] == (None if None in one[:2] else not better and not one.refuted)
        winners = beaten_by(choices)[number]
        assert bool(winners) == bool(better)
        assert all(any(choices[winner] is other for other in better) for winner in winners)
        assert all(front[winner] for winner in winners)


def test_equals_are_both_on_the_front_and_bad_luck_is_no_gain() -> None:
    assert beaten_by([sure(0.1, 0.4), sure(0.1, 0.4)]) == [[], []]
    assert beaten_by([sure(-0.02, 0.4), sure(0.0, 0.4)]) == [[], []]


def test_what_is_printed_alike_is_a_tie() -> None:
    assert beaten_by([sure(0.6004, 0.4004), sure(0.5996, 0.3996)]) == [[], []]
    assert beaten_by([sure(0.6004, 0.4), sure(0.6006, 0.4)]) == [[], [0]]


QUERIES = np.array([f"{number:02d}" for number in range(12)])
NDCG = np.linspace(0.1, 0.6, 12)


def choice(leak: float, ends: tuple[float, float] | None, gain: float, spread: float) -> ParetoChoice:
    """A choice whose nDCG is that of others and `gain`, more or less by `spread` from query to query."""
    values = NDCG + gain + np.tile([spread, -spread], 6)
    return ParetoChoice(leak, float(values.mean()), ends, (QUERIES, values))


def test_a_gain_of_a_few_queries_beats_nobody() -> None:
    """.002 on 12 queries that differ by .05 either way, from a defense that leaks as much."""
    base = choice(1.0, (0.77, 1.0), 0.0, 0.0)
    assert beaten_by([base, choice(1.0, (0.77, 1.0), 0.002, 0.05)]) == [[], []]
    assert beaten_by([base, choice(1.0, (0.77, 1.0), 0.1, 0.05)]) == [[1], []]


def test_a_leak_is_smaller_where_the_intervals_show_it() -> None:
    one, other = choice(0.6, (0.5, 0.7), 0.0, 0.0), choice(0.7, (0.6, 0.8), 0.0, 0.0)
    assert beaten_by([one, other]) == [[], []]
    assert beaten_by([choice(0.6, (0.55, 0.65), 0.0, 0.0), choice(0.7, (0.65, 0.75), 0.0, 0.0)]) == [[], [0]]
    assert beaten_by([choice(0.6, None, 0.0, 0.0), choice(0.9, (0.89, 0.91), 0.0, 0.0)]) == [[], []]


# --- what attacks are shown to do -----------------------------------------------------------------


GUESSES = tuple(guesses())
WEAK = tuple(attack(*named, guess=True) for named in (("position-prior", 0.75), ("relevance-prior", 0.7)))


def leak(auc: float | Estimate | None, beside: Sequence[AttackRecord] = GUESSES) -> StrongestLeak | None:
    return find_leak(setting("a", 1.2, attacks=(*beside, attack("map", auc))))


@pytest.mark.parametrize(
    ("beside", "kinds"),
    [
        (GUESSES, {0.99: "reads", 0.93: "reads", 0.91: "grades", 0.63: "grades", 0.61: "guess"}),
        (WEAK, {0.7: "guess", 0.8: "reads"}),  # grades that say less than positions are no yardstick
        (GUESSES[:2], {0.7: "reads"}),  # no guess that knows grades
    ],
)  # fmt: skip
def test_an_attack_is_held_against_guesses_without_a_message(
    beside: Sequence[AttackRecord], kinds: dict[float, str]
) -> None:
    """Guesses have .5, .6 by position and .9 by grades; the interval is .02 wide to either side."""
    assert {auc: there(leak(auc, beside)).kind for auc in kinds} == kinds


def test_who_is_no_better_than_grades_leaks_all_the_same() -> None:
    made = report(setting("a", 1.2, auc=0.7), setting("b", 1.2, auc=0.99))
    assert [one.judgement for one in there(made.decision).judged] == ["leaks", "leaks"]
    (tables,) = made.world_tables
    assert [above_cell(row).mark for row in made.results] == ["bad", "bad"]
    (line,) = tables.no_better
    assert line.startswith("a, ")
    assert ".900" in line


def test_an_attack_without_an_interval_beats_nothing() -> None:
    unsure = Estimate(0.95)
    assert there(leak(unsure)).kind == "unknown"
    made = report(setting("a", 1.2, attacks=(*guesses(), attack("map", unsure))))
    assert there(made.decision).judged[0].judgement == "not tested"
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
