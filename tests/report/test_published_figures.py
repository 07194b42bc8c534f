"""What stands beside published numbers."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import ttest_1samp

from foltr_audit.core.ranking_metrics import ONLINE
from foltr_audit.core.records.population import Environment, IntentPeriod
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.plan import apply_changes
from foltr_audit.experiments.presets import Preset, PublishedFigure, load_preset, preset_names, read_preset
from foltr_audit.experiments.published import (
    LEVEL,
    Fields,
    StudyExtent,
    figure_beside,
    seed_intervals,
    stratified_interval,
)
from foltr_audit.experiments.run import Run, World
from foltr_audit.report.presets import PresetComparison
from tests.fixtures.run_results import run_of

ROUND = {**dict.fromkeys(ONLINE, 0.5), "clipped": 0.0}
TWO_SYSTEMS = """
about = "Made up."
source = "Nobody 2020"
kind = "train"
periods = 2
data = { needs = "made-up data", get = "--data", twin = "synthetic:mq2007" }
shared.train.rounds = 4
shared.population.clients = 10
grid.train.click_model = ["perfect", "informational"]
published = { title = "Nobody 2020, table 1", data = "nothing", figures = [
    { cell = "one", where = { trained_on = "perfect" }, metric = "online_sum", value = 3 },
    { cell = "one", metric = "ndcg@10", value = 0.5, approximate = true },
    { cell = "two", where = { trained_on = "perfect" }, metric = "ndcg@10", value = 0.5 },
    { cell = "two", where = { trained_on = "perfect", period = 2 }, metric = "online_mean", value = 0.25 },
    { cell = "two", where = { trained_on = "perfect", period = 2 }, metric = "ndcg_delta@10", value = 0.1 },
    { cell = "two", where = { trained_on = "informational" }, metric = "ndcg@10", value = 0.5 },
] }
cells = [
    { name = "one", spec = { population = { scenario = "mixed" } } },
    { name = "two", spec = { population = { scenario = "abrupt" } } },
    { name = "fixed", grid.population.scenario = ["fixed-intent:intent=1", "fixed-intent:intent=2"] },
]
"""


def preset() -> Preset:
    return read_preset(TWO_SYSTEMS, "mine")


def changing(intents: Sequence[int], each: int) -> Environment:
    """One intent at a time, for as many interactions each."""
    rows = np.eye(2)[list(intents)]
    periods = tuple(IntentPeriod(i * each, (i + 1) * each, k) for i, k in enumerate(intents))
    knots = np.arange(len(intents), dtype=np.float64) * each
    return Environment(knots=knots, start=rows, stop=rows, periods=periods)


def steady(value: float) -> Callable[[int], float]:
    """The same after every round."""
    return lambda _: value


def cell(spec: Spec, ndcg: Callable[[int], float], **world: Any) -> Run:
    """A run of two intents whose offline nDCG@10 after each round is known, and online is half of it."""
    offline = ("offline_ndcg@10", "offline_ndcg@10/intent 1", "offline_ndcg@10/intent 2")
    rounds = [
        {"round": t, **ROUND, "online_ndcg@10": ndcg(t) / 2, **dict.fromkeys(offline, ndcg(t))}
        for t in range(spec.train.rounds)
    ]
    return run_of(spec, rounds, world=World(**world), per_round=40)


def compared(scale: float = 1.0) -> dict[tuple[str, str, str | None, int | None], dict[str, Any]]:
    """Rows of a comparison in which `two` reaches .4 and its twins .5, by place."""
    specs = {name: [Spec.parse(table) for table in tables] for name, tables in preset().tables(scale).items()}
    worlds = [changing([i % 2], 1) for i in range(len(specs["fixed"]))]
    fixed = [
        cell(one, steady(0.5), environment=there) for one, there in zip(specs["fixed"], worlds, strict=True)
    ]
    two, twins = specs["two"][0], {f"intent {i + 1} alone": one.spec for i, one in enumerate(fixed[:2])}
    there = changing([0, 1], two.train.rounds * 20)
    repeated = [(spec.model_copy(update={"repetition": i}), i) for spec in specs["one"] for i in range(3)]
    cells = {
        "one": [cell(spec, steady(0.6 + 0.1 * i)) for spec, i in repeated],
        "two": [cell(two, steady(0.4), environment=there, twins=twins)],
        "fixed": fixed,
    }
    extent = StudyExtent(data="here", synthetic=False, scale=scale)
    rows = PresetComparison.of(preset(), {"": cells}, extent).rows
    return {
        (row["cell"], row["metric"], row["where"].get("trained_on"), row["where"].get("period")): row
        for row in rows
    }


def test_a_number_stands_beside_the_mean_of_its_repetitions() -> None:
    rows = compared()
    assert len(rows) == 6
    found = rows["one", "ndcg@10", None, None]
    assert found["found"] == pytest.approx(fmean([0.6, 0.7, 0.8]))
    assert found["difference"] == pytest.approx(0.2)
    assert found["approximate"] is True
    total = sum(0.35 * 0.9995**t for t in range(4))
    summed = rows["one", "online_sum", "perfect", None]
    assert summed["found"] == pytest.approx(total)
    assert summed["difference"] == pytest.approx(total - 3)
    assert summed["found_a_round"] == pytest.approx(0.35)
    assert summed["published_a_round"] == pytest.approx(3 / sum(0.9995**t for t in range(4)))


def test_sums_of_fewer_rounds_are_comparable_a_round() -> None:
    full, small = compared(), compared(0.5)
    place = ("one", "online_sum", "perfect", None)
    assert small[place]["found"] < 0.51 * full[place]["found"] + 1e-3
    assert small[place]["found_a_round"] == pytest.approx(full[place]["found_a_round"])
    assert small[place]["published_a_round"] == pytest.approx(full[place]["published_a_round"])


def test_periods_are_those_of_the_cell_and_twins_may_be_of_another() -> None:
    rows = compared()
    assert rows["two", "online_mean", "perfect", 2]["found"] == pytest.approx(0.2)
    assert rows["two", "ndcg_delta@10", "perfect", 2]["found"] == pytest.approx(0.2)
    assert rows["two", "ndcg@10", "perfect", None]["found"] == pytest.approx(0.4)


def test_what_was_not_run_is_empty() -> None:
    row = compared()["two", "ndcg@10", "informational", None]
    assert row["found"] is None
    assert row["difference"] is None
    assert row["published"] == 0.5


READINGS = """
[readings.published]
about = "as the program"
spec.data.normalise = "none"
[readings.written]
about = "as the text"
"""


def test_a_reading_changes_the_specs_of_all_cells_and_a_cell_may_add_its_own() -> None:
    own = '{ name = "two", readings.written.spec.seed = 4, spec'
    both = read_preset(TWO_SYSTEMS.replace('{ name = "two", spec', own) + READINGS, "mine")
    plain = preset().tables()
    found = {name: both.tables(reading=name) for name in both.reading_names}
    assert list(found) == ["published", "written"]
    for cell_name, tables in plain.items():
        raw = [apply_changes(table, {"data.normalise": "none"}) for table in tables]
        assert found["published"][cell_name] == raw
        seeded = [apply_changes(table, {"seed": 4}) for table in tables] if cell_name == "two" else tables
        assert found["written"][cell_name] == seeded


def test_each_reading_has_a_row_and_a_column() -> None:
    both = read_preset(TWO_SYSTEMS + READINGS, "mine")
    ndcg = {"published": 0.7, "written": 0.4}
    cells = {
        reading: {
            name: [cell(Spec.parse(table), steady(value)) for table in tables]
            for name, tables in both.tables(reading=reading).items()
        }
        for reading, value in ndcg.items()
    }
    comparison = PresetComparison.of(both, cells, StudyExtent(data="here", synthetic=False))
    rows = [row for row in comparison.rows if row["cell"] == "one" and row["metric"] == "ndcg@10"]
    assert {row["reading"]: row["found"] for row in rows} == pytest.approx(ndcg)
    console = Console(record=True, width=200, file=io.StringIO())
    comparison.print(console)
    shown = " ".join(console.export_text().split())
    assert "as the program" in shown
    assert "as the text" in shown
    assert re.search(r"as published.*as written", shown)


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_can_be_printed_whatever_was_found(name: str) -> None:
    """A third of the presets has no published numbers, and an interrupted study nothing that was found."""
    known = load_preset(name)
    extent = StudyExtent(data="here", synthetic=False)
    found: dict[str, dict[str, list[Fields]]] = {reading: {} for reading in known.reading_names}
    console = Console(record=True, width=100, file=io.StringIO())
    PresetComparison.of_figures(known, found, extent).print(console)
    shown = " ".join(console.export_text().split())
    assert known.published.attacks or " ".join(known.published.shows.split())[:40] in shown


def test_a_number_of_several_rows_has_the_interval_of_their_means() -> None:
    rng = np.random.default_rng(5)
    values = rng.uniform(0.3, 0.6, (2, 6))
    rows: list[dict[str, Any]] = [
        {"ndcg@10": fmean(row), "repetitions": {"ndcg@10": dict(zip("abcdef", row, strict=True))}}
        for row in values.tolist()
    ]
    figure = PublishedFigure(cell="one", metric="ndcg@10", value=0.5)
    found = figure_beside(figure, rows, [4])
    low, high = ttest_1samp(values.mean(axis=0), 0.0).confidence_interval(0.95)
    assert (found["low"], found["high"]) == pytest.approx((low, high))


@pytest.mark.parametrize(("runs", "known"), [(2, False), (3, True)])
def test_intervals_need_three_runs_and_stay_in_their_range(runs: int, known: bool) -> None:
    specs = [Spec(repetition=i, train={"rounds": 1}) for i in range(runs)]
    cells = [cell(spec, steady(0.01 + 0.98 * (i % 2))) for i, spec in enumerate(specs)]
    found = seed_intervals(cells, [{"ndcg_drop@10": 0.01 + 0.98 * (i % 2)} for i in range(runs)])
    assert found == ({"ndcg_drop@10": [0.0, 1.0]} if known else {})


# --- intervals over seeds with fixed folds --------------------------------------------------------


def test_one_stratum_is_the_usual_interval_of_a_mean() -> None:
    values = [0.41, 0.44, 0.43, 0.4, 0.47]
    low, high = ttest_1samp(values, 0.0).confidence_interval(LEVEL)
    assert stratified_interval(values, [0] * 5) == pytest.approx((low, high), rel=1e-12)


def test_a_single_run_of_a_fold_has_no_spread() -> None:
    assert stratified_interval([0.4, 0.5, 0.6], [1, 1, 2]) is None


def covered(strata: list[int], pooled: bool) -> float:
    """How often an interval of values around the levels of their strata holds the mean of these levels."""
    rng, levels = np.random.default_rng(4), np.array([0.1, 0.5, 0.9])
    kinds, hits = np.array(strata), 0
    for _ in range(2000):
        values = levels[kinds] + rng.normal(scale=0.01, size=kinds.size)
        found = stratified_interval(values.tolist(), [0] * kinds.size if pooled else strata)
        assert found is not None
        hits += found[0] <= levels[kinds].mean() <= found[1]
    return hits / 2000


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    """Four binomial standard deviations around the level; without strata it is far too wide."""
    assert abs(covered([0, 1, 2] * 3, pooled=False) - LEVEL) < 4 * (LEVEL * (1 - LEVEL) / 2000) ** 0.5
    assert covered([0, 1, 2] * 3, pooled=True) == 1.0
