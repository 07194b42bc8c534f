"""One table on a terminal, in Markdown, HTML and CSV."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from rich.console import Console

from foltr_audit.report.attack import AttackReport
from foltr_audit.report.notebook import table_html
from foltr_audit.report.table import NAME_WIDTH, Cell, Column, Table, make_table, name_lines
from foltr_audit.report.terminal import print_table
from tests.fixtures.made_reports import TEXTS, attack_report, judged_lists, on_terminal
from tests.golden_files import GOLDEN


class _Leak(NamedTuple):
    defense: str
    auc: float
    bad: bool = False


LEAKS = (_Leak("none", 0.75, bad=True), _Leak("<b>[red]|=clip", 0.5))


def leaks(*, spare: tuple[str, ...] = ()) -> Table:
    columns = [
        Column("defense", lambda row: row.defense, "fold", narrow=lambda text: text.replace("|", "|\n")),
        Column("AUC", lambda row: Cell(f"{row.auc}", ".4-.9", "bad" if row.bad else "")),
        Column("rank", lambda row: str(LEAKS.index(row)), beside=True),
    ]
    return make_table("leaks [1]", columns, LEAKS, caption="of few", section=lambda row: row.bad, spare=spare)


def shown(table: Table, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_table(table, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_every_renderer_shows_texts_literally() -> None:
    assert "<b>[red]|=clip" in shown(leaks())
    assert "leaks [1]" in shown(leaks())
    assert "&lt;b&gt;[red]|=clip" in table_html(leaks())


def test_intervals_stand_below_and_marks_are_shown() -> None:
    lines = [line.split() for line in shown(leaks()).splitlines()]
    below = lines.index(["none", "0.75", "0"]) + 1
    assert lines[below] == [".4-.9"]
    assert lines[below + 1] == []  # a section ends
    assert "0.75<br><small>.4-.9</small></td>" in table_html(leaks())


def test_a_narrow_terminal_leaves_columns_out() -> None:
    assert "left out" not in shown(leaks(spare=("AUC",)), 80)
    told = shown(leaks(spare=("AUC", "rank")), 14)
    assert "left out for lack of width: AUC" in " ".join(told.split())
    assert "0.75" not in told
    hyphenated = make_table("", [Column(f"ceil-\ning {i}", str) for i in range(9)], ["row"])
    assert "left out for lack of width: ceiling 8," in " ".join(shown(hyphenated, 30).split())
    assert ["<b>[red]|", "1"] in [line.split() for line in told.splitlines()]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "proven-skellam+secure-aggregation, eps 1.2",
            ["proven-skellam +", "secure-aggregation,", "eps 1.2"],
        ),
        ("proven-laplace, eps 1.2", ["proven-laplace,", "eps 1.2"]),
        ("published, eps 1.2", ["published, eps 1.2"]),
        (
            "clip:norm=3+laplace:eps=1e+06,sensitivity=3.0",
            ["clip:norm=3 +", "laplace:eps=1e+06,", "sensitivity=3.0"],
        ),
    ],
)
def test_names_break_after_their_parts(name: str, lines: list[str]) -> None:
    found = name_lines(name).split("\n")
    assert found == lines
    assert max(map(len, found)) <= NAME_WIDTH


def test_names_from_files_are_no_markup() -> None:
    judged = judged_lists(refused={"lad[bold]": "no [red]order[/red]"})
    judged = replace(judged, query=np.char.add("[red]", judged.query))
    made = attack_report({1.2: judged}, ("[red]q1", "[/red]"), click_model="[bold]clicks")
    text = " ".join(on_terminal(AttackReport.show, made, 80).split())
    assert "[red]q1" in text
    assert "query [/red]: not attacked" in text
    assert "lad[bold]: cannot run: no [red]order[/red]" in text
    assert "[bold]clicks clicks, the server sees the message and lists" in text


@pytest.mark.parametrize("name", TEXTS)
def test_a_report_prints_what_is_stored(name: str) -> None:
    """`python -m tests.golden_files` stores what it prints now."""
    assert TEXTS[name]() == (GOLDEN / name).read_text(encoding="utf-8")
