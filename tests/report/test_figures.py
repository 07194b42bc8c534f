"""Pictures of reports: what is drawn where, from rows made by hand."""

from __future__ import annotations

from functools import partial
from math import inf
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.report.documents import Row, Section
from foltr_audit.report.figures import (
    Panel,
    PointLabel,
    attack_figure,
    audit_figure,
    by_epsilon,
    comparison_figure,
    noise_figure,
    place_labels,
    recommend_figure,
    trade_offs,
)
from foltr_audit.report.picture_style import picture_style, save_picture
from foltr_audit.report.settings import Setting

WORLD = {"data": "synthetic:mq2007", "scenario": "uniform", "click_model": "perfect", "learner": "fpdgd"}
OF_COMPARE = Section(
    "data scenario click_model learner alternative eps:num|null auc:est precision:est recall:est "
    "ndcg@10:est ceiling_auc:num|null pareto:bool above_guess:est baseline_auc:num|null"
)


GUESS = 0.55


def around(value: float | None, width: float = 0.02) -> Estimate:
    return UNKNOWN if value is None else Estimate(value, (value - width, value + width))


def compared(
    alternative: str, eps: float | None = None, *, auc: float | None = 0.6, ndcg: float = 0.4, **more: Any
) -> Row:
    """A row of a comparison."""
    values = {"ceiling_auc": None, "pareto": False, **WORLD, "alternative": alternative, "eps": eps, **more}
    metrics = dict.fromkeys(("auc", "precision", "recall"), around(auc))
    metrics["above_guess"] = around(None if auc is None else auc - GUESS)
    values["baseline_auc"] = None if auc is None else GUESS
    return OF_COMPARE.row({**values, **metrics, "ndcg@10": around(ndcg)})


def many() -> list[Row]:
    rows = [
        compared("none", auc=0.99),
        compared("a", 1.2, auc=0.61, pareto=True),
        compared("a", 4.5, auc=0.65),
    ]
    return [*rows, compared("top-k", auc=0.8), compared("a", 10.0, auc=None, ndcg=0.41)]


def drawn(panel: Panel) -> Axes:
    with picture_style():
        axis = Figure(figsize=(4.3, 4.4)).subplots()
        panel.draw(axis)
    return axis


def points(axis: Axes) -> list[tuple[float, float]]:
    marks = [line for line in axis.get_lines() if line.get_marker() not in ("None", "")]
    ends = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in marks]
    return [point for x, y in ends for point in zip(x.tolist(), y.tolist(), strict=True)]


# --- comparisons ------------------------------------------------------------------------------------


def test_panels_by_epsilon_are_by_defense_and_end_without_one() -> None:
    panels = list(by_epsilon(many()))
    assert [panel.title for panel in panels] == ["a", "without an epsilon"]
    axis = drawn(panels[0])
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1.2", "4.5", "10", "none"]
    recall = next(line for line in axis.get_lines() if line.get_label() == "recall")
    assert np.asarray(recall.get_ydata()).tolist() == [0.61, 0.65, 0.99]  # 10: nothing known
    assert np.asarray(recall.get_xdata()).tolist() == pytest.approx([-0.045, 0.955, 2.955])
    ring = next(line for line in axis.get_lines() if line.get_label() == "AUC of the guess")
    assert np.asarray(ring.get_ydata()).tolist() == [GUESS] * 3
    ndcg = next(line for line in axis.get_lines() if line.get_label() == "nDCG@10")
    assert np.asarray(ndcg.get_ydata()).tolist() == [0.4, 0.4, 0.41, 0.4]


def test_the_shade_begins_at_what_is_proven() -> None:
    """Of three epsilons two are proven: no shade where nothing is, and none below a promise."""
    ceilings = {1.0: 0.7, 2.0: 0.9, 3.0: None}
    rows = [compared("a", eps, ceiling_auc=most) for eps, most in ceilings.items()]
    axis = drawn(next(by_epsilon(rows)))
    shades = [patch for patch in axis.patches if isinstance(patch, Rectangle)]
    assert [one.get_x() for one in shades] == [-0.5, 0.5]
    assert [one.get_y() for one in shades] == [0.7, 0.9]
    top = axis.get_ylim()[1]
    assert all(one.get_y() + one.get_height() == pytest.approx(top) for one in shades)


def test_defenses_of_one_epsilon_stand_beside_each_other() -> None:
    rows = [compared("none"), *(compared(name, 1.2) for name in ("published", "laplace", "skellam+sum"))]
    (panel,) = by_epsilon(rows)
    assert panel.title == "all defenses"
    shown = [label.get_text() for label in drawn(panel).get_xticklabels()]
    assert shown == ["none", "published", "laplace", "skellam\n+ sum"]


def test_the_trade_off_has_a_point_for_each_known_row() -> None:
    (panel,) = trade_offs(many())
    axis = drawn(panel)
    assert {(round(x, 9), y) for x, y in points(axis)} == {(0.44, 0.4), (0.06, 0.4), (0.1, 0.4), (0.25, 0.4)}
    marks = [line for line in axis.get_lines() if line.get_marker() not in ("None", "")]
    filled = [line for line in marks if line.get_markerfacecolor() != "#ffffff"]
    assert [float(np.asarray(line.get_xdata())[0]) for line in filled] == pytest.approx([0.06])
    assert {text.get_text() for text in axis.texts} == {"none", "1.2", "4.5", "top-k"}


def test_worlds_and_learners_have_panels_of_their_own() -> None:
    rows = [compared("none", click_model=clicks) for clicks in ("perfect", "navigational")]
    assert [panel.title for panel in trade_offs(rows)] == ["perfect clicks", "navigational clicks"]
    learners = [compared("none", learner=learner) for learner in ("fpdgd", "foltr-es")]
    assert [panel.title for panel in trade_offs(learners)] == ["All defenses"]
    assert [panel.title for panel in by_epsilon(learners)] == [
        "fpdgd, all defenses",
        "foltr-es, all defenses",
    ]


def test_labels_keep_out_of_each_other() -> None:
    figure = Figure(figsize=(5, 4))
    axis = figure.subplots()
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    place_labels(axis, [PointLabel(0.5, 0.5, "one name", "#000000") for _ in range(4)])
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axis.texts]  # without their lines
    assert not [(a, b) for a in boxes for b in boxes if a is not b and a.overlaps(b)]


def test_a_comparison_as_one_file(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.svg" for name in "ab"]
    for path in files:
        save_picture(path, partial(comparison_figure, many(), "made data"))
    assert files[0].read_bytes() == files[1].read_bytes()
    ElementTree.fromstring(files[0].read_bytes())  # noqa: S314


def test_nothing_done_is_a_picture_that_says_so() -> None:
    with picture_style():
        figure = comparison_figure([], "")
    assert figure.get_suptitle() == "Defenses: no cell is done"


# --- other reports ----------------------------------------------------------------------------------


def test_attacks_are_a_ladder_for_each_system() -> None:
    section = Section("method baseline:bool click_model sees auc:est")
    rows = []
    for eps, aucs in {1.2: (0.9, 0.7, None), inf: (0.8, 0.7, 0.95)}.items():
        where = Setting(trained_on="perfect", eps_claimed=eps, defense="x", learner="fpdgd", pdgd="none")
        for method, auc in zip(("map:guess=pattern", "position-prior", "olsr"), aucs, strict=True):
            named = {"method": method, "baseline": "prior" in method, "click_model": "perfect"}
            rows.append(section.row({**named, "sees": "message", "auc": around(auc)}, where))
    with picture_style():
        axes = attack_figure(rows).axes
    assert [axis.get_title() for axis in axes] == ["eps 1.2", "no claim"]
    names = [[label.get_text() for label in axis.get_yticklabels()] for axis in axes]
    assert names == [["map", "position-prior"], ["olsr", "map", "position-prior"]]


def test_an_audit_shows_what_is_finite() -> None:
    section = Section("defense sees unit canary run:int verdict eps_claimed:num eps_upper:num eps_lower:num")
    same = {"defense": "x", "unit": "click", "canary": "data:worst", "run": 0, "eps_claimed": 1.2}
    rows = [
        section.row({**same, "sees": "message", "verdict": "refuted", "eps_upper": inf, "eps_lower": 2.0}),
        section.row({**same, "sees": "sum", "verdict": "proven", "eps_upper": 1.0, "eps_lower": 0.5}),
    ]
    with picture_style():
        (axis,) = audit_figure(rows).axes
    assert sorted(points(axis)) == [(0.5, 1.0), (1.0, 1.0), (1.2, 0.0), (1.2, 1.0), (2.0, 0.0)]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["message: refuted", "sum: proven"]


def test_candidates_and_noise() -> None:
    section = Section("name auc:est ndcg@10_validation:num|null")
    rows = [
        section.row({"name": name, "auc": around(auc), "ndcg@10_validation": ndcg})
        for name, auc, ndcg in (("a", 0.6, 0.3), ("b", None, 0.4), ("c", 0.7, None))
    ]
    with picture_style():
        (axis,) = recommend_figure(rows, rows[0], 0.8).axes
        (noise,) = noise_figure({"laplace": 2.0, "gaussian": 1.0}, "least noise").axes
    assert points(axis) == [(0.6, 0.3), (0.6, 0.3)]
    assert [line.get_label() for line in axis.get_lines()] == ["candidate", "chosen: a", "limit"]
    assert [label.get_text() for label in noise.get_yticklabels()] == ["gaussian", "laplace"]
