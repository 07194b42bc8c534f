"""Published numbers: those of the papers, and what stands beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from foltr_audit.core.records.population import Environment, IntentPeriod
from foltr_audit.core.settings.experiment import Spec
from foltr_audit.experiments.presets import Preset, load_preset, read_preset
from foltr_audit.experiments.runner import RunResult, WorldDescription
from foltr_audit.report.results.published_extent import StudyExtent
from foltr_audit.report.tables.published_figures import FigureComparison
from tests.fixtures.command import SHARED
from tests.fixtures.result_rows import plain
from tests.fixtures.run_results import run_of

PAPERS = SHARED / "papers"
WANG, ZHUANG = PAPERS / "fpdgd-wang-2021.txt", PAPERS / "intent-change-zhuang-2021.txt"
CLICKS = ("perfect", "navigational", "informational")
here = pytest.mark.skipif(not WANG.is_file(), reason="the shared papers are not here")

# --- the numbers are those of the papers ----------------------------------------------------------


def numbers(line: str) -> list[float]:
    """The numbers of a line of a paper's table, without marks of significance and names with digits."""
    plain = re.sub(r"\$[^$]*\$|\*\w+\*|\bintent\d|†", " ", line)
    return [float(text) for text in re.findall(r"(?<![\w.])\d+\.\d+(?!\w)", plain)]


def lines_after(text: str, title: str, wanted: int) -> list[list[float]]:
    """The first lines with numbers after a title."""
    found = [row for row in map(numbers, text[text.index(title) :].splitlines()[1:]) if row]
    return found[:wanted]


@here
@pytest.mark.parametrize(("name", "first"), [("wang-2021-table-2", 0), ("wang-2021-table-2-mslr-web10k", 6)])
def test_online_sums_are_those_of_wang_2021(name: str, first: int) -> None:
    rows = lines_after(WANG.read_text(), "Table 2: Online performance", 12)
    rows = rows[first : first + 6]
    expected = {
        (system, clicks): rows[2 * i + j]
        for i, clicks in enumerate(CLICKS)
        for j, system in enumerate(("FPDGD", "FOLtR-ES"))
    }
    found: dict[tuple[str, str], list[float]] = {}
    for figure in load_preset(name).published.figures:
        assert figure.metric == "online_sum"
        found.setdefault((figure.cell, str(figure.where["trained_on"])), []).append(figure.value)
    assert found == expected


@here
@pytest.mark.parametrize(
    ("title", "name", "metric", "first"),
    [
        ("**Table 3:", "zhuang-2021-table-3", "ndcg_drop@10", 2),
        ("**Table 4:", "zhuang-2021-table-3", "online_mean", 1),
    ],
)
def test_drops_and_online_means_are_those_of_zhuang_2021(
    title: str, name: str, metric: str, first: int
) -> None:
    rows = lines_after(ZHUANG.read_text(), title, 9)
    systems = ("DBGD", "COLTR", "PDGD")
    expected = {
        (system, f"{clicks}", first + i): value
        for n, clicks in enumerate(CLICKS)
        for system, row in zip(systems, rows[3 * n : 3 * n + 3], strict=True)
        for i, value in enumerate(row)
    }
    found = {
        (one.cell, one.where["trained_on"], one.where["period"]): one.value
        for one in load_preset(name).published.figures
        if one.metric == metric
    }
    assert found == expected


@here
def test_losses_and_mixed_intents_are_those_of_zhuang_2021() -> None:
    text = ZHUANG.read_text()
    start = text.index("Table 5:")
    rows = [row for row in map(numbers, text[start : text.index("Table 6:")].splitlines()) if len(row) == 6]
    expected = {(f"{c}", i): v for c, row in zip(CLICKS, rows, strict=True) for i, v in enumerate(row, 1)}
    figures = load_preset("zhuang-2021-table-5").published.figures
    assert {(one.where["trained_on"], one.where["period"]): one.value for one in figures} == expected
    wanted = [value for row in lines_after(text, "Table 6: Online", 3) for value in row]
    assert [one.value for one in load_preset("zhuang-2021-table-6").published.figures] == wanted


NON_IID = PAPERS / "non-iid-ltr-2024.txt"
MODELS, METHODS = ("M_1", "M_2", "M_full"), ("no-tie-breaking", "exclusive")


def of_width(width: int) -> list[list[float]]:
    """The lines of the non-IID paper's tables with so many decimal numbers, columns behind tabs."""
    lines = [line for line in NON_IID.read_text().splitlines() if "\t" in line]
    return [row for row in map(numbers, lines) if len(row) == width]


def published_by(cell: str, *names: str) -> dict[tuple[object, ...], float]:
    """Published numbers of a table of the study by some of its columns and the metric."""
    figures = [one for one in load_preset("non-iid-ltr-2024").published.figures if one.cell == cell]
    return {(*map(one.where.get, names), one.metric): one.value for one in figures}


@here
def test_numbers_of_local_models_are_those_of_the_non_iid_paper() -> None:
    first, later = of_width(3)[:3], of_width(6)
    assert len(later) == 6
    expected = {
        ("initial", 1, model, on, "ndcg@10"): value
        for model, row in zip(MODELS, first, strict=True)
        for on, value in zip(("DS_1", "DS_2", "DS"), row, strict=True)
    } | {
        (METHODS[i // 3], j // 3 + 1, MODELS[i % 3], ("DS_1", "DS'_2", "DS")[j % 3], "ndcg@10"): value
        for i, row in enumerate(later)
        for j, value in enumerate(row)
    }
    assert published_by("local", "method", "choice", "model", "on") == expected


@here
def test_numbers_of_merged_models_are_those_of_the_non_iid_paper() -> None:
    names = ("M_1", "M_2", "M_12a", "M_21a", "M_1", "M_2", "M_12S", "M_21S")
    expected = {
        (j // 3 + 1, model, ("ndcg@10", "map@10", "mrr@10")[j % 3]): value
        for model, row in zip(names, of_width(9), strict=True)
        for j, value in enumerate(row)
    }
    assert published_by("merged", "split", "model") == expected


@here
def test_sizes_of_splits_are_those_of_the_non_iid_paper() -> None:
    labels = {
        "# Queries": "queries",
        "# Relevant Documents": "relevant_documents",
        "# Query-Document": "pairs",
    }
    rows = []
    for line in NON_IID.read_text().splitlines():
        for label, metric in labels.items():
            if label in line:
                counts = re.findall(r"\d{1,3}(?:, ?\d{3})*", line[line.index(label) :])
                rows.append((metric, [float(text.replace(",", "").replace(" ", "")) for text in counts]))
    assert len(rows) == 9
    expected: dict[tuple[str, str | None, int | None, str, str], float] = {}
    for number, (metric, row) in enumerate(rows):
        part = ("train", "vali", "test")[number // 3]
        expected[part, None, None, "DS", metric] = row[0]
        for j, value in enumerate(row[1:]):
            group = ("DS_1", "DS'_2")[j % 2]
            expected[part, METHODS[j // 4], j // 2 % 2 + 1, group, metric] = value
    assert published_by("statistics", "part", "method", "choice", "group") == expected


# --- what stands beside them ----------------------------------------------------------------------

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


def cell(spec: Spec, ndcg: Callable[[int], float], **world: Any) -> RunResult:
    """A run of two intents whose offline nDCG@10 after each round is known, and online is half of it."""
    rounds = [
        {
            "round": t,
            "online_ndcg@10": ndcg(t) / 2,
            "maxrr": 0.5,
            "clipped": 0.0,
            "offline_ndcg@10": ndcg(t),
            "offline_ndcg@10/intent 1": ndcg(t),
            "offline_ndcg@10/intent 2": ndcg(t),
        }
        for t in range(spec.train.rounds)
    ]
    return run_of(spec, rounds, world=WorldDescription(per_round=40, **world))


def compared(scale: float = 1.0) -> dict[tuple[str, str, str | None, int | None], dict[str, Any]]:
    """Rows of a comparison in which `two` reaches .4 and its twins .5, by place."""
    specs = {name: [Spec.parse(table) for table in tables] for name, tables in preset().tables(scale).items()}
    fixed = [
        cell(spec, lambda t: 0.5, environment=changing([i % 2], 1)) for i, spec in enumerate(specs["fixed"])
    ]
    cells = {
        "one": [
            cell(replace_repetition(spec, i), steady(0.6 + 0.1 * i))
            for spec in specs["one"]
            for i in range(3)
        ],
        "two": [
            cell(
                specs["two"][0],
                lambda t: 0.4,
                environment=changing([0, 1], specs["two"][0].train.rounds * 20),
                twins={f"intent {i + 1} alone": one.spec for i, one in enumerate(fixed[:2])},
            )
        ],
        "fixed": fixed,
    }
    extent = StudyExtent(data="here", synthetic=False, scale=scale)
    rows = plain(FigureComparison.of(preset(), cells, extent).rows)
    return {
        (row["cell"], row["metric"], row["where"].get("trained_on"), row["where"].get("period")): row
        for row in rows
    }


def replace_repetition(spec: Spec, repetition: int) -> Spec:
    return spec.model_copy(update={"repetition": repetition})


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
