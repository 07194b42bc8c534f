"""Published numbers of presets are those of the papers, read again from their text."""

from __future__ import annotations

import re

import pytest

from foltr_audit.experiments.presets import load_preset
from tests.fixtures.command import SHARED

PAPERS = SHARED / "papers"
WANG, ZHUANG = PAPERS / "fpdgd-wang-2021.txt", PAPERS / "intent-change-zhuang-2021.txt"
PHAM = PAPERS / "fpdgd-label-attacks-pham-2022.txt"
CLICKS = ("perfect", "navigational", "informational")
here = pytest.mark.skipif(not WANG.is_file(), reason="the shared papers are not here")


def numbers(line: str) -> list[float]:
    """The numbers of a line of a paper's table, without marks of significance and names with digits."""
    plain = re.sub(r"\$[^$]*\$|\*\w+\*|\bintent\d|†", " ", line)
    return [float(text) for text in re.findall(r"(?<![\w.])\d+\.\d+(?!\w)", plain)]


SYMBOLS = {
    r"\Delta": "△",
    r"\nabla": "▽",
    r"\blacktriangle": "▲",
    r"\blacktriangledown": "▼",
    r"\dagger": "†",
}


def marks(line: str) -> list[str]:
    """The mark behind each number of a line of a paper's table, empty where there is none."""
    line = re.sub(r"\$\\epsilon[^$]*\$", " ", line)
    behind = re.findall(r"(?<![\w.])\d+\.\d+(?!\w)(?: ?(?:<sup>|\$)(.*?)(?:</sup>|\$))?", line)
    return [SYMBOLS.get(mark.strip(), mark) for mark in behind]


def lines_after(text: str, title: str, wanted: int, first: int = 0) -> list[list[tuple[float, str]]]:
    """Numbers with their marks, of the lines that have some after a title: `wanted` of them from `first`."""
    lines = text[text.index(title) :].splitlines()[1:]
    found = [list(zip(row, marks(line), strict=True)) for line in lines if (row := numbers(line))]
    return found[first : first + wanted]


@here
@pytest.mark.parametrize(("name", "first"), [("wang-2021-table-2", 0), ("wang-2021-table-2-mslr-web10k", 6)])
def test_online_sums_are_those_of_wang_2021(name: str, first: int) -> None:
    rows = lines_after(WANG.read_text(), "Table 2: Online performance", 6, first)
    expected = {
        (system, clicks): rows[2 * i + j]
        for i, clicks in enumerate(CLICKS)
        for j, system in enumerate(("FPDGD", "FOLtR-ES"))
    }
    found: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for figure in load_preset(name).published.figures:
        assert figure.metric == "online_sum"
        place = figure.cell, str(figure.where["trained_on"])
        found.setdefault(place, []).append((figure.value, figure.mark))
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
        (one.cell, one.where["trained_on"], one.where["period"]): (one.value, one.mark)
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
    figures = load_preset("zhuang-2021-table-6").published.figures
    assert [(one.value, one.mark) for one in figures] == wanted


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
    titles = ("# Queries", "# Relevant Documents", "# Query-Document")
    labels = dict(zip(titles, ("queries", "relevant_documents", "pairs"), strict=True))
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


@here
@pytest.mark.parametrize(("name", "column"), [("pham-2022-mslr-web10k", 0), ("pham-2022", 1)])
def test_attacks_are_those_of_pham_2022(name: str, column: int) -> None:
    names = {
        "Random 3": "random:k=3", "Random 4": "random:k=4", "Higher score": "higher-score",
        "Higher prob.": "higher-probability", "Higher dist.": "higher-distance", "OLSR": "olsr",
    }  # fmt: skip
    text = PHAM.read_text()
    expected: dict[tuple[str, str], list[float]] = {}
    method = ""
    for line in text[text.index("Table 4. Average") :].splitlines():
        method = names.get(line.strip(), method)
        pairs = re.findall(r"([\d.]+) \(([\d.]+)\)", line)
        if len(pairs) == 3:
            expected[method, line.split()[0].lower()] = [float(pair[column]) for pair in pairs]
    assert len(expected) == 18
    figures = load_preset(name).published.attacks
    found = {(one.method, one.click_model): [one.accuracy, one.precision, one.recall] for one in figures}
    assert found == expected
