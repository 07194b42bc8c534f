"""Learning curves: their numbers by hand, their pictures by what is drawn and by their bytes."""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from foltr_audit.errors import UsageError
from foltr_audit.experiments.run import Run
from foltr_audit.experiments.runner import Runner
from foltr_audit.report import curves
from foltr_audit.report.curves import PANELS, LearningCurve, draw
from foltr_audit.report.picture_style import check_picture, save_picture
from foltr_audit.report.settings import differing, setting_label, setting_text
from tests.conftest import SetupOf
from tests.fixtures.run_results import DATASET as DATA
from tests.fixtures.run_results import run_setting as setting

PAPERS = ["fpdgd", "foltr-es", "pdgd", "dbgd", "coltr"]


@pytest.fixture(scope="module")
def cells(setup_of: SetupOf) -> list[Run]:
    """Three repetitions at epsilon 2 and one without noise, three rounds each."""
    noisy = ("clip:norm=1", "gamma-laplace:eps=2,sensitivity=2")
    setups = [setup_of(rounds=3, defense=noisy, repetition=run) for run in range(3)]
    setups.append(setup_of(rounds=3))
    return [Runner(data=setup.collection).run(setup.spec) for setup in setups]


def curve(label: str = "one", runs: int = 2, rounds: int = 3) -> LearningCurve:
    numbers, mean = np.arange(rounds) + 1, np.linspace(0.2, 0.4, rounds)
    return LearningCurve(label=label, runs=runs, rounds=numbers, mean=mean, deviation=np.full(rounds, 0.01))


def panels(*found: LearningCurve) -> dict[str, list[LearningCurve]]:
    return {metric: list(found) for metric in PANELS}


# --- the numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", PANELS)
def test_mean_and_deviation_over_repeated_runs(cells: list[Run], metric: str) -> None:
    noisy, plain = curves.curves(cells, metric)
    assert (noisy.label, noisy.runs, plain.label, plain.runs) == ("eps 2", 3, "no claim", 1)
    by_round = [[cell.trained.rounds[i][metric] for cell in cells[:3]] for i in range(3)]
    assert noisy.rounds.tolist() == plain.rounds.tolist() == [1, 2, 3]
    np.testing.assert_allclose(noisy.mean, [statistics.fmean(each) for each in by_round], rtol=1e-12)
    np.testing.assert_allclose(noisy.deviation, [statistics.stdev(each) for each in by_round], rtol=1e-9)
    assert plain.mean.tolist() == [row[metric] for row in cells[3].trained.rounds]
    assert plain.deviation.tolist() == [0.0] * 3


def test_rounds_without_a_value_are_left_out(cells: list[Run]) -> None:
    def without(cell: Run, *rounds: int) -> Run:
        lost = {"offline_ndcg@10": np.nan}
        rows = [{**row, **lost} if i in rounds else row for i, row in enumerate(cell.trained.rounds)]
        return replace(cell, trained=replace(cell.trained, rounds=rows))

    first, second = without(cells[0], 0, 1), without(cells[1], 0)
    (found,) = curves.curves([first, second], "offline_ndcg@10")
    assert found.rounds.tolist() == [2, 3]
    assert found.mean[0] == cells[1].trained.rounds[1]["offline_ndcg@10"]
    assert found.deviation[0] == 0.0
    last = [cell.trained.rounds[2]["offline_ndcg@10"] for cell in cells[:2]]
    assert found.mean[1] == pytest.approx(statistics.fmean(last))
    assert found.deviation[1] == pytest.approx(statistics.stdev(last))


# --- what lines are called ------------------------------------------------------------------------


def test_a_line_is_called_by_what_it_differs_in() -> None:
    alone = setting()
    assert setting_label(alone, [alone]) == "perfect clicks, eps 1.2"
    rows = [setting(learner=f"{name}:b=1", eps_claimed=eps) for name in PAPERS for eps in (1.2, float("inf"))]
    labels = [setting_label(each, rows) for each in rows]
    assert labels[:4] == ["fpdgd, eps 1.2", "fpdgd, no claim", "foltr-es, eps 1.2", "foltr-es, no claim"]
    assert len(set(labels)) == len(rows)


def test_learners_of_one_name_keep_their_parameters() -> None:
    rows = [setting(learner="coltr:tau=1"), setting(learner="coltr:tau=0.1"), setting(learner="dbgd")]
    assert [setting_text(each, "learner", rows) for each in rows] == ["coltr:tau=1", "coltr:tau=0.1", "dbgd"]


def test_other_settings_name_a_line_too() -> None:
    rows = [setting(**{"population.clients": 10}), setting(**{"population.clients": 1000})]
    assert [setting_label(each, rows) for each in rows] == ["clients 10", "clients 1000"]
    rows = [setting(trained_on="perfect"), setting(trained_on="navigational")]
    assert [setting_label(each, rows) for each in rows] == ["perfect clicks", "navigational clicks"]
    same_eps = [setting(defense="a"), setting(defense="b")]
    assert differing(same_eps) == ["defense"]
    assert differing([setting(defense="a"), setting(defense="b", eps_claimed=3.0)]) == []


# --- the picture ----------------------------------------------------------------------------------


def test_a_panel_for_each_metric_with_a_line_and_a_band_for_each_curve() -> None:
    figure = draw(panels(curve("one"), curve("two")), DATA)
    assert len(figure.axes) == 2
    for axis, name in zip(figure.axes, ("offline nDCG@10", "online nDCG@10"), strict=True):
        assert axis.get_ylabel() == name
        assert axis.get_xlabel() == "rounds played"
        assert [line.get_label() for line in axis.lines] == ["one", "two"]
        assert len(axis.collections) == 2
        np.testing.assert_allclose(np.asarray(axis.lines[0].get_ydata()), [0.2, 0.3, 0.4], rtol=1e-12)
    band = figure.axes[0].collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == pytest.approx((0.19, 0.41))
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["one", "two", "mean ± one standard deviation, 2 runs"]
    assert "synthetic data tiny" in cast(Any, figure).get_suptitle()


def test_without_repetitions_there_is_no_band_and_no_word_of_one() -> None:
    figure = draw(panels(curve(runs=1)), DATA)
    assert not figure.axes[0].collections
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one"]
    mixed = draw(panels(curve(runs=1), curve("two", runs=5)), DATA)
    assert len(mixed.axes[0].collections) == 1
    assert mixed.legends[0].get_texts()[-1].get_text() == "mean ± one standard deviation, 1 to 5 runs"


def test_thirty_lines_are_told_apart_without_their_colour() -> None:
    figure = draw(panels(*(curve(f"line {i}", rounds=40) for i in range(30))), DATA)
    lines = figure.axes[0].lines
    looks = {(repr(cast(Any, line)._unscaled_dash_pattern), str(line.get_marker())) for line in lines}
    assert len(looks) == 30
    both = {(str(line.get_color()), str(line.get_marker())) for line in lines}
    assert len(both) == 30
    assert [line.get_color() for line in lines] == [line.get_color() for line in figure.axes[1].lines]


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "SVG"])
def test_same_bytes_and_no_date(tmp_path: Path, cells: list[Run], suffix: str) -> None:
    import matplotlib

    def own() -> list[object]:
        settings = matplotlib.rcParams
        return [settings["svg.hashsalt"], settings["axes.grid"], settings["lines.linewidth"]]

    before = own()
    one, two = tmp_path / f"one.{suffix}", tmp_path / f"two.{suffix}"
    found = {metric: curves.curves(cells, metric) for metric in PANELS}
    save_picture(one, lambda: draw(found, DATA))
    with matplotlib.rc_context({"lines.linewidth": 9.0, "svg.hashsalt": None}):
        save_picture(two, lambda: draw(found, DATA))
    written = one.read_bytes()
    assert written == two.read_bytes()
    assert own() == before
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[suffix.lower()]
    assert written.startswith(start)
    assert not re.search(rb"CreationDate|<dc:date>", written)
    assert [path.name for path in sorted(tmp_path.iterdir())] == [one.name, two.name]


# --- refusals -------------------------------------------------------------------------------------


def test_places_where_no_picture_can_go_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.svg").mkdir()
    refused = {"none/x.svg": "no such folder", "folder.svg": "is a folder"}
    for name, words in {**refused, "folder.svg/x.svg": "is reserved for Runs"}.items():
        with pytest.raises(UsageError, match=words):
            check_picture(tmp_path / name, tmp_path / "folder.svg")
    for fine in ("x.svg", "x.PNG", "x.y.pdf"):
        check_picture(tmp_path / fine, tmp_path / "folder.svg")
