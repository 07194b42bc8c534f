"""Short answers: at most twelve rows in 80 columns, the conclusion first, and what is left out is named."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from foltr_audit.report.render.terminal import MOST_ROWS, first_rows
from foltr_audit.report.results.attack import AttackReport, brief_attack, print_brief_attack
from foltr_audit.report.results.meaning import describe_results
from foltr_audit.report.tables.compare import brief_compare, print_brief_compare
from foltr_audit.utils.rows import Estimate
from tests.fixtures.command import run
from tests.fixtures.comparisons import checked, report, setting
from tests.report.test_attack_tables import flat, judged_lists, report_of


def printed(found: AttackReport, *, quiet: bool = False, width: int = 80) -> str:
    text = io.StringIO()
    print_brief_attack(found, Console(file=text, width=width), quiet=quiet)
    if not quiet:
        assert all(len(line) <= width for line in text.getvalue().splitlines())
    return text.getvalue()


def test_the_conclusion_comes_first_and_alone_if_quiet() -> None:
    found = report_of({1.2: judged_lists()})
    conclusion = describe_results(found.results)
    assert flat(printed(found)).startswith(conclusion)
    assert printed(found, quiet=True) == f"{conclusion}\n"


def test_the_table_has_the_attacks_strongest_first_and_the_best_guess() -> None:
    found = report_of({1.2: judged_lists()})
    answer = brief_attack(found)
    assert answer is not None
    assert answer.table is not None
    methods = [line.cells[0].text for line in answer.table.lines]
    attacks = [row for row in found.results if not row.baseline]
    ranked = sorted(attacks, key=lambda row: -float(row.found.auc.value))
    assert methods[:-1] == [row.method for row in ranked]
    guesses = [row for row in found.results if row.baseline and row.found.auc.known]
    assert methods[-1] == max(guesses, key=lambda row: float(row.found.auc.value)).method
    assert answer.table.lines[-1].dim


def test_many_settings_keep_to_twelve_rows() -> None:
    found = report_of({0.5 + n: judged_lists(n) for n in range(1, 10)})
    answer = brief_attack(found)
    assert answer is not None
    assert answer.table is not None
    assert len(answer.table.lines) == MOST_ROWS
    assert "6 more rows" in " ".join(answer.left_out)


def test_other_click_models_are_named_and_the_worst_is_shown() -> None:
    weak = report_of({1.2: judged_lists(1)}, click_model="informational")
    strong = report_of({1.2: judged_lists(1)})

    def with_auc(found: AttackReport, shift: float) -> AttackReport:
        rows = []
        for row in found.results:
            auc = row.found.auc
            if not row.baseline and auc.ci95 is not None:
                auc = Estimate(0.6 + shift, (0.55 + shift, 0.65 + shift))
            rows.append(replace(row, found=replace(row.found, auc=auc)))
        return replace(found, results=tuple(rows))

    both = replace(strong, results=(*with_auc(weak, 0.0).results, *with_auc(strong, 0.3).results))
    text = flat(printed(both))
    assert "perfect clicks, the server sees" in text
    assert "informational clicks, the server sees" not in text
    assert "--full also shows informational clicks" in text


def test_a_report_without_an_attack_on_clicks_is_shown_whole() -> None:
    nothing = report_of({1.2: judged_lists().at(np.zeros(250, dtype=np.bool_))}, ("q0",))
    assert brief_attack(nothing) is None
    assert "query q0: not attacked" in flat(printed(nothing))


def test_a_comparison_begins_with_its_decision() -> None:
    found = report(
        setting("none", auc=0.99, ndcg=0.45),
        setting("laplace", 1.2, auc=0.52, ndcg=0.40, **checked("proven")),
    )
    text = io.StringIO()
    print_brief_compare(found, Console(file=text, width=80))
    assert text.getvalue().startswith("Use laplace, eps 1.2.\n")
    assert "recommended" in text.getvalue()
    assert "leaks" in text.getvalue()


def test_a_comparison_of_many_epsilons_shows_the_smallest_and_the_recommended_one() -> None:
    epsilons = [1.2 + n for n in range(14)]
    rows = [setting("none", auc=0.99, ndcg=0.45)]
    rows.append(setting("laplace", 1.2, auc=0.52, ndcg=0.40, **checked("refuted")))
    rows += [setting("laplace", eps, auc=0.52, ndcg=0.40, **checked("proven")) for eps in epsilons[1:]]
    answer = brief_compare(report(*rows))
    assert answer is not None
    assert answer.table is not None
    names = [line.cells[0].text for line in answer.table.lines]
    assert names == ["none", "laplace, eps 1.2", "laplace, eps 2.2"]
    assert "12 rows of larger epsilons" in answer.left_out


@pytest.mark.parametrize("command", ["attack", "audit", "train", "compare"])
def test_the_whole_report_and_the_conclusion_alone_exclude_each_other(command: str) -> None:
    done = run(command, "--full", "--quiet")
    assert (done.code, done.err) == (2, "error: --full and --quiet: give one or the other\n")


def test_rows_are_counted() -> None:
    assert first_rows(range(MOST_ROWS), "rows") == (range(MOST_ROWS), ())
    assert first_rows(range(MOST_ROWS + 1), "rows")[1] == ("1 more rows",)
