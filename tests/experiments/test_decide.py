"""What a comparison recommends, by the losses of its defenses on each query: made-up tables and grids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from foltr_audit.core.results import Estimate
from foltr_audit.experiments.decide import MOST_LOSS, Decision, JudgedDefense, cost_doubt, decide
from foltr_audit.experiments.table import (
    Attacked,
    ComparedPool,
    ComparisonTable,
    Difference,
    over_queries,
)
from foltr_audit.judge.doubts import shown_above
from foltr_audit.utils.arrays import Floats
from tests.fixtures.comparisons import LISTS, SUM, checked, seen_as, setting

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
    found = decide(ComparisonTable(pools=(NONE, *pools)))
    assert found is not None
    return found


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
        assert found.best is not None
        assert found.best.eps_claimed == min(passing), "the safest of those that pass"
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
        p = pools[0].difference.p
        assert p is not None
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
