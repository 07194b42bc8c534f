"""Pictures of reports: what is drawn where, from rows made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from foltr_audit.core.results import UNKNOWN, Estimate
from foltr_audit.report.documents import Row, Section
from foltr_audit.report.figures import (
    attack_figure,
    audit_figure,
    comparison_figure,
    noise_figure,
    recommend_figure,
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


def points(axis: Axes) -> list[tuple[float, float]]:
    marks = [line for line in axis.get_lines() if line.get_marker() not in ("None", "")]
    ends = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in marks]
    return [point for x, y in ends for point in zip(x.tolist(), y.tolist(), strict=True)]


# --- comparisons ------------------------------------------------------------------------------------


def drawn(rows: Sequence[Row]) -> Figure:
    with picture_style():
        return comparison_figure(rows, "made data")


def test_measures_stand_against_epsilon_and_end_without_one() -> None:
    axes = drawn(many()).axes
    attack, precision, recall, ndcg = axes
    assert [label.get_text() for label in ndcg.get_xticklabels()] == ["1.2", "4.5", "10", "none"]
    # none, a, top-k beside each other; a at 10: nothing known of attacks
    known = [(2.9, 0.99), (0, 0.61), (1, 0.65), (3.1, 0.8)]
    for axis in (precision, recall):
        assert sorted(points(axis)) == [pytest.approx(point) for point in sorted(known)]
    assert sorted(points(attack)) == [pytest.approx((x, auc - GUESS)) for x, auc in sorted(known)]
    quality = [(0, 0.4), (1, 0.4), (2, 0.41), (2.9, 0.4), (3.1, 0.4)]
    assert sorted(points(ndcg)) == [pytest.approx(point) for point in quality]


def test_a_line_joins_what_one_defense_has_at_each_epsilon() -> None:
    rows = [*many(), compared("none", click_model="navigational")]
    lines = [line for line in drawn(rows).axes[3].get_lines() if len(line.get_xydata()) > 2]  # type: ignore[arg-type]
    assert [np.asarray(line.get_ydata()).tolist() for line in lines] == [[0.4, 0.4, 0.41]]


def test_worlds_and_learners_have_panels_of_their_own() -> None:
    def titles(name: str, *several: str) -> list[str]:
        axes = drawn([compared("none").with_values(**{name: value}) for value in several]).axes
        return [axis.get_title(loc="left") for axis in axes[::4]]

    assert titles("click_model", "perfect", "navigational") == ["perfect clicks", "navigational clicks"]
    assert titles("learner", "fpdgd", "foltr-es") == ["fpdgd", "foltr-es"]
    assert titles("learner", "fpdgd") == [""]


LONG = "proven-skellam+secure-aggregation"


@pytest.mark.parametrize("epsilons", [(), (1.2,), (1.2, 4.5, 10.0), tuple(n + 0.25 for n in range(12))])
@pytest.mark.parametrize(
    "defenses", [("a",), (LONG, "published", f"{LONG}+top-k:k=5", "proven-laplace", "rr")]
)
@pytest.mark.parametrize("clicks", [("perfect",), ("perfect", "navigational", "informational")])
def test_no_texts_overlap(
    epsilons: tuple[float, ...], defenses: tuple[str, ...], clicks: tuple[str, ...]
) -> None:
    """Titles, labels, numbers of axes and legend, as they are drawn; in the figure, and beside each other."""
    rows = [
        compared(name, eps, click_model=click, auc=0.5 + 0.04 * place, ndcg=0.3 + 0.02 * place)
        for click in clicks
        for place, name in enumerate(defenses)
        for eps in epsilons
    ]
    figure = drawn([*rows, *(compared("none", click_model=click) for click in clicks)])
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown(figure)]
    assert len(boxes) > 12
    assert [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)] == []
    assert [text for text, box in boxes if box.x0 < 0 or box.x1 > figure.bbox.x1] == []


def shown(figure: Figure) -> list[Text]:
    """The texts that are drawn; numbers beyond the ends of an axis are not."""
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axis in figure.axes:
        texts += [child for child in axis.get_children() if isinstance(child, Text)]
        for line, limits in ((axis.xaxis, axis.get_xlim()), (axis.yaxis, axis.get_ylim())):
            ticks = [tick for tick in line.get_major_ticks() if limits[0] <= tick.get_loc() <= limits[1]]
            texts += [line.label, *(tick.label1 for tick in ticks if tick.label1.get_visible())]
    return [text for text in texts if text.get_text().strip()]


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
