"""Pictures of reports: what is drawn where, from rows made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import inf, log
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
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


def heights(line: Line2D) -> list[float]:
    values: list[float] = np.asarray(line.get_ydata()).tolist()
    return values


# --- comparisons ------------------------------------------------------------------------------------


def drawn(rows: Sequence[Row]) -> Figure:
    with picture_style():
        return comparison_figure(rows, "made data")


def test_measures_stand_against_epsilon_and_end_without_one() -> None:
    axes = drawn(many()).axes
    attack, precision, recall, ndcg = axes
    assert [label.get_text() for label in ndcg.get_xticklabels()] == ["1.2", "4.5", "10", "none"]
    middle = 2 * log(4.5 / 1.2) / log(10 / 1.2)  # on a logarithmic axis of length 2
    # none, a, top-k beside each other; a at 10: nothing known of attacks
    known = [(2.8, 0.99), (0, 0.61), (middle, 0.65), (3.2, 0.8)]
    for axis in (precision, recall):
        assert sorted(points(axis)) == [pytest.approx(point) for point in sorted(known)]
    assert sorted(points(attack)) == [pytest.approx((x, auc - GUESS)) for x, auc in sorted(known)]
    quality = [(0, 0.4), (middle, 0.4), (2, 0.41), (2.8, 0.4), (3.2, 0.4)]
    assert sorted(points(ndcg)) == [pytest.approx(point) for point in quality]


def test_a_line_joins_what_one_defense_has_at_each_epsilon() -> None:
    rows = [*many(), compared("none", click_model="navigational")]
    thin, *lines = [heights(line) for line in drawn(rows).axes[3].get_lines() if len(heights(line)) > 2]
    assert set(thin) == {0.4}, "training without a defense, at each epsilon and from end to end"
    assert lines == [[0.4, 0.4, 0.41]]


def test_worlds_and_learners_have_panels_of_their_own() -> None:
    def titles(name: str, *several: str) -> list[str]:
        axes = drawn([compared("none").with_values(**{name: value}) for value in several]).axes
        return [axis.get_title(loc="left") for axis in axes[::4]]

    assert titles("click_model", "perfect", "navigational") == ["perfect clicks", "navigational clicks"]
    assert titles("learner", "fpdgd", "foltr-es") == ["fpdgd", "foltr-es"]
    assert titles("learner", "fpdgd") == [""]


LONG = "proven-skellam+secure-aggregation"


@pytest.mark.parametrize("epsilons", [(), (1.2,), (1.2, 4.5, 10.0), tuple(n + 0.25 for n in range(12))])
@pytest.mark.parametrize("clicks", [("perfect",), ("perfect", "navigational", "informational")])
def test_no_texts_overlap(epsilons: tuple[float, ...], clicks: tuple[str, ...]) -> None:
    """Titles, labels, numbers of axes and legend, as they are drawn; in the figure, and beside each other."""
    defenses = (LONG, "published", f"{LONG}+top-k:k=5", "proven-laplace", "rr")
    rows = [
        compared(name, eps, click_model=click, auc=0.5 + 0.04 * place, ndcg=0.3 + 0.02 * place)
        for click in clicks
        for place, name in enumerate(defenses)
        for eps in epsilons
    ]
    figure = drawn([*rows, *(compared("none", click_model=click) for click in clicks)])
    assert overlaps(figure) == []


def overlaps(figure: Figure) -> list[Any]:
    """Texts that lie on another or leave the figure."""
    figure.draw_without_rendering()
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown(figure)]
    assert len(boxes) > 12
    outside = [text for text, box in boxes if box.x0 < 0 or box.x1 > figure.bbox.x1]
    return [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)] + outside


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


METHODS = {"olsr": 0.7, "map": 0.9, "position-prior": 0.6, "random:k=3": 0.55, "relevance-prior": 0.8}
OF_ATTACK = Section(
    "method baseline:bool click_model view sees eps_claimed:num precision:est recall:est auc:est"
)
TRAINED = Section("eps_claimed:num ndcg@10:num ndcg@10_undefended:num|null")


def attacked(*epsilons: float, click_model: str = "perfect", learner: str = "fpdgd") -> list[Row]:
    """A row for each attack and guess; the metrics tell methods, epsilons and each other apart."""
    rows = []
    for eps in epsilons:
        step = 0.01 if eps == inf else eps / 1000
        for method, auc in METHODS.items():
            metrics = {"precision": auc - 0.2, "recall": auc - 0.1, "auc": auc}
            where = {"click_model": click_model, "view": "individual", "sees": "message", "eps_claimed": eps}
            values = {name: around(value + step) for name, value in metrics.items()}
            named = {"method": method, "baseline": "prior" in method or "random" in method}
            rows.append(OF_ATTACK.row({**named, **where, **values}, setting(eps, learner=learner)))
    return rows


def setting(eps: float, *, learner: str = "fpdgd", sees: str | None = "message") -> Setting:
    fields = {} if learner == "fpdgd" else {"train.learner": learner}
    same: dict[str, Any] = {"trained_on": "perfect", "pdgd": "none", "sees": sees, "fields": fields}
    return Setting(eps_claimed=eps, defense=f"x:eps={eps}", learner=learner, **same)


def trained(*epsilons: float, undefended: float | None = 0.5) -> list[Row]:
    """The nDCG of each model, which is its epsilon / 100; .45 without a claim."""
    values = [
        {"eps_claimed": eps, "ndcg@10": 0.45 if eps == inf else eps / 100, "ndcg@10_undefended": undefended}
        for eps in epsilons
    ]
    return [TRAINED.row(each, setting(each["eps_claimed"], sees=None)) for each in values]  # type: ignore[arg-type]


def of_attacks(rows: Sequence[Row], utility: Sequence[Row]) -> Figure:
    with picture_style():
        return attack_figure(rows, utility, "made data")


def test_attacks_stand_against_epsilon_beside_the_quality_of_the_ranker() -> None:
    epsilons = (1.0, 10.0, inf)
    precision, recall, auc, ndcg = of_attacks(attacked(*epsilons), trained(*epsilons)).axes
    assert [label.get_text() for label in auc.get_xticklabels()] == ["1", "10", "none"]
    steps = (0.001, 0.01, 0.01)
    for axis, less in ((precision, 0.2), (recall, 0.1), (auc, 0.0)):
        found = [
            (x + apart, value - less + steps[x])
            for x in range(3)
            for apart, value in ((-0.1, 0.7), (0.1, 0.9))
        ]
        assert sorted(points(axis)) == [pytest.approx(point) for point in found]
        bars = [line for line in axis.get_lines() if len(heights(line)) == 2 and len(set(heights(line))) == 2]
        assert len([bar for bar in bars if np.ptp(heights(bar)) == pytest.approx(0.04)]) == 6, "intervals"
    assert points(ndcg) == [pytest.approx(point) for point in ((0, 0.01), (1, 0.1), (2, 0.45))]


def test_the_thin_line_is_the_best_guess_that_knows_no_grades() -> None:
    for axis, best in zip(
        of_attacks(attacked(1.0, inf), trained(1.0, inf)).axes, (0.4, 0.5, 0.6), strict=False
    ):
        first, last = best + 0.001, best + 0.01
        assert heights(axis.get_lines()[0]) == pytest.approx([first, first, last, last])
    ndcg = of_attacks(attacked(1.0), trained(1.0)).axes[3]
    assert heights(ndcg.get_lines()[0]) == [0.5] * 3
    unknown = of_attacks(attacked(1.0), trained(1.0, undefended=None)).axes[3]
    assert "dashed" in ndcg.get_ylabel()
    assert "dashed" not in unknown.get_ylabel()


def test_what_attacks_share_is_told_once_and_what_tells_them_apart_at_each_line() -> None:
    def told(rows: Sequence[Row]) -> tuple[str, list[str]]:
        figure = of_attacks(rows, [])
        return figure.get_suptitle(), [axis.get_title(loc="left") for axis in figure.axes[::4]]

    seen = "Attacks on made data\nperfect clicks, the server sees the message"
    assert told(attacked(1.2)) == (seen, [""])
    clicks = [*attacked(1.2), *attacked(1.2, click_model="navigational")]
    assert told(clicks)[1] == ["perfect clicks", "navigational clicks"]
    learners = [*attacked(1.2, 2.3), *attacked(1.2, 2.3, learner="foltr-es")]
    assert told(learners) == (seen, ["", "train.learner=foltr-es"])
    chains = [row.with_values() for row in attacked(inf)]
    other = replace(setting(inf), defense="y")
    chains += [Row(row, OF_ATTACK, other) for row in attacked(inf)]
    assert told(chains) == (seen, ["defense x:eps=inf", "defense y"])
    assert told([]) == ("Attacks on made data: no clicks were attacked", [])


@pytest.mark.parametrize("epsilons", [(inf,), (1.2, 2.3, 4.5, 10.0, inf), (1.2, 2.3, 2.35, 100.0)])
def test_no_texts_of_attacks_overlap(epsilons: tuple[float, ...]) -> None:
    rows = [
        *attacked(*epsilons),
        *attacked(*epsilons, click_model="navigational", learner="foltr-es:x=1,y=2"),
    ]
    figure = of_attacks(rows, trained(*epsilons))
    assert overlaps(figure) == []


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
    with picture_style():
        (axis,) = audit_figure([*rows, rows[0].with_values(defense="y")]).axes
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert names == ["x", "message: refuted", "sum: proven", "y", "message: refuted"]
    assert [y for x, y in points(axis) if x == 2.0] == [1.0, 4.0]


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
