"""Pictures of a comparison: what is drawn where, for a page in its colours and for a file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from foltr_audit.report.pictures.compare_panels import (
    PanelPlot,
    PointLabel,
    by_epsilon,
    comparison_figure,
    draw_comparison,
    figure_of,
    group_bars,
    ladders,
    learning,
    place_labels,
    trade_offs,
)
from foltr_audit.report.pictures.style import THEME, inline_svg, picture_style
from foltr_audit.report.results.compare_rows import ServedRow
from tests.fixtures.comparisons import Made, hit, report, setting, several, where

EVERY_EPSILON = (1.2, 4.5)


def many() -> list[Made]:
    rows = [setting("none", auc=0.99)]
    rows += [setting("a", eps, auc=0.6 + eps / 100) for eps in EVERY_EPSILON]
    return [*rows, setting("top-k", auc=0.8), setting("a", 10.0, auc=None, ndcg=0.41)]


def words(panel: PanelPlot) -> str:
    return inline_svg(lambda: figure_of(panel), "what <it> shows", "p")


def titles(panels: object) -> list[str]:
    assert isinstance(panels, list)
    return [panel.title for panel in panels]


def test_panels_by_epsilon_are_by_defense_and_end_without_one() -> None:
    panels = list(by_epsilon(report(*many())))
    assert titles(panels) == ["a", "without an epsilon"]
    with picture_style():
        axis = figure_of(panels[0]).axes[0]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1.2", "4.5", "10", "none"]
    recall = next(line for line in axis.get_lines() if line.get_label() == "recall")
    assert np.asarray(recall.get_ydata()).tolist() == pytest.approx([0.612, 0.645, 0.99])  # 10: nothing known
    assert np.asarray(recall.get_xdata()).tolist() == pytest.approx([-0.045, 0.955, 2.955])
    ndcg = next(line for line in axis.get_lines() if line.get_label() == "nDCG@10")
    assert np.asarray(ndcg.get_ydata()).tolist() == pytest.approx([0.4, 0.4, 0.41, 0.4])


def test_the_shade_begins_at_what_is_proven() -> None:
    """Of three epsilons two are proven: no shade where nothing is, and none below a promise."""
    ceilings = {1.0: 0.7, 2.0: 0.9, 3.0: None}
    rows = [setting("a", eps, auc=0.6, ceiling_auc=most) for eps, most in ceilings.items()]
    with picture_style():
        axis = figure_of(next(by_epsilon(report(*rows)))).axes[0]
        (panel,) = trade_offs(report(*rows))
        strokes = [line for line in figure_of(panel).axes[0].get_lines() if line.get_marker() == "|"]
    shades = [patch for patch in axis.patches if isinstance(patch, Rectangle)]
    assert [one.get_x() for one in shades] == [-0.5, 0.5]
    assert [one.get_y() for one in shades] == [0.7, 0.9]
    top = axis.get_ylim()[1]
    assert all(one.get_y() + one.get_height() == pytest.approx(top) for one in shades)
    assert [float(np.asarray(line.get_xdata())[0]) for line in strokes] == [0.7, 0.9]


def test_defenses_of_one_epsilon_stand_beside_each_other() -> None:
    panels = list(by_epsilon(several()))
    assert titles(panels) == ["all defenses"]
    text = words(panels[0])
    assert all(f">{name}<" in text for name in ("none", "published", "laplace", "skellam"))


def test_the_trade_off_has_a_point_for_each_known_row() -> None:
    (panel,) = trade_offs(report(*many()))
    with picture_style():
        axis = figure_of(panel).axes[0]
    marks = [line for line in axis.get_lines() if line.get_marker() not in ("None", "")]
    ends = [(np.asarray(line.get_xdata())[0], np.asarray(line.get_ydata())[0]) for line in marks]
    points = {(float(x), float(y)) for x, y in ends}
    assert points == {(0.99, 0.4), (0.612, 0.4), (0.645, 0.4), (0.8, 0.4)}
    filled = [line for line in marks if line.get_markerfacecolor() != "#ffffff"]
    assert [float(np.asarray(line.get_xdata())[0]) for line in filled] == [0.612]
    assert {text.get_text() for text in axis.texts} == {"none", "1.2", "4.5", "top-k"}


def test_ladders_show_every_attack_of_the_smallest_epsilon() -> None:
    panels = list(ladders(report(*many())))
    assert titles(panels) == ["none", "a, eps 1.2", "top-k"]
    with picture_style():
        axis = figure_of(panels[1]).axes[0]
    shown = [label.get_text() for label in axis.get_yticklabels()]
    assert shown == ["olsr", "random:k=3", "position-prior", "map", "relevance-prior"]


def test_learning_curves_leave_out_rounds_without_a_value() -> None:
    panels = list(learning(report(*many())))
    every = [f"{kind}, eps {eps}" for eps in ("1.2", "4.5", "10") for kind in ("offline", "online")]
    assert titles(panels) == every
    with picture_style():
        axis = figure_of(panels[0]).axes[0]
    assert [np.asarray(line.get_xdata()).tolist() for line in axis.get_lines()] == [[2, 3]] * 3


def test_groups_are_drawn_where_clients_differ() -> None:
    assert not list(group_bars(several()))
    place = where("none")
    means = {"rare": 0.2, "often": 0.4}
    served = [ServedRow(setting=place, group=name, online_mean=mean) for name, mean in means.items()]
    groups = [hit(place, "rare", 0.9, 0.8)]
    panels = list(group_bars(replace(report(setting("none")), served=served, groups=groups)))
    assert titles(panels) == ["attacked: none", "served: none"]
    with picture_style():
        axis = figure_of(panels[1]).axes[0]
    assert [bar.get_width() for bar in axis.patches] == [0.2, 0.4]  # type: ignore[attr-defined]


def test_labels_keep_out_of_each_other() -> None:
    figure = Figure(figsize=(5, 4))
    axis = figure.subplots()
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    place_labels(axis, [PointLabel(0.5, 0.5, "one name", "#000000") for _ in range(4)])
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axis.texts]  # without their lines
    assert not [(a, b) for a in boxes for b in boxes if a is not b and a.overlaps(b)]


# --- how they are written -----------------------------------------------------------------------------


def test_inline_pictures_are_xml_in_the_colours_of_the_page() -> None:
    text = words(next(trade_offs(several())))
    root = ElementTree.fromstring(text)  # noqa: S314
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "what <it> shows"
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?=[;\"])", re.sub(r"(url\(|href=\")#[^\")]*", "", text))
    assert {"var(--ink)", "var(--dim)", "var(--c1)"} <= set(re.findall(r"var\(--\w+\)", text))
    assert set(re.findall(r"var\(--\w+\)", text)) <= set(THEME.values())
    names = re.findall(r' id="([^"]*)"', text)
    assert len(names) == len(set(names))
    assert set(re.findall(r"(?:url\(|href=\")#([^\")]*)", text)) <= set(names)
    assert "<metadata" not in text


def test_no_id_of_one_picture_is_one_of_another() -> None:
    panel = next(trade_offs(several()))
    one, other = (inline_svg(lambda: figure_of(panel), "x", name) for name in ("a-1", "a-2"))
    assert not set(re.findall(r' id="([^"]*)"', one)) & set(re.findall(r' id="([^"]*)"', other))


def test_names_like_colours_stay_as_they_are() -> None:
    assert ">#000000<" in words(next(trade_offs(report(setting("#000000"), setting("b")))))


def test_a_comparison_as_one_file(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.svg" for name in "ab"]
    for path in files:
        draw_comparison(path, several())
    assert files[0].read_bytes() == files[1].read_bytes()
    ElementTree.fromstring(files[0].read_bytes())  # noqa: S314


def test_nothing_done_is_a_picture_that_says_so() -> None:
    with picture_style():
        figure = comparison_figure(report())
    assert figure.get_suptitle() == "Defenses: no cell is done"
