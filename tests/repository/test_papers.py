"""The page of papers has every table, figure and preset, with commands that can be run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.results.__main__ import RESULTS
from benchmarks.results.data_folders import SHARED
from benchmarks.results.declarations import read_declarations
from benchmarks.results.files import ResultFolder
from benchmarks.results.papers import Paper, read_papers, verdicts_of_items
from foltr_audit.cli.main import command_line
from foltr_audit.core.click_models import CascadeClickModel
from foltr_audit.core.plugins import ClickModel
from foltr_audit.core.plugins.registry import plugin_class
from foltr_audit.errors import UsageError
from foltr_audit.experiments.presets import load_preset, preset_names
from tests.fixtures.command import answer, run
from tests.fixtures.doc_examples import GENERATED, text_of
from tests.fixtures.there import there

PAPERS = {paper.name: paper for paper in read_papers()}
COMMANDS = sorted({text for paper in PAPERS.values() for item in paper.items for text in item.commands})
DECLARED, FILES = read_declarations(), ResultFolder(RESULTS)
TEXTS = {
    "wang-2021": "fpdgd-wang-2021.txt",
    "zhuang-2021": "intent-change-zhuang-2021.txt",
    "non-iid-2024": "non-iid-ltr-2024.txt",
    "foltr-es-2021": "foltr-es-reproducibility-settings.tex",
    "pham-2022": "fpdgd-label-attacks-pham-2022.txt",
}


def numbered(paper: Paper) -> list[str]:
    """The tables and figures of a paper that have a number."""
    return [item.name for item in paper.items if re.fullmatch(r"(table|figure) \d+", item.name)]


@pytest.mark.parametrize("name", TEXTS)
def test_every_table_and_figure_of_a_paper_is_there_once(name: str) -> None:
    path = SHARED.parent / "papers" / TEXTS[name]
    if not path.exists():
        pytest.skip(f"no text of the paper in {path.parent}")
    text = path.read_text(encoding="utf-8")
    found = {f"{kind.lower()} {number}" for kind, number in re.findall(r"\b(Table|Figure) (\d+)", text)}
    found |= {f"table {number}" for number in re.findall(r"label\{table:(\d+)", text)}
    assert found
    assert sorted(numbered(PAPERS[name])) == sorted(found)


def parsed(command: str) -> tuple[str, dict[str, Any]]:
    """The name of a command and its parameters, as the command line reads them."""
    at: Any = command_line()
    context, words = None, ["foltr-audit", *command.split()]
    while hasattr(at, "commands"):
        context = at.make_context(words[0], words[1:], parent=context, resilient_parsing=True)
        _, at, rest = at.resolve_command(context, words[1:])
        words = [words[1], *rest]
    context = at.make_context(words[0], words[1:], parent=context)
    return context.command_path, context.params


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_read_and_names_a_preset(command: str) -> None:
    path, given = parsed(command)
    if path.startswith("foltr-audit study"):
        preset = load_preset(given["name"])
        if path.endswith("run"):
            assert preset.kind == "train" or not given["plot"], "only curves are drawn"
            intents = "intents" in preset.data.twin
            assert ("--intents" in command) == intents, preset.data.get


def test_every_preset_is_there() -> None:
    named = {parsed(command)[1].get("name") for command in COMMANDS if command.startswith("study run")}
    assert named == set(preset_names())


def test_the_page_has_each_item_with_its_commands_and_verdicts() -> None:
    page = text_of(GENERATED / "papers.md")
    rows = dict(re.findall(r"^\| ([\w ]+: .*?) \| (.*) \|$", page.partition("\n## ")[2], re.MULTILINE))
    judged = verdicts_of_items(DECLARED, FILES)
    for paper in PAPERS.values():
        assert paper.title in page
        for item in paper.items:
            row = rows[f"{item.name}: {item.what}"]
            parts = [f"`foltr-audit {command}`" for command in item.commands]
            parts += judged[f"{paper.name} {item.name}"] or [item.verdict]
            assert all(part in row for part in parts), row
    for claim in DECLARED.claims:
        assert page.count(f"{claim.published}: **") == len(claim.of)


def test_a_claim_of_a_table_that_no_paper_has_is_refused() -> None:
    claim = replace(DECLARED.claims[0], of=["wang-2021 table 9"])
    with pytest.raises(UsageError, match="wang-2021 table 9 is not declared"):
        verdicts_of_items(replace(DECLARED, claims=(claim,)), FILES)


def test_click_models_are_listed_with_their_probabilities() -> None:
    printed = run("list click-models").out
    for row in answer("list click-models")["plugins"]:
        model = plugin_class(ClickModel, row["name"])
        assert issubclass(model, CascadeClickModel)
        for scale, click_, stop in zip(
            row["probabilities"], model.click_given_grade, model.stop_given_grade, strict=True
        ):
            assert (tuple(scale["click"]), tuple(scale["stop"])) == (click_, stop)
            line = ", ".join(f"{p:g}" for p in click_) + r" +" + ", ".join(f"{p:g}" for p in stop)
            assert there(re.search(line, printed))
