"""Short answers: which rows they show, and that the rest is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from foltr_audit.core.results import Estimate
from foltr_audit.report.attack import AttackReport
from foltr_audit.report.terminal import MOST_ROWS
from tests.fixtures.comparisons import checked, report, setting
from tests.fixtures.made_reports import attack_report, judged_lists


def shown(answer: Any) -> tuple[Any, str]:
    """The table of a short answer, and what it says is left out."""
    assert answer is not None
    assert answer.table is not None
    return answer.table, " ".join(answer.left_out)


def test_many_settings_keep_to_twelve_rows() -> None:
    found = attack_report({0.5 + n: judged_lists(n) for n in range(1, 10)})
    table, left_out = shown(found.short_answer())
    assert len(table.lines) == MOST_ROWS
    assert "6 more rows" in left_out


def test_other_click_models_are_named_and_the_worst_is_shown() -> None:
    weak = attack_report({1.2: judged_lists(1)}, click_model="informational")
    strong = attack_report({1.2: judged_lists(1)})

    def with_auc(found: AttackReport, shift: float) -> AttackReport:
        rows = []
        for row in found.results:
            auc = row["auc"]
            if not row["baseline"] and auc.ci95 is not None:
                auc = Estimate(0.6 + shift, (0.55 + shift, 0.65 + shift))
            rows.append(row.with_values(auc=auc))
        return replace(found, results=tuple(rows))

    both = replace(strong, results=(*with_auc(weak, 0.0).results, *with_auc(strong, 0.3).results))
    table, left_out = shown(both.short_answer())
    assert table.title.startswith("perfect clicks")
    assert "informational clicks" in left_out


def test_a_comparison_of_many_epsilons_shows_the_smallest_and_the_recommended_one() -> None:
    epsilons = [1.2 + n for n in range(14)]
    rows = [setting("none", auc=0.99, ndcg=0.45)]
    rows.append(setting("laplace", 1.2, auc=0.52, ndcg=0.40, **checked("refuted")))
    rows += [setting("laplace", eps, auc=0.52, ndcg=0.40, **checked("proven")) for eps in epsilons[1:]]
    table, left_out = shown(report(*rows).short_answer())
    names = [line.cells[0].text for line in table.lines]
    assert names == ["none", "laplace, eps 1.2", "laplace, eps 2.2"]
    assert "12 rows of larger epsilons" in left_out
