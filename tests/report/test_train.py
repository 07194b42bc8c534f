"""Periods and twins in the report of a training, and their curves, on runs made by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.plugins import Scenario
from foltr_audit.core.plugins.registry import make
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.periods import (
    SPECIFIC,
    fixed_intents,
    reference_specs,
    runs_by_spec,
    specific_rankers,
)
from foltr_audit.experiments.run import Run
from foltr_audit.judge.significance import paired_t_test
from foltr_audit.report import curves
from foltr_audit.report.curves import PANELS, IntentSpan, LearningCurve, draw, insert_gaps
from foltr_audit.report.settings import short_scenario
from foltr_audit.report.train import period_rows, twin_rows
from foltr_audit.simulation.intent_metrics import PLAYED
from tests.fixtures.made_reports import FIRST, RUN, SECOND, N, abrupt, fixed, skewed, trained
from tests.fixtures.result_rows import plain
from tests.fixtures.run_results import DATASET as DATA

# --- periods --------------------------------------------------------------------------------------


def test_a_row_for_each_period_by_hand() -> None:
    first, second = plain(period_rows([abrupt(), fixed(1, FIRST), fixed(2, SECOND)]))
    assert (first["period"], first["first"], first["end"], first["intent"]) == (1, 0, 20, 1)
    assert (second["period"], second["first"], second["end"], second["intent"]) == (2, 20, 40, 2)
    assert first["ndcg_drop@10"] is None
    assert second["ndcg_drop@10"] == pytest.approx((0.8 - 0.4) / 0.8)
    assert first["ndcg_delta@10"] == 0.0
    assert second["ndcg_delta@10"] == pytest.approx(((0.8 - 0.5) / 0.8 + (0.8 - 0.6) / 0.8) / 2)
    assert (first["online_mean"], second["online_mean"]) == pytest.approx((0.15, 0.35))
    assert (first["ndcg@10"], second["ndcg@10"]) == pytest.approx((0.8, 0.6))
    assert first["runs"] == first["delta_runs"] == 1


def test_periods_are_means_over_runs_and_count_those_with_a_twin() -> None:
    worse = [[0.3, 0.2], [0.8, 0.0], [0.6, 0.0], [0.5, 0.0]]
    cells = [abrupt(0), abrupt(1, worse), fixed(2, SECOND, 1)]
    first, second = plain(period_rows(cells))
    assert (second["runs"], second["delta_runs"], first["delta_runs"]) == (2, 1, 0)
    assert second["ndcg_drop@10"] == pytest.approx((0.5 + 1.0) / 2)
    assert second["ndcg_delta@10"] == 1.0
    assert first["ndcg_delta@10"] is None


def test_worlds_without_a_change_have_no_periods() -> None:
    assert period_rows([fixed(1, FIRST), trained("mixed", RUN), trained("uniform", RUN)]) == ()


def test_periods_of_several_settings_stand_apart() -> None:
    rows = plain(period_rows([abrupt(), trained("swap:changes=1", RUN)]))
    swap = make(Scenario, "swap:changes=1").text
    assert [row["population.scenario"] for row in rows] == ["abrupt:period=0"] * 2 + [swap] * 2
    assert [row["ndcg_delta@10"] for row in rows] == [None] * 4


# --- twins ----------------------------------------------------------------------------------------


def test_the_evenly_dealt_twin_is_tested_in_pairs() -> None:
    ours = [(0.5, 0.3), (0.6, 0.2), (0.4, 0.35)]
    theirs = [(0.7, 0.35), (0.65, 0.3), (0.72, 0.37)]
    cells = [skewed("click-skew", *pair, run) for run, pair in enumerate(ours)]
    cells += [skewed("click-skew:strength=0", *pair, run) for run, pair in enumerate(theirs)]
    offline, online = plain(twin_rows(cells))
    for number, (row, metric) in enumerate(((offline, "offline_ndcg@10"), (online, "online_mean"))):
        a, b = (np.array([pair[number] for pair in side]) for side in (ours, theirs))
        test = paired_t_test(a, b)
        assert (row["twin"], row["metric"], row["pairs"]) == ("evenly dealt", metric, 3)
        assert (row["mean"], row["mean_twin"]) == pytest.approx((a.mean(), b.mean()))
        assert row["difference"] == pytest.approx(test.difference)
        assert row["difference_ci95"] == pytest.approx(list(test.interval))
        assert row["p"] == row["p_bonferroni"] == pytest.approx(test.p)


def test_a_single_pair_has_a_difference_and_no_test() -> None:
    one = [skewed("click-skew", 0.5, 0.3, 0), skewed("click-skew:strength=0", 0.6, 0.5, 0)]
    offline, online = plain(twin_rows(one))
    assert (offline["difference"], online["difference"]) == pytest.approx((-0.1, -0.2))
    assert offline["p"] is offline["p_bonferroni"] is offline["difference_ci95"] is None
    assert twin_rows(one[:1]) == ()


def test_comparisons_of_one_metric_are_corrected_together() -> None:
    rng = np.random.default_rng(5)
    cells = []
    for text in ("click-skew", "label-skew"):
        for run in range(4):
            cells.append(skewed(text, float(rng.uniform(0.3, 0.5)), 0.2, run))
            cells.append(skewed(f"{text}:strength=0", float(rng.uniform(0.5, 0.7)), 0.2, run))
    offline = [row for row in plain(twin_rows(cells)) if row["metric"] == "offline_ndcg@10"]
    assert len(offline) == 2
    for row in offline:
        assert row["p_bonferroni"] == pytest.approx(min(1.0, 2 * row["p"]))


# --- one ranker per intent ------------------------------------------------------------------------


def by_itself(intent: int, values: Any, online: Any, counts: Any, repetition: int = 0) -> Run:
    made = trained(f"mixed:only={intent}", values, online, repetition)
    rows = [{**row, PLAYED: float(count)} for row, count in zip(made.trained.rounds, counts, strict=True)]
    return replace(made, trained=replace(made.trained, rounds=rows))


def rankers(repetition: int = 0) -> list[Run]:
    return [
        by_itself(1, FIRST, (0.1, 0.2, 0.3, 0.4), (4, 6, 5, 10), repetition),
        by_itself(2, SECOND, (0.5, 0.6, 0.7, math.nan), (6, 4, 5, 0), repetition),
    ]


def test_the_single_ranker_beside_one_per_intent() -> None:
    single = trained("mixed", RUN)
    offline, online = plain(twin_rows([single, *rankers()]))
    assert offline["twin"] == online["twin"] == SPECIFIC
    assert offline["mean"] == pytest.approx((0.5 + 0.6) / 2)
    assert offline["mean_twin"] == pytest.approx((1.0 + 0.8) / 2)
    lists = [0.1] * 4 + [0.2] * 6 + [0.3] * 5 + [0.4] * 10 + [0.5] * 6 + [0.6] * 4 + [0.7] * 5
    assert online["mean_twin"] == pytest.approx(np.mean(lists))
    assert online["mean"] == pytest.approx(0.25)
    assert len(lists) == 4 * N


def test_a_missing_ranker_leaves_no_ensemble() -> None:
    single, cells = trained("mixed", RUN), rankers()
    assert specific_rankers(single, runs_by_spec([single, *cells])) == cells
    assert specific_rankers(single, runs_by_spec([single, cells[1]])) == []
    assert twin_rows([single, cells[1]]) == ()
    assert fixed_intents(single, runs_by_spec([single, *cells])) == {}


# --- populations ----------------------------------------------------------------------------------


def test_joined_scenarios_are_shortened_one_by_one() -> None:
    even, own = (spec_text(f"click-skew+quantity-skew:even={even}") for even in ("true", "false"))
    assert short_scenario(even, [even, own]) == "click-skew+quantity-skew:even=true"
    assert short_scenario(own, [own]) == "click-skew+quantity-skew"
    assert short_scenario("uniform", [own, "uniform"]) == "uniform"


def spec_text(text: str) -> str:
    return Spec(population={"scenario": text}).population.scenario


# --- curves ---------------------------------------------------------------------------------------


def test_twins_of_one_intent_are_drawn_in_its_periods_and_not_by_themselves() -> None:
    cells = [abrupt(), fixed(1, FIRST), fixed(2, SECOND)]
    assert reference_specs(cells) == {cells[1].spec, cells[2].spec}
    main, twin = curves.curves(cells, "offline_ndcg@10")
    assert main.mean.tolist() == [0.3, 0.8, 0.5, 0.6]
    assert main.spans == (IntentSpan(0.0, 2.0, 1), IntentSpan(2.0, 4.0, 2))
    assert main.beside is None
    assert (twin.beside, twin.label) == (0, "its leading intent alone")
    assert twin.mean.tolist() == [0.3, 0.8, 0.8, 0.8]
    assert [curve.beside for curve in curves.curves(cells, "online_ndcg@10")] == [None]
    for alone in (cells[1:], cells[:1]):
        assert [curve.beside for curve in curves.curves(alone, "offline_ndcg@10")] == [None] * len(alone)


def test_one_ranker_per_intent_is_a_curve_of_ndcg() -> None:
    cells = [trained("mixed", RUN), *rankers()]
    (_, offline), mrr, (_, online) = (curves.curves(cells, metric) for metric in PANELS)
    assert [curve.beside for curve in mrr] == [None]
    assert offline.label == online.label == SPECIFIC
    np.testing.assert_allclose(offline.mean, [0.4, 0.7, 0.85, 0.9])
    np.testing.assert_allclose(online.mean, [0.34, 0.36, 0.5, 0.4])


def test_a_line_is_interrupted_where_the_intent_changes() -> None:
    spans = (IntentSpan(0, 2, 1), IntentSpan(2, 3.5, 2), IntentSpan(3.5, 4, 1))
    x, y = insert_gaps(np.array([1, 2, 3, 4]), np.array([0.1, 0.2, 0.3, 0.4]), spans)
    assert x.tolist() == [1, 2, 2, 3, 3.5, 4]
    np.testing.assert_array_equal(y, [0.1, 0.2, np.nan, 0.3, np.nan, 0.4])


def drawn(cells: list[Run]) -> Any:
    return draw({metric: curves.curves(cells, metric) for metric in PANELS}, DATA)


def test_change_points_are_marked_with_their_intents() -> None:
    figure = drawn([abrupt(), fixed(1, FIRST), fixed(2, SECOND)])
    for axis in figure.axes:
        upright = [line for line in axis.lines if line.get_xdata()[0] == line.get_xdata()[-1] == 2.0]
        assert len(upright) == 1
        assert [text.get_text() for text in axis.texts] == ["intent 1", "intent 2"]
        assert [text.get_position()[0] for text in axis.texts] == [1.0, 3.0]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["perfect clicks, no claim", "its leading intent alone"]
    assert figure.axes[0].get_title() == "offline: global model on the training split"
    dashed = figure.axes[0].lines[-1]
    assert dashed.get_linestyle() == "--"
    assert dashed.get_color() == figure.axes[0].lines[-2].get_color()


def test_curves_that_disagree_on_the_intents_have_lines_without_names() -> None:
    figure = drawn([abrupt(), trained("swap:first=2,second=1,changes=1", RUN)])
    for axis in figure.axes:
        assert not axis.texts
        assert sum(line.get_xdata()[0] == line.get_xdata()[-1] for line in axis.lines) == 1
    flat: dict[str, Any] = {"rounds": np.arange(1, 51), "mean": np.zeros(50), "deviation": np.zeros(50)}
    spans = tuple(IntentSpan(i, i + 1, 1 + i % 2) for i in range(10))
    many = LearningCurve(label="x", runs=1, spans=spans, **flat)
    found = draw({metric: [many] for metric in PANELS}, DATA)
    assert [text.get_text() for text in found.axes[0].texts] == ["1", "2"] * 5
